"""Probabilities of segments in numba.

What stands before a tag depends on that tag alone, once the forward masses are known. So a segment is followed from its
end to its beginning by probabilities, which need no rescaling: the chance of the tag behind it, then at each position
that of the tags before, those of the segment only, and that the segment does not go on at either end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import compiled
from maskedcrf.crf.cpu_sums import (
    find,
    forward_masses,
    from_logarithms,
    masses_of_parameters,
    row_size,
    square_of,
)


@compiled
def _sources(alphas: Any, t: int, steps: Any, tag: int, scaled: bool, shares: Any) -> None:
    """P(tag i at t | this tag at the next position), for every i."""
    for i in range(shares.size):
        shares[i] = alphas[t, i] * steps[i, tag] if scaled else alphas[t, i] + steps[i, tag]
    if not scaled:
        from_logarithms(shares)
    total = shares.sum()
    for i in range(shares.size):
        shares[i] = shares[i] / total if total > 0.0 else 0.0


@compiled
def _closed(alphas: Any, steps: Any, scaled: bool, after: int, chances: Any, member: Any, continues: Any) -> Any:
    """(D,): P(a segment's tag stands before `after`, and it ends there)."""
    inside, shares = np.zeros(member.size), np.empty(member.size)
    if after == chances.shape[0]:
        for j in range(member.size):
            inside[j] = chances[after - 1, j] if member[j] else 0.0
        return inside
    for k in range(member.size):
        if chances[after, k] > 0.0:
            _sources(alphas, after - 1, steps, k, scaled, shares)
            for j in range(member.size):
                if member[j] and not continues[j, k]:
                    inside[j] += chances[after, k] * shares[j]
    return inside


@compiled
def _back(
    alphas: Any, steps: Any, scaled: bool, t: int, inside: Any, allowed: Any, continues: Any, going_on: bool
) -> Any:
    """(D,): the same a position earlier, at `allowed` tags, by steps that go on in a segment or by others."""
    before, shares = np.zeros(inside.size), np.empty(inside.size)
    for j in range(inside.size):
        if inside[j] > 0.0:
            _sources(alphas, t, steps, j, scaled, shares)
            for i in range(inside.size):
                if allowed[i] and continues[i, j] == going_on:
                    before[i] += inside[j] * shares[i]
    return before


@compiled
def span_rows(
    emissions: Any, mask: Any, transitions: Any, start: Any, end: Any, chances: Any, spans: Any, bounds: Any,
    member: Any, continues: Any, found: Any, rows: Any,
) -> None:  # fmt: skip
    """P of the `spans` (N, 3) of the given rows, each row's between its `bounds`; `chances` (B, T, D) are of tags."""
    length, size = emissions.shape[1:]
    lattice = emissions, mask, mask, transitions, start, end
    masses_of = masses_of_parameters(transitions, start, end)
    matrix, logarithms = square_of(masses_of[0], size), transitions.astype(np.float64)
    positions, alphas, chance = np.empty(length + 1, np.int64), np.empty((length, size)), np.empty((length, size))
    saved, norms = np.empty(row_size(length, size)), np.empty(length)
    every = np.ones(size, np.bool_)
    for row in rows:
        if bounds[row] == bounds[row + 1]:
            continue
        count = find(mask, row, positions)
        scaled = forward_masses(lattice, row, positions, count, masses_of, saved, norms, alphas)
        steps = matrix if scaled else logarithms
        for t in range(count):
            for j in range(size):
                chance[t, j] = chances[row, positions[t], j]
        for n in range(bounds[row], bounds[row + 1]):
            first, after = spans[n, 1], spans[n, 2]
            inside = _closed(alphas, steps, scaled, after, chance[:count], member[n], continues)
            for t in range(after - 2, first - 1, -1):
                inside = _back(alphas, steps, scaled, t, inside, member[n], continues, True)
            if first:
                inside = _back(alphas, steps, scaled, first - 1, inside, every, continues, False)
            found[n] = inside.sum()
