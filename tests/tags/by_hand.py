"""Schemes written out by hand, without the package's tables: the oracle for tests of `maskedcrf.tags`.

`write` turns segments into tags with one plain function per scheme; `read` cuts tags into segments with one
regular expression per scheme. Neither knows anything of which tag may follow which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

from hypothesis import strategies as st

Found = tuple[int, int, str]
"""Start, end (exclusive), type."""


def _five(size: int, *, middle: str, last: str, single: str) -> str:
    return single if size == 1 else "B" + middle * (size - 2) + last


WRITERS: dict[str, Callable[[int, bool, bool], str]] = {
    # size, touches a segment of its own type on its left, on its right -> one letter per token
    "IO": lambda size, left, right: "I" * size,
    "IOB1": lambda size, left, right: ("B" if left else "I") + "I" * (size - 1),
    "BIO": lambda size, left, right: "B" + "I" * (size - 1),
    "IOE1": lambda size, left, right: "I" * (size - 1) + ("E" if right else "I"),
    "IOE2": lambda size, left, right: "I" * (size - 1) + "E",
    "BIOES": lambda size, left, right: _five(size, middle="I", last="E", single="S"),
    "BILOU": lambda size, left, right: _five(size, middle="I", last="L", single="U"),
    "BMES": lambda size, left, right: _five(size, middle="M", last="E", single="S"),
    "BMEWO": lambda size, left, right: _five(size, middle="M", last="E", single="W"),
}

LETTERS = {
    "IO": "I",
    "IOB1": "BI",
    "BIO": "BI",
    "IOE1": "IE",
    "IOE2": "IE",
    "BIOES": "BIES",
    "BILOU": "BILU",
    "BMES": "BMES",
    "BMEWO": "BMEW",
}

# Each match is a segment, over the letters of one type; the first group matches only legal ones.
# A lookaround sees other types as other letters.
READERS = {
    "IO": "(I+)",
    "IOB1": "((?<=[BI])BI*|I+)|BI*",
    "BIO": "(BI*)|I+",
    "IOE1": "(I*E(?=[IE])|I++(?!E))|I*E",
    "IOE2": "(I*E)|I+",
    "BIOES": "(S|BI*E)|BI*|I*E|I+",
    "BILOU": "(U|BI*L)|BI*|I*L|I+",
    "BMES": "(S|BM*E)|BM*|M*E|M+",
    "BMEWO": "(W|BM*E)|BM*|M*E|M+",
}


def write(found: list[Found], length: int, scheme: str) -> list[str]:
    """The tags of these segments, which are in order."""
    tags = ["O"] * length
    sides = [(0, 0, None), *found, (length, length, None)]
    for before, (start, end, kind), after in zip(sides, found, sides[2:], strict=False):
        left = before[1:] == (start, kind)
        right = (after[0], after[2]) == (end, kind)
        letters = WRITERS[scheme](end - start, left, right)
        tags[start:end] = [f"{letter}-{kind}" for letter in letters]
    return tags


def read(tags: list[str], scheme: str) -> list[tuple[int, int, str, bool]]:
    """Segments as a lenient reader cuts them, each with its legality."""
    found = []
    for kind in {tag[2:] for tag in tags if tag != "O"}:
        letters = "".join(tag[0] if tag[2:] == kind else "." for tag in tags)
        found += [(*match.span(), kind, match[1] is not None) for match in re.finditer(READERS[scheme], letters)]
    return sorted(found)


def all_tags(scheme: str, types: str) -> list[str]:
    """Every tag of these one-letter types."""
    return ["O", *(f"{letter}-{kind}" for kind in types for letter in LETTERS[scheme])]


def all_sentences(scheme: str, types: str, longest: int) -> Iterator[list[str]]:
    """Every string of tags, legal or not, up to this length."""
    for length in range(longest + 1):
        yield from map(list, product(all_tags(scheme, types), repeat=length))


def all_segmentations(length: int, types: str) -> Iterator[list[Found]]:
    """Every way to lay segments over this many tokens."""
    if not length:
        yield []
        return
    for found in all_segmentations(length - 1, types):
        yield found  # the last token is outside
    for size in range(1, length + 1):
        for found in all_segmentations(length - size, types):
            for kind in types:
                yield [*found, (length - size, length, kind)]


@cache
def legal_paths(scheme: str) -> dict[tuple[str, ...], list[Found]]:
    """Every way to write segments of types X and Y over up to 4 tokens; where IO merges neighbours, the longest win."""
    found = {}
    for length in range(5):
        for choice in sorted(all_segmentations(length, "XY"), key=len, reverse=True):
            found[tuple(write(choice, length, scheme))] = choice
    return found


@st.composite
def segmentations(
    draw: st.DrawFn, *, touching: bool = True, types: tuple[str, ...] = ("X", "Y", "per-son.a")
) -> tuple[list[Found], int]:
    """Random segments and the length of their sentence; `touching=False` keeps neighbours of one type apart."""
    found: list[Found] = []
    position = 0
    for size, gap, kind in draw(
        st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.sampled_from(types)), max_size=6)
    ):
        if not touching and found and found[-1][2] == kind:
            gap = max(gap, 1)
        found.append((position + gap, position + gap + size, kind))
        position += gap + size
    return found, position + draw(st.integers(0, 2))
