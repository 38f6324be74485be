"""The legal path whose segments are worth most, in numba: a Viterbi whose steps are outside tags and whole segments.

A state is the last tag of a beginning that ends outside or at the end of a segment. So what the rules say of two
neighbouring segments, which IO, IOB1 and IOE1 write into their tags, is kept to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maskedcrf.crf.machine_code import compiled

_NO_PATH = -(1 << 62)
_OUTSIDE = -1


@compiled
def best_rows(mask: Any, allowed: Any, rules: Any, spans: Any, worth: Any, bounds: Any, tags: Any, kept: Any) -> Any:
    """Whether each row has a path; its tags go to `tags` (B, T) and its segments are marked in `kept` (N,).

    `spans` (N, 3) are start, end and type of the candidates, each row's between its `bounds` and sorted by end;
    `worth` (N,) are integers, so that equal sums are equal on every machine.
    """
    found = np.zeros(len(mask), np.bool_)
    for row in range(len(mask)):
        positions = np.flatnonzero(mask[row])
        own = slice(bounds[row], bounds[row + 1])
        found[row] = _best_row(positions, allowed[row], rules, spans[own], worth[own], tags[row], kept[own])
    return found


@compiled
def _best_row(positions: Any, allowed: Any, rules: Any, spans: Any, worth: Any, tags: Any, kept: Any) -> bool:
    types = rules[4]
    length, size = len(positions), len(types)
    best = np.full((length + 1, size), _NO_PATH)
    before = np.zeros((length + 1, size), np.int64)  # the last tag before the outside tag or the segment
    step = np.full((length + 1, size), _OUTSIDE)  # the number of the segment
    values, sources = np.empty(size, np.int64), np.empty(size, np.int64)
    inner = np.zeros((length, size), np.int64)
    number = 0
    for t in range(1, length + 1):
        _enter(best, t - 1, rules, _OUTSIDE, values, sources)
        for j in range(size):
            if types[j] < 0 and allowed[positions[t - 1], j]:
                best[t, j], before[t, j] = values[j], sources[j]
        while number < len(spans) and spans[number, 1] == t:
            start, kind = spans[number, 0], spans[number, 2]
            _enter(best, start, rules, kind, values, sources)
            _follow(positions[start:t], allowed, rules, kind, values, inner)
            for j in range(size):
                if values[j] > _NO_PATH and values[j] + worth[number] > best[t, j]:
                    best[t, j], step[t, j] = values[j] + worth[number], number
                    before[t, j] = sources[_first_tag(inner, t - start, j)]
            number += 1
    last = _last_tag(best[length], rules[2], length)
    if last < 0:
        return length == 0
    _trace(positions, allowed, rules, spans, best, before, step, last, tags, kept)
    return True


@compiled
def _enter(best: Any, t: int, rules: Any, kind: int, values: Any, sources: Any) -> None:
    """The best beginning of t tokens that each tag of a type may follow across a boundary, and the last tag of it."""
    start, legal, _, continues, types = rules
    for j in range(len(values)):
        values[j], sources[j] = _NO_PATH, 0
        if types[j] != kind:
            continue
        if t == 0:
            values[j] = 0 if start[j] else _NO_PATH
            continue
        for i in range(len(values)):
            if legal[i, j] and not continues[i, j] and best[t, i] > values[j]:
                values[j], sources[j] = best[t, i], i


@compiled
def _follow(positions: Any, allowed: Any, rules: Any, kind: int, values: Any, inner: Any) -> None:
    """From the first tags of a segment of this type to its last ones; `inner` keeps each tag's predecessor."""
    _, legal, _, continues, types = rules
    for j in range(len(values)):
        if types[j] != kind or not allowed[positions[0], j]:
            values[j] = _NO_PATH
    for n in range(1, len(positions)):
        entered = values.copy()
        for j in range(len(values)):
            values[j] = _NO_PATH
            if types[j] != kind or not allowed[positions[n], j]:
                continue
            for i in range(len(values)):
                if legal[i, j] and continues[i, j] and entered[i] > values[j]:
                    values[j], inner[n, j] = entered[i], i


@compiled
def _first_tag(inner: Any, length: int, last: int) -> int:
    tag = last
    for n in range(length - 1, 0, -1):
        tag = inner[n, tag]
    return tag


@compiled
def _last_tag(best: Any, end: Any, length: int) -> int:
    """The last tag of the best path; -1 if there is none."""
    last, value = -1, _NO_PATH
    for j in range(len(best)):
        if length and end[j] and best[j] > value:
            last, value = j, best[j]
    return last


@compiled
def _trace(
    positions: Any, allowed: Any, rules: Any, spans: Any, best: Any, before: Any, step: Any, last: int,
    tags: Any, kept: Any,
) -> None:  # fmt: skip
    """Write the tags of the best path from its end to its beginning, and mark its segments."""
    values, sources = np.empty(best.shape[1], np.int64), np.empty(best.shape[1], np.int64)
    inner = np.zeros((len(positions), best.shape[1]), np.int64)
    t, tag = len(positions), last
    while t > 0:
        number = step[t, tag]
        source = before[t, tag]
        start = t - 1
        if number != _OUTSIDE:
            kept[number] = True
            start = spans[number, 0]
            _enter(best, start, rules, spans[number, 2], values, sources)
            _follow(positions[start:t], allowed, rules, spans[number, 2], values, inner)
        for n in range(t - 1, start - 1, -1):
            tags[positions[n]] = tag
            if n > start:
                tag = inner[n - start, tag]
        t, tag = start, source
