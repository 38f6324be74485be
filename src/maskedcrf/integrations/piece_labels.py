"""What a token classifier says of the later pieces of a word: B- again, I-, or something else."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.transformer.model import Transformer
from maskedcrf.tagger.model import TaggerModel

MAX_SENTENCES = 256


@dataclass(frozen=True, slots=True)
class PieceLabels:
    """Words of several pieces whose first piece begins an entity, by what their last piece's best tag is."""

    again: int
    """B- of the same type: read piece by piece, one word would be several entities."""
    inside: int
    other: int

    @property
    def repeats(self) -> bool:
        """Whether later pieces mostly say B- again."""
        return self.again > self.inside + self.other

    def __str__(self) -> str:
        counts = f"{self.again} say B- again, {self.inside} I-, {self.other} something else"
        summary = f"of {self.again + self.inside + self.other} words of several pieces that begin an entity, {counts}"
        return f"{summary}: each word is one position of the lattice, so none is split" if self.repeats else summary


@torch.inference_mode()
def count_piece_labels(model: TaggerModel, sentences: Sequence[Sentence]) -> PieceLabels | None:
    """The counts over some of the sentences; None for a model whose encoder is no transformer alone."""
    part = dict(model.encoder.parts.items()).get("transformer")
    if not isinstance(part, Transformer) or len(model.encoder.parts) > 1 or part.words.pooling != "first":
        return None
    last = copy.copy(part)
    last.words = copy.copy(part.words)
    last.words.pooling = "last"
    counts = [0, 0, 0]
    tags = model.crf.tags
    for sentence in [each for each in sentences if each.tokens][:MAX_SENTENCES]:
        features = model.encoder.prepare([sentence])
        ends = features | last.prepare([sentence], features["mask"].numpy())
        first, second = (model.linear(part(each))[0].argmax(dim=1).tolist() for each in (features, ends))
        pieces = part.words.pieces_of_words(sentence.tokens)
        for own, one, other in zip(pieces, first, second, strict=True):
            prefix, kind = model.scheme.split(tags[one])
            if len(own) > 1 and prefix == "B":
                inside = model.scheme.join("I", kind)
                counts[0 if tags[other] == tags[one] else 1 if tags[other] == inside else 2] += 1
    return PieceLabels(*counts)
