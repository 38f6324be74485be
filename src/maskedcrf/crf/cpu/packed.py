"""Packed positions, and the forward and backward masses on them.

As in torch's PackedSequence: rows longest first, all first positions, then all second ones, and so on. There is no
padding, a mask of any pattern is only a gather, and the rows still running at step t are the first of them. A position
is a line of D masses, filled up with zeros to whole vectors, and a step of all rows is a product of matrices.

A mass is exp(score - that of the position's first tag); forward masses are divided by the position before's total.

These files use few features of numpy, each of which the first caller waits for, and inner loops that begin at 0: where
an index might be negative, the compiler makes no vectors. Scores (B, T, D) come as a pair of arrays, in single and in
double precision, one of them empty: so each kernel is compiled once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maskedcrf.machine_code import as_written, compiled

VECTOR = 4
LEAST_MASS, LEAST_STEP = 1e-70, 1e-45
"""No product of three masses and a step of at least these sizes, and at most their inverses, can vanish."""
_LOWEST, _HIGHEST, _ROUND = -690.0, 690.0, 1.5 * 2.0**52
_LOG2E, _LN2_HIGH, _LN2_LOW = 1 / math.log(2.0), 0.693147180369123816490, 1.90821492927058770002e-10
_SERIES = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))


class Steps(NamedTuple):
    """The parameters as masses: steps (width, width) [from, to] and [to, from], starts and ends (width,).

    `width` is D rounded up to whole vectors; masses are 0 where there is no tag.
    """

    forward: Any
    backward: Any
    first: Any
    last: Any
    in_range: bool


class Packed(NamedTuple):
    """Rows (n,), longest first, their counts of positions (n,), and where those lie: see above.

    Position t of the n-th row is at begins[t] + n; places (N,) say which position of the caller's each one was.
    """

    rows: Any
    counts: Any
    begins: Any
    places: Any


@compiled
def get(scores: Any, row: int, place: int, j: int) -> float:
    """A score out of a pair of arrays."""
    single, double = scores
    return np.float64(single[row, place, j]) if single.size else double[row, place, j]


@as_written
def exponentiate(scores: Any, masses: Any) -> None:
    """exp of scores below 700, 0 for -inf; plain arithmetic, of which the compiler makes vectors."""
    given, found = scores.reshape(-1), masses.reshape(-1)
    bits = found.view(np.int64)
    for i in range(given.size):
        score = _LOWEST if given[i] < _LOWEST else given[i]
        shifted = score * _LOG2E + _ROUND
        power = shifted - _ROUND
        rest = (score - power * _LN2_HIGH) - power * _LN2_LOW
        mass = _SERIES[0]
        for coefficient in _SERIES[1:]:
            mass = mass * rest + coefficient
        found[i] = shifted
        exponent = bits[i] << 52
        found[i] = mass
        bits[i] += exponent
        found[i] = found[i] * (given[i] > -np.inf)


@compiled
def _in_range(masses: Any, least: float) -> bool:
    """Whether every mass of these lines is 0 or between `least` and its inverse."""
    values, bad, largest = masses.reshape(-1), 0, 1.0 / least
    for i in range(values.size):
        bad |= 0 if (values[i] == 0.0) | ((values[i] >= least) & (values[i] <= largest)) else 1
    return bad == 0


@compiled
def steps_of(transitions: Any, start: Any, end: Any) -> Steps:
    """The parameters as masses."""
    size, width = start.size, (start.size + VECTOR - 1) // VECTOR * VECTOR
    scores, masses, backward = np.empty((width + 2, width)), np.empty((width + 2, width)), np.empty((width, width))
    for j in range(width):
        for i in range(width + 2):
            scores[i, j] = -np.inf
        if j < size:
            scores[width, j], scores[width + 1, j] = min(start[j], _HIGHEST), min(end[j], _HIGHEST)
            for i in range(size):
                scores[i, j] = min(transitions[i, j], _HIGHEST)
    exponentiate(scores, masses)
    for j in range(width):
        for i in range(width):
            backward[j, i] = masses[i, j]
    usable = _in_range(masses, LEAST_STEP)
    return Steps(masses[:width], backward, masses[width], masses[width + 1], usable)


@compiled
def pack(mask: Any, first: int, beyond: int) -> Packed:
    """Where the positions of some rows go."""
    rows, counts = np.empty(beyond - first, np.int64), np.empty(beyond - first, np.int64)
    for row in range(first, beyond):
        count, n = 0, row - first
        for t in range(mask.shape[1]):
            count += mask[row, t]
        while n and counts[n - 1] < count:
            rows[n], counts[n] = rows[n - 1], counts[n - 1]
            n -= 1
        rows[n], counts[n] = row, count
    begins = np.empty(counts[0] + 1, np.int64)
    begins[0], running = 0, rows.size
    for t in range(counts[0]):
        while counts[running - 1] <= t:
            running -= 1
        begins[t + 1] = begins[t] + running
    places = np.empty(begins[counts[0]], np.int64)
    for n in range(rows.size):
        count = 0
        for t in range(mask.shape[1]):
            if mask[rows[n], t]:
                places[begins[count] + n] = t
                count += 1
    return Packed(rows, counts, begins, places)


@compiled
def _read(emissions: Any, packed: Packed, size: int, scores: Any, shifts: Any) -> None:
    """Fill in scores (N, width), each less that of its position's first tag, and each row's sum of the latter."""
    rows, counts, begins, places = packed
    for n in range(rows.size):
        shifts[n] = 0.0
        for t in range(counts[n]):
            at, row, place = begins[t] + n, rows[n], places[begins[t] + n]
            shift = get(emissions, row, place, 0)
            shift = shift if abs(shift) < np.inf else 0.0
            shifts[n] += shift
            for j in range(scores.shape[1]):
                scores[at, j] = min(get(emissions, row, place, j) - shift, _HIGHEST) if j < size else -np.inf


@compiled
def carry(masses: Any, begin: int, count: int, matrix: Any, reached: Any) -> None:
    """Fill in `reached` = masses @ matrix of `count` positions; it must hold numbers, to set it to 0 first would stall.

    Four rows of the matrix at a time, which so stay at hand for all positions.
    """
    for i in range(0, matrix.shape[0], 4):
        kept = 1.0 if i else 0.0
        for n in range(count):
            at = begin + n
            a, b, c, d = masses[at, i], masses[at, i + 1], masses[at, i + 2], masses[at, i + 3]
            for j in range(matrix.shape[1]):
                more = a * matrix[i, j] + b * matrix[i + 1, j] + c * matrix[i + 2, j] + d * matrix[i + 3, j]
                reached[n, j] = kept * reached[n, j] + more


@compiled
def _climb(steps: Steps, begins: Any, x: Any, alpha: Any, totals: Any) -> None:
    """Forward masses from emission masses `x`; both are divided by the `totals` of the position before.

    A tag that no path reaches gets no emission mass any more: nothing can grow there on the way back.
    """
    width = x.shape[1]
    reached = np.zeros((begins[1] if begins.size > 1 else 0, width))
    for n in range(reached.shape[0]):
        for j in range(width):
            reached[n, j] = steps.first[j]
    for t in range(begins.size - 1):
        running = begins[t + 1] - begins[t]
        if t:
            carry(alpha, begins[t - 1], running, steps.forward, reached)
        for n in range(running):
            at, total, scale = begins[t] + n, 0.0, 1.0
            if t and totals[begins[t - 1] + n] > 0.0:
                scale = 1.0 / totals[begins[t - 1] + n]
            for j in range(width):
                mass = x[at, j] * scale
                alpha[at, j] = reached[n, j] * mass
                x[at, j] = mass if reached[n, j] > 0.0 else 0.0
                total += reached[n, j] * mass
            totals[at] = total


@compiled
def _drop_rows_out_of_range(usable: bool, packed: Packed, masses: Any, x: Any, alpha: Any) -> None:
    """Set `x` and `alpha` to 0 in every row of which some of the `masses` left the range in which they are exact."""
    rows, counts, begins, _ = packed
    if usable and _in_range(masses, LEAST_MASS):
        return
    for n in range(rows.size):
        good = usable
        for t in range(counts[n]):
            good = good and _in_range(masses[begins[t] + n : begins[t] + n + 1], LEAST_MASS)
        for t in range(0 if good else counts[n]):
            for j in range(x.shape[1]):
                x[begins[t] + n, j], alpha[begins[t] + n, j] = 0.0, 0.0


@compiled
def forward_masses(emissions: Any, steps: Steps, packed: Packed, size: int, x: Any, alpha: Any, log_z: Any) -> None:
    """Fill in `x` and `alpha` as `_climb` does, and log Z of each row.

    The rows to be done on logarithms have masses of 0 only, and a log Z of -inf, like those without a path.
    """
    rows, counts, begins, places = packed
    totals, scores = np.empty(places.size), alpha  # which has the room until it is needed
    _read(emissions, packed, size, scores, log_z)
    exponentiate(scores, x)
    _drop_rows_out_of_range(steps.in_range, packed, x, x, alpha)
    _climb(steps, begins, x, alpha, totals)
    _drop_rows_out_of_range(steps.in_range, packed, alpha, x, alpha)
    for n in range(rows.size):
        product, last = 1.0, 0.0
        for j in range(x.shape[1] if counts[n] else 0):
            last += alpha[begins[counts[n] - 1] + n, j] * steps.last[j]
        for t in range(counts[n] if last > 0.0 else 0):
            factor = totals[begins[t] + n] if t < counts[n] - 1 else last
            if 1e-200 < product * factor < 1e200:
                product *= factor
            else:
                log_z[n] += math.log(factor)
        log_z[n] = log_z[n] + math.log(product) if last > 0.0 or not counts[n] else -np.inf


@compiled
def descend(steps: Steps, packed: Packed, x: Any, alpha: Any, weights: Any, gradients: Any, sums: Any) -> None:
    """Shares of the tags, each row's times its weight, in `gradients` (B, T, D), and those at the edges in `sums`.

    In `x` are then the masses of the path endings that arrive at each tag, so scaled that times those that leave the
    tags before, and the step between, they are shares.
    """
    rows, _, begins, places = packed
    size, width, last, (single, double) = sums.shape[1], x.shape[1], steps.last, gradients
    reached = np.zeros((rows.size, width))
    for t in range(begins.size - 2, -1, -1):
        going_on = begins[t + 2] - begins[t + 1] if t < begins.size - 2 else 0
        carry(x, begins[t + 1], going_on, steps.backward, reached)
        for n in range(begins[t + 1] - begins[t]):
            at, row, place = begins[t] + n, rows[n], places[begins[t] + n]
            if n >= going_on:
                total = 0.0
                for j in range(width):
                    total += alpha[at, j] * last[j]
                factor = weights[row] / total if total > 0.0 else 0.0
                for j in range(width):
                    reached[n, j] = last[j] * factor
            for j in range(width):
                x[at, j] *= reached[n, j]
            for j in range(size):
                if single.size:
                    single[row, place, j] = alpha[at, j] * reached[n, j]
                else:
                    double[row, place, j] = alpha[at, j] * reached[n, j]
            for j in range(size if t == 0 else 0):
                sums[size, j] += alpha[at, j] * reached[n, j]
            for j in range(size if n >= going_on else 0):
                sums[size + 1, j] += alpha[at, j] * reached[n, j]


@compiled
def count_steps(steps: Steps, begins: Any, alpha: Any, x: Any, sums: Any) -> None:
    """Add the shares of all steps, alpha[before, i] * step * x[at, j], to `sums`; four positions at a time."""
    size, width, positions = sums.shape[1], x.shape[1], begins[begins.size - 1]
    counted, before, first = np.zeros((size, width)), np.empty(positions, np.int64), begins[1] if positions else 0
    for t in range(1, begins.size - 1):
        for at in range(begins[t], begins[t + 1]):
            before[at] = at - begins[t] + begins[t - 1]
    whole = first + (positions - first) // 4 * 4
    for at in range(first, whole, 4):
        p, q, r, s = before[at], before[at + 1], before[at + 2], before[at + 3]
        for i in range(size):
            a, b, c, d = alpha[p, i], alpha[q, i], alpha[r, i], alpha[s, i]
            for j in range(width):
                counted[i, j] += a * x[at, j] + b * x[at + 1, j] + c * x[at + 2, j] + d * x[at + 3, j]
    for at in range(whole, positions):
        for i in range(size):
            for j in range(width):
                counted[i, j] += alpha[before[at], i] * x[at, j]
    for i in range(size):
        for j in range(size):
            sums[i, j] += counted[i, j] * steps.forward[i, j]
