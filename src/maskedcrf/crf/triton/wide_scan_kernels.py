"""The scan of `scan_kernels` for tag sets whose transitions do not fit into a multiprocessor's registers."""

# mypy: ignore-errors
# The bodies are Triton's language, not Python's: types are the compiler's business.

import triton
import triton.language as tl

from maskedcrf.crf.triton.scan_kernels import (
    NONE,
    close_row,
    collect,
    extent,
    finite,
    keep,
    look,
    normal,
    open_row,
    power,
    regions_of_row,
    split,
    weigh,
)

MILD = tl.constexpr(400.0)  # two exponents this far from 0 still multiply within float64


@triton.jit
def tables(scratch, size: tl.constexpr):
    """Where `scratch` holds the transitions, (2, D, D) plain and turned: whole, mantissas, exponents; its rest."""
    mantissas = scratch + 2 * size * size
    exponents = mantissas + 2 * size * size
    return scratch, mantissas, exponents.to(tl.pointer_type(tl.float32)), exponents + size * size


@triton.jit
def spread_out(transitions, scratch, size: tl.constexpr, width: tl.constexpr):
    """Writes the tables, one row of the transitions per program, and how far its exponents are from 0."""
    origin = tl.program_id(0)
    index = tl.arange(0, width)
    inside = index < size
    wholes, mantissas, exponents, rest = tables(scratch, size)
    mantissa, exponent = split(tl.load(transitions + origin * size + index, mask=inside, other=NONE))
    # The product of two powers reaches exponents of both signs.
    whole = mantissa * power(tl.minimum(exponent, 0.0)) / power(tl.minimum(-tl.maximum(exponent, 0.0), 0.0))
    plain = origin * size + index
    turned = size * size + index * size + origin
    tl.store(wholes + plain, whole, mask=inside)
    tl.store(mantissas + plain, mantissa, mask=inside)
    tl.store(exponents + plain, exponent, mask=inside)
    tl.store(wholes + turned, whole, mask=inside)
    tl.store(mantissas + turned, mantissa, mask=inside)
    tl.store(exponents + turned, exponent, mask=inside)
    tl.store(rest + origin, tl.max(tl.where(exponent > NONE, tl.abs(exponent), 0.0), 0).to(tl.float64))


@triton.jit
def gather_mild(states, wholes, index, chunk: tl.constexpr, size: tl.constexpr, width: tl.constexpr):
    """`gather` where every mass and every transition is so near 1 that plain float64 loses nothing."""
    mass = tl.zeros((width,), tl.float64)
    for begin in range(0, size, chunk):
        source = begin + tl.arange(0, chunk)
        known = tl.load(states + source, mask=source < size, other=0.0)
        square = (source[:, None] < size) & (index[None, :] < size)
        steps = tl.load(wholes + source[:, None] * size + index[None, :], mask=square, other=0.0)
        mass += tl.sum(known[:, None] * steps, 0)
    return mass


@triton.jit
def gather(states, lifts, table, index, chunk: tl.constexpr, size: tl.constexpr, width: tl.constexpr):
    """Summed masses (J,) of all predecessors and the exponents they are aligned by, chunk predecessors at a time."""
    steps_at, shifts_at = table
    mass = tl.zeros((width,), tl.float64)
    top = tl.full((width,), NONE, tl.float32)
    for begin in range(0, size, chunk):
        source = begin + tl.arange(0, chunk)
        mantissa = tl.load(states + source, mask=source < size, other=0.0)
        exponent = tl.load(lifts + source, mask=source < size, other=NONE)
        square = (source[:, None] < size) & (index[None, :] < size)
        cell = source[:, None] * size + index[None, :]
        steps = tl.load(steps_at + cell, mask=square, other=0.0)
        reach = exponent[:, None] + tl.load(shifts_at + cell, mask=square, other=NONE)
        higher = tl.maximum(top, tl.max(reach, 0))
        aligned = finite(higher)
        more = tl.sum(mantissa[:, None] * steps * power(reach - aligned[None, :]), 0)
        mass = mass * power(top - aligned) + more
        top = higher
    return mass, finite(top)


@triton.jit
def step_wide(
    stored, offset, wholes, table, scores, mild, index, chunk: tl.constexpr, size: tl.constexpr, width: tl.constexpr
):
    """One step from a stored state over a position's scores: masses (J,), the highest at 2**0, and their offset."""
    states, lifts = stored
    factor, raised, common = weigh(scores)
    offset += common
    if mild:
        mass = gather_mild(states, wholes, index, chunk, size, width)
        top = tl.zeros((width,), tl.float32)
    else:
        mass, top = gather(states, lifts, table, index, chunk, size, width)
    mantissa, exponent = normal(mass * factor, tl.where(mass > 0, top + raised, NONE))
    peak = finite(tl.max(exponent, 0))
    return mantissa, exponent - peak, offset + peak


@triton.jit
def hand_on(mantissa, exponent, states, lifts, calm, index, size: tl.constexpr):
    """Stores the state for the next step; whether `gather_mild` may take it, and so whole masses were stored."""
    lowest = tl.min(tl.where(exponent > NONE, exponent, 0.0), 0)
    mild = calm & (lowest >= -MILD) & (tl.max(exponent, 0) <= 0)
    whole = mantissa * power(tl.minimum(exponent, 0.0))
    tl.store(states + index, tl.where(mild, whole, mantissa), mask=index < size)
    tl.store(lifts + index, exponent, mask=index < size)
    tl.debug_barrier()
    return mild


@triton.jit(do_not_specialize=["rows", "length"])
def scan_wide(
    emissions, tags, mask, transitions, start, end, losses, saved, after, scratch,
    rows, length, size: tl.constexpr, width: tl.constexpr, chunk: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """`scan_kernels.scan` with the transitions read a few rows at a time, and the state handed on through memory."""
    row = tl.program_id(0)
    direction = tl.program_id(1)
    forth = direction == 0
    sign = 1 - 2 * direction
    line = row.to(tl.int64) * length
    emissions += line * size
    tags += line
    mask += line
    place = regions_of_row(saved, after, rows, length, row, direction, size)
    wholes, steps_at, shifts_at, rest = tables(scratch, size)
    turn = direction * size * size
    table = steps_at + turn, shifts_at + turn
    states = rest + size + (direction * rows.to(tl.int64) + row) * 3 * size  # two of D float64, two of D float32
    lifts = (states + 2 * size).to(tl.pointer_type(tl.float32))
    index = tl.arange(0, width)
    inside = index < size
    first, last, count = extent(mask, length)
    origin = tl.where(forth, first, last)
    span = last - first
    opening = tl.load(start + index, mask=inside, other=NONE)
    closing = tl.load(end + index, mask=inside, other=NONE)
    state, gold, seen = open_row(
        emissions, tags, mask, place, opening, closing, forth, origin, count, index, size, width, tagged
    )
    mantissa, exponent, offset, before = state
    calm = tl.max(tl.load(rest + index, mask=inside, other=0.0), 0) <= MILD
    mild = hand_on(mantissa, exponent, states, lifts, calm, index, size)
    given = transitions, transitions
    if tagged:
        gold = collect(gold, seen, given, index, forth, size, False)

    side = 0
    seen = look(emissions, tags, mask, origin + sign, span >= 1, index, size, tagged)
    for moved in range(1, span + 1):
        position = origin + sign * moved
        following = look(emissions, tags, mask, position + sign, moved + 1 <= span, index, size, tagged)
        scores, on, _ = seen
        if on:
            stored = states + side * size, lifts + side * size
            mantissa, exponent, offset = step_wide(
                stored, offset, wholes + turn, table, scores, mild, index, chunk, size, width
            )
            side = 1 - side  # the other half: this one may still be read
            keep((mantissa, exponent, offset, before), place, position, on, index, size)
            mild = hand_on(mantissa, exponent, states + side * size, lifts + side * size, calm, index, size)
            before = position
        if tagged:
            gold = collect(gold, seen, given, index, forth, size, False)
        seen = following
    if forth:
        state = mantissa, exponent, offset, before
        close_row(state, gold, opening, closing, tags, (first, last, count), row, saved, losses, index, size, tagged)
