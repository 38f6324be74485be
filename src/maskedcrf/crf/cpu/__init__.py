"""The recursions on the CPU, in numba: same contract as the other backends; computed in double whatever comes in.

`packed` has the layout and the masses, `sums` and `segments` sum over all paths, `paths` finds the best paths and draws
paths; `row_threads` divides large batches among threads. Arguments come in the order of `reference`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.cpu import packed, paths, segments, sums
from maskedcrf.crf.reference import PAD, Paths
from maskedcrf.crf.row_threads import run, run_on_rows, share_out
from maskedcrf.crf.scores import LatticeScores

_NO_TAGS, _NO_WEIGHTS = np.zeros((0, 0), np.int64), np.zeros(0)
_NO_SINGLE, _NO_DOUBLE = np.zeros((0, 0, 0), np.float32), np.zeros((0, 0, 0))
_TOO_LARGE_TO_SUBTRACT = 50  # expected score of a position, whose share may be wrong in the tenth place


def loss(emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
    """(B,): log Z - score of `tags`, or log Z without; and what `loss_backward` needs."""
    saved, none = empty_saved(emissions), emissions.new_empty((0, 0, 0))
    losses, lattice = torch.empty(len(emissions), dtype=torch.float64), _arrays(emissions, mask, *parameters)
    _sum_paths(lattice, tags, _NO_WEIGHTS, losses.numpy(), none, saved.numpy())
    return losses.to(emissions.dtype), saved


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor with room for the masses that `loss` saves."""
    rows, length, size = emissions.shape
    return emissions.new_empty((2, rows * length, _width(size)), dtype=torch.float64)


def loss_backward(
    upstream: Tensor, saved: Tensor, emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of sum(upstream * losses) by emissions, transitions, start and end."""
    d_emissions, weights = emissions.new_empty(emissions.shape), _array(upstream.double())
    lattice = _arrays(emissions, mask, *parameters)
    found = _sum_paths(lattice, tags, weights, _NO_WEIGHTS, d_emissions, _array(saved))
    return d_emissions, *_split(found, *parameters)


def loss_and_gradients(
    scores: LatticeScores, tags: Tensor | None, *, mean: bool, flag: Tensor | None = None
) -> tuple[Tensor, Tensor, Callable[[Tensor], list[Tensor]]]:
    """Sum or mean of the losses, the losses (B,), and a function from a factor to the gradients times it.

    They are computed here, and multiplied in place, so call it once. The `flag` is for devices that compute later.
    """
    emissions, mask, *parameters = scores.exclude()
    rows, d_emissions = len(mask), emissions.new_empty(emissions.shape)
    # Rounded as autograd would round it, so that gradients are the same to the bit whatever computes the mean.
    weights = np.full(rows, 1 / max(1, rows) if mean else 1.0, d_emissions.numpy().dtype).astype(np.float64)
    losses = np.empty(rows)
    found = _sum_paths(_arrays(emissions, mask, *parameters), tags, weights, losses, d_emissions)
    gradients = [d_emissions, *_split(found, *parameters)]

    def finish(upstream: Tensor) -> list[Tensor]:
        if (factor := upstream.item()) != 1.0:
            torch._foreach_mul_(gradients, factor)
        return gradients

    each = torch.from_numpy(losses).to(emissions.dtype)
    return each.mean() if mean else each.sum(), each, finish


def marginals(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t), which is the gradient of log Z; zero where not labelled."""
    shares, rows = emissions.new_empty(emissions.shape), len(mask)
    _sum_paths(_arrays(emissions, mask, *parameters), None, np.ones(rows), np.empty(rows), shares)
    return shares


def entropy(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
    """(B,): entropy of the path distribution in nats: log Z less the expected score, which the gradients give.

    Both are taken beside the highest emission of each position, so that large scores do not cancel.
    """
    wide = emissions.detach().double()
    wide = wide - wide.amax(2, keepdim=True).nan_to_num(0, posinf=0, neginf=0)
    shares, losses, ones = wide.new_empty(wide.shape), np.empty(len(wide)), np.ones(len(wide))
    found = _sum_paths(_arrays(wide, mask, *parameters), None, ones, losses, shares, apart=True)
    scores = torch.cat([one.detach().double().view(-1, one.shape[-1]) for one in parameters])
    stepped = torch.from_numpy(found) * scores.masked_fill(scores == -torch.inf, 0)
    emitted = shares * wide.masked_fill(shares == 0, 0)  # padding may be NaN, and what is excluded is -inf
    entropies = torch.from_numpy(losses) - stepped.sum((1, 2)) - emitted.sum((1, 2))
    far = stepped.abs().sum((1, 2)) + emitted.abs().sum((1, 2)) > _TOO_LARGE_TO_SUBTRACT * mask.sum(1)
    if far.any():
        entropies[far] = reference.entropy(wide[far], mask[far], *[one.detach().double() for one in parameters])
    return entropies.clamp_(min=0).to(emissions.dtype)


def viterbi(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    tags, scores = torch.full(mask.shape, PAD), torch.empty(len(mask), dtype=torch.float64)
    run_on_rows(paths.best_paths, _arrays(emissions, mask, *parameters), tags.numpy(), scores.numpy())
    return Paths(tags, scores)


def nbest(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths; score -inf where there are fewer."""
    rows, length = mask.shape
    tags, scores = torch.full((rows, k, length), PAD), torch.empty((rows, k), dtype=torch.float64)
    run_on_rows(paths.k_best_paths, _arrays(emissions, mask, transitions, start, end), tags.numpy(), scores.numpy())
    return Paths(tags, scores)


def sample(emissions: Tensor, mask: Tensor, *given: Tensor) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution; `uniforms` (B, n, T) in [0, 1), the last, decide."""
    *parameters, uniforms = given
    tags, draws = torch.full(uniforms.shape, PAD), _array(uniforms.double())
    run_on_rows(paths.draw_paths, _arrays(emissions, mask, *parameters), draws, tags.numpy())
    return tags


def span_probability(emissions: Tensor, mask: Tensor, *given: Tensor) -> Tensor:
    """(N,): P(this very segment is in the path); the parameters, and spans, member, continues as in `reference`."""
    *parameters, spans, member, continues = given
    found, places = torch.empty(len(spans), dtype=torch.float64), _array(spans)
    bounds = np.searchsorted(places[:, 0], np.arange(len(mask) + 1))
    question = np.stack(_array(continues).nonzero()), _array(member), places, bounds, found.numpy(), 0.0
    run_on_rows(segments.sum_segments, _arrays(emissions, mask, *parameters), *question)
    return found


def likely_spans(emissions: Tensor, mask: Tensor, *given: Tensor, threshold: float = 0.0) -> tuple[Any, Any]:
    """All segments with a probability above 0 and of at least `threshold`.

    After the parameters, `members` (K, D) are the tags of each type, `continues` (D, D) the steps inside one segment.
    The result is (M, 4) of row, first position, last + 1 and type, sorted by row, last, type and first, and P (M,).
    """
    *parameters, members, continues = given
    nothing = np.empty((0, 3), np.int64), np.empty(0, np.int64), np.empty(0)
    question = np.stack(_array(continues).nonzero()), _array(members), *nothing, float(threshold)
    found = run_on_rows(segments.sum_segments, _arrays(emissions, mask, *parameters), *question)
    where, chances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort(where.T[[1, 3, 2, 0]])
    return where[order], chances[order]


def _sum_paths(
    lattice: Any, tags: Any, weights: Any, losses: Any, gradients: Tensor, saved: Any = None, apart: bool = False
) -> Any:
    """Run `sums.sum_paths`: gradients by transitions, start and end, one below the other; if `apart` each row's."""
    mask, size = lattice[1], len(lattice[3])
    chunk, threads = share_out(mask, size)
    chunk, target = 1 if apart else chunk, _either(gradients)
    for array in target:
        array.fill(0.0)  # on two threads, as torch would, it may take longer than all the rest
    gold, left = _NO_TAGS if tags is None else _array(tags), np.zeros(len(mask), np.bool_)
    found = np.zeros((1 if apart else threads, len(mask) if apart else 1, size + 2, size))
    # One array for all threads: smaller ones would be given back to the system and paged in again at each call.
    room = np.empty((threads, 2, chunk * mask.shape[1], _width(size))) if saved is None else [saved] * threads
    shares = [(chunk, first, threads) for first in range(threads)]
    jobs = [(weights, losses, target, found[n % len(found)], left, share) for n, share in enumerate(shares)]
    run(sums.sum_paths, [(lattice, gold, own, *job) for own, job in zip(room, jobs, strict=True)])
    if left.any():
        run(sums.sum_paths_on_logarithms, [(lattice, *job) for job in jobs])
    return found[0] if apart else sum(found[1:, 0], found[0, 0])


def _split(found: Any, transitions: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by transitions, start and end out of one array, in the types of those."""
    lines = torch.from_numpy(found)
    return lines[:-2].to(transitions.dtype), lines[-2].to(start.dtype), lines[-1].to(end.dtype)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


def _either(tensor: Tensor) -> tuple[Any, Any]:
    """The pair of arrays that `packed.get` reads."""
    array = _array(tensor)
    return (array, _NO_DOUBLE) if array.dtype == np.float32 else (_NO_SINGLE, array)


def _arrays(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> tuple[Any, ...]:
    """The lattice that every kernel takes; parameters in double."""
    return _either(emissions), _array(mask), *[_array(one.double()) for one in parameters]


def _width(size: int) -> int:
    return -(-size // packed.VECTOR) * packed.VECTOR
