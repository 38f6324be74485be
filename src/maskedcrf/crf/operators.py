"""The recursions as operators of torch, `torch.ops.maskedcrf.*`, each with its shapes and its gradient.

`torch.compile`, `torch.export` and activation checkpointing see one node and never the recursion inside. The operators
are registered by hand, because `torch.library.custom_op` takes 100 us more for each loss and gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import exact
from maskedcrf.crf.autograd import OperatorFunction
from maskedcrf.crf.backends import backend_for
from maskedcrf.crf.scores import widest_dtype


def needs_grad(values: Sequence[Any]) -> bool:
    """Whether autograd records and one of these has gradients."""
    return torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in values)


def _like_losses(emissions: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return emissions.new_empty(emissions.shape[0]), backend_for(rest[-1], emissions)[1].empty_saved(emissions)


def _like_gradients(upstream: Tensor, saved: Tensor, emissions: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(one.new_empty(one.shape) for one in (emissions, *rest[2:5]))


def _like_marginals(emissions: Tensor, *rest: Any) -> Tensor:
    return emissions.new_empty(emissions.shape)


def _like_entropy(emissions: Tensor, *rest: Any) -> Tensor:
    return emissions.new_empty(emissions.shape[0])


def _like_best_path(emissions: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    tags = emissions.new_empty(emissions.shape[:2], dtype=torch.int64)
    return tags, emissions.new_empty(emissions.shape[0], dtype=widest_dtype(emissions))


def _like_best_paths(emissions: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    rows, length, _ = emissions.shape
    tags = emissions.new_empty((rows, rest[-2], length), dtype=torch.int64)
    return tags, emissions.new_empty((rows, rest[-2]), dtype=widest_dtype(emissions))


def _like_sample(*arguments: Any) -> Tensor:
    uniforms: Tensor = arguments[-2]
    return uniforms.new_empty(uniforms.shape, dtype=torch.int64)


def _like_span_probability(emissions: Tensor, *rest: Any) -> Tensor:
    return emissions.new_empty(rest[4].shape[0], dtype=widest_dtype(emissions))


class _Operator(NamedTuple):
    """An operator: its schema, its results' shapes, its value in plain torch; a backend has a function of its name.

    Without `value` it is not differentiable. If it saves a tensor, `gradient` names the operator of its gradient.
    """

    schema: str
    shapes: Callable[..., Any]
    value: Callable[..., Tensor] | None = None
    gradient: str | None = None


_LATTICE = "Tensor emissions, Tensor mask, Tensor transitions, Tensor start, Tensor end"
_GOLD = "Tensor emissions, Tensor? tags, Tensor mask, Tensor transitions, Tensor start, Tensor end, str backend"
_SPANS = "Tensor spans, Tensor member, Tensor continues"
_DEFINITIONS = {
    "loss": _Operator(f"({_GOLD}) -> (Tensor, Tensor)", _like_losses, exact.loss, "loss_backward"),
    "loss_backward": _Operator(
        f"(Tensor upstream, Tensor saved, {_GOLD}) -> (Tensor, Tensor, Tensor, Tensor)", _like_gradients
    ),
    "marginals": _Operator(f"({_LATTICE}, str backend) -> Tensor", _like_marginals, exact.marginals),
    "entropy": _Operator(f"({_LATTICE}, str backend) -> Tensor", _like_entropy, exact.entropy),
    "viterbi": _Operator(f"({_LATTICE}, str backend) -> (Tensor, Tensor)", _like_best_path),
    "nbest": _Operator(f"({_LATTICE}, int k, str backend) -> (Tensor, Tensor)", _like_best_paths),
    "sample": _Operator(f"({_LATTICE}, Tensor uniforms, str backend) -> Tensor", _like_sample),
    "span_probability": _Operator(
        f"({_LATTICE}, {_SPANS}, str backend) -> Tensor", _like_span_probability, exact.span_probability
    ),
}


def _compute(name: str, schema: str) -> Callable[..., Any]:
    """The function of the backend, which is the last argument."""
    emissions_at = schema.count("Tensor", 0, schema.index("emissions")) - 1

    def compute(*arguments: Any) -> Any:
        _, kernels = backend_for(arguments[-1], arguments[emissions_at])
        found = getattr(kernels, name)(*arguments[:-1])
        return tuple(found) if isinstance(found, tuple) else found

    return compute


def _record(name: str, operator: _Operator) -> Callable[..., Any]:
    """The operator as autograd calls it: recorded if it has a gradient that is wanted, else just computed."""

    def record(*arguments: Any) -> Any:
        overload = getattr(OPERATORS, name).default
        if operator.value and needs_grad(arguments):
            gradient = operator.gradient and getattr(OPERATORS, operator.gradient).default
            return OperatorFunction.apply(overload, gradient, operator.value, *arguments)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*arguments)

    return record


OPERATORS = torch.ops.maskedcrf
_LIBRARY: Any = torch.library.Library("maskedcrf", "DEF")  # type: ignore[no-untyped-call]
for _name, _operator in _DEFINITIONS.items():
    _LIBRARY.define(_name + _operator.schema)
    _LIBRARY.impl(_name, _compute(_name, _operator.schema), "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _record(_name, _operator), "Autograd")
    torch.library.register_fake(f"maskedcrf::{_name}", _operator.shapes, lib=_LIBRARY)
