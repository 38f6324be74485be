"""Every question about the distribution, put to the backend that answers it.

It goes through an operator where something looks at operators, and past it, which is faster, where nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.backends import module_of
from maskedcrf.crf.operators import OPERATORS, reference_losses, wants_gradient
from maskedcrf.crf.reference import Paths
from maskedcrf.crf.scores import Illegal, Lattice, Scores, widen
from maskedcrf.crf.shares import Shares


def negative_log_likelihood(lattice: Lattice, tags: Tensor, *, backend: str) -> Tensor:
    """(B,): -log P(tags), in the dtype of the emissions."""
    return _losses(lattice, tags, backend)


class Reduced(NamedTuple):
    """The sum or the mean of the losses, the losses (B,), and whether a notice of the former is on its way."""

    total: Tensor
    losses: Tensor
    noticed: bool


def reduced_loss(lattice: Lattice, tags: Tensor, *, mean: bool, backend: str, notice: Tensor | None = None) -> Reduced:
    """The sum or the mean of the losses, differentiable; a GPU writes it to `notice` as well, where it can."""
    if _goes_alone(lattice, backend) and hasattr(module_of(backend, lattice.emissions), "loss_and_gradients"):
        emissions, mask, transitions, start, end, illegal = lattice
        asked = _Asked(tags, mask, illegal, mean, backend, [])
        total: Tensor = _ReducedLoss.apply(asked, notice, emissions, transitions, start, end)  # type: ignore[no-untyped-call]
        return Reduced(total, asked.losses[0], notice is not None)
    losses = _losses(lattice, tags, backend)
    return Reduced(losses.mean() if mean else losses.sum(), losses, noticed=False)


def log_partition(lattice: Lattice, *, backend: str) -> Tensor:
    """(B,): log of the summed exp-scores of all legal paths."""
    return _losses(lattice, None, backend)


def marginals(lattice: Lattice, *, backend: str) -> Tensor:
    """(B, T, D): P(tag j at position t); differentiable, through the reference."""
    scores, wanted, own = lattice.scores(), wants_gradient(lattice), OPERATORS.marginals
    if backend == "reference" or (wanted and _watched()):
        return reference.marginals(*widen(scores)).to(lattice.emissions.dtype)
    return Shares.apply(own, backend, *scores) if wanted else own(*scores, backend)  # type: ignore[no-any-return, no-untyped-call]


def viterbi(lattice: Lattice, *, backend: str) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path."""
    if backend != "reference" and _watched():
        return Paths(*OPERATORS.viterbi(*lattice.scores(), backend))
    with torch.no_grad():
        if backend == "reference":
            return reference.viterbi(*widen(lattice.scores()))
        return Paths(*module_of(backend, lattice.emissions).viterbi(*_unwatched(lattice, backend)))


def nbest(lattice: Lattice, k: int, *, backend: str) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths."""
    if backend == "reference":
        return reference.nbest(*widen(lattice.scores()), k)
    return Paths(*OPERATORS.nbest(*lattice.scores(), k, backend))


def sample(lattice: Lattice, uniforms: Tensor, *, backend: str) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution as `uniforms` (B, n, T) decide."""
    if backend == "reference":
        return reference.sample(*widen(lattice.scores()), uniforms)
    tags: Tensor = OPERATORS.sample(*lattice.scores(), uniforms, backend)
    return tags


def span_probability(lattice: Lattice, spans: Tensor, member: Tensor, continues: Tensor, *, backend: str) -> Tensor:
    """(N,): P(this very segment is in the path); differentiable, through the reference."""
    scores, asked = lattice.scores(), (spans, member, continues)
    module = reference if backend == "reference" else module_of(backend, lattice.emissions)
    if hasattr(module, "span_probability") and not (wants_gradient(lattice) or _watched()):
        return module.span_probability(*scores, *asked)  # type: ignore[no-any-return]
    return reference.span_log_probability(*widen(scores), *asked).exp().clamp(max=1.0)  # as rounding may go beyond


def _losses(lattice: Lattice, tags: Tensor | None, backend: str) -> Tensor:
    losses: Tensor
    if _goes_alone(lattice, backend):
        losses = _Loss.apply(tags, lattice.illegal, backend, *lattice[:5])  # type: ignore[no-untyped-call]
        return losses
    if backend == "reference":
        emissions, mask, *parameters = lattice.scores()
        return reference_losses(emissions, tags, mask, *parameters)
    if _watched():
        emissions, *rest = lattice.scores()
        losses = OPERATORS.loss(emissions, tags, *rest, backend)[0]
    else:
        given = _unwatched(lattice, backend)
        losses = module_of(backend, lattice.emissions).forward(given[0], tags, *given[1:])[0]
    return losses


def _unwatched(lattice: Lattice, backend: str) -> Lattice | Scores:
    """What a backend is given past the operators: one that excludes by itself, as on a GPU, what is illegal, too."""
    return lattice if getattr(module_of(backend, lattice.emissions), "TAKES_EXCLUSIONS", False) else lattice.scores()


def _goes_alone(lattice: Lattice, backend: str) -> bool:
    """Gradients are wanted of a backend that has its own, and nobody watches."""
    return backend != "reference" and not _watched() and wants_gradient(lattice)


def _watched() -> bool:
    """Something looks at operators, such as a compiler or a tracer; if not, their price (0.1 ms a step) is saved."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


class _Loss(torch.autograd.Function):
    """The loss outside compilers: excluding what is illegal is part of it, so that its gradient is computed once."""

    @staticmethod
    def forward(ctx: Any, tags: Tensor | None, illegal: Illegal | None, backend: str, *given: Tensor) -> Tensor:
        emissions, mask, *parameters = Lattice(*given[:5], illegal).scores()  # type: ignore[call-arg, arg-type]
        losses: Tensor
        losses, saved = module_of(backend, emissions).forward(emissions, tags, mask, *parameters)
        ctx.save_for_backward(saved, tags, *given, *parameters)
        ctx.illegal, ctx.backend = illegal, backend
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        saved, tags, *given = ctx.saved_tensors
        emissions, mask, *parameters = given[:2] + given[5:]
        if torch.is_grad_enabled():  # a second derivative is wanted: from the scores as they were given
            emissions, mask, *parameters = Lattice(*given[:5], ctx.illegal).scores()  # type: ignore[call-arg]
            gradients = OPERATORS.loss_backward(upstream, saved, emissions, tags, mask, *parameters, ctx.backend)
        else:
            module = module_of(ctx.backend, emissions)
            gradients = module.backward(upstream, saved, emissions, tags, mask, *parameters)
        return None, None, None, gradients[0], None, *gradients[1:]


class _Asked(NamedTuple):
    """What a reduced loss takes besides the scores, which alone have gradients; and where it leaves the losses (B,)."""

    tags: Tensor
    mask: Tensor
    illegal: Illegal | None
    mean: bool
    backend: str
    losses: list[Tensor]


class _ReducedLoss(torch.autograd.Function):
    """Sum or mean of the losses, with its gradients almost at once: going back is little more than a multiplication.

    The gradients are given away on the first way back; should there be another, they are computed anew.
    """

    @staticmethod
    def forward(ctx: Any, asked: _Asked, notice: Tensor | None, *scores: Tensor) -> Tensor:
        reduced: Tensor
        reduced, losses, ctx.finish = _at_once(asked, scores, notice)
        asked.losses.append(losses)
        ctx.save_for_backward(*scores)
        ctx.asked = asked
        return reduced

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        if torch.is_grad_enabled():
            return None, None, *_ReducedLoss._differentiable(ctx, upstream)
        finish, ctx.finish = ctx.finish, None
        return None, None, *(finish or _at_once(ctx.asked, ctx.saved_tensors)[2])(upstream)

    @staticmethod
    def _differentiable(ctx: Any, upstream: Tensor) -> Any:
        """The gradients through operators, which have gradients themselves."""
        tags, mask, illegal, mean, backend, _ = ctx.asked
        emissions, transitions, start, end = ctx.saved_tensors
        emissions, _, *parameters = Lattice(emissions, mask, transitions, start, end, illegal).scores()
        with torch.no_grad():
            saved = module_of(backend, emissions).forward(emissions, tags, mask, *parameters)[1]
        each = (upstream / len(mask) if mean else upstream).expand(len(mask))
        return OPERATORS.loss_backward(each, saved, emissions, tags, mask, *parameters, backend)


def _at_once(asked: _Asked, scores: Sequence[Tensor], notice: Tensor | None = None) -> Any:
    tags, mask, illegal, mean, backend, _ = asked
    emissions, *parameters = scores
    compute = module_of(backend, emissions).loss_and_gradients
    options = {"mean": mean} if notice is None else {"mean": mean, "notice": notice}
    return compute(emissions, tags, mask, *parameters, illegal, **options)
