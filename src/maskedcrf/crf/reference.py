"""The distribution over legal paths, every recursion in plain torch, to be read beside docs/maths.md.

All functions take one lattice, in this order:
  emissions   (B, T, D)  score of each tag at each position
  mask        (B, T)     True where a position is labelled; any pattern
  transitions (D, D)     score of each step, [from, to]
  start, end  (D,)       score of each first and last tag
A score of -inf takes the tag or the step out of the path space: no mass, and a gradient of exactly zero.
A row with no labelled position holds one path, the empty one, with score 0; a row with no legal path has
log_partition -inf. The fast backends have the same functions with the same signatures.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Packed(NamedTuple):
    """A batch with its labelled positions moved to the front, so that padding is on the right only."""

    emissions: Tensor
    """(B, T, D); zero where padded, so that NaN in the caller's padding is never read."""
    on: Tensor
    """(B, T), True where labelled."""
    order: Tensor
    """(B, T): which position of the caller's each one was."""


def pack(emissions: Tensor, mask: Tensor) -> Packed:
    """Labelled positions first, in their order; at least one position, so that the recursions have a start."""
    emissions, mask = _at_least_one(emissions), _at_least_one(mask)
    order = mask.logical_not().to(torch.uint8).argsort(dim=1, stable=True)
    on = mask.gather(1, order)
    emissions = emissions.gather(1, order[..., None].expand_as(emissions)).masked_fill(~on[..., None], 0)
    return Packed(emissions, on, order)


def _at_least_one(batch: Tensor) -> Tensor:
    """The batch with one empty position if it has none."""
    return batch if batch.shape[1] else batch.new_zeros((len(batch), 1, *batch.shape[2:]))


def logsumexp(scores: Tensor, dim: int) -> Tensor:
    """log sum exp with gradients of zero, not NaN, where every score is -inf."""
    highest = scores.detach().amax(dim, keepdim=True)
    highest = highest.masked_fill(highest == -torch.inf, 0)
    total = (scores - highest).exp().sum(dim)
    empty = total == 0
    return (total.masked_fill(empty, 1).log() + highest.squeeze(dim)).masked_fill(empty, -torch.inf)


def forward_scores(packed: Packed, transitions: Tensor, start: Tensor) -> Tensor:
    """(B, T, D): alpha[t, j], the log-mass of all path beginnings that are at tag j at position t."""
    alpha = start + packed.emissions[:, 0]
    alphas = [alpha]
    for t in range(1, packed.on.shape[1]):
        step = logsumexp(alpha[:, :, None] + transitions, dim=1) + packed.emissions[:, t]
        alpha = torch.where(packed.on[:, t, None], step, alpha)
        alphas.append(alpha)
    return torch.stack(alphas, dim=1)


def backward_scores(packed: Packed, transitions: Tensor, end: Tensor) -> Tensor:
    """(B, T, D): beta[t, i], the log-mass of all path endings that leave tag i at position t."""
    beta = end.expand(len(packed.on), -1)
    betas = [beta]
    for t in range(packed.on.shape[1] - 1, 0, -1):
        step = logsumexp(transitions + (packed.emissions[:, t] + beta)[:, None, :], dim=2)
        beta = torch.where(packed.on[:, t, None], step, beta)
        betas.append(beta)
    return torch.stack(betas[::-1], dim=1)


def log_partition(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B,): log of the summed exp-scores of all legal paths."""
    packed = pack(emissions, mask)
    alpha = forward_scores(packed, transitions, start)[:, -1]
    return logsumexp(alpha + end, dim=1).masked_fill(~packed.on[:, 0], 0)


class Gold(NamedTuple):
    """What a given path collects: its emissions (B, T), its steps (B, T-1), its start and end scores (B,)."""

    tags: Tensor
    emitted: Tensor
    stepped: Tensor
    edges: Tensor


def follow(packed: Packed, tags: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Gold:
    """The scores along `tags` (B, T), zero where not labelled, -inf where a tag is out of range."""
    tags = _at_least_one(tags).gather(1, packed.order)
    unknown = ((tags < 0) | (tags >= len(start))) & packed.on
    tags = tags.masked_fill(unknown | ~packed.on, 0)
    emitted = packed.emissions.gather(2, tags[..., None]).squeeze(2).masked_fill(unknown, -torch.inf)
    stepped = transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~packed.on[:, 1:], 0)
    last = tags.gather(1, (packed.on.sum(1, keepdim=True) - 1).clamp(min=0)).squeeze(1)
    edges = (start[tags[:, 0]] + end[last]).masked_fill(~packed.on[:, 0], 0)
    return Gold(tags, emitted, stepped, edges)


def path_score(
    emissions: Tensor, tags: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """(B,): score of the path `tags` (B, T); -inf for a path that leaves the path space or the tag range."""
    gold = follow(pack(emissions, mask), tags, transitions, start, end)
    return gold.emitted.sum(1) + gold.stepped.sum(1) + gold.edges


def negative_log_likelihood(
    emissions: Tensor, tags: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """(B,): -log P(tags); +inf for an illegal path."""
    score = path_score(emissions, tags, mask, transitions, start, end)
    return log_partition(emissions, mask, transitions, start, end) - score


def lannoy_loss(
    emissions: Tensor, tags: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, weights: Tensor
) -> Tensor:
    """(B,): -log P(tags) with each position's share weighted by `weights` (D,) of its gold tag (Lannoy et al.).

    The share of position t is log Z[t] - log Z[t-1], Z[t] summing the path beginnings up to t, less the
    gold path's score there.
    """
    packed = pack(emissions, mask)
    gold = follow(packed, tags, transitions, start, end)
    weight = weights[gold.tags].masked_fill(~packed.on, 0)
    alphas = forward_scores(packed, transitions, start)
    log_z = logsumexp(alphas, dim=2)
    growth = torch.cat([log_z[:, :1], log_z[:, 1:] - log_z[:, :-1]], dim=1)
    last = logsumexp(alphas[:, -1] + end, dim=1) - log_z[:, -1]
    total = (growth * weight).sum(1) + last.masked_fill(~packed.on[:, 0], 0)
    return total - (gold.emitted * weight).sum(1) - (gold.stepped * weight[:, :-1]).sum(1) - gold.edges


def marginals(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B, T, D): P(tag j at position t); zero where not labelled."""
    packed = pack(emissions, mask)
    alpha = forward_scores(packed, transitions, start)
    scores = alpha + backward_scores(packed, transitions, end)
    shares = (scores - logsumexp(scores, dim=2)[..., None]).exp().masked_fill(~packed.on[..., None], 0)
    places = packed.order[..., None].expand_as(shares)
    return torch.zeros_like(shares).scatter(1, places, shares)[:, : mask.shape[1]]


def entropy(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """(B,): entropy of the path distribution in nats, summed from the entropy of each step backwards."""
    packed = pack(emissions, mask)
    alphas = forward_scores(packed, transitions, start)
    total = torch.zeros_like(alphas[:, 0])  # (B, D): entropy of the path beginnings that end in tag j
    for t in range(1, packed.on.shape[1]):
        step = _expected_entropy(alphas[:, t - 1, :, None] + transitions, total[:, :, None])
        total = torch.where(packed.on[:, t, None], step, total)
    return _expected_entropy(alphas[:, -1] + end, total).masked_fill(~packed.on[:, 0], 0)


def _expected_entropy(scores: Tensor, entropies: Tensor) -> Tensor:
    """Entropy of choosing i by softmax(scores) over dim 1, plus the chosen i's own entropy."""
    log_share = scores - logsumexp(scores, dim=1).nan_to_num(neginf=0)[:, None]
    share = log_share.exp()
    return (share * (entropies - log_share.masked_fill(share == 0, 0))).sum(1)


class Paths(NamedTuple):
    """Tag ids, and the score of the path they spell; ids of unlabelled positions are `PAD`."""

    tags: Tensor
    scores: Tensor


PAD = -100


def viterbi(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path; of equals, the one with the lowest ids from the end."""
    packed, length = pack(emissions, mask), mask.shape[1]
    scores = [start + packed.emissions[:, 0]]
    for t in range(1, length):
        step = (scores[-1][:, :, None] + transitions).amax(1) + packed.emissions[:, t]
        scores.append(torch.where(packed.on[:, t, None], step, scores[-1]))
    best, tag = (scores[-1] + end).max(1)
    tags, into = [tag], transitions.T.contiguous()
    for t in range(length - 1, 0, -1):
        tag = torch.where(packed.on[:, t], (scores[t - 1] + into[tag]).argmax(1), tag)
        tags.append(tag)
    path = _unpack(torch.stack(tags[::-1], dim=1)[:, None], packed)[:, 0, :length]
    return Paths(path, best.masked_fill(~packed.on[:, 0], 0))


def nbest(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths; score -inf where there are fewer."""
    packed = pack(emissions, mask)
    rows, length, size = emissions.shape
    scores = emissions.new_full((rows, size, k), -torch.inf)  # of the k best beginnings at each tag
    scores[:, :, 0] = start + packed.emissions[:, 0]
    pointers = []  # of each (tag, rank): its predecessor, tag * k + rank
    stay = torch.arange(size * k, device=emissions.device).view(size, k)
    for t in range(1, length):
        candidates = (scores[:, :, :, None] + transitions[:, None, :]).flatten(1, 2)
        step, pointer = _best(candidates.transpose(1, 2), k)
        on = packed.on[:, t, None, None]
        scores = torch.where(on, step + packed.emissions[:, t, :, None], scores)
        pointers.append(torch.where(on, pointer, stay))
    final, pointer = _best((scores + end[:, None]).flatten(1), k)
    tags = [pointer // k]
    for step_back in reversed(pointers):
        pointer = step_back.flatten(1).gather(1, pointer)
        tags.append(pointer // k)
    empty = ~packed.on[:, :1]
    alone = torch.arange(k, device=emissions.device) > 0  # an empty row has one path only
    final = torch.where(empty, torch.zeros_like(final).masked_fill(alone, -torch.inf), final)
    return Paths(_unpack(torch.stack(tags[::-1], dim=2), packed)[..., :length], final)


def _best(candidates: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest along the last axis, -inf where there are fewer; of equals the first."""
    short = k - candidates.shape[-1]
    if short > 0:
        candidates = torch.nn.functional.pad(candidates, (0, short), value=-torch.inf)
    scores, index = candidates.sort(dim=-1, descending=True, stable=True)
    return scores[..., :k], index[..., :k].clamp(max=candidates.shape[-1] - max(short, 0) - 1)


def sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor
) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution; `uniforms` (B, n, T) in [0, 1) decide the draws."""
    if not mask.shape[1]:
        return torch.zeros_like(uniforms, dtype=torch.long)
    packed = pack(emissions, mask)
    alphas = forward_scores(packed, transitions, start)
    tag = _draw((alphas[:, -1] + end)[:, None, :], uniforms[:, :, -1])
    tags = [tag]
    for t in range(packed.on.shape[1] - 1, 0, -1):
        previous = _draw(alphas[:, t - 1, None, :] + transitions.T[tag], uniforms[:, :, t - 1])
        tag = torch.where(packed.on[:, t, None], previous, tag)
        tags.append(tag)
    return _unpack(torch.stack(tags[::-1], dim=2), packed)


def _draw(scores: Tensor, uniforms: Tensor) -> Tensor:
    """Index i along the last axis with probability softmax(scores), by inverting the cumulative sum."""
    share = (scores - logsumexp(scores, dim=-1)[..., None]).exp()
    reached = share.cumsum(-1) > uniforms[..., None] * share.sum(-1, keepdim=True)
    return (reached & (share > 0)).to(torch.uint8).argmax(-1)


def _unpack(tags: Tensor, packed: Packed) -> Tensor:
    """(B, n, T) tags back to the caller's positions, `PAD` where nothing is labelled."""
    padded = tags.masked_fill(~packed.on[:, None, :], PAD)
    return torch.empty_like(padded).scatter(2, packed.order[:, None, :].expand_as(padded), padded)


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
    """(N,): P(this very segment is in the path), for `spans` (N, 3) of row, first and last+1 position.

    Positions count labelled ones. `member` (N, D) holds the tags of the segment's type; `continues` (D, D)
    the steps inside one segment, all others being boundaries.
    """
    packed = pack(emissions, mask)
    alphas = forward_scores(packed, transitions, start)
    betas = backward_scores(packed, transitions, end)
    row, first, after = spans.unbind(1)
    length = packed.on.sum(1)[row]
    boundary = transitions.masked_fill(continues, -torch.inf)
    inner = transitions.masked_fill(~continues, -torch.inf)
    entered = logsumexp(alphas[row, (first - 1).clamp(min=0)][:, :, None] + boundary, dim=1)
    mass = torch.where((first == 0)[:, None], start, entered) + packed.emissions[row, first]
    mass = mass.masked_fill(~member, -torch.inf)
    for offset in range(1, int((after - first).max()) if len(spans) else 0):
        position = (first + offset).clamp(max=packed.on.shape[1] - 1)
        step = logsumexp(mass[:, :, None] + inner, dim=1) + packed.emissions[row, position]
        mass = torch.where((first + offset < after)[:, None], step, mass)
    position = after.clamp(max=packed.on.shape[1] - 1)
    rest = logsumexp(boundary + (packed.emissions[row, position] + betas[row, position])[:, None, :], dim=2)
    total = logsumexp(mass + torch.where((after == length)[:, None], end, rest), dim=1)
    return (total - logsumexp(alphas[:, -1] + end, dim=1)[row]).exp().clamp(max=1.0)  # as rounding may go beyond
