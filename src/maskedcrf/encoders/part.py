"""Part: what words, characters, transformers and ELMo have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from maskedcrf.encoders.config import EncoderConfig

Features = dict[str, Tensor]
"""What a batch of sentences becomes on the CPU; moved to the model's device as it is."""
Sentences = Sequence[Sequence[str]]
Mask = NDArray[np.bool_]


class Part(nn.Module, ABC):
    """One way from the words of a sentence to vectors of `width`."""

    width: int

    @classmethod
    @abstractmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> Part:
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
    def load(cls, folder: Path, config: EncoderConfig) -> Part:
        """The part as saved, its weights yet to be filled in."""

    def layers(self) -> list[list[nn.Parameter]]:
        """Pretrained parameters from the bottom up; none for a part that is trained from nothing."""
        return []


def on_words(values: NDArray[np.int64], mask: Mask) -> Tensor:
    """Values of all words in order, (N, ...), spread over the batch: (B, T, ...), 0 where the mask is off."""
    spread = np.zeros((*mask.shape, *values.shape[1:]), dtype=np.int64)
    spread[mask] = values
    return torch.from_numpy(spread)
