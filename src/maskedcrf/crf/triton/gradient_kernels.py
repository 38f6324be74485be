"""Triton kernels for gradients and marginals: what `scan_kernels` saved, put together at every position at once."""

# mypy: ignore-errors
# The bodies are Triton's language, not Python's: types are the compiler's business.

import triton
import triton.language as tl

from maskedcrf.crf.triton.scan_kernels import NONE, ROW, exp2, legal, power, regions, split, unpack


@triton.jit
def share(mantissa, exponent, delta):
    """mantissa * 2**(exponent + delta): a probability, `delta` being any float64."""
    whole = tl.floor(delta)
    rest = exp2(delta - whole)
    exponent += whole.to(tl.float32)
    # Rounding may leave a certain event a hair above 1; more than that cannot be.
    return mantissa * rest * power(tl.minimum(exponent - 8, 0.0)) * 256.0


@triton.jit
def around(n, source, second, after, exponents, masses, index, to, size: tl.constexpr):
    """The masses (I,) before a position and (J,) behind it."""
    before = tl.load(masses + source * size + index, mask=index < size, other=0.0)
    ahead = unpack(before, tl.load(exponents + source * size + index, mask=index < size, other=0))
    behind = tl.load(after + n * size + to, mask=to < size, other=0.0)
    return ahead, unpack(behind, tl.load(exponents + second * size + to, mask=to < size, other=0))


@triton.jit
def probabilities(before, behind, steps, edge, offsets, offset, first, possible):
    """Of a position's tags (J,) and of the steps (I, J) to them, given the masses on both sides."""
    mantissa, exponent = before
    rest, raised = behind
    factors, shifts = steps
    begin_mantissa, begin_exponent = edge
    alone = share(begin_mantissa * rest, begin_exponent + raised, offset)
    exponent = tl.where(first | (possible == 0), NONE, exponent)
    delta = tl.where(first, 0.0, tl.load(offsets)) + offset
    pair = share(mantissa[:, None] * (factors * rest[None, :]), exponent[:, None] + (shifts + raised[None, :]), delta)
    return tl.where(first, tl.where(possible, alone, 0.0), tl.sum(pair, 0)), pair


@triton.jit(do_not_specialize=["rows", "length", "chunk"])
def shares(
    upstream, saved, after, emissions, tags, mask, transitions, start, end, illegal, illegal_start, illegal_end,
    d_emissions, partials, reduced, notice, rows, length, chunk, size: tl.constexpr, width: tl.constexpr,
    tile: tl.constexpr, tagged: tl.constexpr, masked: tl.constexpr, sums: tl.constexpr, even: tl.constexpr,
):  # fmt: skip
    """Gradients of `chunk` positions towards `tile` tags; with `sums` also what they add up to for the parameters.

    `partials` (programs, D * D + 2 D) takes each program's sums for transitions, start and end. Rows weigh what
    `upstream` says, or, where `even` is 1 or 2, each 1 or 1 / B; then `upstream` holds the losses, whose sum or mean
    goes to `reduced` and to `notice`, which the host can read. `d_emissions` may be the same as `after`.
    """
    index = tl.arange(0, width)
    to = tl.program_id(1) * tile + tl.arange(0, tile)
    inside = to < size
    square = (index[:, None] < size) & inside[None, :]
    scores = legal(transitions, illegal, index[:, None] * size + to[None, :], square, masked)
    steps = split(scores)
    starts = legal(start, illegal_start, to, inside, masked)
    edge = split(starts)
    offsets, previous, exponents, masses = regions(saved, rows, length, size, after.dtype.element_ty)
    positions = rows.to(tl.int64) * length
    equal = tl.full((), 1.0, tl.float64)
    if even == 2:
        equal /= rows
    d_steps = tl.zeros((width, tile), tl.float64)
    d_start, d_end = tl.zeros((tile,), tl.float64), tl.zeros((tile,), tl.float64)
    low = tl.program_id(0).to(tl.int64) * chunk
    for n in range(low, tl.minimum(low + chunk, positions)):
        gradient = tl.zeros((tile,), tl.float64)
        if tl.load(mask + n) != 0:
            row = n // length
            log_z = tl.load(saved + row * ROW)
            last = tl.load(saved + row * ROW + 2)
            weight = equal
            if even == 0:
                weight = tl.load(upstream + row).to(tl.float64)
            back = tl.load(previous + n).to(tl.int64)
            first = back < 0
            source = tl.where(first, n, row * length + back)
            second = positions + n  # the backward scan's half of a region
            offset = tl.load(offsets + second) - tl.where(log_z > NONE, log_z, 0.0)
            before, behind = around(n, source, second, after, exponents, masses, index, to, size)
            emitted = tl.load(emissions + n * size + to, mask=inside, other=NONE)
            column, pair = probabilities(before, behind, steps, edge, offsets + source, offset, first, log_z > NONE)
            if tagged:
                tag = tl.load(tags + n)
                was = tl.where(first, -1, tl.load(tags + source))
                column -= (to == tag).to(tl.float64)
                pair -= ((index[:, None] == was) & (to[None, :] == tag)).to(tl.float64)
            gradient = tl.where(emitted > NONE, weight * column, 0.0)
            if sums:
                d_steps += weight * pair
                d_start += tl.where(first, weight * column, 0.0)
                d_end += tl.where(n - row * length == last, weight * column, 0.0)
        tl.debug_barrier()  # every thread has read what is overwritten if `d_emissions` is `after`
        tl.store(d_emissions + n * size + to, gradient.to(d_emissions.dtype.element_ty), mask=inside)
    if sums:
        ends = legal(end, illegal_end, to, inside, masked)
        store_sums(partials, (d_steps, d_start, d_end), (scores, starts, ends), index, to, size)
        reduce(reduced, notice, upstream, rows, equal, even)


@triton.jit
def store_sums(partials, gradients, scores, index, to, size: tl.constexpr):
    """A program's sums for transitions, start and end, zero where a score is -inf."""
    d_steps, d_start, d_end = gradients
    steps, starts, ends = scores
    inside = to < size
    square = (index[:, None] < size) & inside[None, :]
    partials += tl.program_id(0).to(tl.int64) * (size * size + 2 * size)
    tl.store(partials + index[:, None] * size + to[None, :], tl.where(steps > NONE, d_steps, 0.0), mask=square)
    tl.store(partials + size * size + to, tl.where(starts > NONE, d_start, 0.0), mask=inside)
    tl.store(partials + size * size + size + to, tl.where(ends > NONE, d_end, 0.0), mask=inside)


@triton.jit
def reduce(reduced, notice, losses, rows, weight, even: tl.constexpr):
    """The sum of `losses` (B,) times `weight`, always in the same order, by one program; nothing if `even` is 0."""
    if even > 0:  # noqa: SIM102 (only this is known when the kernel is compiled)
        if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
            summed = tl.zeros((256,), tl.float64)
            for begin in range(0, rows, 256):
                row = begin + tl.arange(0, 256)
                summed += tl.load(losses + row, mask=row < rows, other=0.0).to(tl.float64)
            result = tl.sum(summed, 0) * weight
            tl.store(reduced, result.to(reduced.dtype.element_ty))
            tl.store(notice, result)


@triton.jit(do_not_specialize=["programs", "rows", "length"])
def fold(
    partials, d_transitions, d_start, d_end, upstream, d_emissions, programs, rows, length,
    size: tl.constexpr, many: tl.constexpr, cells: tl.constexpr, scaled: tl.constexpr,
):  # fmt: skip
    """Sums the partials, always in the same order, into the three gradients.

    With `scaled`, all are multiplied by the number `upstream`, and so is `d_emissions`: by the programs behind those
    that sum, `many` times `cells` numbers each.
    """
    square: tl.constexpr = size * size
    every: tl.constexpr = square + 2 * size
    summing: tl.constexpr = (every + cells - 1) // cells
    factor = tl.full((), 1.0, tl.float64)
    if scaled:
        factor = tl.load(upstream).to(tl.float64)
    program = tl.program_id(0)
    if program < summing:
        cell = program * cells + tl.arange(0, cells)
        sums = tl.zeros((many, cells), tl.float64)
        for begin in range(0, programs, many):
            part = begin + tl.arange(0, many)
            read = (part[:, None] < programs) & (cell[None, :] < every)
            sums += tl.load(partials + part[:, None].to(tl.int64) * every + cell[None, :], mask=read, other=0.0)
        result = (tl.sum(sums, 0) * factor).to(d_transitions.dtype.element_ty)
        tl.store(d_transitions + cell, result, mask=cell < square)
        tl.store(d_start + cell - square, result, mask=(cell >= square) & (cell < square + size))
        tl.store(d_end + cell - square - size, result, mask=(cell >= square + size) & (cell < every))
    elif factor != 1.0:
        place = (program - summing).to(tl.int64) * (many * cells) + tl.arange(0, many * cells)
        inside = place < rows.to(tl.int64) * length * size
        gradient = tl.load(d_emissions + place, mask=inside, other=0.0).to(tl.float64) * factor
        tl.store(d_emissions + place, gradient.to(d_emissions.dtype.element_ty), mask=inside)
