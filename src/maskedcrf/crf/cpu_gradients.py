"""Gradients of the loss in numba, from what the forward sums saved; see cpu_sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import LANES, compiled, fill, inlined, load, multiply, multiply_add, store
from maskedcrf.crf.cpu_sums import (
    DESCENT,
    log_forward,
    log_sum,
    padded_size,
    sound,
    strip,
    tile,
)


@inlined
def _settle(saved: Any, x: int, ahead: int, shares: Any, arrivals: Any, at: int, reaches: Any) -> None:
    """From the masses of path endings at eight tags, the tags' shares and what arrives there with their emission."""
    store(shares, at, multiply(load(saved, x + ahead), reaches))
    store(arrivals, at, multiply(load(saved, x), reaches))


@compiled
def _begin(saved: Any, base: int, count: int, last: Any, shares: Any, arrivals: Any) -> None:
    """The last position of a row."""
    padded = last.size
    position = (count - 1) * padded
    inverse = fill(1.0 / saved[base + 1])
    for c in range(position, position + padded, LANES):
        reaches = multiply(load(last, c - position), inverse)
        _settle(saved, base + LANES + c, count * padded, shares, arrivals, c, reaches)


@compiled
def _descend(saved: Any, x: int, count: int, matrix: Any, padded: int, shares: Any, arrivals: Any) -> None:
    """Shares and arrivals of one row, position by position from the last but one."""
    ahead = count * padded
    for t in range(count - 2, -1, -1):
        here = t * padded
        for c in range(0, padded, LANES):
            reaches = strip(arrivals, here + padded, matrix, c, padded, padded)
            _settle(saved, x + here + c, ahead, shares, arrivals, here + c, reaches)


@compiled
def _count_steps(
    saved: Any, alpha: int, arrivals: Any, count: int, size: int, padded: int, weight: float, steps: Any
) -> None:
    """Add a row's expected steps, each still to be multiplied by its mass."""
    times = fill(weight)
    for i in range(0, size, 4):
        for c in range(0, padded, LANES):
            from_a, from_b, from_c, from_d = tile(
                saved, alpha + i, alpha + i + 1, alpha + i + 2, alpha + i + 3, padded,
                arrivals, padded + c, padded, count - 1,
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
    padded: int,
    d_transitions: Any,
) -> None:
    """Shares and expected steps of a row on logarithms."""
    size = start.size
    alphas = np.empty((count, size))
    log_z = log_forward(emissions, transitions, start, end, row, positions, alphas)
    shares[:] = 0.0
    if log_z == -np.inf:
        return
    betas, arriving = np.empty(size), np.empty(size)
    for j in range(size):
        betas[j] = end[j]
    for t in range(count - 1, -1, -1):
        for j in range(size):
            shares[t * padded + j] = math.exp(alphas[t, j] + betas[j] - log_z)
            arriving[j] = betas[j] + emissions[row, positions[t], j]
        for i in range(size if t else 0):
            betas[i] = log_sum(arriving, transitions[i])
            for j in range(size):
                share = math.exp(alphas[t - 1, i] + transitions[i, j] + arriving[j] - log_z)
                d_transitions[i, j] += weight * share


@compiled
def _subtract_gold(emissions: Any, tags: Any, row: int, positions: Any, count: int, shares: Any, padded: int) -> None:
    """Take the gold tags' own shares off; what is excluded or no tag has none."""
    for t in range(count):
        tag = tags[row, positions[t]]
        if 0 <= tag < emissions.shape[2] and emissions[row, positions[t], tag] > -np.inf:
            shares[t * padded + tag] -= 1.0


@compiled
def subtract_gold_steps(lattice: Any, row: int, positions: Any, count: int, weight: float, sums: Any) -> None:
    """Take the gold path's own start, steps and end off the sums over rows; what is excluded or no tag has none."""
    _, tags, _, transitions, start, end = lattice
    d_transitions, d_start, d_end = sums
    previous = -1
    for t in range(count):
        tag = tags[row, positions[t]]
        if not 0 <= tag < start.size:
            previous = -1
            continue
        if t == 0 and start[tag] > -np.inf:
            d_start[tag] -= weight
        if previous >= 0 and transitions[previous, tag] > -np.inf:
            d_transitions[previous, tag] -= weight
        previous = tag
    if previous >= 0 and end[previous] > -np.inf:
        d_end[previous] -= weight


@compiled
def row_gradients(
    lattice: Any, row: int, positions: Any, count: int, weight: float, masses_of: Any, saved: Any, base: int,
    scaled: bool, d_emissions: Any, sums: Any, steps: Any,
) -> None:  # fmt: skip
    """Gradients of a row that is not empty, from what `row_losses` saved if that is `scaled`, else on logarithms.

    What it adds to `steps` (padded, padded) is still to be multiplied by the masses of the steps.
    """
    emissions, tags, _, transitions, start, end = lattice
    d_transitions, d_start, d_end = sums
    turned, last = masses_of
    padded = last.size
    shares, arrivals = np.empty(count * padded), np.empty(count * padded)
    if scaled:
        _begin(saved, base, count, last, shares, arrivals)
        _descend(saved, base + LANES, count, turned, padded, shares, arrivals)
    if scaled and sound(arrivals, 0, arrivals.size, DESCENT):
        alpha = base + LANES + count * padded
        _count_steps(saved, alpha, arrivals, count, start.size, padded, weight, steps)
    else:
        _log_shares(emissions, transitions, start, end, row, positions, count, weight, shares, padded, d_transitions)
    _add_edges(shares, (count - 1) * padded, weight, d_start, d_end)
    if tags.size:
        _subtract_gold(emissions, tags, row, positions, count, shares, padded)
        subtract_gold_steps(lattice, row, positions, count, weight, sums)
    for t in range(count):
        for j in range(start.size):
            d_emissions[row, positions[t], j] = weight * shares[t * padded + j]


@compiled
def _add_edges(shares: Any, last: int, weight: float, d_start: Any, d_end: Any) -> None:
    for j in range(d_start.size):
        d_start[j] += weight * shares[j]
        d_end[j] += weight * shares[last + j]


@compiled
def add_steps(steps: Any, turned: Any, d_transitions: Any) -> None:
    """Multiply what rows counted by the masses of the steps, and add it."""
    size = d_transitions.shape[0]
    padded = padded_size(size)
    for i in range(size):
        for j in range(size):
            d_transitions[i, j] += steps[i * padded + j] * turned[j * padded + i]
