"""Tags a user fixes and names a gazetteer knows, as per-position sets of allowed tags."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from maskedcrf.errors import DataError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Bools
from maskedcrf.tags.segments import Segment, encode

FixedTags = Mapping[int, str | Collection[str]]
"""Token position -> the tag, or the tags, it may carry."""


class Gazetteer:
    """Names whose type is known: wherever one occurs it is tagged so, the longest first, from left to right."""

    def __init__(self, names: Mapping[Sequence[str], str]) -> None:
        self._names = {tuple(name): kind for name, kind in names.items()}
        self._longest = max(map(len, self._names), default=0)

    def segments(self, tokens: Sequence[str]) -> list[Segment]:
        """Where its names occur, without overlap."""
        found, start = [], 0
        while start < len(tokens):
            sizes = range(min(self._longest, len(tokens) - start), 0, -1)
            size = next((size for size in sizes if tuple(tokens[start : start + size]) in self._names), 0)
            if size:
                name = tuple(tokens[start : start + size])
                found.append(Segment(start, start + size, self._names[name]))
            start += size or 1
        return found


def allowed_tags(
    constraints: Constraints, tokens: Sequence[str], *, fixed: FixedTags | None, gazetteer: Gazetteer | None
) -> Bools | None:
    """(T, D): True where a tag may stand; None where nothing is narrowed. What the user fixes wins."""
    known = gazetteer.segments(tokens) if gazetteer else []
    if not known and not fixed:
        return None
    cells = np.ones((len(tokens), len(constraints)), dtype=bool)
    index = {tag: number for number, tag in enumerate(constraints.tags)}
    kept = [segment for segment in known if not any(at in (fixed or {}) for at in range(segment.start, segment.end))]
    if kept:
        _fix_gazetteer_segments(cells, kept, constraints, index)
    for position, tags in (fixed or {}).items():
        if not isinstance(position, int | np.integer) or not isinstance(tags, Collection):
            raise DataError(f"fixed is {{token position: tag or tags}}, {{0: 'O'}} say; got {{{position!r}: {tags!r}}}")
        if not 0 <= position < len(tokens):
            raise DataError(f"a tag is fixed at position {position} of {len(tokens)} tokens; positions begin at 0")
        chosen = [tags] if isinstance(tags, str) else list(tags)
        for tag in chosen:
            if tag not in index:
                raise DataError(f"{tag!r} cannot be fixed: it is not one of the model's tags {', '.join(index)}")
        cells[position] = False
        cells[position, [index[tag] for tag in chosen]] = True
    return cells


def _fix_gazetteer_segments(
    cells: Bools, found: list[Segment], constraints: Constraints, index: dict[str, int]
) -> None:
    """Only these segments' own tags on their tokens, and no neighbour that would lengthen them."""
    assert constraints.scheme is not None, "a tagger is built from a scheme"
    continues = constraints.matrices.continues[:-1, :-1]
    tags = encode(found, len(cells), constraints.scheme)
    inside = {position for segment in found for position in range(segment.start, segment.end)}
    for start, end, kind, _ in found:
        for position in range(start, end):
            if tags[position] not in index:
                known = ", ".join(constraints.matrices.types)
                raise DataError(f"the gazetteer's type {kind!r} is not one of the model's: {known}")
            cells[position] = False
            cells[position, index[tags[position]]] = True
        if start and start - 1 not in inside:
            cells[start - 1] &= ~continues[:, index[tags[start]]]
        if end < len(cells) and end not in inside:
            cells[end] &= ~continues[index[tags[end - 1]]]
