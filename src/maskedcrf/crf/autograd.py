"""The two autograd functions: a loss that computes its gradients in forward, and an operator with its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.backends import backend_for
from maskedcrf.crf.scores import ExcludedSteps, LatticeScores, widen


class LossArguments(NamedTuple):
    """What a loss takes besides the scores, which alone have gradients."""

    tags: Tensor
    mask: Tensor
    excluded: ExcludedSteps | None
    mean: bool
    backend: str
    flag: Tensor | None


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
            return None, *differentiate(partial(_exact_loss, ctx.given), ctx.saved_tensors, upstream, wanted)
        if scale_gradients is None:
            scale_gradients = _loss_and_gradients(ctx.given, ctx.saved_tensors)[2]
        return None, *scale_gradients(upstream)


def _loss_and_gradients(
    given: LossArguments, scores: Sequence[Tensor], flag: Tensor | None = None
) -> tuple[Tensor, Tensor, Callable[[Tensor], Sequence[Tensor]]]:
    emissions, transitions, start, end = scores
    _, kernels = backend_for(given.backend, emissions)
    arguments = emissions, given.tags, given.mask, transitions, start, end, given.excluded
    return kernels.loss_and_gradients(*arguments, mean=given.mean, flag=flag)


def _exact_loss(given: LossArguments, emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    scores = LatticeScores(emissions, given.mask, transitions, start, end, given.excluded).exclude()
    losses = exact_losses(emissions, given.tags, *scores[1:])
    return losses.mean() if given.mean else losses.sum()


def exact_losses(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """(B,): -log P(tags), or log Z without tags, by the reference in double; in the dtype of the emissions."""
    scores = widen(emissions, mask, transitions, start, end)
    if tags is None:
        return reference.log_partition(*scores).to(emissions.dtype)
    return reference.negative_log_likelihood(scores[0], tags, *scores[1:]).to(emissions.dtype)


class OperatorFunction(torch.autograd.Function):
    """An operator's value. Its gradient is another operator, or else that of the reference.

    Second derivatives, and first ones that are rarely wanted, come from the reference.
    """

    @staticmethod
    def forward(ctx: Any, operator: Any, gradient: Any, exact: Callable[..., Tensor], *arguments: Any) -> Any:
        """Of the operator's arguments, the last being the backend."""
        with torch._C._AutoDispatchBelowAutograd():
            found = operator(*arguments)
        saved = [] if gradient is None else found[1:]
        ctx.mark_non_differentiable(*saved)
        ctx.set_materialize_grads(False)  # else zeros as large as `saved` are made, for nobody
        ctx.save_for_backward(*saved, *arguments[:-1])
        ctx.gradient, ctx.exact, ctx.backend = gradient, exact, arguments[-1]
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor | None, *_: Any) -> Any:
        """From the operator `gradient`, or by differentiating `exact`, which is plain torch."""
        if upstream is None:  # nothing depends on the value
            return (None,) * len(ctx.needs_input_grad)
        wanted = ctx.needs_input_grad[3:-1]
        given = ctx.saved_tensors[-len(wanted) :]
        if ctx.gradient is None or torch.is_grad_enabled():
            return None, None, None, *differentiate(ctx.exact, given, upstream, wanted), None
        found = iter(ctx.gradient(upstream, *ctx.saved_tensors, ctx.backend))
        scores = (one is not None and one.is_floating_point() for one in given)
        return None, None, None, *[next(found) if is_score else None for is_score in scores], None


def differentiate(
    function: Callable[..., Tensor], given: Sequence[Any], upstream: Tensor, wanted: Sequence[bool]
) -> list[Tensor | None]:
    """The gradients of plain torch code by those inputs that are `wanted`; differentiable where autograd records."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # New nodes: an input may have been computed from another one, and autograd must not go on from it to that.
        inputs = [one if not on else one.view_as(one) if again else one.detach().requires_grad_() for one, on in
                  zip(given, wanted, strict=True)]  # fmt: skip
        by = [one for one, on in zip(inputs, wanted, strict=True) if on]
        found = iter(torch.autograd.grad(function(*inputs), by, upstream, create_graph=again))
    return [next(found) if on else None for on in wanted]
