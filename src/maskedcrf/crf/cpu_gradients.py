"""Gradients of the loss in numba, from what the forward sums saved; see cpu_sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import LANES, compiled, fill, inlined, load, multiply, multiply_add, store
from maskedcrf.crf.cpu_sums import (
    DESCENT,
    GROUP,
    SCALED,
    find,
    log_forward,
    log_sum,
    masses,
    padded_size,
    row_size,
    sound,
    step_masses,
    strip,
    tile,
)


@inlined
def _settle(saved: Any, x: int, ahead: int, shares: Any, arrivals: Any, at: int, reaches: Any) -> None:
    """From the masses of path endings at eight tags, the tags' shares and what arrives there with their emission."""
    store(shares, at, multiply(load(saved, x + ahead), reaches))
    store(arrivals, at, multiply(load(saved, x), reaches))


@compiled
def _begin(saved: Any, base: int, count: int, length: int, last: Any, shares: Any, arrivals: Any, at: int) -> None:
    """The last position of a row, and zeros behind it."""
    padded = last.size
    position = (count - 1) * padded
    inverse = fill(1.0 / saved[base + 1])
    for c in range(position, position + padded, LANES):
        reaches = multiply(load(last, c - position), inverse)
        _settle(saved, base + LANES + c, length * padded, shares, arrivals, at + c, reaches)
    arrivals[at + count * padded : at + length * padded] = 0.0


@compiled
def _descend(
    saved: Any, x: int, ahead: int, count: int, matrix: Any, padded: int, shares: Any, arrivals: Any, at: int
) -> None:
    """Shares and arrivals of one row, position by position from the last but one."""
    for t in range(count - 2, -1, -1):
        here = at + t * padded
        for c in range(0, padded, LANES):
            reaches = strip(arrivals, here + padded, matrix, c, padded, padded)
            _settle(saved, x + t * padded + c, ahead, shares, arrivals, here + c, reaches)


@compiled
def _descend_four(
    saved: Any, x: Any, ahead: int, counts: Any, matrix: Any, size: int, padded: int, shares: Any, arrivals: Any
) -> None:
    """Shares and arrivals of four rows, all at the same position; a row joins at its last but one."""
    apart = shares.size // GROUP
    m, n, p, q = counts[0] - 1, counts[1] - 1, counts[2] - 1, counts[3] - 1
    for t in range(counts.max() - 2, -1, -1):
        a = t * padded
        b, c, d = a + apart, a + 2 * apart, a + 3 * apart
        for k in range(0, padded, LANES):
            to_a, to_b, to_c, to_d = tile(
                arrivals, a + padded, b + padded, c + padded, d + padded, 1, matrix, k, padded, size
            )
            if t < m:
                _settle(saved, x[0] + a + k, ahead, shares, arrivals, a + k, to_a)
            if t < n:
                _settle(saved, x[1] + a + k, ahead, shares, arrivals, b + k, to_b)
            if t < p:
                _settle(saved, x[2] + a + k, ahead, shares, arrivals, c + k, to_c)
            if t < q:
                _settle(saved, x[3] + a + k, ahead, shares, arrivals, d + k, to_d)


@compiled
def _count_steps(
    saved: Any, alpha: int, arrivals: Any, at: int, count: int, size: int, padded: int, weight: float, steps: Any
) -> None:
    """Add a row's expected steps, each still to be multiplied by its mass."""
    times = fill(weight)
    for i in range(0, size, GROUP):
        for c in range(0, padded, LANES):
            from_a, from_b, from_c, from_d = tile(
                saved, alpha + i, alpha + i + 1, alpha + i + 2, alpha + i + 3, padded,
                arrivals, at + padded + c, padded, count - 1,
            )  # fmt: skip
            k = i * padded + c
            store(steps, k, multiply_add(from_a, times, load(steps, k)))
            store(steps, k + padded, multiply_add(from_b, times, load(steps, k + padded)))
            store(steps, k + 2 * padded, multiply_add(from_c, times, load(steps, k + 2 * padded)))
            store(steps, k + 3 * padded, multiply_add(from_d, times, load(steps, k + 3 * padded)))


@compiled
def _log_shares(
    emissions: Any,
    transitions: Any,
    start: Any,
    end: Any,
    row: int,
    positions: Any,
    count: int,
    weight: float,
    shares: Any,
    at: int,
    padded: int,
    d_transitions: Any,
) -> None:
    """Shares and expected steps of a row on logarithms."""
    size = start.size
    alphas = np.empty((count, size))
    log_z = log_forward(emissions, transitions, start, end, row, positions, alphas)
    shares[at : at + count * padded] = 0.0
    if log_z == -np.inf:
        return
    betas, arriving = np.empty(size), np.empty(size)
    for j in range(size):
        betas[j] = end[j]
    for t in range(count - 1, -1, -1):
        for j in range(size):
            shares[at + t * padded + j] = math.exp(alphas[t, j] + betas[j] - log_z)
            arriving[j] = betas[j] + emissions[row, positions[t], j]
        for i in range(size if t else 0):
            betas[i] = log_sum(arriving, transitions[i])
            for j in range(size):
                share = math.exp(alphas[t - 1, i] + transitions[i, j] + arriving[j] - log_z)
                d_transitions[i, j] += weight * share


@compiled
def _subtract_gold(
    emissions: Any,
    tags: Any,
    transitions: Any,
    start: Any,
    end: Any,
    row: int,
    positions: Any,
    count: int,
    weight: float,
    shares: Any,
    at: int,
    padded: int,
    d_transitions: Any,
    d_start: Any,
    d_end: Any,
) -> None:
    """Take the gold path's own counts off; what is excluded or no tag has none."""
    previous = -1
    for t in range(count):
        tag = tags[row, positions[t]]
        if not 0 <= tag < start.size:
            previous = -1
            continue
        if emissions[row, positions[t], tag] > -np.inf:
            shares[at + t * padded + tag] -= 1.0
        if t == 0 and start[tag] > -np.inf:
            d_start[tag] -= weight
        if previous >= 0 and transitions[previous, tag] > -np.inf:
            d_transitions[previous, tag] -= weight
        previous = tag
    if previous >= 0 and end[previous] > -np.inf:
        d_end[previous] -= weight


@compiled
def _write(
    d_emissions: Any, row: int, positions: Any, count: int, weight: float, shares: Any, at: int, padded: int
) -> None:
    d_emissions[row] = 0.0
    for t in range(count):
        for j in range(d_emissions.shape[2]):
            d_emissions[row, positions[t], j] = weight * shares[at + t * padded + j]


@compiled
def _begin_group(
    saved: Any, x: Any, ahead: int, counts: Any, matrix: Any, last: Any, size: int, shares: Any, arrivals: Any
) -> None:
    """Shares and arrivals of those of up to four rows whose forward masses are sound."""
    padded = last.size
    together = counts.size == GROUP
    for r in range(counts.size):
        if saved[x[r] - LANES] == SCALED:
            _begin(saved, x[r] - LANES, counts[r], ahead // padded, last, shares, arrivals, r * ahead)
        else:
            together = False
    if together:
        _descend_four(saved, x, ahead, counts, matrix, size, padded, shares, arrivals)
        return
    for r in range(counts.size):
        if saved[x[r] - LANES] == SCALED:
            _descend(saved, x[r], ahead, counts[r], matrix, padded, shares, arrivals, r * ahead)


@compiled
def backward_rows(
    upstream: Any,
    saved: Any,
    emissions: Any,
    tags: Any,
    mask: Any,
    transitions: Any,
    start: Any,
    end: Any,
    d_emissions: Any,
    d_transitions: Any,
    d_start: Any,
    d_end: Any,
    rows: Any,
) -> None:
    """Gradients of the given rows; those of the parameters are added up, in double."""
    length, size = emissions.shape[1], emissions.shape[2]
    matrix, last = step_masses(transitions, True), masses(end)
    padded = last.size
    ahead = length * padded
    room = min(GROUP, rows.size) * ahead
    shares, arrivals, steps = np.empty(room), np.empty(room), np.zeros(padded * padded)
    positions = np.empty((GROUP, length + 1), np.int64)
    counts, x = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    for first in range(0, rows.size, GROUP):
        group = rows[first : first + GROUP]
        for r in range(group.size):
            counts[r] = find(mask, group[r], positions[r])
            x[r] = group[r] * row_size(length, size) + LANES
        _begin_group(saved, x, ahead, counts[: group.size], matrix, last, size, shares, arrivals)
        for r in range(group.size):
            row, at, count, weight = group[r], r * ahead, counts[r], np.float64(upstream[group[r]])
            if count:
                scaled = saved[x[r] - LANES] == SCALED
                if scaled and sound(arrivals, at, at + count * padded, DESCENT):
                    _count_steps(saved, x[r] + ahead, arrivals, at, count, size, padded, weight, steps)
                else:
                    _log_shares(
                        emissions, transitions, start, end, row, positions[r], count, weight, shares, at, padded,
                        d_transitions,
                    )  # fmt: skip
                _add_edges(shares, at, at + (count - 1) * padded, weight, d_start, d_end)
                _subtract_gold(
                    emissions, tags, transitions, start, end, row, positions[r], count if tags.size else 0, weight,
                    shares, at, padded, d_transitions, d_start, d_end,
                )  # fmt: skip
            _write(d_emissions, row, positions[r], count, weight, shares, at, padded)
    _add_steps(steps, matrix, d_transitions)


@compiled
def _add_edges(shares: Any, first: int, last: int, weight: float, d_start: Any, d_end: Any) -> None:
    for j in range(d_start.size):
        d_start[j] += weight * shares[first + j]
        d_end[j] += weight * shares[last + j]


@compiled
def _add_steps(steps: Any, matrix: Any, d_transitions: Any) -> None:
    size = d_transitions.shape[0]
    padded = padded_size(size)
    for i in range(size):
        for j in range(size):
            d_transitions[i, j] += steps[i * padded + j] * matrix[j * padded + i]
