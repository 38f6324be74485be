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

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.reference import Paths

_STEP = 138.0  # |log| of transition and emission masses; exp(138) = 1e60
_MASS = 1e-90  # forward and backward masses stay between this and its inverse
_RESCALE = 8  # positions between two divisions


def _exponentiate(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Masses, 0 for -inf, and which scores are in range (NaN is not)."""
    excluded = scores == -torch.inf
    scores = scores.masked_fill(excluded, 0)
    # exp is many times slower where it underflows, so nothing may.
    return scores.clamp(-_STEP, _STEP).exp_().masked_fill_(excluded, 0), scores.abs() <= _STEP


def _emission_masses(packed: reference.Packed) -> tuple[Tensor, Tensor, Tensor]:
    """Masses (T, B, D), 0 where not labelled; log of what was divided out (B,); which rows are in range (B,)."""
    shift = packed.emissions.amax(2, keepdim=True)
    shift.masked_fill_(~shift.isfinite(), 0)
    masses, in_range = _exponentiate(packed.emissions - shift)
    masses.masked_fill_(~packed.on[..., None], 0)
    return masses.transpose(0, 1).contiguous(), shift.flatten(1).sum(1), in_range.flatten(1).all(1)


def _total(mass: Tensor) -> Tensor:
    """(B, 1): the sum of each row; 1 where there is nothing."""
    total = mass.sum(1, keepdim=True)
    return total.masked_fill_(total == 0, 1)


def _climb(start: Tensor, emitted: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(T, B, D): masses of the path beginnings at each tag, rescaled now and then; log of the scales (T, B)."""
    alphas = torch.empty_like(emitted)
    scales = emitted.new_ones(emitted.shape[:2])
    rows, factors = alphas.unbind(), emitted.unbind()
    mass = torch.mul(start, factors[0], out=rows[0])
    for t in range(1, len(rows)):
        if t % _RESCALE == 0:
            total = _total(mass)
            mass, scales[t] = mass / total, total.squeeze(1)
        mass = torch.mm(mass, matrix, out=rows[t]).mul_(factors[t])
    return alphas, scales.log().cumsum(0)


def _descend(end: Tensor, last: Tensor, emitted: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(T, B, D) each: masses of the path endings that leave a tag, and of those that arrive there and emit.

    A row begins at its `last` position (B,): behind it the emission masses are 0, and there `end` comes in.
    """
    betas, arrivals = torch.empty_like(emitted), torch.empty_like(emitted)
    places = torch.arange(len(emitted), device=emitted.device)[:, None]
    entering = ((places == last)[..., None] * end).unbind()
    back, rows, factors, into = betas.unbind(), arrivals.unbind(), emitted.unbind(), matrix.T.contiguous()
    arriving = torch.mul(entering[-1], factors[-1], out=rows[-1])
    betas[-1] = entering[-1]
    for t in range(len(rows) - 2, -1, -1):
        if t % _RESCALE == 0:
            arriving.div_(_total(arriving))
        torch.addmm(entering[t], arriving, into, out=back[t])
        arriving = torch.mul(back[t], factors[t], out=rows[t])
    return betas, arrivals


def _sound(masses: Tensor) -> Tensor:
    """(B,): whether each mass of a row (T, B, D) is 0 or in range."""
    lowest = masses.masked_fill(masses == 0, 1).amin((0, 2))
    return (lowest >= _MASS) & (masses.amax((0, 2)) <= 1 / _MASS)


def _at(masses: Tensor, position: Tensor) -> Tensor:
    """(B, ...): entry `position` (B,) of each row of (T, B, ...)."""
    return masses[position.clamp(min=0), torch.arange(len(position), device=masses.device)]


def forward(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """(B,): log Z - score of `tags`, or log Z without; and what `backward` needs."""
    lattice = [part.double() for part in (transitions, start, end)]
    packed = reference.pack(emissions.double(), mask)
    emitted, shifts, sound = _emission_masses(packed)
    parameters, in_range = zip(*(_exponentiate(one) for one in lattice), strict=True)
    alphas, scales = _climb(parameters[1], emitted, parameters[0])
    lengths = packed.on.sum(1)
    last = lengths - 1
    log_z = ((_at(alphas, last) @ parameters[2]).log() + _at(scales, last) + shifts).masked_fill_(lengths == 0, 0)
    sound = sound & _sound(alphas) & torch.cat([one.flatten() for one in in_range]).all()
    if not sound.all():
        log_z[~sound] = reference.log_partition(packed.emissions[~sound], packed.on[~sound], *lattice)
    if tags is not None:
        gold = reference.follow(packed, tags, *lattice)
        log_z -= gold.emitted.sum(1) + gold.stepped.sum(1) + gold.edges
    saved = torch.cat([alphas, emitted, sound[None, :, None].expand_as(alphas[:1])])
    return log_z.to(emissions.dtype), saved


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor like what `forward` saves: forward and emission masses (T, B, D), and which rows are sound."""
    rows, length, size = emissions.shape
    return emissions.new_empty((2 * length + 1, rows, size), dtype=torch.float64)


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
    length = mask.shape[1]
    alphas, emitted, sound = saved[:length], saved[length:-1], saved[-1, :, 0] > 0
    matrix, last = _exponentiate(lattice[0])[0], packed.on.sum(1) - 1
    betas, arrivals = _descend(_exponentiate(lattice[2])[0], last, emitted, matrix)
    sound = sound & _sound(arrivals)
    if not sound.all():  # what they hold may not even be finite
        alphas, betas, arrivals = (torch.where(sound[:, None], one, 0) for one in (alphas, betas, arrivals))
    shares = alphas * betas
    totals = shares.sum(2)  # (T, B)
    inverse = (weights / totals).masked_fill_(totals == 0, 0)[..., None]
    shares *= inverse
    steps = (alphas[:-1].flatten(0, 1).T @ (arrivals[1:] * inverse[:-1]).flatten(0, 1)) * matrix
    sums = [steps, shares[0].sum(0), _at(shares, last).sum(0)]
    by_row = shares.transpose(0, 1)
    if not sound.all():
        lost = (~sound).nonzero().squeeze(1)
        found = _log_shares(reference.Packed(*(part[lost] for part in packed)), lattice, weights[lost])
        by_row = by_row.index_copy(0, lost, found[0])
        sums = [one + other for one, other in zip(sums, found[1:], strict=True)]
    if tags is not None:
        by_row = _subtract_gold(by_row, sums, packed, tags, weights)
    by_row = by_row.masked_fill(packed.emissions == -torch.inf, 0)
    d_emissions = torch.zeros_like(by_row).scatter_(1, packed.order[..., None].expand_as(by_row), by_row)
    d_parameters = [one.masked_fill_(score == -torch.inf, 0) for one, score in zip(sums, lattice, strict=True)]
    return (
        d_emissions.to(emissions.dtype),
        d_parameters[0].to(transitions.dtype),
        d_parameters[1].to(start.dtype),
        d_parameters[2].to(end.dtype),
    )


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
    shares: Tensor, sums: list[Tensor], packed: reference.Packed, tags: Tensor, weights: Tensor
) -> Tensor:
    """Take the gold path's own counts off, from `sums` in place; what is no tag has none."""
    size = shares.shape[2]
    tags = tags.gather(1, packed.order)
    known = packed.on & (tags >= 0) & (tags < size)
    tags = tags.masked_fill(~known, 0)
    weight = weights[:, None] * known
    steps = torch.bincount(
        (tags[:, :-1] * size + tags[:, 1:]).flatten(), (weight[:, 1:] * known[:, :-1]).flatten(), size * size
    )
    last = (packed.on.sum(1, keepdim=True) - 1).clamp(min=0)
    sums[0] -= steps.view(size, size)
    sums[1] -= torch.bincount(tags[:, 0], weight[:, 0], size)
    sums[2] -= torch.bincount(tags.gather(1, last).squeeze(1), weight.gather(1, last).squeeze(1), size)
    return shares.scatter_add(2, tags[..., None], -weight[..., None])


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
