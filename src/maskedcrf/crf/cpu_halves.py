"""One group of rows on two threads in numba: forward and backward masses at once, then half of the positions each.

Both recursions scale as they like. What they divided out are powers of two, and these say for every position what
makes the product of its two masses a probability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu_gradients import row_gradients, subtract_gold_steps
from maskedcrf.crf.cpu_groups import (
    add_counted,
    add_ends,
    add_starts,
    climb,
    count_steps,
    empty_sums,
    positions_at_hand,
)
from maskedcrf.crf.cpu_lanes import LANES, compiled, load, multiply, store
from maskedcrf.crf.cpu_rows import exclude, find_group, parts_of, room_for, tables_of
from maskedcrf.crf.cpu_sums import MASS, TOTAL, gold_score, log_forward
from maskedcrf.crf.cpu_turns import lines_for, write_position

# Powers of two by which the product of two masses may be off: 1e120 and its inverse.
_FARTHEST = 400.0


@compiled
def prepare_rows(
    emissions: Any, tags: Any, mask: Any, transitions: Any, start: Any, end: Any, illegal: Any, illegal_start: Any,
    illegal_end: Any,
) -> Any:  # fmt: skip
    """What the other functions share: the lattice without what is illegal, tables, places and room for masses.

    Masses, each (2, ...) for forwards and backwards: x and alpha of `climb`, `powers`, `extremes`, `shifts`.
    """
    parameters = exclude(transitions, illegal), exclude(start, illegal_start), exclude(end, illegal_end)
    lattice = emissions, tags, mask, parameters[0], parameters[1], parameters[2]
    length, size = mask.shape[1], start.size
    room = room_for(length, size)
    find_group(mask, np.arange(mask.shape[0]), room)
    positions, counts, _, _, _, _ = room
    work = np.empty((2, (2 * length + 1) * size * LANES))  # `_weigh` looks one position behind the last
    masses = work, np.empty((2, length * LANES)), np.empty((2, 2 * LANES)), np.empty((2, LANES))
    return lattice, tables_of(lattice), (positions, counts), masses


@compiled
def climb_rows(lattice: Any, tables: Any, places: Any, masses: Any, backwards: bool) -> None:
    """The masses of all rows, one way."""
    emissions, mask = lattice[0], lattice[2]
    _, _, first, last, _, onward, turned = tables
    positions, counts = places
    work, powers, extremes, shifts = masses
    way, stride = int(backwards), emissions.shape[2] * LANES
    plan, used = turned if backwards else onward
    climb(
        emissions, np.arange(mask.shape[0]), counts, positions, plan, used, last if backwards else first,
        np.empty(stride), work[way], 0, mask.shape[1] * stride, shifts[way], powers[way], extremes[way], backwards,
    )  # fmt: skip


@compiled
def _totals(lattice: Any, tables: Any, places: Any, masses: Any) -> Any:
    """(LANES,): the scaled total of each row; 0 where it has to be done on logarithms, or has no positions."""
    last, usable = tables[3], tables[4]
    _, counts = places
    work, powers, extremes, _ = masses
    size = lattice[0].shape[2]
    stride, alpha = size * LANES, lattice[0].shape[1] * size * LANES
    totals = np.zeros(LANES)
    for r in range(LANES):
        if not counts[r]:
            continue
        total, farthest, end = 0.0, 0.0, (counts[r] - 1) * LANES + r
        for j in range(size):
            total += work[0, alpha + (counts[r] - 1) * stride + j * LANES + r] * last[j]
        for at in range(r, end, LANES):
            farthest = max(farthest, abs(powers[0, at] + powers[1, at + LANES] - powers[0, end]))
        in_range = usable and TOTAL <= total <= 1.0 / TOTAL and farthest <= _FARTHEST
        for way in range(2):
            in_range &= extremes[way, r] >= MASS and extremes[way, LANES + r] <= 1.0 / MASS
        totals[r] = total if in_range else 0.0
    return totals


@compiled
def _factors(totals: Any, counts: Any, powers: Any, begin: int, end: int) -> Any:
    """(end - begin, LANES): what makes products of forward and backward masses shares; 0 behind a row's end."""
    factors = np.zeros((end - begin) * LANES)
    for r in range(LANES):
        whole = powers[0, (counts[r] - 1) * LANES + r]
        for t in range(begin, min(end, counts[r]) if totals[r] else begin):
            behind = powers[1, (t + 1) * LANES + r] if t < counts[r] - 1 else 0.0
            factors[(t - begin) * LANES + r] = math.ldexp(
                1.0 / totals[r], int(powers[0, t * LANES + r] + behind - whole)
            )
    return factors


@compiled
def _weigh(ahead: Any, back: Any, alpha: int, at: int, factor: Any, shares: Any, arrivals: Any, here: int) -> None:
    """One position's shares, and the masses that arrive at the one behind it, so scaled that steps are shares too."""
    stride = shares.size
    for j in range(0, stride, LANES):
        reaches = multiply(load(back, at + j), factor)
        store(shares, j, multiply(load(ahead, alpha + at + j), reaches))
        store(arrivals, here + j, multiply(load(back, alpha + at + stride + j), factor))


@compiled
def weigh_rows(
    lattice: Any, tables: Any, places: Any, masses: Any, upstream: Any, d_emissions: Any, sums: Any, half: int
) -> None:
    """The gradients by the emissions of one half of the positions, by the steps from these, and by start.

    Rows that have to be done on logarithms add nothing, and their gradients by emissions mean nothing.
    """
    emissions, tags, mask, _, _, _ = lattice
    positions, counts = places
    size, longest = emissions.shape[2], counts.max()
    begin, end = half * longest // 2, (half + 1) * longest // 2
    totals = _totals(lattice, tables, places, masses)
    factors, weights = _factors(totals, counts, masses[1], begin, end), np.zeros(LANES)
    for r in range(mask.shape[0]):
        weights[r] = upstream[r] if totals[r] else 0.0
    stride, many, alpha = size * LANES, positions_at_hand(size), mask.shape[1] * size * LANES
    ahead, back, shares, arrivals = masses[0][0], masses[0][1], np.empty(stride), np.empty(many * stride)
    scores, gradients, rows = emissions.reshape(-1), d_emissions.reshape(-1), np.arange(mask.shape[0])
    begins, lines = rows * (mask.shape[1] * size), lines_for(size)
    d_transitions, d_start, _ = parts_of(sums, size)
    plan, used = tables[5]
    counted = empty_sums(plan, size)
    for first in range(begin, end, many):
        beyond = min(first + many, end)
        for t in range(first, beyond):
            factor = load(factors, (t - begin) * LANES)
            _weigh(ahead, back, alpha, t * stride, factor, shares, arrivals, (t - first) * stride)
            if t == 0:
                add_starts(shares, weights, d_start)
            write_position(shares, scores, tags, rows, begins, counts, positions, t, size, weights, lines, gradients)
        count_steps(ahead, alpha + first * stride, arrivals, 0, min(beyond, longest - 1) - first, size, plan, counted)
    add_counted(counted, plan, used, weights, d_transitions)


@compiled
def finish_rows(
    lattice: Any, tables: Any, places: Any, masses: Any, upstream: Any, losses: Any, d_emissions: Any, sums: Any
) -> None:
    """The losses and what is left of the gradients, and all of those of the rows that are done on logarithms."""
    emissions, tags, mask, transitions, start, end = lattice
    turned, last = tables[1], tables[3]
    positions, counts = places
    work, powers, _, shifts = masses
    totals, parts = _totals(lattice, tables, places, masses), parts_of(sums, start.size)
    for r in range(mask.shape[0]):
        count, weight, log_z = counts[r], upstream[r], 0.0
        for t in np.flatnonzero(~mask[r]):
            d_emissions[r, t] = 0.0
        if totals[r]:
            log_z = math.log(totals[r]) + shifts[0, r] + powers[0, (count - 1) * LANES + r] * math.log(2.0)
            at = (mask.shape[1] + count - 1) * start.size * LANES + r
            add_ends(work[0], at, last, weight / totals[r], parts[2])
            if tags.size:
                subtract_gold_steps(lattice, r, positions[r], count, weight, parts)
        elif count:
            none, alphas = np.empty(0), np.empty((count, start.size))
            log_z = log_forward(emissions, transitions, start, end, r, positions[r], alphas)
            row_gradients(
                lattice, r, positions[r], count, weight, (turned, last), none, 0, False, d_emissions, parts, none
            )
        if count and tags.size:
            log_z -= gold_score(emissions, tags, transitions, start, end, r, positions[r], count)
        losses[r] = log_z
