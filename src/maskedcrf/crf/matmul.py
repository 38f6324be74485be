"""The recursions in plain torch on masses: one matrix product a position, on any device.

Masses are exact while they stay in a range where products neither vanish nor overflow; that is checked, and rows that
leave it are done again on logarithms, by the reference.

Masses lie as (D+1, T+1, B): a position is a matrix, and what holds for every tag is one plane. The last tag is `stop`:
behind its labelled positions a row enters it, at the price of `end`, and stays. So all rows end together, in stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.reference import Paths
from maskedcrf.crf.scores import ExcludedSteps, LatticeScores, widen, widest_dtype


class _Range(NamedTuple):
    """How far masses may be from 1, in nats, so that nothing that counts is lost.

    Where masses are divided, those that are not 0 must come out between `min_mass` and its inverse; forward masses then
    have a total of 1. Up to the next division they move, the growth of the total included, by at most `max_growth`, or
    by one step: 3 * `max_log` and the logarithm of the number of tags.
    """

    max_log: float
    """|log| of the mass of a step, and of an emission beside the highest of its position."""
    max_growth: float
    min_mass: float


_RANGES = {
    torch.float64: _Range(138.0, 200.0, 1e-110),  # doubles have -708 to 709 nats
    torch.float32: _Range(17.0, 25.0, 1e-13),  # and floats -87 to 88
}


class _Gold(NamedTuple):
    """The gold path, labelled positions first."""

    tags: Tensor
    """(T+1, B); `stop` behind the labelled positions, and for what is no tag."""
    exists: Tensor
    """(T+1, B): which of them have mass; stop has none at a labelled position."""
    steps: Tensor
    """(T, B), numbered from * (D+1) + to."""


def _exponentiate(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Masses, 0 for -inf, and how far from 0 the other scores are; what is out of range has no true mass."""
    excluded, most = scores == -torch.inf, _RANGES[scores.dtype].max_log
    scores = scores.masked_fill(excluded, 0)
    # exp is many times slower where it underflows, so nothing may.
    return scores.clamp(-most, most).exp_().masked_fill_(excluded, 0), scores.abs_()


def _with_stop(transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(D+2, D+1): scores of the steps between all tags, `stop` being the last one, and below them of the starts."""
    scores = transitions.new_full((len(start) + 2, len(start) + 1), -torch.inf, dtype=widest_dtype(start))
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


def _emission_masses(emitted: Tensor, emissions: Tensor, stopped: Tensor) -> tuple[Tensor, Tensor]:
    """Fill `emitted` (D+1, T+1, B) with masses; log of what was divided out (B,), and how far they reach (B,)."""
    emitted[-1] = stopped
    scores = emitted[:-1]
    scores[:, :-1], scores[:, -1] = emissions.permute(2, 1, 0), 0
    highest = scores.amax(0)
    reach = highest - scores.amin(0)
    if (reach <= _RANGES[scores.dtype].max_log).all():  # so all are finite
        scores.sub_(highest).exp_().mul_(1 - emitted[-1])
    else:
        masses, far = _exponentiate(scores.sub_(highest.masked_fill_(~highest.isfinite(), 0)))
        scores.copy_(masses.masked_fill_(stopped, 0))
        reach = far.amax(0)
    return highest.masked_fill_(stopped, 0).sum(0), reach.masked_fill_(stopped, 0).amax(0)


def _forward_masses(alphas: Tensor, scales: Tensor, emitted: Tensor, matrix: Tensor, start: Tensor, every: int) -> None:
    """Fill `alphas` with the masses of the path beginnings at each tag, divided now and then by `scales` (T+1, B)."""
    rows, factors, onward = alphas.unbind(1), emitted.unbind(1), matrix.T.contiguous()
    scales.fill_(1)
    smallest = torch.finfo(alphas.dtype).tiny
    mass = torch.mul(start[:, None], factors[0], out=rows[0])
    for t in range(1, len(rows)):
        if t % every == 0:
            mass /= torch.sum(mass, 0, out=scales[t - 1]).clamp_(min=smallest)  # 0 if there is no path
        mass = torch.mm(onward, mass, out=rows[t]).mul_(factors[t])


def _backward_masses(
    last: Tensor, scales: Tensor, emitted: Tensor, matrix: Tensor, every: int
) -> tuple[Tensor, Tensor]:
    """(D+1, T+1, B) each: masses of the path endings that leave a tag, and of those that arrive there and emit.

    They begin with `last` (B,) and are divided as `_forward_masses` did, so that their products with its masses make up
    `last` times the mass at the end, at every position.
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


def _in_range(masses: Tensor, every: int) -> Tensor:
    """(B,): whether all masses of a row, just after they were divided, are 0 or in range."""
    divided = masses[:, every - 1 : -1 : every].abs()  # a weight may be negative
    least = _RANGES[masses.dtype].min_mass
    return ((divided == 0) | ((divided >= least) & (divided <= 1 / least))).flatten(0, 1).all(0)


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
    shifts, reach = _emission_masses(emitted, packed, stopped)
    allowed = _RANGES[alphas.dtype]
    sound = (reach <= allowed.max_log) & (far.amax() <= allowed.max_log)
    most = max([0.0, *(reach[sound] + 2 * far.amax()).tolist()])
    every = max(1, int(allowed.max_growth / (most + math.log(len(alphas)))))
    _forward_masses(alphas, scales, emitted, matrix[:-1], matrix[-1], every)
    log_z = alphas[-1, -1].log() + scales[every - 1 : -1 : every].log().sum(0) + shifts
    sound &= _in_range(alphas, every)
    scales[-1] = sound * every
    if not sound.all():
        log_z[~sound] = reference.log_partition(*widen(emissions[~sound], mask[~sound], transitions, start, end))
    if tags is not None:
        log_z -= _score(_follow(tags, emitted, stopped, order), packed, parameters, stopped)
    return log_z.to(emissions.dtype), saved


def _score(gold: _Gold, emissions: Tensor, parameters: Tensor, stopped: Tensor) -> Tensor:
    """(B,): the score of the gold path."""
    at = gold.tags[:-1].clamp(max=emissions.shape[2] - 1).T[..., None]
    emitted = emissions.gather(2, at).squeeze(2).to(parameters.dtype).masked_fill_(stopped[:-1].T, 0).sum(1)
    score = emitted + parameters.take(gold.steps).sum(0) + parameters[-1].take(gold.tags[0])
    return score.masked_fill_(~gold.exists.all(0), -torch.inf)


def empty_saved(emissions: Tensor) -> Tensor:
    """A tensor like what `forward` saves: forward masses, emission masses, and what the former were divided by.

    Since none are divided at the last position, there it says after how many they are; 0 for a row not to be used.
    """
    rows, length, size = emissions.shape
    return emissions.new_empty((2 * size + 3, length + 1, rows), dtype=widest_dtype(emissions))


def _parts(saved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three of `empty_saved`: (D+1, T+1, B) twice, and (T+1, B)."""
    size = len(saved) // 2
    return saved[:size], saved[size:-1], saved[-1]


class _BothMasses(NamedTuple):
    """Of path beginnings and endings, as `_forward_masses` and `_backward_masses` have them."""

    alphas: Tensor
    betas: Tensor
    arrivals: Tensor
    matrix: Tensor
    """(D+1, D+1): masses of the steps."""
    sound: Tensor
    """(B,): whether the masses of a row are in range; if not they are 0 here."""


def _both_masses(weights: Tensor, saved: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> _BothMasses:
    alphas, emitted, scales = _parts(saved)
    matrix = _exponentiate(_with_stop(transitions, start, end)[:-1])[0]
    every = int(max([1, *scales[-1].tolist()]))
    betas, arrivals = _backward_masses(weights / alphas[-1, -1], scales, emitted, matrix, every)
    sound = (scales[-1] > 0) & (alphas[-1, -1] > 0) & _in_range(arrivals, every)
    if not sound.all():  # what they hold may not even be finite
        alphas, betas, arrivals = (torch.where(sound, one, 0) for one in (alphas, betas, arrivals))
    return _BothMasses(alphas, betas, arrivals, matrix, sound)


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
    order, weights = _order(mask), upstream.to(saved.dtype)
    masses = _both_masses(weights, saved, transitions, start, end)
    shares = masses.betas.mul_(masses.alphas)
    matrix, lost = masses.matrix, (~masses.sound).nonzero().squeeze(1)
    steps = (masses.alphas[:, :-1].flatten(1) @ masses.arrivals[:, 1:].flatten(1).T).mul_(matrix)
    starts = shares[:, 0].sum(1)
    sums = steps[:-1, :-1], starts[:-1], steps[:-1, -1]
    if len(lost):
        lost_emissions, lost_mask, *parameters = widen(emissions[lost], mask[lost], transitions, start, end)
        found = _log_shares(reference.pack(lost_emissions, lost_mask), parameters, weights[lost])
        shares[:-1, :-1, lost] = found[0].permute(2, 1, 0)[:, : mask.shape[1]]
        for one, other in zip(sums, found[1:], strict=True):
            one += other
    if tags is not None:
        _subtract_gold(_follow(tags, _parts(saved)[1], _stopped(mask), order), weights, shares, steps, starts)
    d_transitions, d_start, d_end = (
        one.masked_fill(scores == -torch.inf, 0).to(scores.dtype)
        for one, scores in zip(sums, (transitions, start, end), strict=True)
    )
    return _to_batch_layout(shares, emissions, order), d_transitions, d_start, d_end


def _to_batch_layout(shares: Tensor, emissions: Tensor, order: Tensor | None) -> Tensor:
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


def loss_and_gradients(
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    excluded: ExcludedSteps | None,
    *,
    mean: bool,
    flag: Tensor | None = None,
) -> tuple[Tensor, Tensor, Callable[[Tensor], Sequence[Tensor]]]:
    """Sum or mean of the losses, the losses (B,), and what scales its gradients and hands them out."""
    scores = LatticeScores(emissions, mask, transitions, start, end, excluded).exclude()
    losses, saved = forward(emissions, tags, *scores[1:])
    total = losses.mean() if mean else losses.sum()
    if flag is not None:
        flag.copy_(total, non_blocking=True)
    weights = torch.full_like(losses, 1 / len(losses) if mean else 1.0)
    gradients = backward(weights, saved, emissions, tags, *scores[1:])
    return total, losses, lambda upstream: torch._foreach_mul(gradients, upstream)


def entropy(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B,): log Z less the expected score of a path.

    Both are taken beside the highest emission of each position, so that large scores do not cancel.
    """
    given = emissions.dtype
    emissions, mask, *parameters = widen(emissions, mask, transitions, start, end)
    highest = emissions.amax(2, keepdim=True)
    emissions = emissions - highest.masked_fill(~highest.isfinite(), 0)
    log_z, saved = forward(emissions, None, mask, *parameters)
    masses = _both_masses(torch.ones_like(log_z), saved, *parameters)
    shares, order = masses.betas * masses.alphas, _order(mask)
    packed = emissions if order is None else emissions.gather(1, order[..., None].expand_as(emissions))
    tags = shares[:-1, :-1]
    emitted = (tags * packed.permute(2, 1, 0).masked_fill(tags == 0, 0)).sum((0, 1))
    scores = _with_stop(*parameters)
    scores = scores.masked_fill(scores == -torch.inf, 0)
    arriving = (masses.matrix * scores[:-1]) @ masses.arrivals[:, 1:].flatten(1)
    stepped = (masses.alphas[:, :-1] * arriving.view_as(masses.alphas[:, :-1])).sum((0, 1))
    started = (shares[:, 0] * scores[-1][:, None]).sum(0)
    found = (log_z - emitted - stepped - started).clamp(min=0)
    if not masses.sound.all():
        lost = ~masses.sound
        found[lost] = reference.entropy(emissions[lost], mask[lost], *parameters)
    return found.to(given)


def viterbi(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    emissions, mask, transitions, start, end = widen(emissions, mask, transitions, start, end)
    packed = reference.pack(emissions, mask)
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
    placed = torch.empty_like(ids).scatter(1, packed.order, ids)[:, : mask.shape[1]]
    return Paths(placed, best.masked_fill(~packed.on[:, 0], 0))


def nbest(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths; score -inf where there are fewer."""
    return reference.nbest(*widen(emissions, mask, transitions, start, end), k)


def sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor
) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution; `uniforms` (B, n, T) in [0, 1) decide the draws."""
    return reference.sample(*widen(emissions, mask, transitions, start, end), uniforms)


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
    """(N,): P(this very segment is in the path), for `spans` (N, 3) of row, first and last+1 position."""
    return reference.span_probability(*widen(emissions, mask, transitions, start, end), spans, member, continues)
