"""EncoderPart: what words, characters, a lexicon, transformers and ELMo have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from torch import Tensor, nn

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.features import Mask, Sentences
from maskedcrf.folders import FolderFiles

Features = dict[str, Tensor]
"""What a batch of sentences becomes on the CPU; moved to the model's device as it is."""


class EncoderPart(nn.Module, ABC):
    """One way from the words of a sentence to vectors of `width`."""

    width: int

    @property
    def computes_padding(self) -> bool:
        """Whether prediction computes on padding, so that sentences of one length are better company."""
        return True

    @classmethod
    @abstractmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> EncoderPart:
        """The part for training on these sentences, pretrained weights in place."""

    @abstractmethod
    def prepare(self, sentences: Sentences, mask: Mask) -> Features:
        """Index tensors for a batch; `mask` (B, T) is on where a word stands."""

    @abstractmethod
    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, width); anything finite where the mask is off."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what `load` needs, weights excepted."""

    @classmethod
    @abstractmethod
    def load(cls, files: FolderFiles, config: EncoderConfig) -> EncoderPart:
        """The part as saved, its weights yet to be filled in."""

    def compute_lengths(self, sentences: Sentences) -> list[int]:
        """How long each sentence is to this part: in words, unless it cuts them up or sees more."""
        return [len(sentence.tokens) for sentence in sentences]

    def layers(self) -> list[list[nn.Parameter]]:
        """Pretrained parameters from the bottom up; none for a part that is trained from nothing."""
        return []
