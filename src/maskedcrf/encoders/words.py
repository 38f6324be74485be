"""Word embeddings: trained from nothing, or begun from pretrained vectors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.features import Mask, Sentences, word_ids, words_of
from maskedcrf.encoders.files import JsonRecord, read_record, write_record
from maskedcrf.encoders.part import EncoderPart, Features
from maskedcrf.encoders.vectors import Vectors, read_vectors
from maskedcrf.encoders.vocabulary import PAD, Words
from maskedcrf.errors import DataError
from maskedcrf.folders import FolderFiles

FILE = "words.json"
RARE_WORD_DROPOUT = 0.5
"""How often training hides a word seen once behind its shape."""


class WordsFile(JsonRecord):
    """A vocabulary of words as saved."""

    words: list[str]
    shapes: list[str]
    known: list[str]
    rare: int
    lower: bool


class WordEmbeddings(EncoderPart):
    """A trained vector for each word of the training data, a fixed one for each other word of the vector file."""

    known: Tensor

    def __init__(self, vocabulary: Words, width: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.width = width
        self.trained = nn.Embedding(vocabulary.trained_rows, width, padding_idx=PAD)
        bound = math.sqrt(3 / width)
        nn.init.uniform_(self.trained.weight, -bound, bound)
        # Half precision and out of the optimiser's sight: most of these words are never met.
        self.register_buffer("known", torch.zeros(len(vocabulary.vector_only_words), width, dtype=torch.float16))

    @classmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> Self:
        """Embeddings of the words of training sentences, begun from the vector file if there is one."""
        tokens = [sentence.tokens for sentence in sentences]
        if config.vectors is None:
            return cls(Words.from_sentences(tokens), config.words)
        word_forms = {form for word in words_of(sentences) for form in (word, word.lower())}
        vectors = read_vectors(config.vectors, word_forms)
        if "words" in config.model_fields_set and config.words != vectors.width:
            raise DataError(
                f"{config.vectors}:1: vectors are {vectors.width} wide, `words` says {config.words}: leave `words` out"
            )
        part = cls(Words.from_sentences(tokens, vector_words=vectors.words, lower=True), vectors.width)
        part._copy_vectors(vectors)
        return part

    def _copy_vectors(self, vectors: Vectors) -> None:
        rows = {word: n for n, word in enumerate(vectors.words)}
        vocabulary = self.vocabulary
        self.known.copy_(torch.from_numpy(vectors.array[[rows[word] for word in vocabulary.vector_only_words]]))
        first = vocabulary.trained_rows - len(vocabulary.words)
        found = ((n, rows.get(w, rows.get(w.lower()))) for n, w in enumerate(vocabulary.words, start=first))
        pairs = np.array([(n, row) for n, row in found if row is not None], dtype=np.int64).reshape(-1, 2)
        with torch.no_grad():
            self.trained.weight[pairs[:, 0]] = torch.from_numpy(vectors.array[pairs[:, 1]]).float()

    def prepare(self, sentences: Sentences, mask: Mask) -> Features:
        """Numbers of words and, for hiding rare ones in training, of their shapes: both (B, T)."""
        features = {"words": torch.from_numpy(word_ids(self.vocabulary.number, sentences, mask))}
        if self.vocabulary.rare:
            features["shapes"] = torch.from_numpy(word_ids(self.vocabulary.shape_number, sentences, mask))
        return features

    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, W)."""
        numbers, trained = features["words"], self.vocabulary.trained_rows
        if self.training and self.vocabulary.rare:
            rare = (numbers >= trained - self.vocabulary.rare) & (numbers < trained)
            hidden = rare & (torch.rand(numbers.shape, device=numbers.device) < RARE_WORD_DROPOUT)
            numbers = torch.where(hidden, features["shapes"], numbers)
        if not self.vocabulary.vector_only_words:
            return self._trained_vectors(numbers)
        vectors = self._trained_vectors(numbers.clamp(max=trained - 1))
        known = self.known[(numbers - trained).clamp(min=0)].to(vectors.dtype)
        return torch.where((numbers >= trained)[..., None], known, vectors)

    def _trained_vectors(self, numbers: Tensor) -> Tensor:
        vectors: Tensor = self.trained(numbers)
        return vectors

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        v = self.vocabulary
        saved = WordsFile(
            words=list(v.words), shapes=list(v.shapes), known=list(v.vector_only_words), rare=v.rare, lower=v.lower
        )
        write_record(folder / FILE, saved)

    @classmethod
    def load(cls, files: FolderFiles, config: EncoderConfig) -> Self:
        """Embeddings of the saved vocabulary."""
        saved = read_record(files, FILE, WordsFile)
        words = [*saved.words, *saved.known]
        if len(set(words)) < len(words) or not 0 <= saved.rare <= len(saved.words):
            raise DataError(f"{files.where(FILE)}:1: a word stands twice, or more words are rare than there are")
        vocabulary = Words(
            tuple(saved.words), tuple(saved.shapes), tuple(saved.known), rare=saved.rare, lower=saved.lower
        )
        return cls(vocabulary, config.words)
