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
        # Two gold segments taken for one: the one of its type is found with a wrong boundary, the other is missed.
        (
            [(0, 1, LOC), (1, 2, PER)],
            [(0, 2, PER)],
            [("missed", (0, 1, LOC), None), ("boundary", (1, 2, PER), (0, 2, PER))],
        ),
        # One gold segment taken for two: both have a wrong boundary, and nothing is missed.
        (
            [(0, 3, PER)],
            [(0, 1, PER), (2, 3, PER)],
            [("boundary", (0, 3, PER), (0, 1, PER)), ("boundary", (0, 3, PER), (2, 3, PER))],
        ),
        # Of several that overlap and have its type, or have it not, the one that shares most tokens.
        (
            [(0, 1, PER), (1, 4, PER)],
            [(0, 3, LOC)],
            [("missed", (0, 1, PER), None), ("both", (1, 4, PER), (0, 3, LOC))],
        ),
    ],
)
def test_each_segment_that_is_not_found_exactly_has_its_kind(gold, predicted, expected):
    assert [tuple(error) for error in compare(gold, predicted)] == expected
