"""TaggerModel: an encoder, a linear layer, and a CRF over the legal paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.data.tokenizers import MODEL, Tokenizer, get_tokenizer
from maskedcrf.encoders.config import Head
from maskedcrf.encoders.part import Features
from maskedcrf.tags.constraints import Constraints, MaskMode
from maskedcrf.tags.scheme import Scheme

if TYPE_CHECKING:
    from maskedcrf.encoders.encoder import Encoder


class TaggerModel(nn.Module):
    """Words -> vectors (B, T, H) -> emissions (B, T, D) -> paths.

    `head="softmax"` is the same model with all transition scores frozen at zero: an unmasked CRF without
    transitions *is* an independent softmax per token. So `head` and `mask` span all the paper's variants.
    """

    def __init__(
        self,
        encoder: Encoder,
        constraints: Constraints,
        *,
        head: Head = "crf",
        mask: MaskMode = "train",
        dropout: float,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head: Head = head
        self.dropout = nn.Dropout(dropout)
        self.tokenizer = get_tokenizer("simple")
        """What cuts raw text into the words that the encoder knows."""
        self.linear = nn.Linear(encoder.width, len(constraints))
        self.crf = MaskedCRF(constraints, mask=mask)
        if head == "softmax":
            for parameter in self.crf.parameters():
                nn.init.zeros_(parameter).requires_grad_(False)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.linear.weight.device

    @property
    def scheme(self) -> Scheme:
        """The scheme of its tags."""
        scheme = self.crf.constraints.scheme
        assert scheme is not None, "a tagger is built from a scheme"
        return scheme

    def emissions(self, features: Features) -> Tensor:
        """(B, T, D): the score of each tag for each word."""
        emissions: Tensor = self.linear(self.dropout(self.encoder(features)))
        return emissions if emissions.dim() == 3 else take_surest(emissions)

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Cut raw text with this tokenizer; the one named `model` cuts as the encoder's own does."""
        if tokenizer.name == MODEL:
            own = get_tokenizer(MODEL, pieces=self.encoder.piece_tokenizer)
            tokenizer = own.with_sentences(tokenizer.sentences)
        self.tokenizer = tokenizer

    def forward(self, features: Features, tags: Tensor) -> Tensor:
        """(B,): the loss of each sentence, given its gold tag ids (B, T)."""
        return self.crf(self.emissions(features), tags, features["mask"], reduction="none")  # type: ignore[no-any-return]

    def decode(
        self,
        emissions: Tensor,
        mask: Tensor,
        *,
        segment_threshold: float | None = None,
        allowed: Tensor | None = None,
    ) -> list[list[int]]:
        """The tag ids of each row: of the best path, or with a threshold of the segments that are worth most."""
        if segment_threshold is None:
            return self.crf.decode(emissions, mask, allowed=allowed)
        return [each.tags for each in self.crf.decode_segments(emissions, mask, segment_threshold, allowed=allowed)]


def take_surest(scores: Tensor) -> Tensor:
    """(B, T, K, D) -> (B, T, D): of the pieces of each word the one whose best tag is most probable."""
    surest = scores.softmax(dim=3).amax(dim=3).argmax(dim=2)
    return scores.gather(2, surest[..., None, None].expand(-1, -1, 1, scores.shape[3])).squeeze(2)


def to_device(features: Features, device: torch.device) -> Features:
    """The same features on another device; a copy to a GPU does not stop the host."""
    if device.type == "cpu":
        return features
    return {name: part.pin_memory().to(device, non_blocking=True) for name, part in features.items()}
