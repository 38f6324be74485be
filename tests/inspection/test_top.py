"""The best few of many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.inspection.top import Top


@given(st.lists(st.integers(0, 5)), st.integers(1, 4))
def test_the_highest_are_kept_and_of_equals_the_first(scores, size):
    top: Top[int] = Top(size)
    dropped = [top.add(score, number) for number, score in enumerate(scores)]
    expected = sorted(range(len(scores)), key=lambda number: (-scores[number], number))
    assert top.best_first() == expected[:size]
    assert sorted(each for each in dropped if each is not None) == sorted(expected[size:])
