"""The recursions of `reference` as Triton kernels: few launches, no waiting for the device, safe in a CUDA graph.

Scores come in float32 or float64; the recursions are exact to float64 for scores of any range (see `scan_kernels`).
Gradients are summed in a fixed order, so the same input gives the same bits. What is asked for rarely is answered by
`matmul`, on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from maskedcrf.crf.matmul import entropy as entropy
from maskedcrf.crf.matmul import nbest as nbest
from maskedcrf.crf.matmul import sample as sample
from maskedcrf.crf.matmul import span_probability as span_probability
from maskedcrf.crf.reference import PAD, Paths
from maskedcrf.crf.scores import ExcludedSteps, LatticeScores, widest_dtype
from maskedcrf.crf.triton import gradient_kernels, path_kernels, scan_kernels, wide_scan_kernels

RESIDENT = 64
"""Up to this many tags the transitions stay in registers."""
WARPS = {16: 1, 32: 1, 64: 4}
"""Warps of a scan, by its width."""
BLOCK = 2048
"""Numbers that a program of `gradient_kernels.fold` reads at a time."""
ASKED, SUM, MEAN = 0, 1, 2
"""What rows weigh in the gradients: what is asked for, 1, or 1 / B."""
Kind = tuple[Any, ...] | None
"""The device and the types of a call, which with the constants tell one compiled kernel from another.

None where a tensor does not begin at a multiple of 16 bytes, for which code is compiled that no other may use.
"""

# Before Triton 3.3 a compiled kernel takes no constants.
_DIRECT = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)
_compiled: dict[Any, Any] = {}


class Gradients(NamedTuple):
    """Of emissions (B, T, D), transitions (D, D), start (D,) and end (D,)."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


def loss(emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
    """(B,): log Z less the score of `tags`, or log Z without them; and what `loss_backward` needs to be given."""
    losses, saved = emissions.new_empty(len(emissions)), empty_saved(emissions)
    if len(emissions):
        _scan(_given(emissions, tags, mask, parameters), losses, saved, _after(saved, emissions))
    return losses, saved


class Given(NamedTuple):
    """What every kernel takes: nine tensors, contiguous, and which of them count. The mask stands in for the rest."""

    tensors: tuple[Tensor, ...]
    tagged: bool
    masked: bool
    kind: Kind


def _given(
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    parameters: Sequence[Tensor],
    excluded: ExcludedSteps | None = None,
) -> Given:
    if excluded is not None and emissions.shape[2] > RESIDENT:  # read at every step, not once: excluded beforehand
        parts = zip(parameters, excluded, strict=True)
        parameters, excluded = [part.masked_fill(out, -torch.inf) for part, out in parts], None
    gold, outs = mask if tags is None else tags, (mask, mask, mask) if excluded is None else excluded
    tensors = [one.contiguous() for one in (emissions, gold, mask, *parameters, *outs)]
    kind = (emissions.get_device(), *[one.dtype for one in tensors]) if _aligned(*tensors) else None
    return Given(tuple(tensors), tags is not None, excluded is not None, kind)


def _aligned(*tensors: Tensor) -> bool:
    """Whether all begin at a multiple of 16 bytes, as what torch allocates does."""
    addresses = 0
    for tensor in tensors:
        addresses |= tensor.data_ptr()
    return addresses % 16 == 0


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor like the one that `loss` saves: what `scan_kernels.regions` says, and the backward scan's masses."""
    return emissions.new_empty(_regions_size(emissions) + _masses_size(emissions), dtype=torch.float64)


def _masses_size(emissions: Tensor) -> int:
    """Doubles that hold as many masses as there are emissions."""
    return (emissions.numel() * emissions.element_size() + 7) // 8


def _regions_size(emissions: Tensor) -> int:
    rows, length, _ = emissions.shape
    exponents = (emissions.numel() + 1) // 2
    doubles = 4 * rows + 3 * rows * length + exponents + _masses_size(emissions)
    return doubles + doubles % 2  # what comes behind begins at a multiple of 16 bytes


def _after(saved: Tensor, emissions: Tensor) -> Tensor:
    return saved[_regions_size(emissions) :].view(emissions.dtype)


def _scan(given: Given, losses: Tensor, saved: Tensor, after: Tensor) -> None:
    """Both scans of every row."""
    rows, length, size = given.tensors[0].shape
    width, lattice, results = _width(size), given.tensors, (losses, saved, after)
    if size <= RESIDENT:
        constants = {"size": size, "width": width, "tagged": given.tagged, "masked": given.masked}
        tensors = (*lattice, *results)
        _launch(scan_kernels.scan, (rows, 2, 1), given.kind, tensors, (rows, length), WARPS[width], constants)
        return
    scratch = saved.new_empty(5 * size * size + size + 6 * rows * size)
    constants = {"size": size, "width": width}
    _launch(wide_scan_kernels.spread_out, (size, 1, 1), given.kind, (lattice[3], scratch), (), 4, constants)
    constants |= {"chunk": 32, "tagged": given.tagged}
    tensors = (*lattice[:6], *results, scratch)
    _launch(wide_scan_kernels.scan_wide, (rows, 2, 1), given.kind, tensors, (rows, length), width // 32, constants)


def loss_backward(
    upstream: Tensor, saved: Tensor, emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor
) -> Gradients:
    """The gradients of (upstream * losses).sum(), exactly zero where a score is -inf."""
    gradients = Gradients(*map(_contiguous_like, (emissions, *parameters)))
    if len(emissions) == 0:
        return Gradients(*map(torch.zero_, gradients))
    given, weights = _given(emissions, tags, mask, parameters), upstream.contiguous()
    if not _aligned(weights):
        given = given._replace(kind=None)
    partials = _shares(given, weights, saved, _after(saved, emissions), out=gradients.emissions)
    _fold(given.kind, partials, gradients)
    return gradients


def loss_and_gradients(
    scores: LatticeScores, tags: Tensor, *, mean: bool, flag: Tensor | None = None
) -> tuple[Tensor, Tensor, Callable[[Tensor], Gradients]]:
    """Sum or mean of the losses, the losses (B,), and a function from a factor to the gradients times it.

    All but the last launch is done here. The emissions' gradient overwrites the backward scan's masses, so the function
    may be called once. The sum or mean is also written to `flag`, a float64 that may lie in the host's memory.
    """
    emissions, mask, *parameters, excluded = scores
    losses, reduced = emissions.new_empty(len(emissions)), emissions.new_empty(())
    gradients = Gradients(*map(_contiguous_like, (emissions, *parameters)))
    if len(emissions) == 0:
        if flag is not None:
            flag.zero_()
        return reduced.fill_(torch.nan if mean else 0.0), losses, lambda _: Gradients(*map(torch.zero_, gradients))
    given = _given(emissions, tags, mask, parameters, excluded)
    saved = emissions.new_empty(_regions_size(emissions), dtype=torch.float64)
    after = gradients.emissions
    _scan(given, losses, saved, after)
    sums = reduced, saved.new_empty(()) if flag is None else flag
    partials = _shares(given, losses, saved, after, out=after, even=MEAN if mean else SUM, sums=sums)

    def finish(upstream: Tensor) -> Gradients:
        _fold(given.kind if _aligned(upstream) else None, partials, gradients, upstream)
        return gradients

    return reduced, losses, finish


def _contiguous_like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def marginals(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t); zero where not labelled."""
    losses, saved = loss(emissions, None, mask, *parameters)
    shares = _contiguous_like(emissions)
    if len(emissions):
        given = _given(emissions, None, mask, parameters)
        _shares(given, losses, saved, _after(saved, emissions), out=shares, even=SUM, steps=False)
    return shares


def _shares(
    given: Given,
    upstream: Tensor,
    saved: Tensor,
    after: Tensor,
    *,
    out: Tensor,
    even: int = ASKED,
    steps: bool = True,
    sums: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """(programs, D * D + 2 D): the parameters' gradients in parts; the emissions' go to `out`. All contiguous.

    Rows weigh what `upstream` says; where they weigh the same, it has the losses, whose sum goes to both of `sums`.
    """
    rows, length, size = given.tensors[0].shape
    width = _width(size)
    tile = min(width, max(8, 4096 // width))
    tiles = -(-size // tile)
    positions = max(1, rows * length)
    chunk = -(-positions // max(1, min(positions, (2048 if width <= 16 else 240) // tiles)))
    programs = -(-positions // chunk)
    partials = saved.new_empty((programs, size * size + 2 * size) if steps else (1, 1))
    tensors = (upstream, saved, after, *given.tensors, out, partials, *(sums or (upstream, upstream)))
    flags = {"tagged": given.tagged, "masked": given.masked, "sums": steps, "even": even}
    constants = {"size": size, "width": width, "tile": tile, **flags}
    warps = 1 if width <= 16 else 4
    _launch(gradient_kernels.shares, (programs, tiles, 1), given.kind, tensors, (rows, length, chunk), warps, constants)
    return partials


def _fold(kind: Kind, partials: Tensor, gradients: Gradients, upstream: Tensor | None = None) -> None:
    """The parameters' gradients from their parts; and all of them times the number `upstream`, if there is one."""
    d_emissions, *sums = gradients
    size = len(gradients.start)
    every = size * size + 2 * size
    cells = 16 if every < 4096 else 64
    constants = {"size": size, "many": BLOCK // cells, "cells": cells, "scaled": upstream is not None}
    programs = -(-every // cells) + (0 if upstream is None else -(-d_emissions.numel() // BLOCK))
    tensors = (partials, *sums, partials if upstream is None else upstream, d_emissions)
    numbers = (len(partials), *d_emissions.shape[:2])
    _launch(gradient_kernels.fold, (programs, 1, 1), kind, tensors, numbers, 4, constants)


def _launch(
    kernel: Any,
    grid: tuple[int, int, int],
    kind: Kind,
    tensors: Sequence[Tensor],
    numbers: tuple[int, ...],
    warps: int,
    constants: dict[str, Any],
) -> None:
    """Run a kernel whose arguments are tensors, then numbers, then constants, on the device of the tensors.

    Triton's own way there takes 20 us of the host to find out what was compiled before, and asks the driver about
    each tensor; a compiled kernel takes addresses as well.
    """
    device = tensors[0].get_device()
    if device >= 0 and device != torch.cuda.current_device():
        with torch.cuda.device(device):
            _launch(kernel, grid, kind, tensors, numbers, warps, constants)
        return
    key = (kernel, kind, *constants.values())
    known = _compiled.get(key) if kind else None
    if known is not None:
        known[grid](*[one.data_ptr() for one in tensors], *numbers, *constants.values())
        return
    compiled = kernel[grid](*tensors, *numbers, **constants, num_warps=warps)
    if kind and _DIRECT:
        _compiled[key] = compiled


def viterbi(
    emissions: Tensor,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    excluded: ExcludedSteps | None = None,
) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    rows, length, size = emissions.shape
    tags = torch.empty((rows, length), dtype=torch.int64, device=emissions.device)
    scores = emissions.new_empty(rows, dtype=widest_dtype(emissions))
    if rows == 0:
        return Paths(tags, scores)
    smallest = torch.uint8 if size <= 256 else torch.int16
    pointers = torch.empty((rows, length, size), dtype=smallest, device=emissions.device)
    (one, _, *others), _, masked, kind = _given(emissions, None, mask, (transitions, start, end), excluded)
    results, width = (tags, scores, pointers), _width(size)
    if size <= RESIDENT:
        constants = {"size": size, "width": width, "pad": PAD, "masked": masked}
        tensors = (one, *others, *results)
        _launch(path_kernels.viterbi, (rows, 1, 1), kind, tensors, (length,), WARPS[width], constants)
    else:
        scratch = torch.empty((rows, 2, size), dtype=torch.float64, device=emissions.device)
        constants = {"size": size, "width": width, "chunk": 16, "pad": PAD}
        tensors = (one, *others[:4], *results, scratch)
        _launch(path_kernels.viterbi_wide, (rows, 1, 1), kind, tensors, (length,), width // 32, constants)
    return Paths(tags, scores)


def _width(size: int) -> int:
    """`size` rounded up to what a kernel's tile can be."""
    return max(16, 1 << (size - 1).bit_length())
