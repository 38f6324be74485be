"""The legal path whose segments are worth most, in numba: a Viterbi whose steps are outside tags and whole segments.

A state is the last tag of a beginning that ends outside or at the end of a segment. So what the rules say of two
neighbouring segments, which IO, IOB1 and IOE1 write into their tags, is kept to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from maskedcrf.machine_code import compiled, kernel
except ImportError:  # beside an ONNX file numba need not be installed: the same in plain Python, slower

    def compiled(function: Any) -> Any:
        """The function as it is."""
        return function

    kernel = compiled


_NO_PATH = -(1 << 62)
_OUTSIDE = -1


@kernel
def best_rows(mask: Any, allowed: Any, rules: Any, spans: Any, worth: Any, bounds: Any, tags: Any, kept: Any) -> Any:
    """Whether each row has a path; its tags go to `tags` (B, T) and its segments are marked in `kept` (N,).

    `spans` (N, 4) are row, start, end and type of the candidates, each row's between its `bounds` and sorted by end;
    `worth` (N,) are integers, so that equal sums are equal on every machine. The `rules` are the first tags, the legal
    steps that are boundaries and those inside a segment [from, to], the last tags, and the type of each tag.
    """
    found = np.zeros(len(mask), np.bool_)
    for row in range(len(mask)):
        positions = np.flatnonzero(mask[row])
        own = slice(bounds[row], bounds[row + 1])
        found[row] = _best_row(positions, allowed[row], rules, spans[own], worth[own], tags[row], kept[own])
    return found


@compiled
def _best_row(positions: Any, allowed: Any, rules: Any, spans: Any, worth: Any, tags: Any, kept: Any) -> bool:
    first, _, _, last, types = rules
    length, size = len(positions), len(types)
    best = np.full((length + 1, size), _NO_PATH)  # of the beginnings of t tokens that end in each tag
    before = np.zeros((length + 1, size), np.int64)  # their last tag before the outside tag or the segment
    step = np.full((length + 1, size), _OUTSIDE)  # the number of the segment
    entered = np.full((length + 1, size), _NO_PATH)  # of the beginnings that each tag may follow across a boundary
    sources = np.zeros((length + 1, size), np.int64)  # their last tag
    values, inner = np.empty((length, size), np.int64), np.zeros((length, size), np.int64)  # within a segment
    firsts = np.empty((length, size), np.int64)
    for j in range(size):
        entered[0, j] = 0 if first[j] else _NO_PATH
    _climb(positions, allowed, rules, spans, worth, (best, before, step, entered, sources, values, inner, firsts))
    tag = _last_tag(best[length], last) if length else 0
    while length and tag >= 0:
        number, source, start = step[length, tag], before[length, tag], length - 1
        if number != _OUTSIDE:
            kept[number], start = True, spans[number, 1]
            _follow(positions[start:length], allowed, rules, spans[number, 3], entered[start], values, inner, firsts)
        for n in range(length - 1, start - 1, -1):
            tags[positions[n]] = tag
            tag = inner[n - start, tag] if n > start else source
        length = start
    return bool(tag >= 0)


@compiled
def _climb(positions: Any, allowed: Any, rules: Any, spans: Any, worth: Any, tables: Any) -> None:
    """Fill in the tables of `_best_row`; segments of one type that begin together are followed once."""
    best, before, step, entered, sources, values, inner, firsts = tables
    _, boundary, _, _, types = rules
    order = np.argsort((spans[:, 1] * (len(types) + 1) + spans[:, 3]) * (len(positions) + 1) + spans[:, 2])
    number = 0
    for t in range(len(positions)):
        while number < len(order) and spans[order[number], 1] == t:
            kind, last = spans[order[number], 3], _last_alike(spans, order, number)
            _follow(positions[t : spans[order[last], 2]], allowed, rules, kind, entered[t], values, inner, firsts)
            for one in order[number : last + 1]:
                end = spans[one, 2]
                for j in range(len(types)):
                    reached = values[end - t - 1, j]
                    if reached > _NO_PATH and reached + worth[one] > best[end, j]:
                        best[end, j], step[end, j] = reached + worth[one], one
                        before[end, j] = sources[t, firsts[end - t - 1, j]]
            number = last + 1
        for j in range(len(types)):
            if types[j] < 0 and allowed[positions[t], j]:
                best[t + 1, j], before[t + 1, j] = entered[t, j], sources[t, j]
        _step(best[t + 1], boundary, entered[t + 1], sources[t + 1])


@compiled
def _last_alike(spans: Any, order: Any, number: int) -> int:
    """The place in the order of the longest segment that begins as this one and has its type."""
    start, kind, last = spans[order[number], 1], spans[order[number], 3], number
    while last + 1 < len(order) and spans[order[last + 1], 1] == start and spans[order[last + 1], 3] == kind:
        last += 1
    return last


@compiled
def _step(values: Any, steps: Any, entered: Any, sources: Any) -> None:
    """The best way to each tag by these steps, and the tag it comes from; of equals the first."""
    for i in range(len(values)):
        for j in range(len(values) if values[i] > _NO_PATH else 0):
            if steps[i, j] and values[i] > entered[j]:
                entered[j], sources[j] = values[i], i


@compiled
def _follow(
    positions: Any, allowed: Any, rules: Any, kind: int, entered: Any, values: Any, inner: Any, firsts: Any
) -> None:
    """Fill in what each tag of a segment of this type is worth (T, D), its predecessor there, and the first tag."""
    inside, types = rules[2], rules[4]
    for n in range(len(positions)):
        for j in range(len(types)):
            values[n, j] = _NO_PATH if n else entered[j]
        if n:
            _step(values[n - 1], inside, values[n], inner[n])
        for j in range(len(types)):
            firsts[n, j] = firsts[n - 1, inner[n, j]] if n else j
            values[n, j] = values[n, j] if types[j] == kind and allowed[positions[n], j] else _NO_PATH


@compiled
def _last_tag(best: Any, last: Any) -> int:
    """The last tag of the best path; -1 if there is none."""
    tag, value = -1, _NO_PATH
    for j in range(len(best)):
        if last[j] and best[j] > value:
            tag, value = j, best[j]
    return tag
