"""The recursions as operators of torch, `torch.ops.maskedcrf.*`, each with its shapes and its gradient.

So `torch.compile`, `torch.export` and activation checkpointing see one node and never the recursion inside. The
operators are registered by hand: `torch.library.custom_op` takes 100 us more for each loss and gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.backends import module_of
from maskedcrf.crf.scores import wide, widen

_LATTICE = "Tensor emissions, Tensor mask, Tensor transitions, Tensor start, Tensor end"
_GOLD = "Tensor emissions, Tensor? tags, Tensor mask, Tensor transitions, Tensor start, Tensor end, str backend"
_SCHEMAS = (
    f"loss({_GOLD}) -> (Tensor, Tensor)",
    f"loss_backward(Tensor upstream, Tensor saved, {_GOLD}) -> (Tensor, Tensor, Tensor, Tensor)",
    f"marginals({_LATTICE}, str backend) -> Tensor",
    f"viterbi({_LATTICE}, str backend) -> (Tensor, Tensor)",
    f"nbest({_LATTICE}, int k, str backend) -> (Tensor, Tensor)",
    f"sample({_LATTICE}, Tensor uniforms, str backend) -> Tensor",
)


def _kernel(name: str, emissions_at: int = 0) -> Callable[..., Any]:
    """The backend's function of that name; the backend is the operator's last argument."""

    def compute(*args: Any) -> Any:
        result = getattr(module_of(args[-1], args[emissions_at]), name)(*args[:-1])
        return tuple(result) if isinstance(result, tuple) else result

    return compute


def wants_gradient(tensors: Sequence[Any]) -> bool:
    """Whether gradients are recorded and one of these has one."""
    return torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in tensors)


def reference_losses(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """(B,): -log P(tags), or log Z without tags, by the reference in double; in the dtype of the emissions."""
    wide, *rest = widen((emissions, mask, transitions, start, end))
    if tags is None:
        return reference.log_partition(wide, *rest).to(emissions.dtype)
    return reference.negative_log_likelihood(wide, tags, *rest).to(emissions.dtype)


class _WatchedLoss(torch.autograd.Function):
    """The loss where gradients are recorded, which compilers see as one node."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            losses, saved = OPERATORS.loss(*args)
        ctx.save_for_backward(saved, *args[:-1])
        ctx.backend = args[-1]
        ctx.mark_non_differentiable(saved)
        return losses, saved

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Any) -> Any:
        gradients = OPERATORS.loss_backward(upstream, *ctx.saved_tensors, ctx.backend)
        return gradients[0], None, None, *gradients[1:], None


class _LossBackward(torch.autograd.Function):
    """The gradient as a function of its own: its gradient goes through the reference."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            gradients = OPERATORS.loss_backward(*args)
        ctx.save_for_backward(args[0], *args[2:-1])
        return gradients

    @staticmethod
    def backward(ctx: Any, *upstreams: Any) -> Any:
        upstream, emissions, tags, mask, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            # New nodes, so that only what is asked for is differentiated and a third derivative still finds its way.
            wanted = [one.view_as(one) if one.requires_grad else one.detach().requires_grad_() for one in
                      (upstream, emissions, *parameters)]  # fmt: skip
            losses = reference_losses(wanted[1], tags, mask, *wanted[2:])
            first = torch.autograd.grad(losses, wanted[1:], wanted[0], create_graph=True)
            create_graph = torch.is_grad_enabled()
            second = torch.autograd.grad(first, wanted, upstreams, create_graph=create_graph, allow_unused=True)
        return second[0], None, second[1], None, None, *second[2:], None


def _differentiable(name: str, function: Any = None) -> Callable[..., Any]:
    """What an operator does where gradients are recorded: `function`, or nothing about them."""

    def compute(*args: Any) -> Any:
        if function and wants_gradient(args):
            return function.apply(*args)
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(OPERATORS, name)(*args)

    return compute


def _shape_of_loss(emissions: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return emissions.new_empty(emissions.shape[0]), module_of(rest[-1], emissions).empty_saved(emissions)


def _shape_of_loss_backward(upstream: Tensor, saved: Tensor, emissions: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(one.new_empty(one.shape) for one in (emissions, *rest[2:5]))


def _shape_of_marginals(emissions: Tensor, *rest: Any) -> Tensor:
    return emissions.new_empty(emissions.shape)


def _shape_of_viterbi(emissions: Tensor, mask: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    tags = mask.new_empty(mask.shape, dtype=torch.int64)
    return tags, emissions.new_empty(mask.shape[0], dtype=wide(emissions))


def _shape_of_nbest(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int, backend: str
) -> tuple[Tensor, Tensor]:
    tags, scores = _shape_of_viterbi(emissions, mask)
    return tags.new_empty((mask.shape[0], k, mask.shape[1])), scores.new_empty((mask.shape[0], k))


def _shape_of_sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor, backend: str
) -> Tensor:
    return uniforms.new_empty(uniforms.shape, dtype=torch.int64)


_LIBRARY: Any = torch.library.Library("maskedcrf", "DEF")  # type: ignore[no-untyped-call]
for _schema in _SCHEMAS:
    _LIBRARY.define(_schema)

for _name, _compute, _shapes, _gradient in (
    ("loss", _kernel("forward"), _shape_of_loss, _WatchedLoss),
    ("loss_backward", _kernel("backward", 2), _shape_of_loss_backward, _LossBackward),
    ("marginals", _kernel("marginals"), _shape_of_marginals, None),
    ("viterbi", _kernel("viterbi"), _shape_of_viterbi, None),
    ("nbest", _kernel("nbest"), _shape_of_nbest, None),
    ("sample", _kernel("sample"), _shape_of_sample, None),
):
    _LIBRARY.impl(_name, _compute, "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _differentiable(_name, _gradient), "Autograd")
    torch.library.register_fake(f"maskedcrf::{_name}", _shapes, lib=_LIBRARY)

OPERATORS = torch.ops.maskedcrf
