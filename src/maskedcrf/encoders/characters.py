"""A convolution over the characters of each word."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.features import Mask, Sentences, character_features
from maskedcrf.encoders.files import JsonRecord, read_record, write_record
from maskedcrf.encoders.part import EncoderPart, Features
from maskedcrf.encoders.vocabulary import PAD, Characters
from maskedcrf.errors import DataError
from maskedcrf.folders import FolderFiles

FILE = "characters.json"
EMBEDDING = 30
KERNEL = 3


class CharactersFile(JsonRecord):
    """A vocabulary of characters as saved."""

    characters: list[str]


class CharacterCNN(EncoderPart):
    """Windows of three characters, the strongest answer of each filter over the word."""

    def __init__(self, vocabulary: Characters, width: int, *, dropout: float) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.width = width
        self.embedding = nn.Embedding(len(vocabulary), EMBEDDING, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.filters = nn.Conv1d(EMBEDDING, width, KERNEL, padding=KERNEL // 2)

    @classmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> Self:
        """A CNN over the characters of training sentences."""
        vocabulary = Characters.from_sentences(sentence.tokens for sentence in sentences)
        return cls(vocabulary, config.characters, dropout=config.dropout)

    def prepare(self, sentences: Sentences, mask: Mask) -> Features:
        """Each different word's characters once, (words, C), and for each place which word stands there, (B, T)."""
        found = character_features(self.vocabulary, sentences, mask)
        return {name: torch.from_numpy(part) for name, part in found.items()}

    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, W)."""
        characters = features["characters"]
        answers = self.filters(self.dropout(self.embedding(characters)).transpose(1, 2)).relu()
        # After relu nothing is below 0, so a padded 0 never wins.
        strongest: Tensor = answers.masked_fill((characters == PAD)[:, None], 0).amax(dim=2)
        return strongest[features["spellings"]]

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        write_record(folder / FILE, CharactersFile(characters=list(self.vocabulary.characters)))

    @classmethod
    def load(cls, files: FolderFiles, config: EncoderConfig) -> Self:
        """A CNN over the saved vocabulary."""
        saved = read_record(files, FILE, CharactersFile)
        if len(set(saved.characters)) < len(saved.characters):
            raise DataError(f"{files.where(FILE)}:1: a character stands twice: the encoder is damaged, save it again")
        return cls(Characters(tuple(saved.characters)), config.characters, dropout=config.dropout)
