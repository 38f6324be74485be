"""Marginals with gradients, at the price of those without until somebody goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.scores import Scores, widen


class Shares(torch.autograd.Function):
    """A backend's own marginals; their gradient, which is rarely wanted, goes through the reference."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[..., Tensor], backend: str, *scores: Tensor) -> Tensor:
        """(B, T, D), by the kernel."""
        ctx.save_for_backward(*scores)
        return compute(*scores, backend)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """By the reference, which has derivatives of its own where a second one is wanted."""
        again, wanted = torch.is_grad_enabled(), ctx.needs_input_grad[2:]
        given: Scores = ctx.saved_tensors
        with torch.enable_grad():
            scores = (
                given if again else [one.detach().requires_grad_(on) for one, on in zip(given, wanted, strict=True)]
            )
            shares = reference.marginals(*widen(scores)).to(upstream.dtype)  # type: ignore[arg-type]
            inputs = [one for one, on in zip(scores, wanted, strict=True) if on]
            found = iter(torch.autograd.grad(shares, inputs, upstream, create_graph=again))
        return None, None, *(next(found) if on else None for on in wanted)
