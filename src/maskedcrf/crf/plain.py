"""The recursions in plain torch on masses: one matrix product a position, for machines without numba or Triton.

The contract of every fast backend:
  forward   -> losses (B,) = log Z - score of the tags (log Z where tags is None), and one tensor that `backward` needs
  backward  -> gradients by emissions, transitions, start and end; exactly 0 on what is excluded
  empty_saved(emissions) -> a tensor like the one that `forward` saves
  marginals, viterbi, nbest, sample: as in `reference`
All compute in double whatever comes in. Masses are exact while they stay in a range where products neither vanish
nor overflow; that is checked, and rows that leave it are done again on logarithms, by the reference.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.reference import Paths

_STEP = 138.0  # |log| of transition and emission masses; exp(138) = 1e60
_MASS = 1e-90  # forward and backward masses stay between this and its inverse
_RESCALE = 8  # positions between two divisions


class _Masses(NamedTuple):
    """exp of a lattice: emissions (T, B, D), the log of what was divided out (B,), lengths (B,), parameters."""

    emissions: Tensor
    shifts: Tensor
    lengths: Tensor
    matrix: Tensor
    start: Tensor
    end: Tensor
    usable: Tensor


def _exponentiate(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Masses, 0 for -inf, and which scores are in range (NaN is not)."""
    excluded = scores == -torch.inf
    scores = scores.masked_fill(excluded, 0)
    # exp is many times slower where it underflows, so nothing may.
    return scores.clamp(-_STEP, _STEP).exp().masked_fill(excluded, 0), scores.abs() <= _STEP


def _masses(packed: reference.Packed, transitions: Tensor, start: Tensor, end: Tensor) -> _Masses:
    shift = packed.emissions.amax(2, keepdim=True)
    shift = shift.masked_fill(~shift.isfinite(), 0)
    emitted, in_range = _exponentiate(packed.emissions - shift)
    parameters, parameters_in_range = zip(*(_exponentiate(one) for one in (transitions, start, end)), strict=True)
    usable = in_range.flatten(1).all(1)
    for one in parameters_in_range:
        usable = usable & one.all()
    time_first = emitted.transpose(0, 1).contiguous()
    matrix, first, last = parameters
    return _Masses(time_first, shift.flatten(1).sum(1), packed.on.sum(1), matrix, first, last, usable)


def _recursion(first: Tensor, factors: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(T, B, D) masses m[t] = (m[t-1] @ matrix) * factors[t], m[0] = first * factors[0]; and log-scales (T, B)."""
    result = torch.empty_like(factors)
    scales = factors.new_zeros(factors.shape[:2])
    mass = torch.mul(first, factors[0], out=result[0])
    for t in range(1, len(factors)):
        if t % _RESCALE == 0:
            total = mass.sum(1, keepdim=True)
            total.masked_fill_(total == 0, 1)
            mass = mass / total
            scales[t] = total.squeeze(1).log()
        mass = torch.mm(mass, matrix, out=result[t]).mul_(factors[t])
    return result, scales.cumsum(0)


def _sound(masses: Tensor, lengths: Tensor) -> Tensor:
    """(B,): whether each of the first `lengths` masses of a row (T, B, D) is 0 or in range."""
    inside = (masses == 0) | ((masses >= _MASS) & (masses <= 1 / _MASS))
    beyond = torch.arange(len(masses), device=masses.device)[:, None] >= lengths
    return (inside.all(2) | beyond).all(0)


def _at(masses: Tensor, position: Tensor) -> Tensor:
    """(B, ...): entry `position` (B,) of each row of (T, B, ...)."""
    return masses[position.clamp(min=0), torch.arange(len(position), device=masses.device)]


def forward(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """(B,): log Z - score of `tags`, or log Z without; and what `backward` needs."""
    lattice = [part.double() for part in (transitions, start, end)]
    packed = reference.pack(emissions.double(), mask)
    masses = _masses(packed, *lattice)
    alphas, scales = _recursion(masses.start, masses.emissions, masses.matrix)
    last = masses.lengths - 1
    log_z = (_at(alphas, last) @ masses.end).log() + _at(scales, last) + masses.shifts
    sound = masses.usable & _sound(alphas, masses.lengths)
    log_z = log_z.masked_fill(masses.lengths == 0, 0)
    if not sound.all():
        log_z[~sound] = reference.log_partition(packed.emissions[~sound], packed.on[~sound], *lattice)
    if tags is not None:
        gold = reference.follow(packed, tags, *lattice)
        log_z = log_z - (gold.emitted.sum(1) + gold.stepped.sum(1) + gold.edges)
    return log_z.to(emissions.dtype), torch.cat([alphas, sound[None, :, None].expand(1, -1, len(start)).double()])


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor like the one that `forward` saves: the forward masses (T, B, D), and whether each row's are sound."""
    rows, length, size = emissions.shape
    return emissions.new_empty((length + 1, rows, size), dtype=torch.float64)


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
    lattice = [part.double() for part in (transitions, start, end)]
    weights = upstream.double()
    packed = reference.pack(emissions.double(), mask)
    masses = _masses(packed, *lattice)
    alphas, sound = saved[:-1], saved[-1, :, 0] > 0
    betas, arrivals = _endings(masses)
    sound = sound & _sound(betas, masses.lengths) & _sound(arrivals, masses.lengths)
    shares = alphas * betas
    totals = shares.sum(2)  # (T, B)
    used = packed.on.T & sound & (totals > 0)
    inverse = (weights / totals).masked_fill(~used, 0)[..., None]
    shares = torch.where(used[..., None], shares * inverse, 0)
    steps = torch.where(used[1:, :, None], arrivals[1:], 0) * inverse[:-1]
    before = torch.where(used[:-1, :, None], alphas[:-1], 0)
    d_transitions = (before.flatten(0, 1).T @ steps.flatten(0, 1)) * masses.matrix
    packed_shares = shares.transpose(0, 1)
    sums = [d_transitions, shares[0].sum(0), _at(shares, masses.lengths - 1).sum(0)]
    if not sound.all():
        lost = (~sound).nonzero().squeeze(1)
        found = _log_shares(reference.Packed(*(part[lost] for part in packed)), lattice, weights[lost])
        packed_shares = packed_shares.index_copy(0, lost, found[0])
        sums = [one + other for one, other in zip(sums, found[1:], strict=True)]
    if tags is not None:
        packed_shares = _subtract_gold(packed_shares, sums, packed, tags, lattice, weights)
    index = packed.order[..., None].expand_as(packed_shares)
    d_emissions = torch.zeros_like(packed_shares).scatter(1, index, packed_shares)
    kinds = (emissions.dtype, transitions.dtype, start.dtype, end.dtype)
    d_emissions, d_transitions, d_start, d_end = (
        one.to(kind) for one, kind in zip((d_emissions, *sums), kinds, strict=True)
    )
    return d_emissions, d_transitions, d_start, d_end


def _endings(masses: _Masses) -> tuple[Tensor, Tensor]:
    """(T, B, D) each: masses of the path endings that leave a tag, and of those that arrive there and emit.

    The recursion runs over the reversed rows, so that all begin with their last position.
    """
    length = len(masses.emissions)
    position = masses.lengths - 1 - torch.arange(length, device=masses.lengths.device)[:, None]
    index = (position % length)[..., None].expand_as(masses.emissions)
    arrivals, _ = _recursion(masses.end, masses.emissions.gather(0, index), masses.matrix.T)
    leaving = torch.cat(
        [masses.end.expand_as(arrivals[:1]), (arrivals[:-1].flatten(0, 1) @ masses.matrix.T).view_as(arrivals[:-1])]
    )
    return leaving.gather(0, index), arrivals.gather(0, index)


def _log_shares(packed: reference.Packed, lattice: list[Tensor], weights: Tensor) -> list[Tensor]:
    """Weighted shares (B, T, D) and their sums over the batch by transition, start and end, on logarithms."""
    transitions, start, end = lattice
    alphas = reference.forward_scores(packed, transitions, start)
    betas = reference.backward_scores(packed, transitions, end)
    log_z = reference.logsumexp(alphas[:, -1] + end, dim=1)
    exists = packed.on[:, 0] & (log_z > -torch.inf)
    weights = weights.masked_fill(~exists, 0)[:, None, None]
    log_z = log_z.masked_fill(~exists, 0)[:, None, None]
    used = packed.on & exists[:, None]
    shares = torch.where(used[..., None], (alphas + betas - log_z).exp(), 0) * weights
    arriving = packed.emissions + betas - log_z
    steps = torch.zeros_like(transitions)
    for t in range(1, used.shape[1]):
        step = (alphas[:, t - 1, :, None] + transitions + arriving[:, t, None, :]).exp()
        steps += (torch.where(used[:, t, None, None], step, 0) * weights).sum(0)
    last = shares.gather(1, (packed.on.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, len(start)))
    return [shares, steps, shares[:, 0].sum(0), last.squeeze(1).sum(0)]


def _subtract_gold(
    shares: Tensor, sums: list[Tensor], packed: reference.Packed, tags: Tensor, lattice: list[Tensor], weights: Tensor
) -> Tensor:
    """Take the gold path's own counts off (from `sums` in place); what is excluded or no tag has none."""
    transitions, start, end = lattice
    tags = tags.gather(1, packed.order)
    known = packed.on & (tags >= 0) & (tags < len(start))
    tags = tags.masked_fill(~known, 0)
    weights = weights[:, None].expand(tags.shape)
    emitted = known & (packed.emissions.gather(2, tags[..., None]).squeeze(2) > -torch.inf)
    stepped = known[:, 1:] & known[:, :-1] & (transitions[tags[:, :-1], tags[:, 1:]] > -torch.inf)
    first = known[:, 0] & (start[tags[:, 0]] > -torch.inf)
    last_position = (packed.on.sum(1, keepdim=True) - 1).clamp(min=0)
    last_tag = tags.gather(1, last_position).squeeze(1)
    last = known.gather(1, last_position).squeeze(1) & (end[last_tag] > -torch.inf)
    sums[0].index_put_((tags[:, :-1], tags[:, 1:]), -weights[:, 1:] * stepped, accumulate=True)
    sums[1].index_put_((tags[:, 0],), -weights[:, 0] * first, accumulate=True)
    sums[2].index_put_((last_tag,), -weights[:, 0] * last, accumulate=True)
    return shares.scatter_add(2, tags[..., None], (-weights * emitted)[..., None])


def marginals(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t), which is the gradient of log Z; zero where not labelled."""
    _, saved = forward(emissions, None, mask, transitions, start, end)
    ones = emissions.new_ones(len(emissions))
    return backward(ones, saved, emissions, None, mask, transitions, start, end)[0]


def viterbi(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    packed = reference.pack(emissions.double(), mask)
    transitions, start, end = transitions.double(), start.double(), end.double()
    scores = [start + packed.emissions[:, 0]]
    for t in range(1, mask.shape[1]):
        step = (scores[-1][:, :, None] + transitions).amax(1).add_(packed.emissions[:, t])
        scores.append(torch.where(packed.on[:, t, None], step, scores[-1]))
    best, tag = (scores[-1] + end).max(1)
    tags, into = [tag], transitions.T.contiguous()
    for t in range(mask.shape[1] - 1, 0, -1):
        tag = torch.where(packed.on[:, t], (scores[t - 1] + into[tag]).argmax(1), tag)
        tags.append(tag)
    ids = torch.stack(tags[::-1], dim=1).masked_fill(~packed.on, reference.PAD)
    return Paths(torch.empty_like(ids).scatter(1, packed.order, ids), best.masked_fill(~packed.on[:, 0], 0))


def nbest(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths; score -inf where there are fewer."""
    return reference.nbest(emissions.double(), mask, transitions.double(), start.double(), end.double(), k)


def sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor
) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution; `uniforms` (B, n, T) in [0, 1) decide the draws."""
    lattice = (transitions.double(), start.double(), end.double())
    return reference.sample(emissions.double(), mask, *lattice, uniforms)
