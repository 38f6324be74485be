"""Eight rows at once in numba, a row in each lane: no tag count is padded, and only legal steps are multiplied.

Arrays of a group are flat, (T, D, LANES). The steps are a dense block and lists, as `split_steps` gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import (
    LANES,
    add,
    compiled,
    exponent,
    exponential,
    fill,
    highest,
    inlined,
    integer,
    inverse_power,
    least,
    load,
    multiply,
    multiply_add,
    pointer,
    prefetch,
    spread,
    store,
)
from maskedcrf.crf.cpu_steps import place
from maskedcrf.crf.cpu_turns import lines_for, read_position, write_position

# Doubles of a block of positions whose steps are counted while they are at hand.
_AT_HAND = 32_768
# Sources whose steps to all targets are counted before those of the next: their masses stay in the nearest cache.
_CHUNK = 16
# Sources ahead of the one at work whose steps are asked for.
_AHEAD = 24


@inlined
def _tile(block: int, a: int, b: int, c: int, d: int, masses: int, sources: int, n: int) -> Any:
    """Four targets' sums over n sources of block[each of a, b, c, d + s] * masses[source]; all pointers."""
    zero = fill(0.0)
    first_a, first_b, first_c, first_d = zero, zero, zero, zero
    second_a, second_b, second_c, second_d = zero, zero, zero, zero
    for s in range(0, n - 1, 2):
        even, odd = load(masses, integer(sources, s)), load(masses, integer(sources, s + 1))
        first_a = multiply_add(spread(block, a + s), even, first_a)
        first_b = multiply_add(spread(block, b + s), even, first_b)
        first_c = multiply_add(spread(block, c + s), even, first_c)
        first_d = multiply_add(spread(block, d + s), even, first_d)
        second_a = multiply_add(spread(block, a + s + 1), odd, second_a)
        second_b = multiply_add(spread(block, b + s + 1), odd, second_b)
        second_c = multiply_add(spread(block, c + s + 1), odd, second_c)
        second_d = multiply_add(spread(block, d + s + 1), odd, second_d)
    if n % 2:
        s = n - 1
        even = load(masses, integer(sources, s))
        first_a = multiply_add(spread(block, a + s), even, first_a)
        first_b = multiply_add(spread(block, b + s), even, first_b)
        first_c = multiply_add(spread(block, c + s), even, first_c)
        first_d = multiply_add(spread(block, d + s), even, first_d)
    return add(first_a, second_a), add(first_b, second_b), add(first_c, second_c), add(first_d, second_d)


@inlined
def _wide_tile(block: int, masses: int, sources: int, n: int, reached: int, targets: int) -> None:
    """Eight targets' sums over n sources, of whose steps a line of the cache holds eight: the block may be far away."""
    zero = fill(0.0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    for s in range(n):
        prefetch(block, 8 * (s + _AHEAD))
        mass = load(masses, integer(sources, s))
        a = multiply_add(spread(block, 8 * s), mass, a)
        b = multiply_add(spread(block, 8 * s + 1), mass, b)
        c = multiply_add(spread(block, 8 * s + 2), mass, c)
        d = multiply_add(spread(block, 8 * s + 3), mass, d)
        e = multiply_add(spread(block, 8 * s + 4), mass, e)
        f = multiply_add(spread(block, 8 * s + 5), mass, f)
        g = multiply_add(spread(block, 8 * s + 6), mass, g)
        h = multiply_add(spread(block, 8 * s + 7), mass, h)
    store(reached, integer(targets, 0), a)
    store(reached, integer(targets, 1), b)
    store(reached, integer(targets, 2), c)
    store(reached, integer(targets, 3), d)
    store(reached, integer(targets, 4), e)
    store(reached, integer(targets, 5), f)
    store(reached, integer(targets, 6), g)
    store(reached, integer(targets, 7), h)


@compiled
def _carry(masses: int, size: int, plan: int, used: int, reached: int) -> None:
    """Masses (D, LANES), one step further, in `reached` (D, LANES): all pointers; see `split_steps`."""
    m, n = integer(plan, 0), integer(plan, 1)
    targets, sources = plan + 16, plan + 16 + 8 * m
    inside, begins, members = sources + 8 * n, sources + 8 * (n + size), sources + 8 * (n + 2 * size + 1)
    rests, whole = used + 8 * m * n, m // 8 * 8
    for q in range(0, whole, 8):
        _wide_tile(used + 8 * q * n, masses, sources, n, reached, targets + 8 * q)
    for q in range(whole, m, 4):
        # The last tile may do a target twice.
        b, c, d = min(q + 1, m - 1), min(q + 2, m - 1), min(q + 3, m - 1)
        to_a, to_b, to_c, to_d = _tile(used, q * n, b * n, c * n, d * n, masses, sources, n)
        store(reached, integer(targets, q), to_a)
        store(reached, integer(targets, b), to_b)
        store(reached, integer(targets, c), to_c)
        store(reached, integer(targets, d), to_d)
    for target in range(size):
        summed = load(reached, target * LANES) if integer(inside, target) else fill(0.0)
        for k in range(integer(begins, target), integer(begins, target + 1)):
            summed = multiply_add(spread(rests, k), load(masses, integer(members, k)), summed)
        store(reached, target * LANES, summed)


@compiled
def _enter(begin: Any, first: Any, enters: Any, reached: Any) -> None:
    """Add the masses of a first position to what has been reached, in the lanes that begin."""
    for r in range(LANES):
        enters[r] = 1.0 if begin[r] else 0.0
    entering = load(enters, 0)
    for j in range(first.size):
        store(reached, j * LANES, multiply_add(fill(first[j]), entering, load(reached, j * LANES)))


@compiled
def climb(
    emissions: Any, group: Any, counts: Any, positions: Any, plan: Any, used: Any, first: Any, reached: Any, work: Any,
    x: int, alpha: int, shifts: Any, powers: Any, extremes: Any, backwards: bool,
) -> None:  # fmt: skip
    """Emission masses at `x` and forward masses at `alpha` of `work`, both scaled at each position by a power of two.

    Fills in what was divided out: per row the sum of `shifts`, per position and row the sum of `powers` of two so
    far; and the least (but 0) and the greatest mass of each row, (2, LANES). `backwards` it begins at the rows' ends,
    with the steps turned and the ends as `first`; then `x` has the masses that reach a position, without its own.
    """
    size, longest = emissions.shape[2], counts.max()
    stride = size * LANES
    scores, rows, lines = emissions.reshape(-1), group * (emissions.shape[1] * size), lines_for(size)
    begins = longest - counts if backwards else np.zeros_like(counts)
    enters, idle = np.empty(LANES), np.zeros(LANES)
    latest = begins.max()
    shifts[:], reached[:] = 0.0, 0.0
    one = fill(1.0)
    scale, divided, summed, low, high = one, fill(0.0), one, one, one
    step = -stride if backwards else stride
    for number in range(longest):
        t = longest - 1 - number if backwards else number
        here, there = x + t * stride, alpha + t * stride
        read_position(scores, rows, counts, positions, t, size, lines, work, here, shifts)
        if number:
            _carry(pointer(work) + 8 * (there - step), size, pointer(plan), pointer(used), pointer(reached))
            scale, divided = inverse_power(summed), add(divided, exponent(summed))
        if number <= latest:
            _enter(begins == number, first[:size], enters, reached)
            for r in range(LANES):
                idle[r] = begins[r] > number
        store(powers, t * LANES, divided)
        summed = load(idle, 0)
        for j in range(0, stride, LANES):
            emitted = multiply(exponential(load(work, here + j)), scale)
            to = load(reached, j)
            mass = multiply(to, emitted)
            store(work, here + j, to if backwards else emitted)
            store(work, there + j, mass)
            summed = add(summed, mass)
            low, high = least(least(low, emitted), mass), highest(highest(emitted, high), mass)
    store(extremes, 0, low)
    store(extremes, LANES, high)


@compiled
def _count_tile(
    masses: Any, alpha: int, a: int, b: int, c: int, d: int, arrivals: Any, at: int, y: int, z: int,
    number: int, stride: int, sums: Any, k: int, m: int,
) -> None:  # fmt: skip
    """Add up `number` positions' steps from four sources, at `alpha` + a to d, to two targets, at `at` + y and z."""
    ay, by, cy, dy = load(sums, k), load(sums, k + LANES), load(sums, k + 2 * LANES), load(sums, k + 3 * LANES)
    az, bz, cz, dz = load(sums, m), load(sums, m + LANES), load(sums, m + 2 * LANES), load(sums, m + 3 * LANES)
    for _ in range(number):
        to_y, to_z = load(arrivals, at + y), load(arrivals, at + z)
        source = load(masses, alpha + a)
        ay, az = multiply_add(source, to_y, ay), multiply_add(source, to_z, az)
        source = load(masses, alpha + b)
        by, bz = multiply_add(source, to_y, by), multiply_add(source, to_z, bz)
        source = load(masses, alpha + c)
        cy, cz = multiply_add(source, to_y, cy), multiply_add(source, to_z, cz)
        source = load(masses, alpha + d)
        dy, dz = multiply_add(source, to_y, dy), multiply_add(source, to_z, dz)
        alpha, at = alpha + stride, at + stride
    store(sums, k, ay)
    store(sums, k + LANES, by)
    store(sums, k + 2 * LANES, cy)
    store(sums, k + 3 * LANES, dy)
    store(sums, m, az)
    store(sums, m + LANES, bz)
    store(sums, m + 2 * LANES, cz)
    store(sums, m + 3 * LANES, dz)


@compiled
def _in_fours(number: int) -> int:
    return (number + 3) // 4 * 4


@compiled
def count_steps(masses: Any, alpha: int, arrivals: Any, at: int, number: int, size: int, plan: Any, sums: Any) -> None:
    """Add up `number` positions' steps: the block's, a target's sources in fours, then those on the lists."""
    m, n = plan[0], plan[1]
    targets, sources = plan[2 : 2 + m], plan[2 + m : 2 + m + n]
    begins, members = plan[2 + m + n + size :], plan[2 + m + n + 2 * size + 1 :]
    stride, wide = size * LANES, _in_fours(n)
    for chunk in range(0, n, _CHUNK):
        for q in range(0, m, 2):
            other = min(q + 1, m - 1)
            for s in range(chunk, min(chunk + _CHUNK, n), 4):
                _count_tile(
                    masses, alpha, sources[s], sources[min(s + 1, n - 1)], sources[min(s + 2, n - 1)],
                    sources[min(s + 3, n - 1)], arrivals, at, targets[q], targets[other],
                    number, stride, sums, (q * wide + s) * LANES, (other * wide + s) * LANES,
                )  # fmt: skip
    base = m * wide * LANES
    for target in range(size):
        for k in range(begins[target], begins[target + 1]):
            source, to, summed = alpha + members[k], at + target * LANES, load(sums, base + k * LANES)
            for _ in range(number):
                summed = multiply_add(load(masses, source), load(arrivals, to), summed)
                source, to = source + stride, to + stride
            store(sums, base + k * LANES, summed)


@compiled
def empty_sums(plan: Any, size: int) -> Any:
    """Zeros for what `count_steps` adds up."""
    listed = plan[2 + plan[0] + plan[1] + 2 * size]
    return np.zeros((plan[0] * _in_fours(plan[1]) + listed) * LANES)


@compiled
def _weighted(sums: Any, at: int, weights: Any) -> float:
    """The lanes with a weight, summed up; the others may hold anything."""
    summed = 0.0
    for r in range(LANES):
        if weights[r] != 0.0:
            summed += weights[r] * sums[at + r]
    return summed


@compiled
def add_counted(sums: Any, plan: Any, used: Any, weights: Any, d_transitions: Any) -> None:
    """Expected steps of all rows, from what was counted, each by its mass."""
    m, n, size = plan[0], plan[1], d_transitions.shape[0]
    targets, sources = plan[2 : 2 + m], plan[2 + m : 2 + m + n]
    begins, members = plan[2 + m + n + size :], plan[2 + m + n + 2 * size + 1 :]
    wide = _in_fours(n)
    for q in range(m):
        for s in range(n):
            found = _weighted(sums, (q * wide + s) * LANES, weights)
            d_transitions[sources[s] // LANES, targets[q] // LANES] += found * used[place(q, s, m, n)]
    for target in range(size):
        for k in range(begins[target], begins[target + 1]):
            found = _weighted(sums, (m * wide + k) * LANES, weights)
            d_transitions[members[k] // LANES, target] += found * used[m * n + k]


@compiled
def positions_at_hand(size: int) -> int:
    """How many positions `descend` does before it counts their steps; `arrivals` has room for one more."""
    return max(8, _AT_HAND // (size * LANES))


@compiled
def _arrive(
    work: Any, x: int, alpha: int, last: Any, enters: Any, reached: Any, arrivals: Any, here: int, shares: Any,
    extremes: Any,
) -> None:  # fmt: skip
    """One position's shares, and the masses of the path endings that arrive there; those that end there enter."""
    entering, low, high = load(enters, 0), load(extremes, 0), load(extremes, LANES)
    for j in range(0, shares.size, LANES):
        reaches = multiply_add(fill(last[j // LANES]), entering, load(reached, j))
        arrives = multiply(load(work, x + j), reaches)
        store(arrivals, here + j, arrives)
        store(shares, j, multiply(load(work, alpha + j), reaches))
        low, high = least(low, arrives), highest(arrives, high)
    store(extremes, 0, low)
    store(extremes, LANES, high)


@compiled
def _on_masses(inverse: Any, weights: Any) -> Any:
    """The weights of the rows that are done on masses, and 0 of the others."""
    found = np.zeros(LANES)
    for r in range(LANES):
        if inverse[r] != 0.0:
            found[r] = weights[r]
    return found


@compiled
def _begin_paths(shares: Any, extremes: Any, smallest: float, inverse: Any, weights: Any, d_start: Any) -> None:
    """The first position: rows that left the range lose their `inverse`, the others add to the gradient by start."""
    for r in range(LANES):
        if not (extremes[r] >= smallest and extremes[LANES + r] <= 1.0 / smallest):
            inverse[r] = 0.0
    add_starts(shares, _on_masses(inverse, weights), d_start)


@compiled
def add_starts(shares: Any, weights: Any, d_start: Any) -> None:
    """Add the first position's shares of all rows; those without a weight may hold anything."""
    for j in range(d_start.size):
        d_start[j] += _weighted(shares, j * LANES, weights)


@compiled
def add_ends(masses: Any, at: int, last: Any, weight: float, d_end: Any) -> None:
    """Add the shares of a row's last position, whose forward masses are `at`; `weight` is over the row's total."""
    for j in range(d_end.size):
        d_end[j] += weight * masses[at + j * LANES] * last[j]


@compiled
def descend(
    emissions: Any, tags: Any, group: Any, counts: Any, positions: Any, onward: Any, turned: Any, turned_used: Any,
    last: Any, reached: Any, arrivals: Any, work: Any, x: int, alpha: int, inverse: Any, weights: Any,
    d_emissions: Any, d_transitions: Any, d_start: Any, extremes: Any, smallest: float,
) -> None:  # fmt: skip
    """The gradients by emissions, transitions and start, from what `climb` left.

    `onward` are the steps [from, to], `turned` and `turned_used` those [to, from]; `inverse` (LANES,) is 1 / the
    scaled total of a row, 0 for rows without. A row whose masses turn out to leave the range above `smallest` gets
    an `inverse` of 0 and adds nothing to the sums, and its gradients by emissions mean nothing.
    """
    size, longest = emissions.shape[2], counts.max()
    stride, many = size * LANES, positions_at_hand(size)
    shares, lines, enters = np.empty(stride), lines_for(size), np.empty(LANES)
    rows, scores, gradients = group * (emissions.shape[1] * size), emissions.reshape(-1), d_emissions.reshape(-1)
    reached[:], arrivals[:stride], extremes[:] = 0.0, 0.0, 1.0
    plan, used = onward
    sums = empty_sums(plan, size)
    beyond = longest
    while beyond > 0:
        first = max(0, beyond - many)
        behind = (beyond - first) * stride
        for j in range(0, stride, LANES):
            store(arrivals, behind + j, load(arrivals, j))
        for t in range(beyond - 1, first - 1, -1):
            here, at = (t - first) * stride, t * stride
            if t < longest - 1:
                after = pointer(arrivals) + 8 * (here + stride)
                _carry(after, size, pointer(turned), pointer(turned_used), pointer(reached))
            for r in range(LANES):
                enters[r] = inverse[r] if t == counts[r] - 1 else 0.0
            _arrive(work, x + at, alpha + at, last, enters, reached, arrivals, here, shares, extremes)
            if t == 0:
                _begin_paths(shares, extremes, smallest, inverse, weights, d_start)
            write_position(shares, scores, tags, group, rows, counts, positions, t, size, weights, lines, gradients)
        count_steps(work, alpha + first * stride, arrivals, stride, min(beyond, longest - 1) - first, size, plan, sums)
        beyond = first
    add_counted(sums, plan, used, _on_masses(inverse, weights), d_transitions)
