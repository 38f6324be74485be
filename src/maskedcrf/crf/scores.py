"""The scores of a batch, and what its path space excludes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

DEVICES_WITHOUT_FLOAT64 = {"mps"}

Scores = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Emissions (B, T, D), mask (B, T), transitions (D, D), start (D,) and end (D,), -inf where excluded."""


class ExcludedSteps(NamedTuple):
    """Which steps, starts and ends are not in the path space: (D, D), (D,), (D,) Boolean."""

    transitions: Tensor
    start: Tensor
    end: Tensor


class LatticeScores(NamedTuple):
    """The scores of a batch as the layer has them, and what is excluded; see `reference`."""

    emissions: Tensor
    mask: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    excluded: ExcludedSteps | None = None

    def exclude(self) -> Scores:
        """What every recursion takes, in its order: -inf where a step, a start or an end is excluded."""
        if self.excluded is None:
            return self[:5]
        pairs = zip(self[2:5], self.excluded, strict=True)
        transitions, start, end = (scores.masked_fill(out, -torch.inf) for scores, out in pairs)
        return self.emissions, self.mask, transitions, start, end

    def widen(self) -> LatticeScores:
        """The same in the widest precision, for a difference of two large sums."""
        return LatticeScores(*widen(*self[:5]), self.excluded)


def widen(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Scores:
    """The scores in the widest precision of their device."""
    widest = widest_dtype(emissions)
    return emissions.to(widest), mask, transitions.to(widest), start.to(widest), end.to(widest)


def widest_dtype(tensor: Tensor) -> torch.dtype:
    """Double precision; single on a device that has no other."""
    return torch.float32 if tensor.device.type in DEVICES_WITHOUT_FLOAT64 else torch.float64
