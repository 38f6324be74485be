"""What `Encoder.prepare` gives, made with numpy alone from the files that `Encoder.save` writes.

The same arrays under the same names (a test holds the two together), so that one exported graph serves both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedcrf.data.vocabulary import PAD, Characters, Words
from maskedcrf.encoders.pieces import POOLED, Frame, longest_word, rows_of, shortened
from maskedcrf.errors import DataError, MissingExtraError

Arrays = dict[str, NDArray[Any]]
Mask = NDArray[np.bool_]
Preparer = Callable[[list[str], Mask], Arrays]
"""All tokens of a batch in order, and the mask (B, T) that says where they stand, to index arrays."""
REMEMBERED = 1 << 18
"""Words whose pieces are kept, so that each is cut into pieces once."""


def preparers(files: Mapping[str, str]) -> list[Preparer]:
    """One preparer for each part of the encoder that these files describe."""
    try:
        config = json.loads(files["encoder.json"])["config"]
        return [make(files, config) for part, make in _PARTS.items() if config[part]]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"the encoder's files are not complete or not sound ({type(error).__name__}: {error})"
        ) from error


def prepare(parts: Iterable[Preparer], sentences: Sequence[Sequence[str]]) -> Arrays:
    """Index arrays of a batch; `mask` (B, T) is on where a word stands."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    mask: Mask = np.arange(max(1, lengths.max())) < lengths[:, None]
    tokens = [token for sentence in sentences for token in sentence]
    arrays: Arrays = {"mask": mask}
    for part in parts:
        arrays |= part(tokens, mask)
    return arrays


def _on_words(values: NDArray[np.int64], mask: Mask) -> NDArray[np.int64]:
    spread = np.zeros((*mask.shape, *values.shape[1:]), dtype=np.int64)
    spread[mask] = values
    return spread


def _words(files: Mapping[str, str], config: Mapping[str, Any]) -> Preparer:
    """Numbers of words (B, T)."""
    saved = json.loads(files["words.json"])
    words, shapes, known = (tuple(saved[name]) for name in ("words", "shapes", "known"))
    vocabulary = Words(words, shapes, known, rare=saved["rare"], lower=saved["lower"])

    def prepare_words(tokens: list[str], mask: Mask) -> Arrays:
        return {"words": _on_words(np.fromiter(map(vocabulary.number, tokens), np.int64, len(tokens)), mask)}

    return prepare_words


def _characters(files: Mapping[str, str], config: Mapping[str, Any]) -> Preparer:
    """Each different word's characters once, (words, C), and which word stands where, (B, T)."""
    vocabulary = Characters(tuple(json.loads(files["characters.json"])["characters"]))

    def prepare_characters(tokens: list[str], mask: Mask) -> Arrays:
        rows: dict[str, int] = {}
        places = [rows.setdefault(token, len(rows)) for token in tokens]
        spelt = [vocabulary.numbers(word) for word in rows or ("",)]
        characters = np.full((len(spelt), max(map(len, spelt))), PAD, dtype=np.int64)
        for row, numbers in zip(characters, spelt, strict=True):
            row[: len(numbers)] = numbers
        return {"characters": characters, "spellings": _on_words(np.array(places, dtype=np.int64), mask)}

    return prepare_characters


class _Pieces:
    """Rows of word pieces (R, P), R >= B, and which of them stand for each word: flat places (B, T, K)."""

    def __init__(self, files: Mapping[str, str], config: Mapping[str, Any]) -> None:
        saved = json.loads(files["transformer.json"])
        self.tokenizer = _tokenizer(files["tokenizer.json"])
        self.frame = Frame(tuple(saved["prefix"]), tuple(saved["suffix"]), saved["pad"])
        self.capacity = saved["positions"] - len(self.frame)
        self.unknown = saved["unknown"]
        self.pooling = config["pooling"]
        self._pieces: dict[str, list[int]] = {}

    def __call__(self, tokens: list[str], mask: Mask) -> Arrays:
        self._learn(tokens)
        words = [self._pieces[token] for token in tokens]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        pieces = np.fromiter(chain.from_iterable(words), np.int64, int(counts.sum()))
        rows = rows_of(mask.sum(axis=1), counts, capacity=self.capacity)
        filled, inside = self.frame.fill(pieces, rows)
        column = np.cumsum(counts) - counts - rows.begin[rows.row] + len(self.frame.prefix)
        places = POOLED[self.pooling](rows.row * filled.shape[1] + column, counts)
        arrays: Arrays = {"pieces": filled, "places": _on_words(places, mask), "piece_mask": inside}
        if self.pooling == "mean":
            arrays["piece_counts"] = _on_words(counts, mask)
        return arrays

    def _learn(self, tokens: Iterable[str]) -> None:
        if len(self._pieces) > REMEMBERED:
            self._pieces.clear()
        new = list(set(tokens) - self._pieces.keys())
        cut = self.tokenizer.encode_batch_fast([[w] for w in new], is_pretokenized=True, add_special_tokens=False)
        longest = longest_word(self.capacity)
        self._pieces |= {w: shortened(c.ids, longest) or [self.unknown] for w, c in zip(new, cut, strict=True)}


def _tokenizer(text: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError("this model needs tokenizers: pip install tokenizers") from error
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise DataError(f"tokenizer.json cannot be loaded ({str(error).splitlines()[0]})") from error


_PARTS: dict[str, Callable[[Mapping[str, str], Mapping[str, Any]], Preparer]] = {
    "words": _words,
    "characters": _characters,
    "transformer": _Pieces,
}
"""In the order in which `Encoder` has its parts."""
