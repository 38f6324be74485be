"""The reference in the widest precision of the device: what the fast backends are held to, and fall back on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.scores import widen


def _widened(function: Callable[..., Any], *, narrow: bool = False) -> Callable[..., Any]:
    """The function of the reference on widened scores; if `narrow`, its answer in the dtype of the emissions."""

    def compute(emissions: Tensor, *rest: Any) -> Any:
        found = function(*widen(emissions, *rest[:4]), *rest[4:])
        return found.to(emissions.dtype) if narrow else found

    return compute


marginals = _widened(reference.marginals, narrow=True)
entropy = _widened(reference.entropy, narrow=True)
viterbi = _widened(reference.viterbi)
nbest = _widened(reference.nbest)
sample = _widened(reference.sample)
span_probability = _widened(reference.span_probability)


def loss(emissions: Tensor, tags: Tensor | None, *rest: Tensor) -> Tensor:
    """(B,): -log P(tags), or log Z without tags, in the dtype of the emissions."""
    scores = widen(emissions, *rest)
    if tags is None:
        return reference.log_partition(*scores).to(emissions.dtype)
    return reference.negative_log_likelihood(scores[0], tags, *scores[1:]).to(emissions.dtype)


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
