"""Best paths and drawn paths in numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import LANES, add, compiled, fill, highest, inlined, load, spread, store
from maskedcrf.crf.cpu_sums import (
    find,
    forward_masses,
    from_logarithms,
    masses_of_parameters,
    padded_size,
    row_size,
    square_of,
)

PAD = -100


@compiled
def _pad(scores: Any) -> Any:
    """Scores (N, D) in double, flat, each row padded with -inf, and a row of -inf more where N is odd."""
    padded = padded_size(scores.shape[1])
    result = np.full((scores.shape[0] + scores.shape[0] % 2) * padded, -np.inf)
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            result[i * padded + j] = scores[i, j]
    return result


@inlined
def _best_step(scores: Any, at: int, steps: Any, c: int, padded: int, size: int) -> Any:
    """The greatest scores[at + i] + steps[i], at eight tags."""
    first, second = fill(-np.inf), fill(-np.inf)
    for i in range(0, size, 2):
        first = highest(add(spread(scores, at + i), load(steps, c)), first)
        second = highest(add(spread(scores, at + i + 1), load(steps, c + padded)), second)
        c += 2 * padded
    return highest(first, second)


@inlined
def _best_steps(scores: Any, at: int, steps: Any, c: int, padded: int, size: int) -> Any:
    """The same at four times eight tags: of many, whose steps no longer fit the nearest cache, read line by line."""
    none = fill(-np.inf)
    first, second, third, fourth = none, none, none, none
    for i in range(size):
        score = spread(scores, at + i)
        first = highest(add(score, load(steps, c)), first)
        second = highest(add(score, load(steps, c + LANES)), second)
        third = highest(add(score, load(steps, c + 2 * LANES)), third)
        fourth = highest(add(score, load(steps, c + 3 * LANES)), fourth)
        c += padded
    return first, second, third, fourth


@compiled
def _climb(emissions: Any, row: int, positions: Any, count: int, steps: Any, start: Any, scores: Any) -> bool:
    """Fill in the best score of the beginnings at each tag; False where an emission is NaN or +inf."""
    size = emissions.shape[2]
    padded = padded_size(size)
    spoilt = False
    for t in range(count):
        at = t * padded
        position = positions[t]
        together = padded // (4 * LANES) * (4 * LANES) if t else 0
        for c in range(0, together, 4 * LANES):
            first, second, third, fourth = _best_steps(scores, at - padded, steps, c, padded, size)
            store(scores, at + c, first)
            store(scores, at + c + LANES, second)
            store(scores, at + c + 2 * LANES, third)
            store(scores, at + c + 3 * LANES, fourth)
        for c in range(together, padded if t else 0, LANES):
            store(scores, at + c, _best_step(scores, at - padded, steps, c, padded, size))
        for j in range(size):
            emission = np.float64(emissions[row, position, j])
            spoilt |= not emission < np.inf
            scores[at + j] = (scores[at + j] if t else np.float64(start[j])) + emission
        for j in range(0 if t else size, 0 if t else padded):
            scores[at + j] = -np.inf
    return not spoilt


@compiled
def _best(scores: Any, at: int, added: Any, size: int) -> int:
    """Index of the greatest scores[at + i] + added[i]; of equals the first."""
    best, best_score = 0, scores[at] + added[0]
    for i in range(1, size):
        score = scores[at + i] + added[i]
        if score > best_score:
            best, best_score = i, score
    return best


@compiled
def viterbi_rows(
    emissions: Any,
    mask: Any,
    transitions: Any,
    start: Any,
    end: Any,
    tags: Any,
    best_scores: Any,
    rows: Any,
) -> None:
    """Tags and scores of the best paths of the given rows."""
    length, size = emissions.shape[1], emissions.shape[2]
    padded = padded_size(size)
    steps = _pad(transitions)
    into, last = transitions.T.astype(np.float64), end.astype(np.float64)
    known = not (np.isnan(into).any() or np.isnan(start).any() or np.isnan(last).any())
    positions, scores = np.empty(length + 1, np.int64), np.empty(length * padded)
    for row in rows:
        count = find(mask, row, positions)
        tags[row] = PAD
        best_scores[row] = 0.0
        if not count:
            continue
        known_row = _climb(emissions, row, positions, count, steps, start, scores)
        at = (count - 1) * padded
        tag = _best(scores, at, last, size)
        best_scores[row] = scores[at + tag] + last[tag] if known and known_row else np.nan
        tags[row, positions[count - 1]] = tag
        for t in range(count - 2, -1, -1):
            tag = _best(scores, t * padded, into[tag], size)
            tags[row, positions[t]] = tag


@compiled
def _insert(score: float, source: int, scores: Any, sources: Any) -> None:
    """Put a candidate in its place among the best so far; behind its equals."""
    k = scores.size
    if not score > scores[k - 1]:
        return
    place = k - 1
    while place and score > scores[place - 1]:
        scores[place], sources[place] = scores[place - 1], sources[place - 1]
        place -= 1
    scores[place], sources[place] = score, source


@compiled
def _spread_best(
    emissions: Any, row: int, position: int, transitions: Any, before: Any, after: Any, sources: Any
) -> None:
    """One position further: of every beginning at `before` (D, k), the k best at each tag and where they come from."""
    size, k = before.shape
    sources[:] = 0
    after[:] = -np.inf
    for j in range(size):
        for i in range(size):
            for rank in range(k):
                _insert(before[i, rank] + transitions[i, j], i * k + rank, after[j], sources[j])
        for rank in range(k):
            after[j, rank] += emissions[row, position, j]


@compiled
def nbest_rows(
    emissions: Any,
    mask: Any,
    transitions: Any,
    start: Any,
    end: Any,
    tags: Any,
    best_scores: Any,
    rows: Any,
) -> None:
    """Tags (B, k, T) and scores (B, k) of the k best paths of the given rows; -inf where there are fewer."""
    length, size, k = emissions.shape[1], emissions.shape[2], tags.shape[1]
    positions = np.empty(length + 1, np.int64)
    sources = np.zeros((length + 1, size, k), np.int32)
    before, after = np.empty((size, k)), np.empty((size, k))
    for row in rows:
        count = find(mask, row, positions)
        tags[row] = PAD
        final = best_scores[row]
        final[:] = -np.inf
        if not count:
            final[0] = 0.0
            continue
        before[:] = -np.inf
        for j in range(size):
            before[j, 0] = np.float64(start[j]) + emissions[row, positions[0], j]
        for t in range(1, count):
            _spread_best(emissions, row, positions[t], transitions, before, after, sources[t])
            before, after = after, before
        sources[count] = 0
        for source in range(size * k):
            _insert(before[source // k, source % k] + end[source // k], source, final, sources[count, 0])
        for rank in range(k):
            source = sources[count, 0, rank]
            for t in range(count - 1, -1, -1):
                tags[row, rank, positions[t]] = source // k
                source = sources[t, source // k, source % k]


@compiled
def _draw(weights: Any, uniform: float) -> int:
    """Index i with probability proportional to weights[i], by inverting the running sum."""
    threshold = uniform * weights.sum()
    running = 0.0
    for i in range(weights.size):
        running += weights[i]
        if running > threshold and weights[i] > 0.0:
            return i
    return 0


@compiled
def _draw_path(alphas: Any, steps: Any, last: Any, uniforms: Any, logarithms: bool, path: Any) -> None:
    """A path drawn from its end, along forward masses (n, D), step masses (D, D) and end masses, or all their logs."""
    weights = np.empty(alphas.shape[1])
    tag = 0
    for t in range(path.size - 1, -1, -1):
        ending = t == path.size - 1
        for i in range(weights.size):
            step = last[i] if ending else steps[i, tag]
            weights[i] = alphas[t, i] + step if logarithms else alphas[t, i] * step
        if logarithms:
            from_logarithms(weights)
        tag = _draw(weights, uniforms[uniforms.size - 1 if ending else t])
        path[t] = tag


@compiled
def sample_rows(
    emissions: Any, mask: Any, transitions: Any, start: Any, end: Any, uniforms: Any, tags: Any, rows: Any
) -> None:
    """Tags (B, n, T) of paths drawn from the given rows."""
    length, size = emissions.shape[1:]
    lattice = emissions, tags, mask, transitions, start, end
    masses_of = masses_of_parameters(transitions, start, end)
    matrix, last = square_of(masses_of[0], size), masses_of[2]
    log_matrix, log_last = transitions.astype(np.float64), end.astype(np.float64)
    positions, path = np.empty(length + 1, np.int64), np.empty(length, np.int64)
    alphas, saved, norms = np.empty((length, size)), np.empty(row_size(length, size)), np.empty(length)
    for row in rows:
        count = find(mask, row, positions)
        tags[row] = PAD
        if not count:
            continue
        scaled = forward_masses(lattice, row, positions, count, masses_of, saved, norms, alphas)
        for n in range(tags.shape[1]):
            if scaled:
                _draw_path(alphas, matrix, last, uniforms[row, n], False, path[:count])
            else:
                _draw_path(alphas, log_matrix, log_last, uniforms[row, n], True, path[:count])
            for t in range(count):
                tags[row, n, positions[t]] = path[t]
