"""The recursions on the CPU, in numba: same contract as the other backends; computed in double whatever comes in.

`packed` has the layout and the masses, `sums` what is summed over all paths, `paths` the best paths and drawn ones,
`compiling` where machine code is kept. Every kernel releases the GIL. Large batches are shared out to threads of our
own, since numba's own layer does not survive two Python threads that enter it at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maskedcrf.crf.cpu import packed, paths, sums
from maskedcrf.crf.reference import Paths

_NO_TAGS = np.zeros((0, 0), np.int64)
_NO_WEIGHTS = np.zeros(0)
_NO_SINGLE, _NO_DOUBLE = np.zeros((0, 0, 0), np.float32), np.zeros((0, 0, 0))
_CHUNK_CELLS, _CHUNK_ROWS = 131_072, 32
"""Masses that a chunk of rows may have, which then fit the cache; and how many rows are enough."""
_WORTH_A_THREAD = 2_000_000
"""Multiplications below which another thread costs more than it saves."""

_pools: dict[int, ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()


def _after_fork() -> None:
    """A child has none of its parent's threads, and the lock may have been held by one."""
    global _pools_lock
    _pools_lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork)


def forward(emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
    """(B,): log Z - score of `tags`, or log Z without; and what `backward` needs. Parameters as in `reference`."""
    saved, losses, none = empty_saved(emissions), np.empty(len(emissions)), emissions.new_empty((0, 0, 0))
    lattice = _arrays(emissions, mask, *parameters)
    _sum_paths(lattice, tags, _NO_WEIGHTS, losses, none, saved.numpy(), goes_down=False)
    return torch.from_numpy(losses).to(emissions.dtype), saved


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor with room for the masses that `forward` saves."""
    rows, length, size = emissions.shape
    return emissions.new_empty((2, rows * length, _width(size)), dtype=torch.float64)


def backward(
    upstream: Tensor, saved: Tensor, emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of sum(upstream * losses) by emissions, transitions, start and end."""
    d_emissions = torch.zeros_like(emissions, memory_format=torch.contiguous_format)
    lattice, weights = _arrays(emissions, mask, *parameters), _array(upstream.to(torch.float64))
    found = _sum_paths(lattice, tags, weights, _NO_WEIGHTS, d_emissions, _array(saved), goes_up=False)
    return d_emissions, *_split(found, *parameters)


def loss_and_gradients(
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    excluded: tuple[Tensor, Tensor, Tensor] | None,
    *,
    mean: bool,
    flag: Tensor | None = None,
) -> tuple[Tensor, Tensor, Callable[[Tensor], list[Tensor]]]:
    """Sum or mean of the losses, the losses (B,), and what gives its gradients, once, for that of the loss itself.

    The gradients are computed here; what is left is to multiply. The `flag` is for devices that compute later.
    """
    parameters = [transitions, start, end]
    if excluded is not None:
        parameters = [one.masked_fill(out, -torch.inf) for one, out in zip(parameters, excluded, strict=True)]
    rows = len(emissions)
    losses, weights = np.empty(rows), emissions.new_full((rows,), 1 / max(1, rows) if mean else 1.0)
    d_emissions = torch.zeros_like(emissions, memory_format=torch.contiguous_format)
    found = _sum_paths(_arrays(emissions, mask, *parameters), tags, _array(weights.double()), losses, d_emissions)
    gradients = [d_emissions, *_split(found, transitions, start, end)]

    def finish(upstream: Tensor) -> list[Tensor]:
        if (factor := upstream.item()) != 1.0:
            torch._foreach_mul_(gradients, factor)
        return gradients

    each = torch.from_numpy(losses).to(emissions.dtype)
    return each.mean() if mean else each.sum(), each, finish


def marginals(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t), which is the gradient of log Z; zero where not labelled."""
    shares = torch.zeros_like(emissions, memory_format=torch.contiguous_format)
    ones, lattice = np.ones(len(emissions)), _arrays(emissions, mask, *parameters)
    _sum_paths(lattice, None, ones, np.empty(len(emissions)), shares)
    return shares


def entropy(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
    """(B,): entropy of the path distribution in nats: log Z less the expected score, which the gradients give.

    Both are taken beside the highest emission of each position, so that large scores do not cancel.
    """
    wide = emissions.detach().to(torch.float64)
    wide = wide - wide.amax(2, keepdim=True).nan_to_num(0, posinf=0, neginf=0)
    shares, losses, rows = torch.zeros_like(wide), np.empty(len(wide)), len(wide)
    lattice = _arrays(wide, mask, *parameters)
    counted = torch.from_numpy(_sum_paths(lattice, None, np.ones(rows), losses, shares, apart=True))
    scores = torch.cat([one.reshape(-1, one.shape[-1]) for one in parameters]).detach().to(torch.float64)
    expected = (counted * scores.masked_fill(scores == -torch.inf, 0)).sum((1, 2))
    expected += (shares * wide.masked_fill(shares == 0, 0)).sum((1, 2))  # padding may be NaN, and the excluded is -inf
    return (torch.from_numpy(losses) - expected).clamp_(min=0).to(emissions.dtype)


def viterbi(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    found = Paths(torch.empty(mask.shape, dtype=torch.int64), torch.empty(len(mask), dtype=torch.float64))
    _run_on_rows(paths.best_paths, _arrays(emissions, mask, *parameters), *map(_array, found))
    return found


def nbest(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths; score -inf where there are fewer."""
    rows, length = mask.shape
    found = Paths(torch.empty((rows, k, length), dtype=torch.int64), torch.empty((rows, k), dtype=torch.float64))
    _run_on_rows(paths.k_best_paths, _arrays(emissions, mask, transitions, start, end), *map(_array, found))
    return found


def sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor
) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution; `uniforms` (B, n, T) in [0, 1) decide the draws."""
    tags, given = torch.empty(uniforms.shape, dtype=torch.int64), _array(uniforms.to(torch.float64))
    _run_on_rows(paths.draw_paths, _arrays(emissions, mask, transitions, start, end), given, tags.numpy())
    return tags


def span_probability(emissions: Tensor, mask: Tensor, *given: Tensor) -> Tensor:
    """(N,): P(this very segment is in the path); the parameters, and spans, member, continues as in `reference`."""
    *parameters, spans, member, continues = given
    found = torch.empty(len(spans), dtype=torch.float64)
    bounds = np.searchsorted(_array(spans)[:, 0], np.arange(len(mask) + 1))
    asked = _array(continues), _array(member), _array(spans), bounds, found.numpy(), 0.0, 0
    _run_on_rows(sums.sum_segments, _arrays(emissions, mask, *parameters), *asked)
    return found


def likely_spans(
    emissions: Tensor, mask: Tensor, *given: Tensor, threshold: float = 0.0, longest: int | None = None
) -> tuple[Tensor, Tensor]:
    """All segments with a probability above 0 and of at least `threshold`, and of at most `longest` positions.

    After the parameters, `members` (K, D) are the tags of each type, `continues` (D, D) the steps inside one segment.
    The result is (M, 4) of row, first position, last + 1 and type, in this order, and (M,) probabilities in double.
    """
    *parameters, members, continues = given
    nothing = np.empty((0, 3), np.int64), np.empty(0, np.int64), np.empty(0)
    asked = _array(continues), _array(members), *nothing, float(threshold), longest or max(1, mask.shape[1])
    found = _run_on_rows(sums.sum_segments, _arrays(emissions, mask, *parameters), *asked)
    where, chances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort(where.T[::-1])
    return torch.from_numpy(where[order]), torch.from_numpy(chances[order])


def _sum_paths(
    lattice: Any, tags: Tensor | None, weights: Any, losses: Any, gradients: Tensor, saved: Any = None, *,
    goes_up: bool = True, goes_down: bool = True, apart: bool = False,
) -> Any:  # fmt: skip
    """Run `sums.sum_paths`; the gradients by transitions, start and end, one below the other: one of each row if `apart`."""
    mask, size = lattice[1], len(lattice[3])
    order, chunk, threads = _share_out(mask, size)
    chunk = 1 if apart else chunk
    every = np.zeros((len(mask), size + 2, size)) if apart else None
    gold, jobs = _NO_TAGS if tags is None else _array(tags), []
    for first in range(threads):
        found = np.zeros((1, size + 2, size)) if every is None else every
        work = np.empty((2, chunk * mask.shape[1], _width(size))) if saved is None else saved
        share = order, chunk, first, threads
        which = saved is not None, goes_up, goes_down
        jobs.append((lattice, gold, weights, losses, _either(gradients), found, work, *which, share))
    _run(sums.sum_paths, jobs)
    if every is not None:
        return every[np.argsort(order)]
    return sum((job[5][0] for job in jobs[1:]), jobs[0][5][0])


def _split(found: Any, transitions: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by transitions, start and end out of one array, in the types of those."""
    whole = torch.from_numpy(found).to(transitions.dtype)
    return whole[:-2], whole[-2].to(start.dtype), whole[-1].to(end.dtype)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


def _either(tensor: Tensor) -> tuple[Any, Any]:
    """The pair of arrays that `packed.get` reads."""
    array = _array(tensor)
    return (array, _NO_DOUBLE) if array.dtype == np.float32 else (_NO_SINGLE, array)


def _arrays(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> tuple[Any, ...]:
    """The lattice that every kernel takes; parameters in double."""
    return _either(emissions), _array(mask), *[_array(one.to(torch.float64)) for one in parameters]


def _width(size: int) -> int:
    return -(-size // packed.VECTOR) * packed.VECTOR


def _share_out(mask: Any, size: int) -> tuple[Any, int, int]:
    """The rows, longest first; how many make a chunk, which depends on the batch's shape alone; how many threads."""
    rows, length = mask.shape
    counts = np.count_nonzero(mask, axis=1)
    chunk = max(1, min(_CHUNK_ROWS, max(4, _CHUNK_CELLS // max(1, length * size)), -(-rows // 2)))
    work = int(counts.sum()) * (size + 8) * (size + 8)
    threads = min(torch.get_num_threads(), -(-rows // chunk), work // _WORTH_A_THREAD + 1)
    return np.argsort(-counts, kind="stable"), chunk, max(1, threads)


def _run_on_rows(kernel: Callable[..., Any], lattice: Any, *asked: Any) -> list[Any]:
    """Run a kernel over all rows, on threads where that pays; the result of each."""
    order, chunk, threads = _share_out(lattice[1], len(lattice[3]))
    return _run(kernel, [(lattice, *asked, (order, chunk, first, threads)) for first in range(threads)])


def _run(kernel: Callable[..., Any], jobs: list[Any]) -> list[Any]:
    """All jobs at once, the first on this thread."""
    others = [_pool(len(jobs) - 1).submit(kernel, *job) for job in jobs[1:]]
    try:
        first = kernel(*jobs[0])
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]


def _pool(threads: int) -> ThreadPoolExecutor:
    with _pools_lock:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="maskedcrf")
        return _pools[threads]
