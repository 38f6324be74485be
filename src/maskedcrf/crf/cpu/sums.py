"""Sums over all legal paths: the loss and its gradients.

A `lattice` is emissions (a pair, see `packed`), mask, transitions, start and end. Rows are taken in chunks that fit the
processor's cache; a `share` says how many rows a chunk has, which is the first chunk, and how many there are up to the
next. A row whose masses leave the range in which they are exact is done on logarithms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu.packed import Packed, count_steps, descend, forward_masses, get, pack, steps_of
from maskedcrf.machine_code import compiled, kernel


@compiled
def log_sum(terms: Any) -> float:
    """log of the sum of exp(terms); NaN if one is NaN."""
    top, total = -np.inf, 0.0
    for i in range(terms.size):
        top = terms[i] if terms[i] > top or terms[i] != terms[i] else top
    if not top > -np.inf:
        return top
    for i in range(terms.size):
        total += math.exp(terms[i] - top)
    return top + math.log(total)


@compiled
def log_forward(lattice: Any, packed: Packed, n: int, alphas: Any) -> float:
    """log Z of the n-th row; fills in (T, D) log-masses of the path beginnings at each tag."""
    emissions, _, transitions, start, end = lattice
    rows, counts, begins, places = packed
    terms = np.empty(start.size)
    for t in range(counts[n]):
        for j in range(start.size):
            for i in range(start.size if t else 0):
                terms[i] = alphas[t - 1, i] + transitions[i, j]
            reached = log_sum(terms) if t else start[j]
            alphas[t, j] = reached + get(emissions, rows[n], places[begins[t] + n], j)
    for j in range(start.size):
        terms[j] = alphas[counts[n] - 1, j] + end[j]
    return log_sum(terms)


@compiled
def log_backward(lattice: Any, packed: Packed, n: int, betas: Any) -> None:
    """Fill in (T, D) log-masses of the n-th row's path endings that leave each tag."""
    emissions, _, transitions, _, end = lattice
    rows, counts, begins, places = packed
    terms = np.empty(end.size)
    for t in range(counts[n] - 1, -1, -1):
        for i in range(end.size):
            for j in range(end.size if t < counts[n] - 1 else 0):
                terms[j] = transitions[i, j] + get(emissions, rows[n], places[begins[t + 1] + n], j) + betas[t + 1, j]
            betas[t, i] = log_sum(terms) if t < counts[n] - 1 else end[i]


@compiled
def _log_gradients(
    lattice: Any, packed: Packed, n: int, alphas: Any, betas: Any, log_z: float, weight: float, gradients: Any,
    sums: Any,
) -> None:  # fmt: skip
    """Add the n-th row's shares, times its weight, to `gradients` (B, T, D) and to the `sums`."""
    emissions, _, transitions, _, _ = lattice
    rows, counts, begins, places = packed
    size, row, (single, double) = transitions.shape[0], rows[n], gradients
    for t in range(counts[n]):
        place = places[begins[t] + n]
        for j in range(size):
            share = weight * math.exp(alphas[t, j] + betas[t, j] - log_z)
            if single.size:
                single[row, place, j] += share
            else:
                double[row, place, j] += share
            sums[size, j] += share if t == 0 else 0.0
            sums[size + 1, j] += share if t == counts[n] - 1 else 0.0
            for i in range(size if t else 0):
                step = alphas[t - 1, i] + transitions[i, j] + get(emissions, row, place, j) + betas[t, j]
                sums[i, j] += weight * math.exp(step - log_z)


@compiled
def _follow_gold(lattice: Any, tags: Any, packed: Packed, n: int, weight: float, gradients: Any, sums: Any) -> float:
    """The score along the n-th row's `tags`; -inf where a tag is out of range.

    Unless the weight is 0, it takes the path's own counts off the gradients; what is excluded or no tag has none.
    """
    emissions, _, transitions, start, end = lattice
    rows, counts, begins, places = packed
    total, row, size, (single, double) = 0.0, rows[n], start.size, gradients
    before = size  # which is the line of the starts in `sums`; -1 behind what is no tag
    for t in range(counts[n]):
        place = places[begins[t] + n]
        tag = tags[row, place]
        if not 0 <= tag < size:
            total, before = -np.inf, -1
            continue
        score, step = get(emissions, row, place, tag), start[tag] if before == size else 0.0
        if 0 <= before < size:
            step = transitions[before, tag]
        total += score + step
        if weight != 0.0 and score > -np.inf:
            if single.size:
                single[row, place, tag] -= weight
            else:
                double[row, place, tag] -= weight
        if weight != 0.0 and step > -np.inf and before >= 0:
            sums[before, tag] -= weight
        before = tag
    if counts[n] and before >= 0:
        total += end[before]
        sums[size + 1, before] -= weight if end[before] > -np.inf else 0.0
    return total


@kernel
def sum_paths(
    lattice: Any, tags: Any, work: Any, weights: Any, losses: Any, gradients: Any, all_sums: Any, left: Any, share: Any
) -> None:
    """Losses and gradients of a share of the rows, the latter times the row's weight; an empty array asks for none.

    `work` (2, N, width) has room for the masses of a chunk, or of all rows if one call goes up and another one down.
    Without gold `tags`, (0, 0) then, losses are log Z. Gradients by transitions, start and end, one below the other
    (D + 2, D), are added to the first of `all_sums`, or to each chunk's own if there are as many. Rows `left` to
    `sum_paths_on_logarithms`, such as those without a path, have their gold's part alone.
    """
    _, mask, transitions, start, end = lattice
    chunk, first, stride = share
    steps, log_z, size = steps_of(transitions, start, end), np.empty(chunk), start.size
    for begin in range(first * chunk, len(mask), stride * chunk):
        packed = pack(mask, begin, min(begin + chunk, len(mask)))
        rows, counts, begins, places = packed
        base = 0 if losses.size and weights.size else begin * mask.shape[1]
        sums = all_sums[begin // chunk % len(all_sums)]
        x, alpha = work[0, base : base + places.size], work[1, base : base + places.size]
        if losses.size:
            forward_masses(lattice[0], steps, packed, size, x, alpha, log_z)
        else:
            x = x.copy()  # another backward pass may follow
        if weights.size:
            descend(steps, packed, x, alpha, weights, gradients, sums)
            count_steps(steps, begins, alpha, x, sums)
        for n in range(rows.size):
            massive, weight, gold = not counts[n], weights[rows[n]] if weights.size else 0.0, 0.0
            for j in range(size if counts[n] else 0):
                massive |= alpha[begins[counts[n] - 1] + n, j] > 0.0
            left[rows[n]] = not massive
            if tags.size:
                gold = _follow_gold(lattice, tags, packed, n, weight, gradients, sums)
            if losses.size:
                losses[rows[n]] = (log_z[n] if massive else 0.0) - gold


@kernel
def sum_paths_on_logarithms(
    lattice: Any, weights: Any, losses: Any, gradients: Any, all_sums: Any, left: Any, share: Any
) -> None:
    """Add what `sum_paths` has `left` of a share of the rows: log Z to the losses, and gradients but for gold."""
    mask, size = lattice[1], lattice[3].size
    alphas, betas = np.empty((mask.shape[1], size)), np.empty((mask.shape[1], size))
    for row in range(share[1], len(mask), share[2]):
        if left[row]:
            packed, sums = pack(mask, row, row + 1), all_sums[row % len(all_sums)]
            log_z = log_forward(lattice, packed, 0, alphas)
            if losses.size:
                losses[row] += log_z
            if weights.size and log_z != -np.inf:
                log_backward(lattice, packed, 0, betas)
                _log_gradients(lattice, packed, 0, alphas, betas, log_z, weights[row], gradients, sums)
