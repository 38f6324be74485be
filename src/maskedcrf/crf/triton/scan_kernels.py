"""Triton kernels that sum over paths: the two scans, and what the gradients take from them.

Every mass is a pair: a mantissa in [1, 2) (float64) times two to a whole exponent (kept in float32, -inf for
no mass), each tag with its own exponent. A step aligns the predecessors of a tag by the highest exponent among
them, so nothing a later mask makes the only legal mass is ever lost, whatever the range of the scores, and no
exp or log waits for the step before. Offsets common to a position are float64, in powers of two.
"""

# mypy: ignore-errors
# The bodies are Triton's language, not Python's: types are the compiler's business.

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
NONE = tl.constexpr(float("-inf"))
LOWEST = tl.constexpr(-1.0e37)  # an exponent further down is rounded up: it must not turn into "no mass"
ROW = tl.constexpr(4)  # float64 per row of a batch: log2 Z, first and last labelled position, their number


@triton.jit
def exp2(fraction):
    """Two to a fraction in [0, 1), to the last bits of float64: sqrt(2) times the series about a half.

    Without the library function's branch, the compiler can work on it while a step waits for its predecessor.
    """
    centred = fraction - 0.5
    value = centred * 0 + 1.9362689226271274e-12
    value = value * centred + 3.631479244252045e-11
    value = value * centred + 6.286940516128352e-10
    value = value * centred + 9.9771516954805e-09
    value = value * centred + 1.4393987273266628e-07
    value = value * centred + 1.8689520651984559e-06
    value = value * centred + 2.157062300896799e-05
    value = value * centred + 0.00021783881590746446
    value = value * centred + 0.0018856498765369369
    value = value * centred + 0.013602088628663626
    value = value * centred + 0.07849466324122069
    value = value * centred + 0.3397315841830749
    value = value * centred + 0.9802581434685472
    value = value * centred + 1.4142135623730951
    return value


@triton.jit
def split(scores):
    """Mantissa and exponent of exp(scores)."""
    scaled = scores.to(tl.float64) * LOG2_E
    legal = scaled > NONE
    scaled = tl.where(legal, scaled, 0.0)
    whole = tl.floor(scaled)
    mantissa = tl.where(legal, exp2(scaled - whole), 0.0)
    return mantissa, tl.where(legal, tl.maximum(whole, LOWEST).to(tl.float32), NONE)


@triton.jit
def legal(scores, illegal, cell, inside, masked: tl.constexpr):
    """The scores of these cells: -inf outside and, if `masked`, where a step, a start or an end is illegal."""
    found = tl.load(scores + cell, mask=inside, other=NONE)
    if masked:
        found = tl.where(tl.load(illegal + cell, mask=inside, other=0) != 0, NONE, found)
    return found


@triton.jit
def power(exponent):
    """Two to a whole `exponent` < 1024 as float64, 0 below the range; built from its bits."""
    biased = tl.maximum(exponent, -1023.0) + 12583935.0  # 1.5 * 2**23 + 1023: the sum ends in the bits of 2**e
    high = biased.to(tl.int32, bitcast=True) << 20
    return (high.to(tl.int64) << 32).to(tl.float64, bitcast=True)


@triton.jit
def normal(mass, exponent):
    """The pair for mass * 2**exponent, mass >= 1 or 0."""
    bits = mass.to(tl.int64, bitcast=True)
    mantissa = ((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True)
    # As in `power`: an integer's subtraction may become a paired 16-bit one, whose constant ptxas 12.8 loses on sm_90.
    biased = ((bits >> 52).to(tl.int32) | 0x4B400000).to(tl.float32, bitcast=True)
    raised = tl.maximum(exponent + (biased - 12583935.0), LOWEST)
    return tl.where(mass > 0, mantissa, 0.0), tl.where(mass > 0, raised, NONE)


@triton.jit
def finite(top):
    """The maximum to align by: 0 where there is nothing to align."""
    return tl.where(top > NONE, top, 0.0)


@triton.jit
def step(mantissa, exponent, steps, shifts, factor, raised):
    """One step of the recursion: (I,) masses over (I, J) steps, times (J,) emission factors."""
    reach = exponent[:, None] + shifts
    top = finite(tl.max(reach, 0))
    mass = tl.sum(mantissa[:, None] * steps * power(reach - top[None, :]), 0)
    return normal(mass * factor, top + raised)


@triton.jit
def weigh(scores):
    """Mantissas and exponents of exp(scores - top), and top in powers of two."""
    top = finite(tl.max(scores, 0)).to(tl.float64)
    mantissa, exponent = split(scores.to(tl.float64) - top)
    return mantissa, exponent, top * LOG2_E


@triton.jit
def total(mantissa, exponent):
    """log2 of a sum of masses."""
    top = finite(tl.max(exponent, 0))
    mass = tl.sum(mantissa * power(exponent - top), 0)
    return tl.where(mass > 0, tl.log2(tl.where(mass > 0, mass, 1.0)) + top, NONE)


@triton.jit
def extent(mask, length):
    """First and last position that is on, and how many are."""
    first = length
    last = -1
    count = 0
    for begin in range(0, length, 512):
        index = begin + tl.arange(0, 512)
        on = tl.load(mask + index, mask=index < length, other=0) != 0
        first = tl.minimum(first, tl.min(tl.where(on, index, length), 0))
        last = tl.maximum(last, tl.max(tl.where(on, index, -1), 0))
        count += tl.sum(on.to(tl.int32), 0)
    return first, last, count


@triton.jit
def regions(saved, rows, length, size: tl.constexpr, kind: tl.constexpr):
    """Where `saved` has, after (B, 4) of rows, offsets, previous (2, B, T), exponents (2, B, T, D), masses (B, T, D).

    The first of two is the forward scan's; the backward scan's masses are in a tensor of their own.
    """
    positions = rows.to(tl.int64) * length
    offsets = saved + ROW * rows.to(tl.int64)
    previous = offsets + 2 * positions
    exponents = previous + positions
    masses = exponents + (positions * size + 1) // 2
    return (
        offsets,
        previous.to(tl.pointer_type(tl.int32)),
        exponents.to(tl.pointer_type(tl.int16)),
        masses.to(tl.pointer_type(kind)),
    )


@triton.jit
def regions_of_row(saved, after, rows, length, row, direction, size: tl.constexpr):
    """The regions that a scan of this row in this direction writes."""
    offsets, previous, exponents, masses = regions(saved, rows, length, size, after.dtype.element_ty)
    line = (direction * rows.to(tl.int64) + row) * length
    own = tl.where(direction == 0, masses.to(tl.int64), after.to(tl.int64)).to(after.dtype)
    return offsets + line, previous + line, exponents + line * size, own + row.to(tl.int64) * length * size


@triton.jit
def pack(mantissa, exponent):
    """A pair for storing, in less room: a mass between 2**-64 and 2**65, and the rest of its exponent in 128ths."""
    known = tl.where(exponent > NONE, exponent, 0.0)
    coarse = tl.floor((known + 64.0) * 0.0078125)
    mass = mantissa * power(known - 128.0 * coarse)
    return mass, tl.minimum(tl.maximum(coarse, -32768.0), 32767.0).to(tl.int16)


@triton.jit
def unpack(mass, coarse):
    """What `pack` was given."""
    return normal(mass.to(tl.float64), 128.0 * coarse.to(tl.float32))


@triton.jit
def look(emissions, tags, mask, position, inside, index, size: tl.constexpr, tagged: tl.constexpr):
    """One position's emissions (-inf beyond the tags), mask and tag."""
    on = tl.load(mask + position, mask=inside, other=0) != 0
    here = position.to(tl.int64) * size
    scores = tl.load(emissions + here + index, mask=(index < size) & inside, other=NONE)
    tag = on.to(tl.int64)
    if tagged:
        tag = tl.load(tags + position, mask=inside, other=0)
    return scores, on, tag


@triton.jit
def collect(gold, seen, steps, index, forth, size: tl.constexpr, masked: tl.constexpr):
    """The gold path's scores (J,) with one position more; its step is added when its load has come in."""
    sums, waiting, unknown, before = gold
    scores, on, tag = seen
    known = (tag >= 0) & (tag < size)
    sums += tl.where((index == tag) & on, scores.to(tl.float64), 0.0) + tl.where(index == 0, waiting, 0.0)
    linked = on & known & (before >= 0)
    there = tl.where(forth, before * size + tag, tag * size + before)
    transitions, illegal = steps
    waiting = tl.where(linked, legal(transitions, illegal, tl.where(linked, there, 0), linked, masked), 0.0)
    unknown = unknown | (on & (known == 0))
    return sums, waiting.to(tl.float64), unknown, tl.where(on, tl.where(known, tag, -1), before)


@triton.jit
def keep(state, place, position, write, index, size: tl.constexpr):
    """Stores a position's masses, their offset, and where the position before it was."""
    mantissa, exponent, offset, before = state
    offsets, previous, exponents, masses = place
    here = position.to(tl.int64) * size + index
    inside = (index < size) & write
    mass, coarse = pack(mantissa, exponent)
    tl.store(masses + here, mass.to(masses.dtype.element_ty), mask=inside)
    tl.store(exponents + here, coarse, mask=inside)
    tl.store(offsets + position, offset, mask=write)
    tl.store(previous + position, before, mask=write)


@triton.jit
def advance(
    state, gold, seen, place, position, tile, given, forth, index,
    size: tl.constexpr, tagged: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """State and gold moved over one position, if it is on, and stored."""
    mantissa, exponent, offset, before = state
    scores, on, _ = seen
    steps, shifts = tile
    factor, raised, common = weigh(tl.where(on, scores, NONE))
    moved, lifted = step(mantissa, exponent, steps, shifts, factor, raised)
    mantissa = tl.where(on, moved, mantissa)
    exponent = tl.where(on, lifted, exponent)
    offset = tl.where(on, offset + common, offset)
    keep((mantissa, exponent, offset, before), place, position, on, index, size)
    if tagged:
        gold = collect(gold, seen, given, index, forth, size, masked)
    return (mantissa, exponent, offset, tl.where(on, position, before)), gold


@triton.jit
def open_row(
    emissions, tags, mask, place, opening, closing, forth, origin, count, index,
    size: tl.constexpr, width: tl.constexpr, tagged: tl.constexpr,
):  # fmt: skip
    """The state of the position that a scan of a row begins with, stored; gold before it; and what is seen there."""
    seen = look(emissions, tags, mask, origin, count > 0, index, size, tagged)
    scores, on, tag = seen
    factor, raised, offset = weigh(tl.where(on, scores, NONE))
    mantissa, exponent = split(tl.where(forth, opening, closing))
    mantissa, exponent = normal(mantissa * factor, exponent + raised)
    before = tl.full((), -1, tl.int32)
    keep((mantissa, exponent, offset, before), place, origin, count > 0, index, size)
    gold = tl.zeros((width,), tl.float64), offset * 0, on & (on == 0), tag * 0 - 1
    return (mantissa, exponent, offset, origin), gold, seen


@triton.jit
def finish(gold, opening, closing, tags, first, last, count, index, size: tl.constexpr):
    """The gold path's scores with its start and end."""
    sums, waiting, unknown, before = gold
    begins = tl.load(tags + first, mask=count > 0, other=-1)
    ends = tl.load(tags + last, mask=count > 0, other=-1)
    sums += tl.where(index == begins, opening.to(tl.float64), 0.0) + tl.where(
        index == ends, closing.to(tl.float64), 0.0
    )
    return sums, waiting, unknown, before


@triton.jit
def close_row(
    state, gold, opening, closing, tags, bounds, row, saved, losses, index, size: tl.constexpr, tagged: tl.constexpr
):
    """Stores a row's loss and summary, from its last state, which takes the closing scores."""
    mantissa, exponent, offset, _ = state
    first, last, count = bounds
    ending, lifted = split(closing)
    mantissa, exponent = normal(mantissa * ending, exponent + lifted)
    if tagged:
        gold = finish(gold, opening, closing, tags, first, last, count, index, size)
    log_z = total(mantissa, exponent) + offset
    loss = log_z * LN_2
    if tagged:
        sums, waiting, unknown, _ = gold
        # Of a row without any path NaN, as -inf less -inf is; of an illegal path +inf.
        loss -= tl.where(unknown, NONE, tl.sum(sums, 0) + waiting)
    tl.store(losses + row, tl.where(count > 0, loss, 0.0).to(losses.dtype.element_ty))
    summary = saved + row.to(tl.int64) * ROW
    tl.store(summary, log_z)
    tl.store(summary + 1, first.to(tl.float64))
    tl.store(summary + 2, last.to(tl.float64))
    tl.store(summary + 3, count.to(tl.float64))


@triton.jit(do_not_specialize=["rows", "length"])
def scan(
    emissions, tags, mask, transitions, start, end, illegal, illegal_start, illegal_end, losses, saved, after,
    rows, length, size: tl.constexpr, width: tl.constexpr, tagged: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """Both recursions of one row, one program each, transitions in registers; width is size rounded up.

    The backward scan is the forward one on the row reversed, with transitions turned and start and end swapped.
    """
    row = tl.program_id(0)
    direction = tl.program_id(1)
    forth = direction == 0
    sign = 1 - 2 * direction
    line = row.to(tl.int64) * length
    emissions += line * size
    tags += line
    mask += line
    place = regions_of_row(saved, after, rows, length, row, direction, size)
    index = tl.arange(0, width)
    square = (index[:, None] < size) & (index[None, :] < size)
    # Turned after the load, so that in both directions a tag's predecessors are summed within a thread.
    plain = legal(transitions, illegal, index[:, None] * size + index[None, :], square, masked)
    tile = split(tl.where(forth, plain, tl.trans(plain)))
    given = transitions, illegal
    first, last, count = extent(mask, length)
    origin = tl.where(forth, first, last)
    span = last - first
    opening = legal(start, illegal_start, index, index < size, masked)
    closing = legal(end, illegal_end, index, index < size, masked)
    state, gold, seen = open_row(
        emissions, tags, mask, place, opening, closing, forth, origin, count, index, size, width, tagged
    )
    if tagged:
        gold = collect(gold, seen, given, index, forth, size, masked)

    # Loads of the next two positions are under way while two are worked on.
    one = look(emissions, tags, mask, origin + sign, span >= 1, index, size, tagged)
    two = look(emissions, tags, mask, origin + 2 * sign, span >= 2, index, size, tagged)
    for moved in range(1, span + 1, 2):
        position = origin + sign * moved
        next_one = look(emissions, tags, mask, position + 2 * sign, moved + 2 <= span, index, size, tagged)
        next_two = look(emissions, tags, mask, position + 3 * sign, moved + 3 <= span, index, size, tagged)
        state, gold = advance(state, gold, one, place, position, tile, given, forth, index, size, tagged, masked)
        position += sign
        state, gold = advance(state, gold, two, place, position, tile, given, forth, index, size, tagged, masked)
        one, two = next_one, next_two
        if moved % 64 == 1:  # often enough for exponents to stay exact
            mantissa, exponent, offset, before = state
            peak = finite(tl.max(exponent, 0))
            state = mantissa, exponent - peak, offset + peak, before
    if forth:
        close_row(state, gold, opening, closing, tags, (first, last, count), row, saved, losses, index, size, tagged)
