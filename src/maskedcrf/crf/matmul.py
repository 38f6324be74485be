"""The recursions in plain torch on masses: one matrix product a position, on any device.

Forward masses are divided by their sum at every position. They are exact while they stay in a range where products
neither vanish nor overflow; that is checked, and rows that leave it are done again on logarithms, by the reference.
Masses lie as (T, B, D), labelled positions first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.exact import nbest as nbest
from maskedcrf.crf.exact import sample as sample
from maskedcrf.crf.exact import span_probability as span_probability
from maskedcrf.crf.exact import viterbi as viterbi
from maskedcrf.crf.scores import LatticeScores, widen, widest_dtype


class _Range(NamedTuple):
    """How far masses may be from 1: what is left of the smallest after two steps and an emission must not vanish."""

    max_log: float
    """|log| of the mass of a step, and of an emission beside the highest of its position."""
    min_mass: float
    """Of forward masses that are not 0; they add up to 1."""


_RANGES = {torch.float64: _Range(138.0, 1e-110), torch.float32: _Range(12.0, 1e-17)}


class _Masses(NamedTuple):
    """exp of the scores of a batch, 0 for -inf."""

    emitted: Tensor
    """(T, B, D): beside the highest emission of the position."""
    transitions: Tensor
    start: Tensor
    end: Tensor
    highest: Tensor
    """(T, B): the emission that is divided out; 0 where not labelled."""
    on: Tensor
    """(T, B): labelled."""
    last: Tensor
    """(T, B): the last labelled position of a row."""
    order: Tensor
    """(B, T): which position of the caller's each one was."""
    in_range: Tensor
    """(B,): whether they are true."""


def _exponentiate(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> _Masses:
    """The masses of scores in the widest precision."""
    packed = reference.pack(emissions, mask)
    scores, on = packed.emissions.transpose(0, 1), packed.on.T
    highest = scores.amax(2).nan_to_num(0, posinf=0, neginf=0)
    most = _RANGES[emissions.dtype].max_log
    emitted, in_range = _exp(scores - highest[..., None], most)
    (steps, steps_near), (starts, starts_near), (ends, ends_near) = (
        _exp(part, most) for part in (transitions, start, end)
    )
    in_range = in_range.all(2).all(0) & steps_near.all() & starts_near.all() & ends_near.all()
    last = on & ~torch.cat([on[1:], torch.zeros_like(on[:1])])
    return _Masses(emitted, steps, starts, ends, highest, on, last, packed.order, in_range)


def _exp(scores: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Masses, 0 for -inf, and which of them are true: those of scores no further than `most` from 0."""
    excluded = scores == -torch.inf
    scores = scores.masked_fill(excluded, 0)
    # exp is many times slower where it underflows, so nothing may.
    return scores.clamp(-most, most).exp().masked_fill(excluded, 0), scores.abs() <= most


def loss(emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
    """(B,): log Z - score of `tags`, or log Z without; and what `loss_backward` needs."""
    scores = widen(emissions, mask, *parameters)
    masses, saved = _exponentiate(*scores), empty_saved(emissions)
    alphas, scales = _parts(saved, masses.emitted)
    torch.mul(masses.start, masses.emitted[0], out=alphas[0])
    before = None
    for alpha, scale, emitted in zip(alphas, scales, masses.emitted, strict=True):
        if before is not None:
            torch.mm(before, masses.transitions, out=alpha).mul_(emitted)
        before = alpha.div_(torch.sum(alpha, 1, keepdim=True, out=scale))  # NaN if there is no path
    kept = (alphas == 0) | (alphas >= _RANGES[saved.dtype].min_mass) | ~masses.on[..., None]
    lost = ~(masses.in_range & kept.all(2).all(0))
    alphas.masked_fill_(lost[:, None] | ~masses.on[..., None], 0)  # which tells `loss_backward`
    final = (alphas * masses.last[..., None]).sum(0) @ masses.end
    log_z = final.log() + (scales[..., 0].log() + masses.highest).masked_fill(~masses.on, 0).sum(0)
    log_z.masked_fill_(~masses.on[0], 0)
    if lost.any():
        log_z[lost] = reference.log_partition(scores[0][lost], mask[lost], *scores[2:])
    if tags is not None:
        log_z = log_z - reference.path_score(scores[0], tags, *scores[1:])
    return log_z.to(emissions.dtype), saved


def empty_saved(emissions: Tensor) -> Tensor:
    """(T, B * (D + 1)): a tensor like what `loss` saves, forward masses and what they were divided by."""
    rows, length, size = emissions.shape
    return emissions.new_empty((max(length, 1), rows * (size + 1)), dtype=widest_dtype(emissions))


def _parts(saved: Tensor, emitted: Tensor) -> tuple[Tensor, Tensor]:
    """Forward masses (T, B, D), 0 where not labelled and in rows out of range; what they were divided by (T, B, 1)."""
    _, rows, size = emitted.shape
    return saved[:, : rows * size].view(emitted.shape), saved[:, rows * size :, None]


class _Shares(NamedTuple):
    """What part of a row's mass goes where."""

    tags: Tensor
    """(T, B, D): through a tag."""
    before: Tensor
    """(T - 1, B, D): forward masses; times `transitions`, times `behind`: through a step."""
    behind: Tensor
    """(T - 1, B, D): masses of the path endings that arrive at a tag, and emit."""
    lost: Tensor
    """(B,): rows out of range; all is 0 for them."""


def _shares(saved: Tensor, masses: _Masses) -> _Shares:
    alphas, scales = _parts(saved, masses.emitted)
    final = (alphas * masses.last[..., None]).sum(0) @ masses.end
    lost = masses.on[0] & (final == 0)
    ending = masses.end / final.masked_fill(final == 0, 1)[:, None]
    # Of tags that no path reaches: their masses could grow without bound.
    reached, last = alphas > 0, masses.last[..., None]
    inner, closing = (reached & ~last).to(alphas.dtype), (reached & last) * ending
    factors = torch.where(reached, masses.emitted / scales, 0)
    betas, behind = torch.empty_like(factors), torch.empty_like(factors)
    after, onward = torch.zeros_like(ending), masses.transitions.T.contiguous()
    steps = zip(*(one.unbind(0)[::-1] for one in (betas, behind, inner, closing, factors)), strict=True)
    for beta, arriving, going_on, at_end, factor in steps:
        torch.addcmul(at_end, torch.mm(after, onward), going_on, out=beta)
        after = torch.mul(beta, factor, out=arriving)
    return _Shares(alphas * betas, alphas[:-1], behind[1:], lost)


def loss_backward(
    upstream: Tensor, saved: Tensor, emissions: Tensor, tags: Tensor | None, mask: Tensor, *parameters: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of sum(upstream * losses) by emissions, transitions, start and end."""
    scores = widen(emissions, mask, *parameters)
    masses, weights = _exponentiate(*scores), upstream.to(saved.dtype)
    shares = _shares(saved, masses)
    by_tag = shares.tags * weights[:, None]
    steps = ((shares.before * weights[:, None]).flatten(0, 1).T @ shares.behind.flatten(0, 1)) * masses.transitions
    if (lost := shares.lost).any():
        by_tag[:, lost], more = _shares_by_logarithms(scores[0][lost], mask[lost], *scores[2:], weights[lost])
        steps += more
    if tags is not None:
        _subtract_gold(tags, weights, masses, by_tag, steps)
    starts, ends = by_tag[0].sum(0), (by_tag * masses.last[..., None]).sum((0, 1))
    by_emission = torch.zeros_like(by_tag).transpose(0, 1)
    by_emission.scatter_(1, masses.order[..., None].expand_as(by_emission), by_tag.transpose(0, 1))
    gradients = by_emission[:, : mask.shape[1]], steps, starts, ends
    d_emissions, d_transitions, d_start, d_end = (
        gradient.masked_fill(given == -torch.inf, 0).to(given.dtype).contiguous()
        for gradient, given in zip(gradients, (emissions, *parameters), strict=True)
    )
    return d_emissions, d_transitions, d_start, d_end


def _subtract_gold(tags: Tensor, weights: Tensor, masses: _Masses, by_tag: Tensor, steps: Tensor) -> None:
    """Take the gold path's own counts off in place; what is no tag has none."""
    path = torch.zeros_like(masses.order)
    path[:, : tags.shape[1]] = tags
    path = path.gather(1, masses.order).T
    known = masses.on & (path >= 0) & (path < len(steps))
    path = path.masked_fill(~known, 0)
    counts = weights * known
    by_tag.scatter_add_(2, path[..., None], -counts[..., None])
    pairs = (counts[1:] * known[:-1]).flatten()
    steps.view(-1).index_add_(0, (path[:-1] * len(steps) + path[1:]).flatten(), -pairs)


def _shares_by_logarithms(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """What part of the mass, times the weight of its row, goes through tags (T, B, D) and through steps (D, D)."""
    packed = reference.pack(emissions, mask)
    alphas = reference.forward_scores(packed, transitions, start)
    betas = reference.backward_scores(packed, transitions, end)
    log_z = reference.logsumexp(alphas[:, -1] + end, dim=1)
    exists = packed.on & (log_z > -torch.inf)[:, None]
    log_z = log_z.nan_to_num(0, neginf=0)[:, None, None]
    tags = torch.where(exists[..., None], (alphas + betas - log_z).exp(), 0) * weights[:, None, None]
    behind, steps = packed.emissions + betas - log_z, torch.zeros_like(transitions)
    for t in range(1, exists.shape[1]):
        step = (alphas[:, t - 1, :, None] + transitions + behind[:, t, None, :]).exp()
        steps += (torch.where(exists[:, t, None, None], step, 0) * weights[:, None, None]).sum(0)
    return tags.transpose(0, 1), steps


def loss_and_gradients(
    scores: LatticeScores, tags: Tensor, *, mean: bool, flag: Tensor | None = None
) -> tuple[Tensor, Tensor, Callable[[Tensor], Sequence[Tensor]]]:
    """Sum or mean of the losses, the losses (B,), and a function from a factor to the gradients times it."""
    emissions, *rest = scores.exclude()
    losses, saved = loss(emissions, tags, *rest)
    total = losses.mean() if mean else losses.sum()
    if flag is not None:
        flag.copy_(total, non_blocking=True)
    weights = torch.full_like(losses, 1 / len(losses) if mean else 1.0)
    gradients = loss_backward(weights, saved, emissions, tags, *rest)
    return total, losses, lambda upstream: torch._foreach_mul(gradients, upstream)


def marginals(emissions: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t), which is the gradient of log Z; zero where not labelled."""
    _, saved = loss(emissions, None, mask, *parameters)
    return loss_backward(emissions.new_ones(len(emissions)), saved, emissions, None, mask, *parameters)[0]


def entropy(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B,): log Z less the expected score of a path.

    Both are taken beside the highest emission of each position, so that large scores do not cancel.
    """
    dtype = emissions.dtype
    emissions, mask, *parameters = widen(emissions, mask, transitions, start, end)
    emissions = emissions - emissions.amax(2, keepdim=True).nan_to_num(0, posinf=0, neginf=0)
    log_z, saved = loss(emissions, None, mask, *parameters)
    masses = _exponentiate(emissions, mask, *parameters)
    shares = _shares(saved, masses)
    steps, starts, ends = (scores.masked_fill(scores == -torch.inf, 0) for scores in parameters)
    emitted = masses.emitted.log().masked_fill_(masses.emitted == 0, 0)
    score = (shares.tags * (emitted + masses.last[..., None] * ends)).sum((0, 2)) + shares.tags[0] @ starts
    score += (shares.before * (shares.behind @ (masses.transitions * steps).T)).sum((0, 2))
    found = (log_z - score).clamp(min=0)
    if shares.lost.any():
        found[shares.lost] = reference.entropy(emissions[shares.lost], mask[shares.lost], *parameters)
    return found.to(dtype)
