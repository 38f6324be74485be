"""Word pieces in rows for a transformer: which row holds which pieces, and where each word's pieces lie.

A sentence that fits is one row. A longer one is cut at word borders into overlapping windows, a row each, and
each word is read from the window that shows most of its surroundings, so that no caller ever sees a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Pieces of the batch by row: row r holds pieces begin[r] to end[r]; word w is read from row[w]."""

    begin: Ints
    end: Ints
    row: Ints


def assign_rows(lengths: Ints, counts: Ints, *, capacity: int) -> Rows:
    """Rows of at most `capacity` pieces for sentences of `lengths` (B,) words of `counts` (words,) pieces."""
    ends = np.concatenate(([0], np.cumsum(counts)))
    words = np.concatenate(([0], np.cumsum(lengths)))
    begin, end = ends[words[:-1]], ends[words[1:]]
    if (end - begin <= capacity).all():
        return Rows(begin, end, np.repeat(np.arange(len(lengths)), lengths))
    begins: list[int] = []
    stops: list[int] = []
    row: list[Ints] = []
    for first, last in pairwise(words):
        cuts = windows(ends[first : last + 1], capacity=capacity)
        row.append(len(begins) + owning_window(ends[first : last + 1], cuts))
        begins += [int(ends[first + start]) for start, _ in cuts]
        stops += [int(ends[first + stop]) for _, stop in cuts]
    return Rows(np.array(begins), np.array(stops), np.concatenate(row))


def windows(ends: Ints, *, capacity: int) -> list[tuple[int, int]]:
    """Word ranges that cover a sentence, each of at most `capacity` pieces, sharing about a quarter with the next.

    `ends` (T + 1,) are the piece offsets of the words' borders; no word may have more than `longest_word` pieces.
    """
    length, start = len(ends) - 1, 0
    cuts: list[tuple[int, int]] = []
    while True:
        stop = int(np.searchsorted(ends, ends[start] + capacity, side="right")) - 1
        cuts.append((start, stop))
        if stop >= length:
            return cuts
        shared = int(np.searchsorted(ends, ends[stop] - capacity // 4))
        start = max(start + 1, min(shared, stop))


def owning_window(ends: Ints, cuts: Sequence[tuple[int, int]]) -> Ints:
    """The window from which each word is read, (T,): in a shared stretch, the one with more pieces beyond the word."""
    owner = np.zeros(len(ends) - 1, dtype=np.int64)
    for (_, stop), (start, _) in pairwise(cuts):
        shared = np.arange(start, stop)
        before, after = ends[shared] - ends[start], ends[stop] - ends[shared + 1]
        owner[start + int((before <= after).sum()) :] += 1
    return owner


def longest_word(capacity: int) -> int:
    """How many pieces of one word are kept: few enough that windows always move on."""
    return max(1, min(32, capacity // 4))


def truncate_middle(pieces: Sequence[int], longest: int) -> list[int]:
    """The pieces of a word, of a very long one its head and its tail."""
    if len(pieces) <= longest:
        return list(pieces)
    tail = longest // 2
    return [*pieces[: longest - tail], *pieces[len(pieces) - tail :]]


@dataclass(frozen=True)
class SpecialTokens:
    """What a model expects around a row of pieces: special pieces before and after, padding behind."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad: int

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def fill(self, pieces: Ints, rows: Rows) -> tuple[Ints, NDArray[np.bool_]]:
        """Pieces of the batch (N,) in framed and padded rows: (R, P) pieces and where they are, (R, P)."""
        sizes, before = rows.end - rows.begin, len(self.prefix)
        places = np.arange(sizes.max() + len(self))
        filled = np.full((len(sizes), len(places)), self.pad, dtype=np.int64)
        inside = (places >= before) & (places < before + sizes[:, None])
        source = rows.begin[:, None] + places - before
        filled[inside] = pieces[source[inside]]
        filled[:, :before] = self.prefix
        for n, piece in enumerate(self.suffix):
            filled[np.arange(len(sizes)), before + sizes + n] = piece
        return filled, places < (sizes + len(self))[:, None]


def _first(starts: Ints, counts: Ints) -> Ints:
    return starts[:, None]


def _last(starts: Ints, counts: Ints) -> Ints:
    return (starts + counts - 1)[:, None]


def _all(starts: Ints, counts: Ints) -> Ints:
    """Every piece of each word; behind the last one, the last one again."""
    most = int(counts.max(initial=1))
    return starts[:, None] + np.minimum(np.arange(most), counts[:, None] - 1)


POOLING_INDEX: dict[str, Callable[[Ints, Ints], Ints]] = {
    "first": _first,
    "last": _last,
    "mean": _all,
    "max": _all,
    "surest": _all,
}
"""Which pieces stand for each word, (words, K), given where its pieces start and how many they are."""
