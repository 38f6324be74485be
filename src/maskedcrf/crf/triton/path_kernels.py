"""Triton kernels for the best path: Viterbi with its back-trace."""

# mypy: ignore-errors
# The bodies are Triton's language, not Python's: types are the compiler's business.

import triton
import triton.language as tl

from maskedcrf.crf.triton.scan_kernels import NONE, extent, legal


@triton.jit
def look(emissions, mask, position, inside, index, size: tl.constexpr):
    """One position's emissions (-inf beyond the tags) and mask."""
    on = tl.load(mask + position, mask=inside, other=0) != 0
    scores = tl.load(emissions + position.to(tl.int64) * size + index, mask=(index < size) & inside, other=NONE)
    return scores.to(tl.float64), on


@triton.jit
def best(score, seen, tile, pointers, position, index, size: tl.constexpr):
    """The best scores (J,) with one position more, if it is on; the predecessors go to `pointers`."""
    emitted, on = seen
    reached, origin = tl.max(score[:, None] + tile, 0, return_indices=True, return_indices_tie_break_left=True)
    here = position.to(tl.int64) * size + index
    tl.store(pointers + here, origin.to(pointers.dtype.element_ty), mask=(index < size) & on)
    return tl.where(on, reached + emitted, score)


@triton.jit
def blank(tags, mask, length, pad: tl.constexpr, block: tl.constexpr):
    """Marks every position that is off."""
    for begin in range(0, length, block):
        index = begin + tl.arange(0, block)
        on = tl.load(mask + index, mask=index < length, other=1) != 0
        tl.store(tags + index, tl.full((block,), pad, tl.int64), mask=(index < length) & (on == 0))


@triton.jit
def trace(score, closing, tags, scores, mask, pointers, first, last, row, size: tl.constexpr):
    """Writes the best path, from its last tag back, and its score."""
    final, tag = tl.max(score + closing, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(scores + row, tl.where(last >= 0, final, 0.0).to(scores.dtype.element_ty))
    tl.debug_barrier()  # the pointers were written by other threads
    for passed in range(0, last - first + 1):
        position = last - passed
        on = tl.load(mask + position) != 0
        tl.store(tags + position, tag.to(tl.int64), mask=on)
        here = position.to(tl.int64) * size + tag
        tag = tl.load(pointers + here, mask=on & (position > first), other=0).to(tl.int32) * on + tag * (on == 0)


@triton.jit(do_not_specialize=["length"])
def viterbi(
    emissions, mask, transitions, start, end, illegal, illegal_start, illegal_end, tags, scores, pointers,
    length, size: tl.constexpr, width: tl.constexpr, pad: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """The best path of one row per program, transitions in registers; width is size rounded up."""
    row = tl.program_id(0)
    line = row.to(tl.int64) * length
    emissions += line * size
    pointers += line * size
    mask += line
    tags += line
    index = tl.arange(0, width)
    square = (index[:, None] < size) & (index[None, :] < size)
    tile = legal(transitions, illegal, index[:, None] * size + index[None, :], square, masked).to(tl.float64)
    first, last, _ = extent(mask, length)
    span = last - first
    opening = legal(start, illegal_start, index, index < size, masked).to(tl.float64)
    closing = legal(end, illegal_end, index, index < size, masked).to(tl.float64)
    emitted, _ = look(emissions, mask, first, last >= 0, index, size)
    score = opening + emitted
    # Loads of the next four positions are under way while four are worked on.
    one = look(emissions, mask, first + 1, span >= 1, index, size)
    two = look(emissions, mask, first + 2, span >= 2, index, size)
    three = look(emissions, mask, first + 3, span >= 3, index, size)
    four = look(emissions, mask, first + 4, span >= 4, index, size)
    for moved in range(1, span + 1, 4):
        position = first + moved
        next_one = look(emissions, mask, position + 4, position + 4 <= last, index, size)
        next_two = look(emissions, mask, position + 5, position + 5 <= last, index, size)
        next_three = look(emissions, mask, position + 6, position + 6 <= last, index, size)
        next_four = look(emissions, mask, position + 7, position + 7 <= last, index, size)
        score = best(score, one, tile, pointers, position, index, size)
        score = best(score, two, tile, pointers, position + 1, index, size)
        score = best(score, three, tile, pointers, position + 2, index, size)
        score = best(score, four, tile, pointers, position + 3, index, size)
        one, two, three, four = next_one, next_two, next_three, next_four
    blank(tags, mask, length, pad, 512)
    trace(score, closing, tags, scores, mask, pointers, first, last, row, size)


@triton.jit
def best_of(states, transitions, index, chunk: tl.constexpr, size: tl.constexpr, width: tl.constexpr):
    """The best scores (J,) over all predecessors and which they are, chunk predecessors at a time."""
    highest = tl.full((width,), NONE, tl.float64)
    origin = tl.zeros((width,), tl.int32)
    for begin in range(0, size, chunk):
        source = begin + tl.arange(0, chunk)
        score = tl.load(states + source, mask=source < size, other=NONE)
        square = (source[:, None] < size) & (index[None, :] < size)
        cell = source[:, None] * size + index[None, :]
        reached = score[:, None] + tl.load(transitions + cell, mask=square, other=NONE).to(tl.float64)
        top, who = tl.max(reached, 0, return_indices=True, return_indices_tie_break_left=True)
        better = top > highest
        highest = tl.where(better, top, highest)
        origin = tl.where(better, begin + who, origin)
    return highest, origin


@triton.jit(do_not_specialize=["length"])
def viterbi_wide(
    emissions, mask, transitions, start, end, tags, scores, pointers, scratch,
    length, size: tl.constexpr, width: tl.constexpr, chunk: tl.constexpr, pad: tl.constexpr,
):  # fmt: skip
    """`viterbi` with the transitions read a few rows at a time; `scratch` holds (B, 2, D) scores."""
    row = tl.program_id(0)
    line = row.to(tl.int64) * length
    emissions += line * size
    pointers += line * size
    mask += line
    tags += line
    scratch += row.to(tl.int64) * 2 * size
    index = tl.arange(0, width)
    inside = index < size
    first, last, _ = extent(mask, length)
    opening = tl.load(start + index, mask=inside, other=NONE).to(tl.float64)
    closing = tl.load(end + index, mask=inside, other=NONE).to(tl.float64)
    emitted, _ = look(emissions, mask, first, last >= 0, index, size)
    score = opening + emitted
    tl.store(scratch + index, score, mask=inside)
    tl.debug_barrier()
    side = 0
    seen = look(emissions, mask, first + 1, last - first >= 1, index, size)
    for moved in range(1, last - first + 1):
        position = first + moved
        following = look(emissions, mask, position + 1, position + 1 <= last, index, size)
        emitted, on = seen
        if on:
            score, origin = best_of(scratch + side * size, transitions, index, chunk, size, width)
            score += emitted
            side = 1 - side  # the other half: this one may still be read
            tl.store(scratch + side * size + index, score, mask=inside)
            here = position.to(tl.int64) * size + index
            tl.store(pointers + here, origin.to(pointers.dtype.element_ty), mask=inside)
            tl.debug_barrier()
        seen = following
    blank(tags, mask, length, pad, 512)
    trace(score, closing, tags, scores, mask, pointers, first, last, row, size)
