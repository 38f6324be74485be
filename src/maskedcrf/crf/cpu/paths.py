"""Single paths: the best one, the k best ones, and draws from the distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu.packed import VECTOR, Packed, forward_masses, get, pack, steps_of
from maskedcrf.crf.cpu.sums import log_forward
from maskedcrf.machine_code import compiled, kernel


@compiled
def _steps_back(transitions: Any, end: Any) -> Any:
    """(D + 1, D): scores of the steps [to, from], those to the end last."""
    into = np.empty((end.size + 1, end.size))
    for i in range(end.size):
        for j in range(end.size + 1):
            into[j, i] = transitions[i, j] if j < end.size else end[i]
    return into


@compiled
def _climb(emissions: Any, packed: Packed, steps: Any, start: Any, scores: Any, spoilt: Any) -> None:
    """Fill in the best score of the beginnings at each tag, and which rows have a NaN or +inf among their emissions."""
    rows, _, begins, places = packed
    best = np.empty((rows.size, scores.shape[1]))
    for n in range(rows.size):
        spoilt[n] = False
        for j in range(scores.shape[1]):
            best[n, j] = start[j] if j < start.size else -np.inf
    for t in range(begins.size - 1):
        running = begins[t + 1] - begins[t]
        for i in range(0, steps.shape[0] if t else 0, 4):
            for n in range(running):
                at = begins[t - 1] + n
                a, b, c, d = scores[at, i], scores[at, i + 1], scores[at, i + 2], scores[at, i + 3]
                for j in range(steps.shape[1]):
                    low, high = max(a + steps[i, j], b + steps[i + 1, j]), max(c + steps[i + 2, j], d + steps[i + 3, j])
                    best[n, j] = max(best[n, j] if i else -np.inf, max(low, high))
        for n in range(running):
            at, row, place, bad = begins[t] + n, rows[n], places[begins[t] + n], 0
            for j in range(scores.shape[1]):
                emission = get(emissions, row, place, j) if j < start.size else -np.inf
                scores[at, j] = best[n, j] + emission
                bad |= 0 if emission < np.inf else 1
            spoilt[n] |= bad > 0


@kernel
def best_paths(lattice: Any, tags: Any, best_scores: Any, share: Any) -> None:
    """Fill in tags (B, T) and scores (B,) of the best paths of a share of the rows; see `sums`."""
    emissions, mask, transitions, start, end = lattice
    chunk, first, stride = share
    size, into, known = start.size, _steps_back(transitions, end), True
    spoilt, following = np.empty(chunk, np.bool_), np.empty(chunk, np.int64)
    width = (size + VECTOR - 1) // VECTOR * VECTOR
    steps = np.empty((width, width))
    for i in range(width):
        for j in range(width):
            steps[i, j] = transitions[i, j] if i < size and j < size else -np.inf
            known &= not math.isnan(steps[i, j])
        known &= not (i < size and (math.isnan(start[i]) or math.isnan(end[i])))
    for begin in range(first * chunk, len(mask), stride * chunk):
        packed = pack(mask, begin, min(begin + chunk, len(mask)))
        rows, _, begins, places = packed
        scores = np.empty((places.size, width))
        _climb(emissions, packed, steps, start, scores, spoilt)
        for n in range(rows.size):
            following[n], best_scores[rows[n]] = size, 0.0
        for t in range(begins.size - 2, -1, -1):
            for n in range(begins[t + 1] - begins[t]):  # the processor works on several rows side by side
                at, after, tag, highest = begins[t] + n, following[n], 0, -np.inf
                for i in range(size):
                    score = scores[at, i] + into[after, i]
                    if score > highest:
                        tag, highest = i, score
                tags[rows[n], places[at]] = following[n] = tag
                if after == size:
                    best_scores[rows[n]] = scores[at, tag] + end[tag] if known and not spoilt[n] else np.nan


@compiled
def _merge(before: Any, into: Any, to: int, scores: Any, sources: Any, heads: Any, tops: Any) -> None:
    """The k best of all beginnings `before` (D, k), each list sorted, that step to a tag; -inf where there are fewer.

    As merge sort does: the best of the lists' heads, k times; of equals the first.
    """
    size, k = into.shape[1], before.shape[1]
    for i in range(size):
        heads[i], tops[i] = 0, before[i, 0] + into[to, i]
    for rank in range(k):
        best, score = 0, -np.inf
        for i in range(size):
            if tops[i] > score:
                best, score = i, tops[i]
        scores[to, rank], sources[to, rank] = score, best * k + min(heads[best], k - 1)
        heads[best] += 1
        tops[best] = before[best, heads[best]] + into[to, best] if heads[best] < k else -np.inf


@kernel
def k_best_paths(lattice: Any, tags: Any, best_scores: Any, share: Any) -> None:
    """Fill in tags (B, k, T) and scores (B, k) of the k best paths of a share of the rows; -inf if there are fewer."""
    emissions, mask, transitions, start, end = lattice
    _, first, stride = share
    size, k, length, into = start.size, tags.shape[1], mask.shape[1], _steps_back(transitions, end)
    sources, heads, tops = np.empty((length + 1, size + 1, k), np.int64), np.empty(size, np.int64), np.empty(size)
    before, after = np.empty((size + 1, k)), np.empty((size + 1, k))
    for number in range(first, len(mask), stride):
        rows, counts, _, places = pack(mask, number, number + 1)
        row, count = rows[0], counts[0]
        for rank in range(k):
            best_scores[row, rank] = -np.inf if rank or count else 0.0
            for j in range(size if count else 0):
                before[j, rank] = -np.inf if rank else start[j] + get(emissions, row, places[0], j)
        for t in range(1, count + 1):
            for j in range(size if t < count else 0):
                _merge(before, into, j, after, sources[t], heads, tops)
                for rank in range(k):
                    after[j, rank] += get(emissions, row, places[t], j)
            if t == count:
                _merge(before, into, size, after, sources[t], heads, tops)
            before, after = after, before
        for rank in range(k if count else 0):
            best_scores[row, rank], tag, place = before[size, rank], size, rank
            for t in range(count - 1, -1, -1):
                source = sources[t + 1, tag, place]
                tag, place = source // k, source % k
                tags[row, rank, places[t]] = tag


@compiled
def _draw(alphas: Any, t: int, into: Any, after: int, uniform: float, weights: Any) -> int:
    """A tag at t, given the one after it, by inverting the running sum of masses; `alphas` are logarithms."""
    total, top, running = 0.0, -np.inf, 0.0
    for i in range(weights.size):
        weights[i] = alphas[t, i] + into[after, i]
        top = max(top, weights[i])
    for i in range(weights.size):
        weights[i] = math.exp(weights[i] - top) if top > -np.inf else 0.0
        total += weights[i]
    for i in range(weights.size):
        running += weights[i]
        if running > uniform * total and weights[i] > 0.0:
            return i
    return 0


@kernel
def draw_paths(lattice: Any, uniforms: Any, tags: Any, share: Any) -> None:
    """Fill in tags (B, n, T) of paths drawn for a share of the rows."""
    emissions, mask, transitions, start, end = lattice
    chunk, first, stride = share
    size, steps, into = start.size, steps_of(transitions, start, end), _steps_back(transitions, end)
    alphas, log_z, weights = np.empty((mask.shape[1], size)), np.empty(chunk), np.empty(size)
    for begin in range(first * chunk, len(mask), stride * chunk):
        packed = pack(mask, begin, min(begin + chunk, len(mask)))
        rows, counts, begins, places = packed
        x, alpha = np.empty((places.size, steps.first.size)), np.empty((places.size, steps.first.size))
        forward_masses(emissions, steps, packed, size, x, alpha, log_z)
        for n in range(rows.size):
            if log_z[n] == -np.inf:
                log_forward(lattice, packed, n, alphas)
            for t in range(counts[n] if log_z[n] > -np.inf else 0):
                for j in range(size):
                    alphas[t, j] = math.log(alpha[begins[t] + n, j])
            for draw in range(tags.shape[1]):
                tag = size
                for t in range(counts[n] - 1, -1, -1):
                    uniform = uniforms[rows[n], draw, t if t < counts[n] - 1 else -1]  # the last one, as in `reference`
                    tag = _draw(alphas, t, into, tag, uniform, weights)
                    tags[rows[n], draw, places[begins[t] + n]] = tag
