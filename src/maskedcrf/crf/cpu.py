"""The recursions on the CPU, in numba: same contract as `plain` and `gpu`.

Everything is computed in double whatever comes in. The compiled code is kept on disk, and every kernel releases
the GIL: large batches are shared out to threads of our own, since numba's own layer does not survive two Python
threads that enter it at once. Few rows of many tags keep two threads busy as well.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numba.core import event
from torch import Tensor

from maskedcrf.crf import cpu_halves, cpu_paths, cpu_rows, cpu_spans, matmul
from maskedcrf.crf.cpu_lanes import LANES
from maskedcrf.crf.reference import Paths

_NO_TAGS = np.zeros((0, 0), np.int64)
_NONE_OUT = [np.zeros((0, 0), np.bool_), np.zeros(0, np.bool_), np.zeros(0, np.bool_)]
# Multiplications below which a second thread costs more than it saves.
_WORTH_SHARING = 2_000_000
_WORTH_HALVING = 12_000_000

_pools: dict[int, ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()


def _after_fork() -> None:
    """A child has none of its parent's threads, and one of them may have held the lock."""
    global _pools_lock
    _pools_lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork)


class _Patience(event.Listener):  # type: ignore[misc]
    """Says once, before a silent half minute, what it is spent on; code that is on disk makes no such event."""

    said = False

    def on_start(self, event_: Any) -> None:
        compiled = getattr(event_.data.get("dispatcher"), "py_func", None)  # anybody's, of any kind
        if not self.said and str(getattr(compiled, "__module__", "")).startswith(__package__):
            self.said = True
            _LOGGER.warning("compiling the CRF for this processor: up to a minute, this first time only")

    def on_end(self, event_: Any) -> None:
        """Nothing to say."""


_LOGGER = logging.getLogger(__name__)
event.register("numba:compile", _Patience())


def forward(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """(B,): log Z - score of `tags`, or log Z without; and what `backward` needs."""
    losses, saved = emissions.new_empty(len(emissions)), empty_saved(emissions)
    gold = _NO_TAGS if tags is None else _array(tags)
    lattice = _arrays(emissions, transitions, start, end)
    on = _array(mask)
    _share(cpu_rows.forward_rows, on, len(start), lattice[0], gold, on, *lattice[1:], losses.numpy(), saved.numpy())
    return losses, saved


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor with room for what `forward` saves; see cpu_rows."""
    rows, length, size = emissions.shape
    padded = -(-size // LANES) * LANES
    return emissions.new_empty(-(-rows // LANES) * LANES * (LANES + 2 * length * padded), dtype=torch.float64)


def backward(
    upstream: Tensor,
    saved: Tensor,
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of sum(upstream * losses) by emissions, transitions, start and end."""
    d_emissions = torch.empty_like(emissions, memory_format=torch.contiguous_format)
    gold = _NO_TAGS if tags is None else _array(tags)
    lattice = _arrays(emissions, transitions, start, end)
    on = _array(mask)
    given = (_array(upstream), _array(saved), lattice[0], gold, on, *lattice[1:], d_emissions.numpy())
    sums = _share(cpu_rows.backward_rows, on, len(start), *given, parameters=True)
    return d_emissions, *_split(sums, transitions, start, end)


def loss_and_gradients(
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    illegal: tuple[Tensor, Tensor, Tensor] | None,
    *,
    mean: bool,
    flag: Tensor | None = None,
) -> tuple[Tensor, Tensor, Callable[[Tensor], list[Tensor]]]:
    """Sum or mean of the losses, the losses (B,), and what gives its gradients, once, for that of the loss itself.

    What is illegal is excluded. The gradients are computed here; what is left is to multiply.
    """
    losses = emissions.new_empty(len(emissions))
    d_emissions = torch.empty_like(emissions, memory_format=torch.contiguous_format)
    gold = _NO_TAGS if tags is None else _array(tags)
    lattice = _arrays(emissions, transitions, start, end)
    on = _array(mask)
    out = _NONE_OUT if illegal is None else [_array(one) for one in illegal]
    weights = np.full(len(on), 1 / max(1, len(on)) if mean else 1.0, losses.numpy().dtype)
    given, wanted = (lattice[0], gold, on, *lattice[1:], *out), (losses.numpy(), d_emissions.numpy())
    if _worth_halving(on, len(start)):
        sums = _halve(given, weights, *wanted)
    else:
        sums = _share(cpu_rows.both_rows, on, len(start), weights, *given, *wanted, parameters=True)
    gradients = [d_emissions, *_split(sums, transitions, start, end)]

    def finish(upstream: Tensor) -> list[Tensor]:
        if (factor := upstream.item()) != 1.0:
            torch._foreach_mul_(gradients, factor)
        return gradients

    return losses.mean() if mean else losses.sum(), losses, finish


def _split(sums: Any, transitions: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by transitions, start and end out of one array, in the types of those."""
    size = len(start)
    steps, starts, ends = torch.split_with_sizes(
        torch.from_numpy(sums).to(transitions.dtype), [size * size, size, size]
    )
    return steps.view(size, size), starts.to(start.dtype), ends.to(end.dtype)


def marginals(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t), which is the gradient of log Z; zero where not labelled."""
    _, saved = forward(emissions, None, mask, transitions, start, end)
    ones = emissions.new_ones(len(emissions))
    return backward(ones, saved, emissions, None, mask, transitions, start, end)[0]


def entropy(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B,): log Z less the expected score of a path."""
    return matmul.entropy(emissions, mask, transitions, start, end)


def viterbi(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    tags = torch.empty(mask.shape, dtype=torch.int64)
    scores = torch.empty(len(mask), dtype=torch.float64)
    lattice, on = _arrays(emissions, transitions, start, end), _array(mask)
    _share_rows(cpu_paths.viterbi_rows, on, len(start), lattice[0], on, *lattice[1:], tags.numpy(), scores.numpy())
    return Paths(tags, scores)


def nbest(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths; score -inf where there are fewer."""
    tags = torch.empty((len(mask), k, mask.shape[1]), dtype=torch.int64)
    scores = torch.empty((len(mask), k), dtype=torch.float64)
    lattice, on = _arrays(emissions, transitions, start, end), _array(mask)
    _share_rows(cpu_paths.nbest_rows, on, len(start), lattice[0], on, *lattice[1:], tags.numpy(), scores.numpy())
    return Paths(tags, scores)


def sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor
) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution; `uniforms` (B, n, T) in [0, 1) decide the draws."""
    tags = torch.empty(uniforms.shape, dtype=torch.int64)
    lattice, on = _arrays(emissions, transitions, start, end), _array(mask)
    given = (lattice[0], on, *lattice[1:], _array(uniforms), tags.numpy())
    _share_rows(cpu_paths.sample_rows, on, len(start), *given)
    return tags


def span_probability(
    emissions: Tensor,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    spans: Tensor,
    member: Tensor,
    continues: Tensor,
) -> Tensor:
    """(N,): P(this very segment is in the path), for `spans` (N, 3) in the order of their rows; see `reference`."""
    chances = marginals(emissions, mask, transitions, start, end)
    found = torch.empty(len(spans), dtype=torch.float64)
    bounds = np.searchsorted(_array(spans)[:, 0], np.arange(len(mask) + 1))
    lattice, on = _arrays(emissions, transitions, start, end), _array(mask)
    asked = (_array(chances), _array(spans), bounds, _array(member), _array(continues), found.numpy())
    _share_rows(cpu_spans.span_rows, on, len(start), lattice[0], on, *lattice[1:], *asked)
    return found.clamp_(max=1.0)  # tags' chances in single precision may add up to a little more


def _array(tensor: Tensor) -> Any:
    if tensor.requires_grad:
        tensor = tensor.detach()
    return (tensor if tensor.is_contiguous() else tensor.contiguous()).numpy()


def _arrays(emissions: Tensor, *parameters: Tensor) -> list[Any]:
    """All as arrays of the dtype of the emissions, or all in double: the kernels are compiled for these two."""
    if any(parameter.dtype != emissions.dtype for parameter in parameters):
        return [_array(part.double()) for part in (emissions, *parameters)]
    return [_array(part) for part in (emissions, *parameters)]


def _share(kernel: Callable[..., None], mask: Any, size: int, *given: Any, parameters: bool = False) -> Any:
    """Run a kernel over all groups of eight rows, those of like lengths side by side, on threads where that pays.

    With `parameters`, it adds up the gradients by transitions, start and end, which are the result.
    """
    groups = -(-len(mask) // LANES)
    rows, threads = (np.arange(len(mask)), 1) if groups == 1 else _by_length(mask, size, groups)
    sums = [np.zeros(size * size + 2 * size) for _ in range(threads if parameters else 0)]  # each thread has its own
    owns = [[one] for one in sums] or [[]] * threads
    _run(kernel, [(*given, *own, rows, np.arange(n, groups, threads)) for n, own in enumerate(owns)])
    return sum(sums[1:], sums[0]) if parameters else None


def _worth_halving(mask: Any, size: int) -> bool:
    """Whether the rows are one group only, which two threads may share, of enough work."""
    few = cpu_rows.WORTH_GROUPING <= len(mask) <= LANES and torch.get_num_threads() > 1
    return few and mask.size * size * size >= _WORTH_HALVING


def _halve(given: Any, weights: Any, losses: Any, d_emissions: Any) -> Any:
    """Losses and gradients of one group on two threads; see cpu_halves."""
    prepared = cpu_halves.prepare_rows(*given)
    _run(cpu_halves.climb_rows, [(*prepared, backwards) for backwards in (False, True)])
    size = d_emissions.shape[2]
    sums = [np.zeros(size * size + 2 * size) for _ in range(2)]
    _run(cpu_halves.weigh_rows, [(*prepared, weights, d_emissions, own, half) for half, own in enumerate(sums)])
    cpu_halves.finish_rows(*prepared, weights, losses, d_emissions, sums[0])
    return sums[0] + sums[1]


def _share_rows(kernel: Callable[..., None], mask: Any, size: int, *given: Any) -> None:
    """Run a kernel over all rows, one by one, on threads where that pays."""
    possible = mask.size * (size + 8) * (size + 8) >= _WORTH_SHARING
    rows, threads = _by_length(mask, size, len(mask)) if possible else (np.arange(len(mask)), 1)
    _run(kernel, [(*given, np.ascontiguousarray(rows[n::threads])) for n in range(threads)])


def _by_length(mask: Any, size: int, most: int) -> tuple[Any, int]:
    """The rows, longest first, and how many threads torch may use are worth it, at most `most`."""
    counts = np.count_nonzero(mask, axis=1)
    work = int(counts.sum()) * (size + 8) * (size + 8)
    threads = min(torch.get_num_threads(), most, work // _WORTH_SHARING + 1)
    return np.argsort(-counts, kind="stable"), max(1, threads)


def _run(kernel: Callable[..., None], jobs: list[Any]) -> None:
    """All jobs at once, the first on this thread."""
    others = [_pool(len(jobs) - 1).submit(kernel, *job) for job in jobs[1:]]
    try:
        kernel(*jobs[0])
    finally:
        for other in others:
            other.result()


def _pool(threads: int) -> ThreadPoolExecutor:
    with _pools_lock:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="maskedcrf")
        return _pools[threads]
