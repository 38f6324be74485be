"""A moving average of the weights: scored, kept and saved in the place of the last step's.

The steps of the training go about the minimum rather than to it; their average lies nearer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

Average = dict[str, Tensor]
"""The averaged weights by name; empty where none are asked for."""


def start(model: nn.Module) -> Average:
    """The average before the first step: what the model begins with."""
    return {name: value.detach().clone() for name, value in _trainable_parameters(model).items()}


def update(average: Average, model: nn.Module, *, decay: float, step: int) -> None:
    """Take in the weights after this step (from 1); the first steps weigh more, or the beginning would linger."""
    blend = get_ema_multi_avg_fn(min(decay, step / (step + 9)))  # type: ignore[no-untyped-call]
    blend(list(average.values()), list(_trainable_parameters(model).values()), step)


def copy_into(average: Average, model: nn.Module) -> None:
    """Give the model the averaged weights for good."""
    with torch.no_grad():
        for name, value in average.items():
            model.get_parameter(name).copy_(value)


@contextmanager
def applied(average: Average, model: nn.Module) -> Iterator[None]:
    """While this lasts the model has the averaged weights; afterwards its own again, to the bit."""
    # Values are copied, not swapped: cuDNN wants the weights of an LSTM to stay where they are.
    own = start(model) if average else {}
    copy_into(average, model)
    yield
    copy_into(own, model)


def _trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}
