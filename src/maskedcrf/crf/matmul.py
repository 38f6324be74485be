"""The recursions in plain torch on masses: one matrix product a position, for machines without numba or Triton.

The contract of every fast backend:
  forward   -> losses (B,) = log Z - score of the tags (log Z where tags is None), and one tensor that `backward` needs
  backward  -> gradients by emissions, transitions, start and end; exactly 0 on what is excluded
  empty_saved(emissions) -> a tensor like the one that `forward` saves
  marginals, viterbi, nbest, sample: as in `reference`
All compute in double whatever comes in. Masses are exact while they stay in a range where products neither vanish
nor overflow; that is checked, and rows that leave it are done again on logarithms, by the reference.

Masses lie as (D+1, T+1, B): a position is a matrix, and what holds for every tag is one plane. The last tag is `stop`:
behind its labelled positions a row enters it, at the price of `end`, and stays. So all rows end together, in stop.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.reference import Paths

# Why nothing that counts is lost, in nats, of which doubles have -708 to 709. Where masses are divided, those that are
# not 0 must come out within 253 of 0; forward masses then have a total of 1. Up to the next division they move, the
# growth of the total included, by at most _ROOM, or by one step: 3 * _REACH and the logarithm of the number of tags.
_REACH = 138.0  # |log| of the mass of a step, and of an emission beside the highest of its position
_ROOM = 200.0
_LEAST = 1e-110  # and no more than its inverse


class _Gold(NamedTuple):
    """The gold path, labelled positions first."""

    tags: Tensor
    """(T+1, B); `stop` behind the labelled positions, and for what is no tag."""
    exists: Tensor
    """(T+1, B): which of them have mass; stop has none at a labelled position."""
    steps: Tensor
    """(T, B), numbered from * (D+1) + to."""


def _exponentiate(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Masses, 0 for -inf, and how far from 0 the other scores are; what is beyond `_REACH` has no true mass."""
    excluded = scores == -torch.inf
    scores = scores.masked_fill(excluded, 0)
    # exp is many times slower where it underflows, so nothing may.
    return scores.clamp(-_REACH, _REACH).exp_().masked_fill_(excluded, 0), scores.abs_()


def _with_stop(transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(D+2, D+1): scores of the steps between all tags, `stop` being the last one, and below them of the starts."""
    scores = transitions.new_full((len(start) + 2, len(start) + 1), -torch.inf, dtype=torch.float64)
    scores[:-2, :-1], scores[:-2, -1], scores[-1, :-1] = transitions, end, start
    scores[-2:, -1] = 0
    return scores


def _order(mask: Tensor) -> Tensor | None:
    """(B, T): where the labelled positions come from that go first, as in `reference.pack`; None if they do already."""
    if not (mask[:, 1:] > mask[:, :-1]).any():
        return None
    return mask.logical_not().to(torch.uint8).argsort(dim=1, stable=True)


def _stopped(mask: Tensor) -> Tensor:
    """(T+1, B): where the rows are in `stop`, labelled positions going first."""
    return torch.arange(mask.shape[1] + 1, device=mask.device)[:, None] >= mask.sum(1)


def _emit(emitted: Tensor, emissions: Tensor, stopped: Tensor) -> tuple[Tensor, Tensor]:
    """Fill `emitted` (D+1, T+1, B) with masses; log of what was divided out (B,), and how far they reach (B,)."""
    emitted[-1] = stopped
    scores = emitted[:-1]
    scores[:, :-1], scores[:, -1] = emissions.permute(2, 1, 0), 0
    highest = scores.amax(0)
    reach = highest - scores.amin(0)
    if (reach <= _REACH).all():  # so all are finite
        scores.sub_(highest).exp_().mul_(1 - emitted[-1])
    else:
        masses, far = _exponentiate(scores.sub_(highest.masked_fill_(~highest.isfinite(), 0)))
        scores.copy_(masses.masked_fill_(stopped, 0))
        reach = far.amax(0)
    return highest.masked_fill_(stopped, 0).sum(0), reach.masked_fill_(stopped, 0).amax(0)


def _climb(alphas: Tensor, scales: Tensor, emitted: Tensor, matrix: Tensor, start: Tensor, every: int) -> None:
    """Fill `alphas` with the masses of the path beginnings at each tag, divided now and then by `scales` (T+1, B)."""
    rows, factors, onward = alphas.unbind(1), emitted.unbind(1), matrix.T.contiguous()
    scales.fill_(1)
    mass = torch.mul(start[:, None], factors[0], out=rows[0])
    for t in range(1, len(rows)):
        if t % every == 0:
            mass /= torch.sum(mass, 0, out=scales[t - 1]).clamp_(min=1e-300)  # 0 if there is no path
        mass = torch.mm(onward, mass, out=rows[t]).mul_(factors[t])


def _descend(last: Tensor, scales: Tensor, emitted: Tensor, matrix: Tensor, every: int) -> tuple[Tensor, Tensor]:
    """(D+1, T+1, B) each: masses of the path endings that leave a tag, and of those that arrive there and emit.

    They begin with `last` (B,) and are divided as `_climb` did, so that their products with its masses make up `last`
    times the mass at the end, at every position.
    """
    betas, arrivals = torch.empty_like(emitted), torch.empty_like(emitted)
    back, rows, factors = betas.unbind(1), arrivals.unbind(1), emitted.unbind(1)
    betas[:, -1] = last
    arriving = torch.mul(back[-1], factors[-1], out=rows[-1])
    for t in range(len(rows) - 2, -1, -1):
        arriving = torch.mul(torch.mm(matrix, arriving, out=back[t]), factors[t], out=rows[t])
        if (t + 1) % every == 0:
            arriving /= scales[t]
    return betas, arrivals


def _sound(masses: Tensor, every: int) -> Tensor:
    """(B,): whether all masses of a row, just after they were divided, are 0 or in range."""
    divided = masses[:, every - 1 : -1 : every].abs()  # a weight may be negative
    return ((divided == 0) | ((divided >= _LEAST) & (divided <= 1 / _LEAST))).flatten(0, 1).all(0)


def _follow(tags: Tensor, emitted: Tensor, stopped: Tensor, order: Tensor | None) -> _Gold:
    """Where the gold path goes."""
    size = len(emitted)
    path = stopped.new_full(stopped.shape, size - 1, dtype=torch.long)
    path[:-1] = (tags if order is None else tags.gather(1, order)).T
    path.masked_fill_((path < 0) | (path >= size) | stopped, size - 1)
    return _Gold(path, emitted.gather(0, path[None])[0] != 0, path[:-1] * size + path[1:])


def forward(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """(B,): log Z - score of `tags`, or log Z without; and what `backward` needs."""
    order, stopped, saved = _order(mask), _stopped(mask), empty_saved(emissions)
    packed = emissions if order is None else emissions.gather(1, order[..., None].expand_as(emissions))
    parameters = _with_stop(transitions, start, end)
    matrix, far = _exponentiate(parameters)
    alphas, emitted, scales = _parts(saved)
    shifts, reach = _emit(emitted, packed, stopped)
    sound = (reach <= _REACH) & (far.amax() <= _REACH)
    most = max([0.0, *(reach[sound] + 2 * far.amax()).tolist()])
    every = max(1, int(_ROOM / (most + math.log(len(alphas)))))
    _climb(alphas, scales, emitted, matrix[:-1], matrix[-1], every)
    log_z = alphas[-1, -1].log() + scales[every - 1 : -1 : every].log().sum(0) + shifts
    sound &= _sound(alphas, every)
    scales[-1] = sound * every
    if not sound.all():
        lattice = transitions.double(), start.double(), end.double()
        log_z[~sound] = reference.log_partition(emissions[~sound].double(), mask[~sound], *lattice)
    if tags is not None:
        log_z -= _score(_follow(tags, emitted, stopped, order), packed, parameters, stopped)
    return log_z.to(emissions.dtype), saved


def _score(gold: _Gold, emissions: Tensor, parameters: Tensor, stopped: Tensor) -> Tensor:
    """(B,): the score of the gold path."""
    at = gold.tags[:-1].clamp(max=emissions.shape[2] - 1).T[..., None]
    emitted = emissions.gather(2, at).squeeze(2).double().masked_fill_(stopped[:-1].T, 0).sum(1)
    score = emitted + parameters.take(gold.steps).sum(0) + parameters[-1].take(gold.tags[0])
    return score.masked_fill_(~gold.exists.all(0), -torch.inf)


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor like what `forward` saves: forward masses, emission masses, and what the former were divided by.

    Since none are divided at the last position, there it says after how many they are; 0 for a row not to be used.
    """
    rows, length, size = emissions.shape
    return emissions.new_empty((2 * size + 3, length + 1, rows), dtype=torch.float64)


def _parts(saved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three of `empty_saved`: (D+1, T+1, B) twice, and (T+1, B)."""
    size = len(saved) // 2
    return saved[:size], saved[size:-1], saved[-1]


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
    order, weights = _order(mask), upstream.double()
    alphas, emitted, scales = _parts(saved)
    matrix = _exponentiate(_with_stop(transitions, start, end)[:-1])[0]
    every = int(max([1, *scales[-1].tolist()]))
    betas, arrivals = _descend(weights / alphas[-1, -1], scales, emitted, matrix, every)
    sound = (scales[-1] > 0) & (alphas[-1, -1] > 0) & _sound(arrivals, every)
    lost = (~sound).nonzero().squeeze(1)
    if len(lost):  # what they hold may not even be finite
        alphas, betas, arrivals = (torch.where(sound, one, 0) for one in (alphas, betas, arrivals))
    shares = betas.mul_(alphas)
    steps = (alphas[:, :-1].flatten(1) @ arrivals[:, 1:].flatten(1).T).mul_(matrix)
    starts = shares[:, 0].sum(1)
    sums = steps[:-1, :-1], starts[:-1], steps[:-1, -1]
    if len(lost):
        lattice = [part.double() for part in (transitions, start, end)]
        found = _log_shares(reference.pack(emissions[lost].double(), mask[lost]), lattice, weights[lost])
        shares[:-1, :-1, lost] = found[0].permute(2, 1, 0)[:, : mask.shape[1]]
        for one, other in zip(sums, found[1:], strict=True):
            one += other
    if tags is not None:
        _subtract_gold(_follow(tags, emitted, _stopped(mask), order), weights, shares, steps, starts)
    d_transitions, d_start, d_end = (
        one.masked_fill(scores == -torch.inf, 0).to(scores.dtype)
        for one, scores in zip(sums, (transitions, start, end), strict=True)
    )
    return _by_row(shares, emissions, order), d_transitions, d_start, d_end


def _by_row(shares: Tensor, emissions: Tensor, order: Tensor | None) -> Tensor:
    """(B, T, D) in the type of the emissions, at the caller's positions."""
    by_row = shares[:-1, :-1].permute(2, 1, 0)
    result = emissions.new_empty(emissions.shape)
    if order is None:
        return result.copy_(by_row)
    return result.scatter_(1, order[..., None].expand_as(by_row), by_row.to(emissions.dtype))


def _subtract_gold(gold: _Gold, weights: Tensor, shares: Tensor, steps: Tensor, starts: Tensor) -> None:
    """Take the gold path's own counts off in place; what is excluded or no tag has none."""
    counts = weights * gold.exists
    shares.scatter_add_(0, gold.tags[None], -counts[None])
    steps -= torch.bincount(gold.steps.flatten(), counts[1:].flatten(), steps.numel()).view_as(steps)
    starts -= torch.bincount(gold.tags[0], counts[0], len(starts))


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
