"""Words of a file of vectors, found in sentences whose tokens are shorter: the characters of Chinese, say."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.features import WORD_POSITIONS, Mask, Sentences, lexicon_features
from maskedcrf.encoders.files import JsonRecord, read_record, write_record
from maskedcrf.encoders.part import EncoderPart, Features
from maskedcrf.encoders.vectors import read_vectors
from maskedcrf.encoders.vocabulary import Lexicon
from maskedcrf.errors import DataError
from maskedcrf.folders import FolderFiles

FILE = "lexicon.json"
SIZE = 0.5
"""Standard deviation of the numbers of all vectors: they are never trained, so whoever made them does not set it."""


class LexiconFile(JsonRecord):
    """A lexicon as saved, its vectors excepted."""

    words: list[str]
    vector: int


class LexiconWords(EncoderPart):
    """Four vectors a token: the means of the words that begin, go on and end with it, and of the one that it is.

    The words of a sentence are those that a segmenter would have to choose from; here the layers above choose.
    """

    vectors: Tensor

    def __init__(self, lexicon: Lexicon, vector: int) -> None:
        super().__init__()
        self.lexicon = lexicon
        self.width = WORD_POSITIONS * vector
        # Half precision and out of the optimiser's sight: a word that training never meets stays among its like.
        self.register_buffer("vectors", torch.zeros(len(lexicon), vector, dtype=torch.float16))

    @classmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> Self:
        """The words of the config's file, in lower case and without blanks; of two that are then the same the first."""
        assert config.lexicon is not None
        read = read_vectors(config.lexicon)
        rows: dict[str, int] = {}
        for row, word in enumerate(read.words):
            rows.setdefault("".join(word.lower().split()), row)
        rows.pop("", None)
        lexicon = Lexicon(tuple(rows))
        if not any(True for sentence in sentences for _ in lexicon.find_words(sentence.tokens)):
            raise DataError(
                f"{config.lexicon}:1: none of its {len(lexicon)} words stands in the training sentences; "
                "give a lexicon in their language and script"
            )
        array = read.array[list(rows.values())].astype(np.float32)
        part = cls(lexicon, read.width)
        part.vectors.copy_(torch.from_numpy(array * (SIZE / max(float(array.std()), 1e-6))))
        return part

    def prepare(self, sentences: Sentences, mask: Mask) -> Features:
        """Every token of every word found: its place, the word, and its share of the place, (N,)."""
        found = lexicon_features(self.lexicon, sentences, mask)
        return {name: torch.from_numpy(part) for name, part in found.items()}

    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, 4 * V)."""
        rows, length = features["mask"].shape
        found = self.vectors[features["lexicon_words"]].float() * features["lexicon_shares"][:, None]
        sums = found.new_zeros(rows * length * WORD_POSITIONS, self.width // WORD_POSITIONS)
        return sums.index_add(0, features["lexicon_places"], found).view(rows, length, self.width)

    def save(self, folder: Path) -> None:
        """Write the words."""
        write_record(folder / FILE, LexiconFile(words=list(self.lexicon.words), vector=int(self.vectors.shape[1])))

    @classmethod
    def load(cls, files: FolderFiles, config: EncoderConfig) -> Self:
        """The saved words."""
        saved = read_record(files, FILE, LexiconFile)
        if len(set(saved.words)) < len(saved.words) or not 0 < saved.vector <= 4096:
            raise DataError(
                f"{files.where(FILE)}:1: a word stands twice, or vectors have no width: save the encoder again"
            )
        return cls(Lexicon(tuple(saved.words)), saved.vector)
