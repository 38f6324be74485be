"""Errors by kind: what went wrong with each segment that is not found exactly.

Predicted segments are matched with gold ones one to one, from left to right: each takes the first that it overlaps and
that is still free, as nervaluate does.

>>> [error.kind for error in compare([(0, 2, "PER"), (4, 5, "LOC")], [(0, 1, "PER")])]
['boundary', 'missed']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

Span = tuple[int, int, str]
ErrorKind = Literal["missed", "invented", "boundary", "type", "both"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
MEANINGS: dict[ErrorKind, str] = {
    "missed": "no predicted segment is left that overlaps it",
    "invented": "it overlaps no gold segment that is left",
    "boundary": "right type, other first or last token",
    "type": "right tokens, other type",
    "both": "overlaps a gold segment, but neither tokens nor type are right",
}


class Error(NamedTuple):
    """A gold segment, a predicted one, or two that overlap, and what is wrong."""

    kind: ErrorKind
    gold: Span | None
    predicted: Span | None


def compare(gold: Sequence[Span], predicted: Sequence[Span]) -> list[Error]:
    """The errors of a sentence, by their place in it."""
    right = set(gold).intersection(predicted)
    free = [span for span in gold if span not in right]
    found: list[Error] = []
    for span in predicted:
        if span in right:
            continue
        partner = next((each for each in free if overlaps(each, span)), None)
        if partner is None:
            found.append(Error("invented", None, span))
        else:
            free.remove(partner)
            found.append(Error(kind_of(partner, span), partner, span))
    found += [Error("missed", span, None) for span in free]
    return sorted(found, key=lambda error: error.gold or error.predicted or (0, 0, ""))


def overlaps(one: Span, other: Span) -> bool:
    """Whether two segments share a token."""
    return one[0] < other[1] and other[0] < one[1]


def kind_of(gold: Span, predicted: Span) -> ErrorKind:
    """What is wrong with a predicted segment that overlaps a gold one."""
    if gold[:2] == predicted[:2]:
        return "type"
    return "boundary" if gold[2] == predicted[2] else "both"
