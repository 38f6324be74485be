"""The recursions of `reference` as Triton kernels: few launches, no waiting for the device, safe in a CUDA graph.

Scores come in float32 or float64; the recursions are exact to float64 for scores of any range (see `gpu_sums`).
Gradients are summed in a fixed order, so the same input gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from maskedcrf.crf import gpu_paths, gpu_shares, gpu_sums, gpu_wide, reference
from maskedcrf.crf.reference import PAD, Paths

RESIDENT = 64
"""Up to this many tags the transitions stay in registers."""
WARPS = {16: 1, 32: 1, 64: 4}
"""Warps of a scan, by its width."""


class Gradients(NamedTuple):
    """Of emissions (B, T, D), transitions (D, D), start (D,) and end (D,)."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


def forward(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """(B,): log Z less the score of `tags`, or log Z without them; and what `backward` needs to be given."""
    rows, length, size = emissions.shape
    emissions, mask, transitions = emissions.contiguous(), mask.contiguous(), transitions.contiguous()
    gold = mask if tags is None else tags.contiguous()
    losses, saved = emissions.new_empty(rows), empty_saved(emissions)
    if rows == 0:
        return losses, saved
    lattice = (emissions, gold, mask, transitions, start.contiguous(), end.contiguous(), losses, saved)
    width = _width(size)
    with torch.cuda.device_of(emissions):
        if size <= RESIDENT:
            gpu_sums.scan[(rows, 2)](
                *lattice, rows, length, size=size, width=width, tagged=tags is not None, num_warps=WARPS[width]
            )
        else:
            scratch = saved.new_empty(5 * size * size + size + 6 * rows * size)
            gpu_wide.spread_out[(size,)](transitions, scratch, size=size, width=width, num_warps=4)
            gpu_wide.scan_wide[(rows, 2)](
                *lattice,
                scratch,
                rows,
                length,
                size=size,
                width=width,
                chunk=32,
                tagged=tags is not None,
                num_warps=width // 32,
            )
    return losses, saved


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor like the one that `forward` saves."""
    rows, length, size = emissions.shape
    cells = rows * length * size
    mantissas = cells * emissions.element_size() // 4  # in float64, like all of `saved`
    return emissions.new_empty(4 * rows + 3 * rows * length + cells + mantissas, dtype=torch.float64)


def backward(
    upstream: Tensor,
    saved: Tensor,
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
) -> Gradients:
    """The gradients of (upstream * losses).sum(), exactly zero where a score is -inf."""
    size = emissions.shape[2]
    gradients = Gradients(
        torch.empty_like(emissions, memory_format=torch.contiguous_format),
        transitions.new_empty(size, size),
        start.new_empty(size),
        end.new_empty(size),
    )
    if len(emissions) == 0:
        return Gradients(gradients.emissions, *(part.zero_() for part in gradients[1:]))
    lattice = emissions, tags, mask, transitions, start, end
    partials = _shares(upstream.contiguous(), saved, *lattice, out=gradients.emissions, steps=True)
    every = size * size + 2 * size
    cells = 16 if every < 4096 else 64
    with torch.cuda.device_of(emissions):
        gpu_shares.fold[(triton.cdiv(every, cells),)](
            partials, *gradients[1:], len(partials), size=size, many=2048 // cells, cells=cells, num_warps=4
        )
    return gradients


def marginals(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t); zero where not labelled."""
    _, saved = forward(emissions, None, mask, transitions, start, end)
    shares = torch.empty_like(emissions, memory_format=torch.contiguous_format)
    if len(emissions):
        ones = emissions.new_ones(len(emissions))
        _shares(ones, saved, emissions, None, mask, transitions, start, end, out=shares, steps=False)
    return shares


def _shares(
    upstream: Tensor,
    saved: Tensor,
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    *,
    out: Tensor,
    steps: bool,
) -> Tensor:
    """(programs, D * D + 2 D): the parameters' gradients in parts; the emissions' go to `out`."""
    rows, length, size = emissions.shape
    width = _width(size)
    tile = min(width, max(8, 4096 // width))
    tiles = triton.cdiv(size, tile)
    chunk = triton.cdiv(rows * length, max(1, min(rows * length, (2048 if width <= 16 else 512) // tiles)))
    programs = triton.cdiv(rows * length, chunk)
    partials = saved.new_empty((programs, size * size + 2 * size) if steps else (1, 1))
    gold = mask if tags is None else tags.contiguous()
    with torch.cuda.device_of(emissions):
        gpu_shares.shares[(programs, tiles)](
            upstream,
            saved,
            emissions.contiguous(),
            gold,
            mask.contiguous(),
            transitions.contiguous(),
            start.contiguous(),
            end.contiguous(),
            out,
            partials,
            rows,
            length,
            chunk,
            size=size,
            width=width,
            tile=tile,
            tagged=tags is not None,
            sums=steps,
            num_warps=1 if width <= 16 else 4,
        )
    return partials


def viterbi(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    rows, length, size = emissions.shape
    tags = torch.empty((rows, length), dtype=torch.int64, device=emissions.device)
    scores = emissions.new_empty(rows)
    if rows == 0:
        return Paths(tags, scores)
    pointers = torch.empty(
        (rows, length, size), dtype=torch.uint8 if size <= 256 else torch.int16, device=emissions.device
    )
    parts = (part.contiguous() for part in (emissions, mask, transitions, start, end))
    width = _width(size)
    with torch.cuda.device_of(emissions):
        if size <= RESIDENT:
            gpu_paths.viterbi[(rows,)](
                *parts, tags, scores, pointers, length, size=size, width=width, pad=PAD, num_warps=WARPS[width]
            )
        else:
            scratch = torch.empty((rows, 2, size), dtype=torch.float64, device=emissions.device)
            gpu_paths.viterbi_wide[(rows,)](
                *parts,
                tags,
                scores,
                pointers,
                scratch,
                length,
                size=size,
                width=width,
                chunk=16,
                pad=PAD,
                num_warps=width // 32,
            )
    return Paths(tags, scores)


def nbest(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths, in plain torch on the device."""
    return reference.nbest(emissions, mask, transitions, start, end, k)


def sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor
) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution; `uniforms` (B, n, T) in [0, 1) decide the draws."""
    rows, length, size = emissions.shape
    # Masses are saved in the emissions' type, and a draw depends on their last bits.
    _, saved = forward(emissions.double(), None, mask, transitions, start, end)
    tags = torch.empty(uniforms.shape, dtype=torch.int64, device=emissions.device)
    if tags.numel():
        with torch.cuda.device_of(emissions):
            gpu_paths.sample[(rows, uniforms.shape[1])](
                saved,
                mask.contiguous(),
                transitions.contiguous(),
                end.contiguous(),
                uniforms.contiguous(),
                tags,
                rows,
                length,
                uniforms.shape[1],
                size=size,
                width=_width(size),
                pad=PAD,
                num_warps=1 if size <= 128 else 4,
            )
    return tags


def _width(size: int) -> int:
    """`size` rounded up to what a kernel's tile can be."""
    return max(16, 1 << (size - 1).bit_length())
