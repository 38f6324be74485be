"""Sums over all legal paths in numba: the loss, its gradients, and draws from the distribution.

The recursions multiply plain masses (exp of scores) in double, rescaled at each position. That is exact as long
as nothing leaves the range where products of three numbers neither vanish nor overflow; every row is checked for
it, and a row that fails is done again on logarithms. Four rows advance together, so that each load of the
transition masses serves four.

What is saved of a row, flat: a head of LANES doubles (kind, scaled total), then n x padded emission masses, each
position scaled as the recursion was there, then n x padded forward masses; `padded` is D rounded up to LANES.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import (
    LANES,
    add,
    compiled,
    exponential,
    fill,
    inlined,
    load,
    multiply,
    multiply_add,
    spread,
    store,
    total,
)

NOTHING, SCALED, LOGARITHMS = 0.0, 1.0, 2.0
# With masses, emission masses and transition masses in these ranges, no product of one of each can vanish.
MASS, STEP, TOTAL, DESCENT = 1e-90, 1e-60, 1e-60, 1e-120


@compiled
def padded_size(size: int) -> int:
    """Size rounded up to whole vectors."""
    return (size + LANES - 1) // LANES * LANES


@compiled
def row_size(length: int, size: int) -> int:
    """How many doubles of `saved` a row takes."""
    return LANES + 2 * length * padded_size(size)


@compiled
def find(mask: Any, row: int, positions: Any) -> int:
    """How many positions of a row are on, and which."""
    count = 0
    for t in range(mask.shape[1]):
        positions[count] = t
        count += mask[row, t]
    return count


@compiled
def sound(values: Any, begin: int, end: int, smallest: float) -> bool:
    """Whether every mass is 0 or between `smallest` and its inverse."""
    largest = 1.0 / smallest
    lost = False
    for k in range(begin, end):
        lost |= not ((values[k] == 0.0) | ((values[k] >= smallest) & (values[k] <= largest)))
    return not lost


@compiled
def _exponentiate(values: Any, begin: int, end: int) -> None:
    for k in range(begin, end, LANES):
        store(values, k, exponential(load(values, k)))


@compiled
def masses(scores: Any) -> Any:
    """exp of scores (D,), padded with zeros."""
    result = np.full(padded_size(scores.size), -np.inf)
    for j in range(scores.size):
        result[j] = scores[j]
    _exponentiate(result, 0, result.size)
    return result


@compiled
def step_masses(transitions: Any, transposed: bool) -> Any:
    """exp of transitions (D, D), flat and padded with zeros."""
    size = transitions.shape[0]
    padded = padded_size(size)
    result = np.full(padded * padded, -np.inf)
    for i in range(size):
        for j in range(size):
            result[j * padded + i if transposed else i * padded + j] = transitions[i, j]
    _exponentiate(result, 0, result.size)
    return result


@inlined
def tile(left: Any, a: int, b: int, c: int, d: int, step: int, right: Any, at: int, stride: int, count: int) -> Any:
    """Sums over k of left[each of a, b, c, d + k * step] * right[at + k * stride : + LANES]."""
    zero = fill(0.0)
    first_a, first_b, first_c, first_d = zero, zero, zero, zero
    second_a, second_b, second_c, second_d = zero, zero, zero, zero
    for _ in range(count // 2):
        even, odd = load(right, at), load(right, at + stride)
        first_a = multiply_add(spread(left, a), even, first_a)
        first_b = multiply_add(spread(left, b), even, first_b)
        first_c = multiply_add(spread(left, c), even, first_c)
        first_d = multiply_add(spread(left, d), even, first_d)
        second_a = multiply_add(spread(left, a + step), odd, second_a)
        second_b = multiply_add(spread(left, b + step), odd, second_b)
        second_c = multiply_add(spread(left, c + step), odd, second_c)
        second_d = multiply_add(spread(left, d + step), odd, second_d)
        a, b, c, d, at = a + 2 * step, b + 2 * step, c + 2 * step, d + 2 * step, at + 2 * stride
    if count % 2:
        even = load(right, at)
        first_a = multiply_add(spread(left, a), even, first_a)
        first_b = multiply_add(spread(left, b), even, first_b)
        first_c = multiply_add(spread(left, c), even, first_c)
        first_d = multiply_add(spread(left, d), even, first_d)
    return add(first_a, second_a), add(first_b, second_b), add(first_c, second_c), add(first_d, second_d)


@inlined
def strip(left: Any, a: int, right: Any, at: int, stride: int, count: int) -> Any:
    """`tile` for one row: sum over k of left[a + k] * right[at + k * stride : + LANES]; count is even."""
    first, second = fill(0.0), fill(0.0)
    for k in range(a, a + count, 2):
        first = multiply_add(spread(left, k), load(right, at), first)
        second = multiply_add(spread(left, k + 1), load(right, at + stride), second)
        at += 2 * stride
    return add(first, second)


@compiled
def _read(emissions: Any, row: int, positions: Any, count: int, saved: Any, at: int) -> float:
    """Fill in the emission masses of a row, relative to its first tag; the log of what was divided out."""
    size = emissions.shape[2]
    padded = padded_size(size)
    shifts = 0.0
    for t in range(count):
        position = positions[t]
        shift = np.float64(emissions[row, position, 0])
        shift = shift if abs(shift) < np.inf else np.float64(0.0)
        shifts += shift
        for j in range(size):
            saved[at + t * padded + j] = emissions[row, position, j] - shift
        for j in range(size, padded):
            saved[at + t * padded + j] = -np.inf
    _exponentiate(saved, at, at + count * padded)
    return shifts


@compiled
def _climb(saved: Any, x: int, alpha: int, longest: int, matrix: Any, first: Any, norms: Any) -> None:
    """Forward masses of one row."""
    padded = first.size
    summed = fill(0.0)
    for c in range(0, padded, LANES):
        mass = multiply(load(first, c), load(saved, x + c))
        store(saved, alpha + c, mass)
        summed = add(summed, mass)
    for t in range(1, longest):
        norms[t - 1] = total(summed)
        inverse = fill(1.0 / norms[t - 1] if norms[t - 1] > 0.0 else 0.0)
        x, alpha, summed = x + padded, alpha + padded, fill(0.0)
        for c in range(0, padded, LANES):
            reached = strip(saved, alpha - padded, matrix, c, padded, padded)
            emitted = multiply(load(saved, x + c), inverse)
            mass = multiply(reached, emitted)
            store(saved, x + c, emitted)
            store(saved, alpha + c, mass)
            summed = add(summed, mass)


@compiled
def _log_total(saved: Any, alpha: int, last: Any, norms: Any, count: int, base: int) -> float:
    """log of the summed masses of whole paths, less the shifts; keeps the scaled total for the way back."""
    padded = last.size
    summed = 0.0
    for j in range(padded):
        summed += saved[alpha + (count - 1) * padded + j] * last[j]
    saved[base + 1] = summed
    product, logarithm = summed, 0.0
    for t in range(count - 1):
        product *= norms[t]
        if not 1e-100 < product < 1e100:
            logarithm += math.log(product)
            product = 1.0
    return logarithm + math.log(product)


@compiled
def gold_score(
    emissions: Any, tags: Any, transitions: Any, start: Any, end: Any, row: int, positions: Any, count: int
) -> float:
    """The score along `tags`; -inf where a tag is out of range."""
    score, previous = 0.0, 0
    for t in range(count):
        tag = tags[row, positions[t]]
        if not 0 <= tag < start.size:
            return -np.inf
        score += emissions[row, positions[t], tag]
        score += transitions[previous, tag] if t else start[tag]
        previous = tag
    return score + end[previous]


@compiled
def log_sum(left: Any, right: Any) -> float:
    """log of the sum of exp(left[i] + right[i])."""
    top = -np.inf
    for i in range(left.size):
        score = left[i] + right[i]
        if math.isnan(score):
            return score
        top = max(top, score)
    if top == -np.inf:
        return top
    summed = 0.0
    for i in range(left.size):
        summed += math.exp(left[i] + right[i] - top)
    return top + math.log(summed)


@compiled
def log_forward(emissions: Any, transitions: Any, start: Any, end: Any, row: int, positions: Any, alphas: Any) -> float:
    """log Z of a row on logarithms; fills in `alphas` (n, D)."""
    count, size = alphas.shape
    for t in range(count):
        for j in range(size):
            mass = log_sum(alphas[t - 1], transitions[:, j]) if t else np.float64(start[j])
            alphas[t, j] = mass + emissions[row, positions[t], j]
    return log_sum(alphas[count - 1], end)


@compiled
def masses_of_parameters(transitions: Any, start: Any, end: Any) -> Any:
    """Masses of steps (flat), starts and ends, padded with zeros, and whether all are in range."""
    matrix, first, last = step_masses(transitions, False), masses(start), masses(end)
    padded = first.size
    usable = sound(matrix, 0, matrix.size, STEP) and sound(first, 0, padded, STEP) and sound(last, 0, padded, STEP)
    return matrix, first, last, usable


@compiled
def row_losses(
    lattice: Any, row: int, positions: Any, count: int, masses_of: Any, saved: Any, base: int, norms: Any
) -> float:
    """log Z of a row that is not empty: from its masses if they are sound, else on logarithms; fills in `saved`."""
    emissions, _, _, transitions, start, end = lattice
    matrix, first, last, usable = masses_of
    padded = first.size
    x, alpha = base + LANES, base + LANES + count * padded
    shifts = _read(emissions, row, positions, count, saved, x)
    _climb(saved, x, alpha, count, matrix, first, norms)
    log_z = _log_total(saved, alpha, last, norms, count, base) + shifts
    whole = usable and sound(saved, base + 1, base + 2, TOTAL)
    if whole and sound(saved, x, x + count * padded, MASS) and sound(saved, alpha, alpha + count * padded, MASS):
        saved[base] = SCALED if saved[base + 1] > 0.0 else NOTHING
        return log_z
    saved[base] = LOGARITHMS
    return log_forward(emissions, transitions, start, end, row, positions, np.empty((count, start.size)))


@inlined
def forward_masses(
    lattice: Any, row: int, positions: Any, count: int, masses_of: Any, saved: Any, norms: Any, alphas: Any
) -> bool:
    """Fill in the forward masses (n, D) of a row that is not empty, or where they are not sound their logarithms."""
    emissions, _, _, transitions, start, end = lattice
    row_losses(lattice, row, positions, count, masses_of, saved, 0, norms)
    scaled = saved[0] == SCALED
    if not scaled:
        log_forward(emissions, transitions, start, end, row, positions, alphas[:count])
    padded = padded_size(start.size)
    for t in range(count if scaled else 0):
        for j in range(start.size):
            alphas[t, j] = saved[LANES + (count + t) * padded + j]
    return scaled


@compiled
def square_of(matrix: Any, size: int) -> Any:
    """Step masses (D, D) without what pads them."""
    padded = padded_size(size)
    return matrix.reshape(padded, padded)[:size, :size].copy()


@compiled
def from_logarithms(scores: Any) -> None:
    """exp of scores relative to the highest."""
    top = scores.max()
    for i in range(scores.size):
        scores[i] = math.exp(scores[i] - top) if top > -np.inf else 0.0
