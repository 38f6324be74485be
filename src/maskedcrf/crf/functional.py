"""Every question about the distribution, put to the backend that answers it.

Most answers are operators of torch. The loss of a training step and the best path call the backend directly unless a
compiler or a tracer needs to see an operator, which saves 0.1 ms a step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maskedcrf.crf import exact, reference
from maskedcrf.crf.autograd import LossArguments, LossFunction
from maskedcrf.crf.backends import backend_for
from maskedcrf.crf.operators import OPERATORS, needs_grad
from maskedcrf.crf.reference import Paths
from maskedcrf.crf.scores import LatticeScores


def negative_log_likelihood(scores: LatticeScores, tags: Tensor, *, backend: str) -> Tensor:
    """(B,): -log P(tags), in the dtype of the emissions."""
    return _losses(scores, tags, backend)


def log_partition(scores: LatticeScores, *, backend: str) -> Tensor:
    """(B,): log of the summed exp-scores of all legal paths, in the dtype of the emissions."""
    return _losses(scores, None, backend)


def _losses(scores: LatticeScores, tags: Tensor | None, backend: str) -> Tensor:
    emissions, *rest = scores.exclude()
    if backend == "reference":
        return exact.loss(emissions, tags, *rest)
    losses: Tensor = OPERATORS.loss(emissions, tags, *rest, backend)[0]
    return losses


def reduced_loss(
    scores: LatticeScores, tags: Tensor, *, mean: bool, backend: str, flag: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The sum or the mean of the losses, differentiable and written to `flag` as well; and the losses (B,)."""
    if backend != "reference" and needs_grad(scores) and not _is_traced():
        arguments = LossArguments(tags, scores.mask, scores.excluded, mean, backend, flag)
        emissions, _, *parameters, _ = scores
        total, losses = LossFunction.apply(arguments, emissions, *parameters)  # type: ignore[no-untyped-call]
        return total, losses
    losses = _losses(scores, tags, backend)
    total = losses.mean() if mean else losses.sum()
    if flag is not None:
        flag.copy_(total.detach(), non_blocking=True)
    return total, losses


def lannoy_loss(scores: LatticeScores, tags: Tensor, weights: Tensor) -> Tensor:
    """(B,): -log P(tags) with each position's share weighted; see `reference`."""
    wide = scores.widen().exclude()
    losses = reference.lannoy_loss(wide[0], tags, *wide[1:], weights.to(wide[0].dtype))
    return losses.to(scores.emissions.dtype)


def marginals(scores: LatticeScores, *, backend: str) -> Tensor:
    """(B, T, D): P(tag at position), in the dtype of the emissions."""
    shares: Tensor = _ask("marginals", scores, backend=backend)
    return shares


def entropy(scores: LatticeScores, *, backend: str) -> Tensor:
    """(B,): entropy of the path distribution in nats, in the dtype of the emissions."""
    nats: Tensor = _ask("entropy", scores, backend=backend)
    return nats


def span_probability(
    scores: LatticeScores, spans: Tensor, member: Tensor, continues: Tensor, *, backend: str
) -> Tensor:
    """(N,): P(this very segment is in the path)."""
    probability: Tensor = _ask("span_probability", scores, spans, member, continues, backend=backend)
    return probability


def viterbi(scores: LatticeScores, *, backend: str) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path."""
    if backend == "reference" or _is_traced():
        return Paths(*_ask("viterbi", scores, backend=backend))
    chosen, kernels = backend_for(backend, scores.emissions)
    with torch.no_grad():
        given: Any = scores if chosen.takes_exclusions else scores.exclude()
        return kernels.viterbi(*given)


def nbest(scores: LatticeScores, k: int, *, backend: str) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths."""
    return Paths(*_ask("nbest", scores, k, backend=backend))


def sample(scores: LatticeScores, uniforms: Tensor, *, backend: str) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution as `uniforms` (B, n, T) decide."""
    tags: Tensor = _ask("sample", scores, uniforms, backend=backend)
    return tags


def _ask(question: str, scores: LatticeScores, *rest: Any, backend: str) -> Any:
    """The answer of the reference, or of a fast backend through its operator."""
    if backend == "reference":
        return getattr(exact, question)(*scores.exclude(), *rest)
    return getattr(OPERATORS, question)(*scores.exclude(), *rest, backend)


def _is_traced() -> bool:
    """Whether a compiler or a tracer needs to see operators."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
