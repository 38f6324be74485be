"""Sentences as index arrays, with numpy alone: what every encoder reads, in torch or in an exported graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedcrf.data.model_words import tokenizer_failures
from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.transformer.windows import (
    POOLING_INDEX,
    SpecialTokens,
    assign_rows,
    longest_word,
    truncate_middle,
)
from maskedcrf.encoders.vocabulary import PAD, Characters, Lexicon

Arrays = dict[str, NDArray[Any]]
Mask = NDArray[np.bool_]
"""(B, T), on where a word stands: words first, T at least 1."""
Sentences = Sequence[Sentence]

MAX_CONTEXT = 512
"""Words on either side of a sentence; no usual transformer has positions for more."""
MAX_CACHED_WORDS = 1 << 18
"""Words whose pieces are kept, so that each is cut into pieces once."""


def word_mask(sentences: Sentences) -> Mask:
    """(B, T): on where a word stands."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    mask: Mask = np.arange(max(1, lengths.max())) < lengths[:, None]
    return mask


def words_of(sentences: Sentences) -> list[str]:
    """The words of all sentences, in order."""
    return [word for sentence in sentences for word in sentence.tokens]


def words_in_context(sentence: Sentence) -> tuple[str, ...]:
    """The words before a sentence, its own, and those after it."""
    before, after = sentence.context
    return (*before, *sentence.tokens, *after) if before or after else sentence.tokens


def scatter_to_words(values: NDArray[np.int64], mask: Mask) -> NDArray[np.int64]:
    """Values of all words in order, (N, ...), spread over the batch: (B, T, ...), 0 where the mask is off."""
    spread = np.zeros((*mask.shape, *values.shape[1:]), dtype=np.int64)
    spread[mask] = values
    return spread


def word_ids(number: Callable[[str], int], sentences: Sentences, mask: Mask) -> NDArray[np.int64]:
    """The number of each word, (B, T)."""
    words = words_of(sentences)
    return scatter_to_words(np.fromiter(map(number, words), np.int64, len(words)), mask)


def character_features(vocabulary: Characters, sentences: Sentences, mask: Mask) -> Arrays:
    """Each different word's characters once, (words, C), and for each place which word stands there, (B, T)."""
    rows: dict[str, int] = {}
    places = [rows.setdefault(word, len(rows)) for word in words_of(sentences)]
    spelt = [vocabulary.numbers(word) for word in rows or ("",)]
    characters = np.full((len(spelt), max(map(len, spelt))), PAD, dtype=np.int64)
    for row, numbers in zip(characters, spelt, strict=True):
        row[: len(numbers)] = numbers
    return {"characters": characters, "spellings": scatter_to_words(np.array(places, dtype=np.int64), mask)}


WORD_POSITIONS = 4
"""Where a token can stand in a word of several: at its begin, inside, at its end; or alone."""


def lexicon_features(lexicon: Lexicon, sentences: Sentences, mask: Mask) -> Arrays:
    """Every token of every word found: its place among (B, T, 4), flat, the word, and its share of the place, (N,).

    The words at one place share it evenly. N is at least 1: where nothing is found, a share of 0.
    """
    found = [(row, *word) for row, sentence in enumerate(sentences) for word in lexicon.find_words(sentence.tokens)]
    row, first, last, number = np.array(found or [(0, 0, 0, 0)], dtype=np.int64).T
    sizes = last - first + 1
    nth = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    of = np.repeat(sizes, sizes)
    stands = np.select([of == 1, nth == 0, nth == of - 1], [3, 0, 2], default=1)
    places = (np.repeat(row * mask.shape[1] + first, sizes) + nth) * WORD_POSITIONS + stands
    shares = np.float32(bool(found)) / np.bincount(places)[places]
    return {
        "lexicon_places": places,
        "lexicon_words": np.repeat(number, sizes),
        "lexicon_shares": shares.astype(np.float32),
    }


class WordPieces:
    """Words cut into pieces by a tokenizer of `tokenizers`, and the pieces in rows for a transformer."""

    def __init__(self, tokenizer: Any, frame: SpecialTokens, *, unknown: int, positions: int, pooling: str) -> None:
        self.tokenizer = tokenizer
        self.frame = frame
        self.unknown = unknown
        self.positions = positions
        self.pooling = pooling
        self.capacity = positions - len(frame)
        self._pieces: dict[str, list[int]] = {}

    def pieces_of_words(self, tokens: Sequence[str]) -> list[list[int]]:
        """The pieces of each word; at least one, so that every word has a vector."""
        if len(self._pieces) > MAX_CACHED_WORDS:
            self._pieces.clear()
        self._learn(set(tokens) - self._pieces.keys())
        return [self._pieces[token] for token in tokens]

    def _learn(self, tokens: Iterable[str]) -> None:
        """Cut new words into pieces, all in one call; the tokenizer treats given words one by one."""
        new = list(tokens)
        cut = self._cut(new)
        longest = longest_word(self.capacity)
        # Control characters and the like yield no piece.
        self._pieces |= {w: truncate_middle(c.ids, longest) or [self.unknown] for w, c in zip(new, cut, strict=True)}

    def _cut(self, words: list[str]) -> list[Any]:
        with tokenizer_failures():
            given = [[word] for word in words]
            return list(self.tokenizer.encode_batch_fast(given, is_pretokenized=True, add_special_tokens=False))

    def compute_lengths(self, sentences: Sentences) -> list[int]:
        """How many pieces each sentence has, with those of its context and the special pieces."""
        in_context = list(map(words_in_context, sentences))
        pieces = self.pieces_of_words(list(chain.from_iterable(in_context)))
        ends = np.cumsum([0, *map(len, pieces)])
        words = np.cumsum([0, *map(len, in_context)])
        lengths: list[int] = (np.diff(ends[words]) + len(self.frame)).tolist()
        return lengths

    def rows(self, sentences: Sentences, mask: Mask) -> Arrays:
        """Rows of pieces (R, P), R >= B, where they stand, and which stand for each word: flat places (B, T, K).

        The words of a sentence's context have pieces, but no place among its words.
        """
        words = self.pieces_of_words(list(chain.from_iterable(map(words_in_context, sentences))))
        counts = np.fromiter(map(len, words), np.int64, len(words))
        pieces = np.fromiter(chain.from_iterable(words), np.int64, int(counts.sum()))
        parts = ((len(each.context.before), len(each.tokens), len(each.context.after)) for each in sentences)
        sizes = np.fromiter(chain.from_iterable(parts), np.int64, 3 * len(sentences)).reshape(-1, 3)
        own = np.repeat(np.tile([False, True, False], len(mask)), sizes.ravel())
        rows = assign_rows(sizes.sum(axis=1), counts, capacity=self.capacity)
        filled, inside = self.frame.fill(pieces, rows)
        column = np.cumsum(counts) - counts - rows.begin[rows.row] + len(self.frame.prefix)
        places = POOLING_INDEX[self.pooling]((rows.row * filled.shape[1] + column)[own], counts[own])
        arrays: Arrays = {"pieces": filled, "places": scatter_to_words(places, mask), "piece_mask": inside}
        if self.pooling == "mean":
            arrays["piece_counts"] = scatter_to_words(counts[own], mask)
        return arrays
