"""The loss and its gradients over all rows of a batch in numba: in groups of eight of like lengths, or one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maskedcrf.crf.cpu_gradients import add_steps, row_gradients, subtract_gold_steps
from maskedcrf.crf.cpu_groups import add_ends, climb, descend, positions_at_hand
from maskedcrf.crf.cpu_lanes import LANES, compiled, inlined
from maskedcrf.crf.cpu_steps import split_steps
from maskedcrf.crf.cpu_sums import (
    DESCENT,
    MASS,
    SCALED,
    TOTAL,
    find,
    gold_score,
    log_forward,
    masses_of_parameters,
    padded_size,
    row_losses,
    row_size,
    step_masses,
)

# Rows from which a group is faster than one row after the other.
WORTH_GROUPING = 3


@compiled
def exclude(scores: Any, illegal: Any) -> Any:
    """Scores, -inf where illegal, if anything is said to be."""
    if illegal.size == 0:
        return scores
    result = scores.copy()
    flat, out = result.reshape(-1), illegal.reshape(-1)
    for k in range(flat.size):
        if out[k]:
            flat[k] = -np.inf
    return result


@inlined
def tables_of(lattice: Any) -> Any:
    """Masses of steps, starts and ends, and whether they are in range: for rows, and steps split up for groups."""
    _, _, _, transitions, start, end = lattice
    size, padded = start.size, padded_size(start.size)
    matrix, first, last, usable = masses_of_parameters(transitions, start, end)
    turned = step_masses(transitions, True)
    square = matrix.reshape(padded, padded)[:size, :size]
    return matrix, turned, first, last, usable, split_steps(square), split_steps(square.T)


@compiled
def room_for(length: int, size: int) -> Any:
    """What a group needs beside its masses: positions, counts, shifts, powers, extremes, masses of one position."""
    positions, counts = np.empty((LANES, length + 1), np.int64), np.empty(LANES, np.int64)
    powers, extremes = np.empty(max(length, 1) * LANES), np.empty(2 * LANES)
    return positions, counts, np.empty(LANES), powers, extremes, np.empty(size * LANES)


@compiled
def find_group(mask: Any, group: Any, room: Any) -> None:
    """Fill in the positions of a group's rows that are on, and how many they are."""
    positions, counts, _, _, _, _ = room
    counts[:] = 0
    for r in range(group.size):
        counts[r] = find(mask, group[r], positions[r])


@inlined
def _group_losses(lattice: Any, group: Any, tables: Any, room: Any, work: Any, base: int, found: Any) -> None:
    """log Z of the rows of a group; leaves 1 / the scaled totals (0: on logarithms) and the masses in `work`."""
    emissions, _, _, transitions, start, end = lattice
    _, _, first, last, usable, onward, _ = tables
    positions, counts, shifts, powers, extremes, reached = room
    size, stride = start.size, start.size * LANES
    x, alpha = base + LANES, base + LANES + counts.max() * stride
    plan, used = onward
    climb(
        emissions, group, counts, positions, plan, used, first, reached, work, x, alpha, shifts, powers, extremes, False
    )
    for r in range(LANES):
        work[base + r] = 0.0
        if not counts[r]:
            continue
        total, at = 0.0, alpha + (counts[r] - 1) * stride + r
        for j in range(size):
            total += work[at + j * LANES] * last[j]
        in_range = extremes[r] >= MASS and extremes[LANES + r] <= 1.0 / MASS and TOTAL <= total <= 1.0 / TOTAL
        if usable and in_range:
            work[base + r] = 1.0 / total
            found[r] = math.log(total) + shifts[r] + powers[(counts[r] - 1) * LANES + r] * math.log(2.0)
        else:
            alphas = np.empty((counts[r], size))
            found[r] = log_forward(emissions, transitions, start, end, group[r], positions[r], alphas)


@inlined
def _losses(lattice: Any, group: Any, tables: Any, room: Any, work: Any, base: int, losses: Any) -> None:
    """log Z - score of the rows of a group, or log Z where `tags` is (0, 0)."""
    emissions, tags, _, transitions, start, end = lattice
    matrix, _, first, last, usable, _, _ = tables
    positions, counts, _, powers, _, _ = room
    found = np.zeros(LANES)
    if group.size >= WORTH_GROUPING:
        _group_losses(lattice, group, tables, room, work, base, found)
    for r in range(group.size):
        row, count = group[r], counts[r]
        if group.size < WORTH_GROUPING:
            at = base + r * row_size(emissions.shape[1], start.size)
            if count:
                masses_of = matrix, first, last, usable
                found[r] = row_losses(lattice, row, positions[r], count, masses_of, work, at, powers)
        if count and tags.size:
            found[r] -= gold_score(emissions, tags, transitions, start, end, row, positions[r], count)
        losses[row] = found[r]


@inlined
def _group_gradients(
    lattice: Any, group: Any, tables: Any, room: Any, work: Any, base: int, weights: Any, d_emissions: Any, sums: Any
) -> None:
    """Gradients of the rows of a group, from what `_group_losses` left."""
    emissions, tags, _, _, start, _ = lattice
    _, turned, _, last, _, onward, backward = tables
    positions, counts, _, _, extremes, reached = room
    d_transitions, d_start, d_end = sums
    stride = start.size * LANES
    x, alpha = base + LANES, base + LANES + counts.max() * stride
    inverse = work[base : base + LANES].copy()
    steps_turned, used_turned = backward
    arrivals = np.empty((positions_at_hand(start.size) + 1) * stride)
    descend(
        emissions, tags, group, counts, positions, onward, steps_turned, used_turned, last, reached, arrivals, work,
        x, alpha, inverse, weights, d_emissions, d_transitions, d_start, extremes, DESCENT,
    )  # fmt: skip
    for r in range(group.size):
        if not counts[r]:
            continue
        row, count, weight = group[r], counts[r], weights[r]
        if inverse[r] == 0.0:
            masses_of = turned, last
            row_gradients(
                lattice, row, positions[r], count, weight, masses_of, work, base, False, d_emissions, sums, work
            )
            continue
        add_ends(work, alpha + (count - 1) * stride + r, last, weight * inverse[r], d_end)
        if tags.size:
            subtract_gold_steps(lattice, row, positions[r], count, weight, sums)


@inlined
def _gradients(
    lattice: Any, group: Any, tables: Any, room: Any, work: Any, base: int, upstream: Any, d_emissions: Any, sums: Any
) -> None:
    """Gradients of the rows of a group, from what `_losses` left."""
    length, size = lattice[0].shape[1:]
    _, turned, _, last, _, _, _ = tables
    positions, counts, _, _, _, _ = room
    weights = np.zeros(LANES)
    for r in range(group.size):
        weights[r] = upstream[group[r]]
        if counts[r] < length:
            d_emissions[group[r]] = 0.0
    if group.size >= WORTH_GROUPING:
        _group_gradients(lattice, group, tables, room, work, base, weights, d_emissions, sums)
        return
    steps = np.zeros(last.size * last.size)
    for r in range(group.size):
        if counts[r]:
            at = base + r * row_size(length, size)
            masses_of = turned, last
            scaled = work[at] == SCALED
            row_gradients(
                lattice, group[r], positions[r], counts[r], weights[r], masses_of, work, at, scaled, d_emissions,
                sums, steps,
            )  # fmt: skip
    add_steps(steps, turned, sums[0])


@compiled
def forward_rows(
    emissions: Any, tags: Any, mask: Any, transitions: Any, start: Any, end: Any, losses: Any, saved: Any, rows: Any,
    groups: Any,
) -> None:  # fmt: skip
    """Losses of the given groups of eight `rows`, those of like lengths side by side; each has its part of `saved`."""
    lattice = emissions, tags, mask, transitions, start, end
    tables, room = tables_of(lattice), room_for(mask.shape[1], start.size)
    for n in groups:
        group = rows[n * LANES : (n + 1) * LANES]
        find_group(mask, group, room)
        _losses(lattice, group, tables, room, saved, n * LANES * row_size(mask.shape[1], start.size), losses)


@compiled
def parts_of(sums: Any, size: int) -> Any:
    """Sums by transitions (D, D), start (D,) and end (D,), all in one array."""
    square = size * size
    return sums[:square].reshape(size, size), sums[square : square + size], sums[square + size :]


@compiled
def backward_rows(
    upstream: Any, saved: Any, emissions: Any, tags: Any, mask: Any, transitions: Any, start: Any, end: Any,
    d_emissions: Any, sums: Any, rows: Any, groups: Any,
) -> None:  # fmt: skip
    """Gradients of the given groups of rows; those of the parameters are added up, in double."""
    lattice = emissions, tags, mask, transitions, start, end
    tables, room, parts = tables_of(lattice), room_for(mask.shape[1], start.size), parts_of(sums, start.size)
    for n in groups:
        group = rows[n * LANES : (n + 1) * LANES]
        find_group(mask, group, room)
        base = n * LANES * row_size(mask.shape[1], start.size)
        _gradients(lattice, group, tables, room, saved, base, upstream, d_emissions, parts)


@compiled
def both_rows(
    upstream: Any, emissions: Any, tags: Any, mask: Any, transitions: Any, start: Any, end: Any, illegal: Any,
    illegal_start: Any, illegal_end: Any, losses: Any, d_emissions: Any, sums: Any, rows: Any, groups: Any,
) -> None:  # fmt: skip
    """Losses and gradients of the given groups of rows at once: a group's masses need not be kept for longer."""
    parameters = exclude(transitions, illegal), exclude(start, illegal_start), exclude(end, illegal_end)
    lattice = emissions, tags, mask, parameters[0], parameters[1], parameters[2]
    tables, room, parts = tables_of(lattice), room_for(mask.shape[1], start.size), parts_of(sums, start.size)
    most = LANES if rows.size >= WORTH_GROUPING else rows.size
    work = np.empty(most * row_size(mask.shape[1], start.size))
    for n in groups:
        group = rows[n * LANES : (n + 1) * LANES]
        find_group(mask, group, room)
        _losses(lattice, group, tables, room, work, 0, losses)
        _gradients(lattice, group, tables, room, work, 0, upstream, d_emissions, parts)
