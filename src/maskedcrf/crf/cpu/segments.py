"""Probabilities of segments, from what `sums` knows of each position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu.packed import Packed, Steps, descend, forward_masses, get, pack, steps_of
from maskedcrf.crf.cpu.sums import log_backward, log_forward
from maskedcrf.crf.machine_code import compiled


@compiled
def _chances(
    lattice: Any, steps: Steps, packed: Packed, n: int, x: Any, alpha: Any, log_z: float, between: Any, pairs: Any,
    chances: Any,
) -> None:  # fmt: skip
    """Fill in three probabilities at each position of the n-th row, from what `descend` left or from logarithms.

    `opens` (N, D): a tag is there, by a step that is a boundary. Given that it is there, `goes_on` (N, L): the next
    step is this one of the `pairs`, which continue a segment; `closes` (N, D): the next step is a boundary.
    """
    emissions, _, transitions, start, _ = lattice
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
    lattice: Any, pairs: Any, between: Any, members: Any, spans: Any, bounds: Any, chance_of: Any, least: float,
    longest: int, share: Any,
) -> Any:  # fmt: skip
    """P of the `spans` (N, 3) with their tags in `members` (N, D), each row's between its `bounds`, in `chance_of`.

    If `bounds` is empty, the result is all segments of at most `longest` positions with a P of at least `least`, of
    each type in `members` (K, D): row, first, last + 1 and type (M, 4), and P (M,). The `pairs` (L, 2) are the steps
    that continue a segment, in their order; `between` (D, D) is 1 for all others, and 0 for them.
    """
    emissions, mask, transitions, start, end = lattice
    chunk, first_chunk, stride = share
    size, steps = start.size, steps_of(transitions, start, end)
    log_z, sums, ones = np.empty(chunk), np.zeros((size + 2, size)), np.ones(mask.shape[0])
    closed, where, found, number = np.empty(mask.shape[1]), np.empty((64, 4), np.int64), np.empty(64), 0
    shares = np.empty((0, 0, 0), np.float32), np.empty((mask.shape[0], mask.shape[1], size))
    for begin in range(first_chunk * chunk, len(mask), stride * chunk):
        packed = pack(mask, begin, min(begin + chunk, len(mask)))
        rows, counts, _, places = packed
        x, alpha = np.empty((places.size, steps.first.size)), np.empty((places.size, steps.first.size))
        forward_masses(emissions, steps, packed, size, x, alpha, log_z)
        descend(steps, packed, x, alpha, ones, shares, sums)
        opens, closes = np.zeros((places.size, size)), np.empty((places.size, size))
        chances = opens, np.empty((places.size, pairs.shape[0])), closes
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
