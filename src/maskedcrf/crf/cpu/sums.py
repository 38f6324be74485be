"""Sums over all legal paths: the loss and its gradients, and probabilities of segments.

A `lattice` is emissions (a pair, see `packed`), mask, transitions, start and end. Rows are taken in chunks that fit the
processor's cache; a `share` says which: the order of all rows, how many a chunk has, the first chunk, and how many
there are from one to the next. A row whose masses leave the range in which they are exact is done on logarithms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu.compiling import compiled
from maskedcrf.crf.cpu.packed import Packed, Steps, count_steps, descend, forward_masses, get, pack, steps_of


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
    lattice: Any,
    packed: Packed,
    n: int,
    alphas: Any,
    betas: Any,
    log_z: float,
    weight: float,
    gradients: Any,
    sums: Any,
) -> None:
    """The n-th row's shares, times its weight, in `gradients` (B, T, D) and added to the `sums`."""
    emissions, _, transitions, _, _ = lattice
    rows, counts, begins, places = packed
    size, row, (single, double) = transitions.shape[0], rows[n], gradients
    for t in range(counts[n]):
        place = places[begins[t] + n]
        for j in range(size):
            share = weight * math.exp(alphas[t, j] + betas[t, j] - log_z)
            if single.size:
                single[row, place, j] = share
            else:
                double[row, place, j] = share
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
    total, before, row, size, (single, double) = 0.0, -1, rows[n], start.size, gradients
    for t in range(counts[n]):
        place = places[begins[t] + n]
        tag = tags[row, place]
        if not 0 <= tag < size:
            total, before = -np.inf, -1
            continue
        score, step = get(emissions, row, place, tag), 0.0
        if before >= 0:
            step = transitions[before, tag]
        elif t == 0:
            step = start[tag]
        total += score + step
        if weight != 0.0 and score > -np.inf:
            if single.size:
                single[row, place, tag] -= weight
            else:
                double[row, place, tag] -= weight
        if weight != 0.0 and step > -np.inf and (before >= 0 or t == 0):
            sums[before if t else size, tag] -= weight
        before = tag
    if before >= 0:
        total += end[before]
        if weight != 0.0 and end[before] > -np.inf:
            sums[size + 1, before] -= weight
    return total


@compiled
def sum_paths(
    lattice: Any, tags: Any, weights: Any, losses: Any, gradients: Any, all_sums: Any, work: Any, kept: bool,
    goes_up: bool, goes_down: bool, share: Any,
) -> None:  # fmt: skip
    """Losses of the chunks of rows if it `goes_up`; if it `goes_down` their gradients, each row's times its weight.

    `work` (2, N, width) has room for the masses: of all rows if they are `kept` from up to down, else of one chunk.
    Without gold `tags`, which are (0, 0) then, losses are log Z. The gradients by transitions, start and end, one below
    the other (D + 2, D), are added to the first of `all_sums`, or to each chunk's own if there are as many.
    """
    emissions, mask, transitions, start, end = lattice
    order, chunk, first, stride = share
    steps, log_z, size = steps_of(transitions, start, end), np.empty(chunk), start.size
    alphas, betas = np.empty((mask.shape[1], size)), np.empty((mask.shape[1], size))
    for begin in range(first * chunk, order.size, stride * chunk):
        packed = pack(mask, order, begin, min(begin + chunk, order.size))
        rows, counts, begins, places = packed
        base, sums = begin * mask.shape[1] if kept else 0, all_sums[begin // chunk if all_sums.shape[0] > 1 else 0]
        x, alpha = work[0, base : base + places.size], work[1, base : base + places.size]
        if goes_up:
            forward_masses(emissions, steps, packed, size, x, alpha, log_z)
        else:
            x = x.copy()  # another backward pass may follow
        if goes_down:
            descend(steps, packed, x, alpha, weights, gradients, sums)
            count_steps(steps, begins, alpha, x, sums)
        for n in range(rows.size):
            massive, weight, gold = not counts[n], weights[rows[n]] if goes_down else 0.0, 0.0
            for j in range(size if counts[n] else 0):
                massive |= alpha[begins[counts[n] - 1] + n, j] > 0.0
            if not massive:
                log_z[n] = log_forward(lattice, packed, n, alphas)
                if goes_down and log_z[n] != -np.inf:
                    log_backward(lattice, packed, n, betas)
                    _log_gradients(lattice, packed, n, alphas, betas, log_z[n], weight, gradients, sums)
            if tags.size:
                gold = _follow_gold(lattice, tags, packed, n, weight, gradients, sums)
            if goes_up:
                losses[rows[n]] = log_z[n] - gold


@compiled
def _split_steps(continues: Any) -> Any:
    """(L, 2): the steps inside a segment, from and to; (D, D): 1 for all others, 0 for them."""
    pairs, between, k = np.empty((continues.size, 2), np.int64), np.ones(continues.shape), 0
    for i in range(continues.shape[0]):
        for j in range(continues.shape[0]):
            if continues[i, j]:
                pairs[k, 0], pairs[k, 1], between[i, j] = i, j, 0.0
                k += 1
    return pairs[:k], between


@compiled
def _chances(
    lattice: Any, steps: Steps, packed: Packed, n: int, x: Any, alpha: Any, log_z: float, between: Any, pairs: Any,
    chances: Any,
) -> None:  # fmt: skip
    """Fill in three probabilities at each position of the n-th row, from what `descend` left or from logarithms.

    `opens` (N, D): a tag is there, by a step that is a boundary. Given that it is there, `goes_on` (N, L): the next
    step is this one of the `pairs`, which continue a segment; `closes` (N, D): the next step is a boundary.
    """
    emissions, mask, transitions, start, _ = lattice
    rows, counts, begins, places = packed
    opens, goes_on, closes = chances
    size, massive, step = start.size, log_z > -np.inf, np.empty(start.size)
    alphas, betas = np.empty((0 if massive else counts[n], size)), np.empty((0 if massive else counts[n], size))
    if not massive:
        log_z = log_forward(lattice, packed, n, alphas)
        log_backward(lattice, packed, n, betas)
    for j in range(size if log_z > -np.inf else 0):
        opens[n, j] = steps.first[j] * x[n, j] if massive else math.exp(alphas[0, j] + betas[0, j] - log_z)
    for t in range(counts[n] - 1 if log_z > -np.inf else 0):
        at, after, place, k = begins[t] + n, begins[t + 1] + n, places[begins[t + 1] + n], 0
        for i in range(size):
            closed, whole = 0.0, 0.0
            for j in range(size):
                if massive:
                    step[j] = alpha[at, i] * steps.forward[i, j] * x[after, j]
                else:
                    arriving = get(emissions, rows[n], place, j) + betas[t + 1, j]
                    step[j] = math.exp(alphas[t, i] + transitions[i, j] + arriving - log_z)
                opens[after, j] += step[j] * between[i, j]
                closed += step[j] * between[i, j]
                whole += step[j]
            closes[at, i] = closed / whole if whole > 1e-300 else 0.0
            while k < pairs.shape[0] and pairs[k, 0] == i:
                goes_on[at, k] = step[pairs[k, 1]] / whole if whole > 1e-300 else 0.0
                k += 1
    for j in range(size):
        closes[begins[counts[n] - 1] + n, j] = 1.0


@compiled
def _follow_segment(
    packed: Packed, n: int, chances: Any, pairs: Any, member: Any, first: int, beyond: int, least: float, closed: Any
) -> int:
    """Fill in P of each segment from `first` to before `beyond`, by its length - 1; how many there are.

    A segment is no likelier than that one of its type opens where it does, and that this one has gone on so far: where
    that is below `least`, or 0, the rest is left out.
    """
    opens, goes_on, closes = chances
    inside, after = np.empty(member.size), np.empty(member.size)
    for t in range(first, beyond):
        at, still, closed[t - first] = packed.begins[t] + n, 0.0, 0.0
        for j in range(member.size):
            inside[j] = (opens[at, j] if member[j] else 0.0) if t == first else after[j]
            still += inside[j]
            closed[t - first] += inside[j] * closes[at, j]
            after[j] = 0.0
        if still < least or still == 0.0:
            return t - first
        for k in range(pairs.shape[0]):
            if member[pairs[k, 1]]:
                after[pairs[k, 1]] += inside[pairs[k, 0]] * goes_on[at, k]
    return beyond - first


@compiled
def sum_segments(
    lattice: Any, continues: Any, members: Any, spans: Any, bounds: Any, chance_of: Any, least: float, longest: int,
    share: Any,
) -> Any:  # fmt: skip
    """P of the `spans` (N, 3) with their tags in `members` (N, D), each row's between its `bounds`, in `chance_of`.

    If `bounds` is empty, the result is all segments of at most `longest` positions with a P of at least `least`, of
    each type in `members` (K, D): row, first, last + 1 and type (M, 4), and P (M,).
    """
    emissions, mask, transitions, start, end = lattice
    order, chunk, first_chunk, stride = share
    size, steps, (pairs, between) = start.size, steps_of(transitions, start, end), _split_steps(continues)
    log_z, sums, ones = np.empty(chunk), np.zeros((size + 2, size)), np.ones(mask.shape[0])
    closed, where, found, number = np.empty(mask.shape[1]), np.empty((64, 4), np.int64), np.empty(64), 0
    shares = np.empty((0, 0, 0), np.float32), np.empty((mask.shape[0], mask.shape[1], size))
    for begin in range(first_chunk * chunk, order.size, stride * chunk):
        packed = pack(mask, order, begin, min(begin + chunk, order.size))
        rows, counts, begins, places = packed
        x, alpha = np.empty((places.size, steps.first.size)), np.empty((places.size, steps.first.size))
        forward_masses(emissions, steps, packed, size, x, alpha, log_z)
        descend(steps, packed, x, alpha, ones, shares, sums)
        chances = np.zeros((places.size, size)), np.empty((places.size, pairs.shape[0])), np.empty((places.size, size))
        for n in range(rows.size):
            if counts[n]:
                _chances(lattice, steps, packed, n, x, alpha, log_z[n], between, pairs, chances)
            for k in range(bounds[rows[n]] if bounds.size else 0, bounds[rows[n] + 1] if bounds.size else 0):
                kind, segment, beyond = members[k], spans[k, 1], spans[k, 2]
                length = _follow_segment(packed, n, chances, pairs, kind, segment, beyond, 0.0, closed)
                chance_of[k] = min(1.0, closed[length - 1]) if length == beyond - segment else 0.0
            for k in range(0 if bounds.size else counts[n] * members.shape[0]):
                segment, kind = k // members.shape[0], k % members.shape[0]
                beyond = min(counts[n], segment + longest)
                length = _follow_segment(packed, n, chances, pairs, members[kind], segment, beyond, least, closed)
                while number + length > found.size:
                    where, found = np.concatenate((where, where)), np.concatenate((found, found))
                for t in range(length):
                    where[number, 0], where[number, 1], where[number, 3] = rows[n], segment, kind
                    where[number, 2], found[number] = segment + t + 1, min(1.0, closed[t])
                    number += closed[t] >= least and closed[t] > 0.0
    return where[:number], found[:number]
