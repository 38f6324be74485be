"""The scores of a batch, and what is not in its path space."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Scores = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Emissions (B, T, D), mask (B, T), transitions (D, D), start (D,) and end (D,), -inf where excluded."""


class Illegal(NamedTuple):
    """Which steps, starts and ends are not in the path space: (D, D), (D,), (D,) Boolean."""

    transitions: Tensor
    start: Tensor
    end: Tensor


class Lattice(NamedTuple):
    """The scores of a batch, as the layer has them, and what is illegal; see `reference`."""

    emissions: Tensor
    mask: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    illegal: Illegal | None = None

    def scores(self) -> Scores:
        """What every recursion takes, in its order: -inf where a step, a start or an end is illegal."""
        if self.illegal is None:
            return self[:5]
        given = zip(self[2:5], self.illegal, strict=True)
        transitions, start, end = (scores.masked_fill(out, -torch.inf) for scores, out in given)
        return self.emissions, self.mask, transitions, start, end

    def widened(self) -> Lattice:
        """The same in double, where the device has it: masses are far apart from 1, and their ratios are not."""
        return Lattice(*widen(self[:5]), self.illegal)


def widen(scores: Scores) -> Scores:
    """The scores in double, where the device has it."""
    kind = wide(scores[0])
    emissions, mask, transitions, start, end = scores
    return emissions.to(kind), mask, transitions.to(kind), start.to(kind), end.to(kind)


def wide(tensor: Tensor) -> torch.dtype:
    """Double, where the device has it."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64
