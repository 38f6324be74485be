"""The two autograd functions: a loss that computes its gradients in forward, and an operator with its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import exact
from maskedcrf.crf.backends import backend_for
from maskedcrf.crf.scores import ExcludedSteps, LatticeScores


class LossArguments(NamedTuple):
    """What a loss takes besides the scores, which alone have gradients."""

    tags: Tensor
    mask: Tensor
    excluded: ExcludedSteps | None
    mean: bool
    backend: str
    flag: Tensor | None

    def lattice(self, emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> LatticeScores:
        """With the scores."""
        return LatticeScores(emissions, self.mask, transitions, start, end, self.excluded)


class LossFunction(torch.autograd.Function):
    """Sum or mean of the losses, and the losses. Forward computes the gradients; backward only scales them.

    The first backward scales them in place, so a second one computes them again.
    """

    @staticmethod
    def forward(ctx: Any, given: LossArguments, *scores: Tensor) -> tuple[Tensor, Tensor]:
        """Of emissions, transitions, start and end."""
        total, losses, ctx.scale_gradients = _loss_and_gradients(given, scores, flag=given.flag)
        ctx.given = given
        ctx.save_for_backward(*scores)
        ctx.mark_non_differentiable(losses)
        ctx.set_materialize_grads(False)
        return total, losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, _: None) -> Any:
        """The gradients kept from forward, or those of the reference if they will be differentiated again."""
        if upstream is None:  # nothing depends on the total
            return (None,) * len(ctx.needs_input_grad)
        scale_gradients, ctx.scale_gradients = ctx.scale_gradients, None
        if torch.is_grad_enabled():
            wanted = ctx.needs_input_grad[1:]
            return None, *exact.differentiate(partial(_exact_loss, ctx.given), ctx.saved_tensors, upstream, wanted)
        if scale_gradients is None:
            scale_gradients = _loss_and_gradients(ctx.given, ctx.saved_tensors)[2]
        return None, *scale_gradients(upstream)


def _loss_and_gradients(
    given: LossArguments, scores: Sequence[Tensor], flag: Tensor | None = None
) -> tuple[Tensor, Tensor, Callable[[Tensor], Sequence[Tensor]]]:
    _, kernels = backend_for(given.backend, scores[0])
    return kernels.loss_and_gradients(given.lattice(*scores), given.tags, mean=given.mean, flag=flag)


def _exact_loss(given: LossArguments, *scores: Tensor) -> Tensor:
    emissions, *rest = given.lattice(*scores).exclude()
    losses = exact.loss(emissions, given.tags, *rest)
    return losses.mean() if given.mean else losses.sum()


class OperatorFunction(torch.autograd.Function):
    """An operator's value. Its gradient is another operator, or else that of the reference.

    Second derivatives, and first ones that are rarely wanted, come from the reference.
    """

    @staticmethod
    def forward(ctx: Any, operator: Any, gradient: Any, value: Callable[..., Tensor], *arguments: Any) -> Any:
        """Of the operator's arguments, the last being the backend."""
        with torch._C._AutoDispatchBelowAutograd():
            found = operator(*arguments)
        saved = [] if gradient is None else found[1:]
        ctx.mark_non_differentiable(*saved)
        ctx.set_materialize_grads(False)  # else zeros as large as `saved` are made, for nobody
        ctx.save_for_backward(*saved, *arguments[:-1])
        ctx.gradient, ctx.value, ctx.backend = gradient, value, arguments[-1]
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, *_: Any) -> Any:
        """From the operator `gradient`, or by differentiating `value`, which is plain torch."""
        if upstream is None:  # nothing depends on the value
            return (None,) * len(ctx.needs_input_grad)
        wanted = ctx.needs_input_grad[3:-1]
        given = ctx.saved_tensors[-len(wanted) :]
        if ctx.gradient is None or torch.is_grad_enabled():
            return None, None, None, *exact.differentiate(ctx.value, given, upstream, wanted), None
        found = iter(ctx.gradient(upstream, *ctx.saved_tensors, ctx.backend))
        scores = (one is not None and one.is_floating_point() for one in given)
        return None, None, None, *[next(found) if is_score else None for is_score in scores], None
