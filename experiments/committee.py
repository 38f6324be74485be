"""Several taggers as one: CRFs of the same tags, their scores averaged, are a CRF again.

The score of a path is a sum of emissions and transitions; so is the mean of several such scores. Its distribution is
the product of the members', each to the power of 1 / members, over the legal paths: decoding, marginals and entity
probabilities stay exact, and nothing has to be voted on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maskedcrf import Tagger
from maskedcrf.encoders.part import Features
from maskedcrf.tagger.model import TaggerModel


class Committee(TaggerModel):
    """Members trained on the same sentences: the first prepares the words for all, since their vocabularies agree."""

    def __init__(self, members: Sequence[TaggerModel]) -> None:
        first = members[0]
        super().__init__(
            first.encoder, first.crf.constraints, head=first.head, mask=first.crf.mask_mode, dropout=first.dropout.p
        )
        self.members = nn.ModuleList(members)
        with torch.no_grad():
            for mean, *scores in zip(self.crf.parameters(), *(each.crf.parameters() for each in members), strict=True):
                mean.copy_(torch.stack(scores).mean(0))
        self.to(first.device)

    def emissions(self, features: Features) -> Tensor:
        """(B, T, D): the mean of the members' scores."""
        return torch.stack([member.emissions(features) for member in self.members]).mean(0)  # type: ignore[operator]


def together(taggers: Sequence[Tagger]) -> Tagger:
    """One tagger of several; of one, itself. What is recorded of the training is the first one's."""
    first = taggers[0]
    if len(taggers) == 1:
        return first
    found = Tagger(Committee([each.model for each in taggers]), output_scheme=first.output_scheme, record=first.record)
    found.history = first.history
    return found
