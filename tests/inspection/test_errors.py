"""Errors by kind, each by hand."""

from __future__ import annotations

import pytest

from maskedcrf.inspection.errors import compare

PER, LOC = "PER", "LOC"


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([(0, 2, PER)], [(0, 2, PER)], []),
        ([(0, 2, PER)], [], [("missed", (0, 2, PER), None)]),
        ([], [(0, 2, PER)], [("invented", None, (0, 2, PER))]),
        ([(0, 2, PER)], [(2, 3, PER)], [("missed", (0, 2, PER), None), ("invented", None, (2, 3, PER))]),
        ([(0, 2, PER)], [(0, 1, PER)], [("boundary", (0, 2, PER), (0, 1, PER))]),
        ([(0, 2, PER)], [(0, 2, LOC)], [("type", (0, 2, PER), (0, 2, LOC))]),
        ([(0, 2, PER)], [(1, 3, LOC)], [("both", (0, 2, PER), (1, 3, LOC))]),
        # Two gold segments taken for one: the first is matched, the other is missed.
        (
            [(0, 1, LOC), (1, 2, PER)],
            [(0, 2, PER)],
            [("both", (0, 1, LOC), (0, 2, PER)), ("missed", (1, 2, PER), None)],
        ),
        # One gold segment taken for two: the first has a wrong boundary, the other is invented.
        (
            [(0, 3, PER)],
            [(0, 1, PER), (2, 3, PER)],
            [("boundary", (0, 3, PER), (0, 1, PER)), ("invented", None, (2, 3, PER))],
        ),
        # A gold segment that is found is nobody else's partner.
        (
            [(0, 1, PER), (1, 4, PER)],
            [(0, 1, PER), (2, 5, LOC)],
            [("both", (1, 4, PER), (2, 5, LOC))],
        ),
        # A chain of overlaps: each takes the first that is free.
        (
            [(0, 2, PER), (3, 5, PER)],
            [(1, 4, LOC), (4, 6, PER)],
            [("both", (0, 2, PER), (1, 4, LOC)), ("boundary", (3, 5, PER), (4, 6, PER))],
        ),
    ],
)
def test_each_segment_that_is_not_found_exactly_has_its_kind(gold, predicted, expected):
    assert [tuple(error) for error in compare(gold, predicted)] == expected
