"""Any Hugging Face encoder, its word pieces brought back to words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from maskedcrf.encoders import pretrained
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.files import Record, read_bytes, read_record, write_record
from maskedcrf.encoders.part import Features, Mask, Part, Sentences, on_words
from maskedcrf.encoders.pieces import POOLED, Frame, longest_word, rows_of, shortened
from maskedcrf.errors import DataError

FILE, TOKENIZER = "transformer.json", "tokenizer.json"
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Not cuDNN's: it plans anew for every shape, and text has hundreds; on an H200 it made training ten times slower."""
REMEMBERED = 1 << 18
"""Words whose pieces are kept, so that each is cut into pieces once."""


class TransformerFile(Record):
    """The model's config and what frames its input, as saved."""

    config: dict[str, Any]
    prefix: list[int]
    suffix: list[int]
    pad: int
    unknown: int
    positions: int


class Transformer(Part):
    """Words to pieces, pieces through the model in rows or windows, and one vector per word back."""

    def __init__(self, model: Any, tokenizer: Any, frame: Frame, *, unknown: int, positions: int, pooling: str) -> None:
        super().__init__()
        self.model: Any = model
        self.tokenizer = tokenizer
        self.frame = frame
        self.unknown = unknown
        self.positions = positions
        self.pooling = pooling
        self.width = int(model.config.hidden_size)
        self.capacity = positions - len(frame)
        self._pieces: dict[str, list[int]] = {}

    @classmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> Self:
        """The pretrained model that the config names."""
        assert config.transformer is not None
        model, tokenizer, frame, unknown, longest = pretrained.fetch(config.transformer)
        positions = min(longest, pretrained.positions(model))
        part = cls(model, tokenizer, frame, unknown=unknown, positions=positions, pooling=config.pooling)
        part._check(config.transformer)
        return part

    def prepare(self, sentences: Sentences, mask: Mask) -> Features:
        """Rows of pieces (R, P), R >= B, and which of them stand for each word: flat places (B, T, K)."""
        tokens = [token for sentence in sentences for token in sentence]
        self._learn(tokens)
        words = [self._pieces[token] for token in tokens]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        pieces = np.fromiter(chain.from_iterable(words), np.int64, int(counts.sum()))
        rows = rows_of(mask.sum(axis=1), counts, capacity=self.capacity)
        filled, inside = self.frame.fill(pieces, rows)
        column = np.cumsum(counts) - counts - rows.begin[rows.row] + len(self.frame.prefix)
        places = POOLED[self.pooling](rows.row * filled.shape[1] + column, counts)
        features = {"pieces": torch.from_numpy(filled), "places": on_words(places, mask)}
        if self.pooling == "mean":
            features["piece_counts"] = on_words(counts, mask)
        if not inside.all():
            features["piece_mask"] = torch.from_numpy(inside)
        return features

    def _learn(self, tokens: Iterable[str]) -> None:
        """Cut words not met before into pieces, all in one call; the tokenizer treats given words one by one."""
        if len(self._pieces) > REMEMBERED:
            self._pieces.clear()
        new = list(set(tokens) - self._pieces.keys())
        cut = self.tokenizer.encode_batch_fast([[w] for w in new], is_pretokenized=True, add_special_tokens=False)
        longest = longest_word(self.capacity)
        # Control characters and the like yield no piece, yet the word must have a vector.
        self._pieces |= {w: shortened(c.ids, longest) or [self.unknown] for w, c in zip(new, cut, strict=True)}

    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, H)."""
        mask = features.get("piece_mask")
        if mask is not None and mask.is_cuda and pretrained.attends_to_all(self.model):
            # Given (R, P), transformers asks the GPU whether the mask is full, and the host waits for the answer.
            mask = mask[:, None, None]
        with sdpa_kernel(ATTENTION):
            output = self.model(input_ids=features["pieces"], attention_mask=mask)
        hidden: Tensor = output.last_hidden_state.flatten(0, 1)[features["places"]]
        if hidden.shape[2] == 1:
            return hidden.squeeze(2)
        if self.pooling == "max":
            return hidden.amax(dim=2)
        counts = features["piece_counts"][..., None, None]
        real = torch.arange(hidden.shape[2], device=hidden.device)[:, None] < counts
        return torch.where(real, hidden, 0).sum(dim=2) / counts.squeeze(2).clamp(min=1)

    def layers(self) -> list[list[nn.Parameter]]:
        """Embeddings, then the layers from the bottom up."""
        return pretrained.layers(self.model)

    def save(self, folder: Path) -> None:
        """Write config, frame and tokenizer."""
        saved = TransformerFile(
            config=pretrained.plain_config(self.model),
            prefix=list(self.frame.prefix),
            suffix=list(self.frame.suffix),
            pad=self.frame.pad,
            unknown=self.unknown,
            positions=self.positions,
        )
        write_record(folder / FILE, saved)
        (folder / TOKENIZER).write_text(self.tokenizer.to_str(), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, config: EncoderConfig) -> Self:
        """The model of the saved config, nothing fetched from anywhere."""
        saved = read_record(folder / FILE, TransformerFile)
        tokenizer = pretrained.tokenizer_from(read_bytes(folder / TOKENIZER), folder / TOKENIZER)
        model = pretrained.skeleton(saved.config, str(folder / FILE))
        frame = Frame(tuple(saved.prefix), tuple(saved.suffix), saved.pad)
        positions = min(saved.positions, pretrained.positions(model))
        part = cls(model, tokenizer, frame, unknown=saved.unknown, positions=positions, pooling=config.pooling)
        part._check(str(folder / FILE))
        return part

    def _check(self, where: str) -> None:
        """Every piece must have an embedding, and a window must have room for words."""
        size = self.model.get_input_embeddings().num_embeddings
        pieces = {*self.frame.prefix, *self.frame.suffix, self.frame.pad, self.unknown}
        pieces |= set(self.tokenizer.get_vocab(with_added_tokens=True).values())
        if min(pieces) < 0 or max(pieces) >= size:
            raise DataError(f"{where}:1: the tokenizer has piece {max(pieces)}, the model only {size} embeddings")
        if self.capacity < 4:
            raise DataError(f"{where}:1: {self.positions} positions leave no room for words")
