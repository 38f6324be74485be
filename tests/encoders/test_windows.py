"""Rows and windows of word pieces: nothing lost, nothing too long, the best window for each word."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.encoders.transformer.windows import (
    SpecialTokens,
    assign_rows,
    longest_word,
    owning_window,
    truncate_middle,
    windows,
)

capacities = st.integers(min_value=4, max_value=40)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[int], int]:
    """Pieces of each word of a sentence, and how many fit into a window."""
    capacity = draw(capacities)
    piece_counts = st.integers(min_value=1, max_value=longest_word(capacity))
    return draw(st.lists(piece_counts, min_size=1, max_size=120)), capacity


def _ends(counts: list[int]) -> np.ndarray:
    return np.array([sum(counts[:n]) for n in range(len(counts) + 1)])


def test_a_window_shares_a_quarter_of_itself_with_the_next() -> None:
    assert windows(np.arange(101), capacity=40) == [(0, 40), (30, 70), (60, 100)]


@given(sentences())
def test_windows_cover_a_sentence_and_each_fits(drawn: tuple[list[int], int]) -> None:
    counts, capacity = drawn
    cuts = windows(_ends(counts), capacity=capacity)
    assert cuts[0][0] == 0
    assert cuts[-1][1] == len(counts)
    assert all(sum(counts[start:stop]) <= capacity for start, stop in cuts)
    assert all(before[0] < after[0] <= before[1] < after[1] for before, after in pairwise(cuts))


@given(sentences())
def test_each_word_is_read_where_most_of_its_surroundings_show(drawn: tuple[list[int], int]) -> None:
    counts, capacity = drawn
    cuts = windows(_ends(counts), capacity=capacity)
    chosen = owning_window(_ends(counts), cuts)
    for word, window in enumerate(chosen):
        contexts = {n: _context(counts, word, cut) for n, cut in enumerate(cuts) if cut[0] <= word < cut[1]}
        assert contexts[int(window)] == max(contexts.values())


def _context(counts: list[int], word: int, cut: tuple[int, int]) -> float:
    """Pieces to the nearer border of the window; an end of the text is no border."""
    before = float("inf") if cut[0] == 0 else sum(counts[cut[0] : word])
    after = float("inf") if cut[1] == len(counts) else sum(counts[word + 1 : cut[1]])
    return min(before, after)


@given(st.lists(st.lists(st.integers(min_value=1, max_value=3), max_size=30), min_size=1, max_size=5))
def test_framed_rows_hold_each_words_pieces_at_its_place(batch: list[list[int]]) -> None:
    counts = np.array([count for sentence in batch for count in sentence], dtype=np.int64)
    pieces = np.arange(100, 100 + counts.sum())
    rows = assign_rows(np.array([len(sentence) for sentence in batch]), counts, capacity=12)
    filled, inside = SpecialTokens((1,), (2, 3), pad=0).fill(pieces, rows)
    assert filled.shape[1] <= 12 + 3
    assert ((filled == 0) == ~inside).all()
    for row in filled:
        kept = [piece for piece in row if piece]
        assert (kept[0], kept[-2:]) == (1, [2, 3])
        assert kept[1:-2] == list(range(kept[1], kept[1] + len(kept) - 3))
    starts = np.cumsum(counts) - counts
    for word, row in enumerate(rows.row):
        column = 1 + starts[word] - rows.begin[row]
        assert filled[row, column : column + counts[word]].tolist() == (
            pieces[starts[word] : starts[word] + counts[word]].tolist()
        )


@pytest.mark.parametrize(("longest", "expected"), [(9, [0, 1, 2, 3, 4]), (4, [0, 1, 3, 4]), (3, [0, 1, 4]), (1, [0])])
def test_a_very_long_word_keeps_its_head_and_its_tail(longest: int, expected: list[int]) -> None:
    assert truncate_middle([0, 1, 2, 3, 4], longest) == expected
