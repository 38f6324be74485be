"""Encoder: the parts a config names, side by side, with an LSTM on top; built for training or loaded."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.features import Sentences, word_mask
from maskedcrf.encoders.files import JsonRecord, read_record, write_record
from maskedcrf.encoders.lstm import BiLSTM
from maskedcrf.encoders.part import EncoderPart, Features
from maskedcrf.errors import DataError, ShapeError
from maskedcrf.folders import FolderFiles

CONFIG_FILE = "encoder.json"

_PARTS = {
    "words": ("maskedcrf.encoders.words", "WordEmbeddings"),
    "characters": ("maskedcrf.encoders.characters", "CharacterCNN"),
    "lexicon": ("maskedcrf.encoders.lexicon", "LexiconWords"),
    "transformer": ("maskedcrf.encoders.transformer.model", "Transformer"),
    "elmo": ("maskedcrf.encoders.elmo", "ELMo"),
}
"""The fields of a config that name a part, and the part's class, imported on use."""


class EncoderFile(JsonRecord):
    """The config as saved."""

    format: Literal[1] = 1
    config: EncoderConfig


class Encoder(nn.Module):
    """Sentences of words to vectors of words: `prepare` on the CPU, `forward` where the weights are."""

    def __init__(self, config: EncoderConfig, parts: dict[str, EncoderPart]) -> None:
        super().__init__()
        self.config = config
        self.parts = nn.ModuleDict(parts)
        self.width = sum(part.width for part in parts.values())
        self.lstm: BiLSTM | None = None
        if config.lstm_layers:
            self.lstm = BiLSTM(self.width, config.lstm_hidden, layers=config.lstm_layers, dropout=config.dropout)
            self.width = self.lstm.width

    def prepare(self, sentences: Sentences) -> Features:
        """Index tensors of a batch on the CPU; `mask` (B, T) is on where a word stands, words first, T at least 1."""
        if not sentences:
            raise ShapeError("a batch needs at least one sentence, got none")
        mask = word_mask(sentences)
        features = {"mask": torch.from_numpy(mask)}
        for part in self._parts():
            features |= part.prepare(sentences, mask)
        return features

    @property
    def computes_padding(self) -> bool:
        """Whether prediction computes on padding: a part does, or the LSTM."""
        return self.lstm is not None or any(part.computes_padding for part in self._parts())

    def compute_lengths(self, sentences: Sentences) -> list[int]:
        """How long each sentence is to the encoder: in pieces where a part cuts words up, else in words."""
        return list(map(max, zip(*(part.compute_lengths(sentences) for part in self._parts()), strict=True)))

    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, H)."""
        vectors = [part(features) for part in self._parts()]
        together = vectors[0] if len(vectors) == 1 else torch.cat(vectors, dim=-1)
        return together if self.lstm is None else self.lstm(together, features["mask"])

    def layers(self) -> list[list[nn.Parameter]]:
        """Pretrained parameters from the bottom up; of two pretrained parts the top layers stand together."""
        stacks = [part.layers()[::-1] for part in self._parts()]
        levels = zip_longest(*stacks, fillvalue=list[nn.Parameter]())
        return [[parameter for layer in level for parameter in layer] for level in levels][::-1]

    @property
    def piece_tokenizer(self) -> Any:
        """What cuts words into pieces; None without a transformer."""
        part: Any = dict(self.parts.items()).get("transformer")
        return None if part is None else part.words.tokenizer

    def save(self, folder: Path) -> None:
        """Write config, vocabularies and tokenizer; the weights are the tagger's to save."""
        folder.mkdir(parents=True, exist_ok=True)
        write_record(folder / CONFIG_FILE, EncoderFile(config=self.config))
        for part in self._parts():
            part.save(folder)

    def _parts(self) -> list[EncoderPart]:
        return [part for part in self.parts.values() if isinstance(part, EncoderPart)]


def build_encoder(config: EncoderConfig, sentences: Iterable[Sentence]) -> Encoder:
    """An encoder to train: vocabularies from the training sentences, pretrained weights from their files."""
    training = list(sentences)
    if not any(sentence.tokens for sentence in training):
        raise DataError("<memory>:1: no training sentences, so no vocabulary: give at least one")
    parts = {name: kind.build(config, training) for name, kind in _part_classes(config).items()}
    if config.vectors:
        config = config.model_copy(update={"words": parts["words"].width})
    return Encoder(config, parts)


def load_encoder(folder: Path | FolderFiles) -> Encoder:
    """The encoder that `save` wrote, its weights yet to be filled in; the caller's random numbers are left alone."""
    files = folder if isinstance(folder, FolderFiles) else FolderFiles(folder)
    config = read_record(files, CONFIG_FILE, EncoderFile).config
    with torch.random.fork_rng(devices=[]):
        return Encoder(config, {name: kind.load(files, config) for name, kind in _part_classes(config).items()})


def _part_classes(config: EncoderConfig) -> dict[str, type[EncoderPart]]:
    chosen = {name: home for name, home in _PARTS.items() if getattr(config, name)}
    return {name: getattr(import_module(module), kind) for name, (module, kind) in chosen.items()}
