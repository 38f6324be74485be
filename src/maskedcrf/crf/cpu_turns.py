"""Between rows as they lie in memory and rows in lanes, in numba: squares of eight rows and eight tags are turned.

`lines` has room for one position of eight rows, a square after the other (see `lines_for`). Where the tags do not fill
the last square, it begins earlier and has some of them twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import LANES, compiled, fill, load, multiply, store, subtract, turn


@compiled
def lines_for(size: int) -> Any:
    """Room for one position of eight rows, before it is turned or after."""
    return np.empty((size + LANES - 1) // LANES * LANES * LANES)


@compiled
def read_position(
    scores: Any, begins: Any, counts: Any, positions: Any, t: int, size: int, lines: Any, work: Any, at: int,
    shifts: Any,
) -> None:  # fmt: skip
    """One position's emissions of every row, relative to the first tag's; -inf behind a row's end.

    `scores` are all emissions, flat, of which a row's begin at `begins`.
    """
    wide = size >= LANES
    for r in range(LANES):
        inside = t < counts[r]
        begin = begins[r] + positions[r, t] * size if inside else 0
        shift = np.float64(scores[begin]) if inside else np.float64(0.0)
        shift = shift if abs(shift) < np.inf else np.float64(0.0)
        shifts[r] += shift
        for square in range(0, size if wide else 0, LANES):
            j = min(square, size - LANES)
            line = subtract(load(scores, begin + j), fill(shift)) if inside else fill(-np.inf)
            store(lines, square * LANES + r * LANES, line)
        for j in range(0 if wide else size):
            work[at + j * LANES + r] = scores[begin + j] - shift if inside else -np.inf
    for square in range(0, size if wide else 0, LANES):
        turn(lines, square * LANES, work, at + min(square, size - LANES) * LANES)


@compiled
def _subtract_gold(
    shares: Any, scores: Any, tags: Any, group: Any, begins: Any, counts: Any, positions: Any, t: int, size: int
) -> None:
    """One off the share of the gold tag of every row, where that is not excluded."""
    for r in range(group.size):
        if t < counts[r]:
            tag = tags[group[r], positions[r, t]]
            if 0 <= tag < size and scores[begins[r] + positions[r, t] * size + tag] > -np.inf:
                shares[tag * LANES + r] -= 1.0


@compiled
def write_position(
    shares: Any, scores: Any, tags: Any, group: Any, begins: Any, counts: Any, positions: Any, t: int, size: int,
    weights: Any, lines: Any, gradients: Any,
) -> None:  # fmt: skip
    """One position's gradients of every row: its shares less the gold tag's one, where that is not excluded."""
    if tags.size:
        _subtract_gold(shares, scores, tags, group, begins, counts, positions, t, size)
    wide = size >= LANES
    for square in range(0, size if wide else 0, LANES):
        turn(shares, min(square, size - LANES) * LANES, lines, square * LANES)
    for r in range(group.size):
        if t < counts[r]:
            begin, weight = begins[r] + positions[r, t] * size, weights[r]
            for square in range(0, size if wide else 0, LANES):
                line = multiply(load(lines, square * LANES + r * LANES), fill(weight))
                store(gradients, begin + min(square, size - LANES), line)
            for j in range(0 if wide else size):
                gradients[begin + j] = weight * shares[j * LANES + r]
