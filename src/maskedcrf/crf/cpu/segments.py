"""Probabilities of segments, from what `sums` knows of each position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu.packed import Packed, Steps, carry, descend, forward_masses, get, pack, steps_of
from maskedcrf.crf.cpu.sums import log_backward, log_forward
from maskedcrf.machine_code import compiled, kernel


@compiled
def _fill_in_masses(steps: Steps, boundaries: Any, packed: Packed, pairs: Any, x: Any, alpha: Any, known: Any) -> None:
    """Masses of what may be at each position, from what `descend` left; `boundaries` are the steps but the `pairs`.

    `opens` (N, width): a tag, by a step that is a boundary, as a probability. Of a tag that is there, in any unit:
    `closes` (N, width), that its next step is a boundary, and `goes_on` (N, L), that it is this one of the `pairs`.
    """
    begins, (opens, closes, goes_on), width = packed.begins, known, x.shape[1]
    reached = np.zeros((packed.rows.size, width))
    for t in range(begins.size - 1):
        running = begins[t + 1] - begins[t]
        going_on = begins[t + 2] - begins[t + 1] if t < begins.size - 2 else 0
        if t:
            carry(alpha, begins[t - 1], running, boundaries[0], reached)
        for n in range(running):
            for j in range(width):
                opens[begins[t] + n, j] = x[begins[t] + n, j] * (reached[n, j] if t else steps.first[j])
        carry(x, begins[t + 1], going_on, boundaries[1], reached)
        for n in range(running):
            at, after = begins[t] + n, begins[t + 1] + n
            for j in range(width):
                closes[at, j] = reached[n, j] if n < going_on else 1.0
            for k in range(pairs.shape[1]):
                step = steps.forward[pairs[0, k], pairs[1, k]]
                goes_on[at, k] = step * x[after, pairs[1, k]] if n < going_on else 0.0


@compiled
def _fill_in_row(lattice: Any, packed: Packed, n: int, pairs: Any, known: Any) -> None:
    """The same of the n-th row by logarithms."""
    emissions, _, transitions, start, _ = lattice
    rows, counts, begins, places = packed
    (opens, closes, goes_on), size = known, start.size
    alphas, betas = np.empty((counts[n], size)), np.empty((counts[n], size))
    log_z = log_forward(lattice, packed, n, alphas)
    log_backward(lattice, packed, n, betas)
    log_z = log_z if log_z > -np.inf else np.inf
    for t in range(counts[n]):
        at, before, k = begins[t] + n, begins[t - 1] + n, 0
        for j in range(size):
            opens[at, j] = 0.0 if t else math.exp(alphas[0, j] + betas[0, j] - log_z)
            closes[at, j] = 0.0 if t < counts[n] - 1 else 1.0
        for i in range(size if t else 0):
            for j in range(size):
                behind = get(emissions, rows[n], places[at], j) + betas[t, j] - log_z
                step = math.exp(alphas[t - 1, i] + transitions[i, j] + behind)
                if k < pairs.shape[1] and pairs[0, k] == i and pairs[1, k] == j:
                    goes_on[before, k] = step
                    k += 1
                else:
                    opens[at, j] += step
                    closes[before, i] += step


@compiled
def _tags_and_steps(member: Any, pairs: Any, room: Any) -> tuple[Any, Any]:
    """The tags of a type, and which of the `pairs` are steps between two of them; both in the `room` given."""
    (tags, inner), size, number = room, 0, 0
    for tag in range(member.size):
        tags[size] = tag
        size += member[tag]
    for k in range(pairs.shape[1]):
        inner[number] = k
        number += member[pairs[0, k]] and member[pairs[1, k]]
    return tags[:size], inner[:number]


@compiled
def _follow_segment(
    begins: Any, n: int, known: Any, pairs: Any, kind: Any, first: int, beyond: int, least: float, inside: Any,
    closed: Any,
) -> int:  # fmt: skip
    """Fill in P of each segment from `first` to before `beyond`, by its length - 1; how many there are.

    Its `kind` is what `_tags_and_steps` says. A segment is no likelier than that one of its type opens where it does,
    and that this one has gone on so far: where that is below `least`, or 0, the rest is left out.
    """
    (opens, closes, goes_on), (tags, inner), whole = known, kind, inside[2]
    for t in range(first, beyond):
        at, still, ends, now, after = begins[t] + n, 0.0, 0.0, inside[t % 2], inside[(t + 1) % 2]
        for tag in tags:
            now[tag] = opens[at, tag] if t == first else now[tag]
            still += now[tag]
            whole[tag], after[tag] = closes[at, tag], 0.0
        if still < least or still == 0.0:
            return t - first
        for k in range(pairs.shape[1]):
            whole[pairs[0, k]] += goes_on[at, k]
        for tag in tags:
            now[tag] = now[tag] / whole[tag] if whole[tag] > 1e-300 else 0.0
            ends += now[tag] * closes[at, tag]
        for k in inner:
            after[pairs[1, k]] += now[pairs[0, k]] * goes_on[at, k]
        closed[t - first] = min(1.0, ends)
    return beyond - first


@kernel
def sum_segments(
    lattice: Any, pairs: Any, members: Any, spans: Any, bounds: Any, chance_of: Any, least: float, share: Any
) -> Any:
    """P of the `spans` (N, 3) with their tags in `members` (N, D), each row's between its `bounds`, in `chance_of`.

    If `bounds` is empty, the result is all segments with a P of at least `least`, of each type in `members` (K, D):
    row, first, last + 1 and type (M, 4), and P (M,). The `pairs` (2, L) are the steps that continue a segment, in
    their order.
    """
    emissions, mask, transitions, start, end = lattice
    chunk, first_chunk, stride = share
    size, steps = start.size, steps_of(transitions, start, end)
    boundaries, shape = (steps.forward.copy(), steps.backward.copy()), (mask.shape[0], mask.shape[1], size)
    for k in range(pairs.shape[1]):
        boundaries[0][pairs[0, k], pairs[1, k]] = boundaries[1][pairs[1, k], pairs[0, k]] = 0.0
    log_z, ones, sums, shares = np.empty(chunk), np.ones(len(mask)), np.zeros((size + 2, size)), np.empty(shape)
    closed, inside, room = np.empty(mask.shape[1]), np.empty((3, size)), np.empty((2, size + pairs.size), np.int64)
    where, found, number = np.empty((64, 4), np.int64), np.empty(64), 0
    for begin in range(first_chunk * chunk, len(mask), stride * chunk):
        packed = pack(mask, begin, min(begin + chunk, len(mask)))
        rows, counts, begins, places = packed
        masses = np.empty((4, places.size, steps.first.size))
        x, alpha, opens, goes_on = masses[0], masses[1], masses[2], np.empty((places.size, pairs.shape[1]))
        known = opens, masses[3], goes_on
        forward_masses(emissions, steps, packed, size, x, alpha, log_z)
        descend(steps, packed, x, alpha, ones, (np.empty((0, 0, 0), np.float32), shares), sums)
        _fill_in_masses(steps, boundaries, packed, pairs, x, alpha, known)
        for n in range(rows.size):
            if counts[n] and log_z[n] == -np.inf:
                _fill_in_row(lattice, packed, n, pairs, known)
        for n in range(rows.size if bounds.size else 0):
            for k in range(bounds[rows[n]], bounds[rows[n] + 1]):
                kind, first, beyond = _tags_and_steps(members[k], pairs, room), spans[k, 1], spans[k, 2]
                length = _follow_segment(begins, n, known, pairs, kind, first, beyond, 0.0, inside, closed)
                chance_of[k] = closed[length - 1] if length == beyond - first else 0.0
        for k in range(0 if bounds.size else members.shape[0]):
            kind = _tags_and_steps(members[k], pairs, room)
            first = 0
            for at in range(places.size):
                first += at == begins[first + 1]
                n, opening = at - begins[first], 0.0
                for tag in kind[0]:
                    opening += opens[at, tag]
                if opening < least or opening == 0.0:
                    continue
                length = _follow_segment(begins, n, known, pairs, kind, first, counts[n], least, inside, closed)
                while number + length > found.size:
                    where, found = np.concatenate((where, where)), np.concatenate((found, found))
                for t in range(length):
                    where[number, 0], where[number, 1], where[number, 3] = rows[n], first, k
                    where[number, 2], found[number] = first + t + 1, closed[t]
                    number += closed[t] >= least and closed[t] > 0.0
    return where[:number], found[:number]
