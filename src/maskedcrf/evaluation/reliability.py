"""Reliability: does an entity given probability 0.9 turn out right nine times in ten?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maskedcrf.errors import ShapeError

BINS = 10


class Bin(NamedTuple):
    """Entities of similar probability: how many, what they promised on average, and how often they were right."""

    entities: int
    probability: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far probabilities are from what happens, over bins of equal width."""

    bins: tuple[Bin, ...]
    """Bins that hold an entity, from the least probable up."""

    @property
    def entities(self) -> int:
        """Entities."""
        return sum(each.entities for each in self.bins)

    @property
    def error(self) -> float | None:
        """Expected calibration error in percent: the mean gap between promise and outcome; None without entities."""
        if not self.bins:
            return None
        return 100 * sum(each.entities * abs(each.probability - each.accuracy) for each in self.bins) / self.entities

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"error": self.error, "entities": self.entities, "bins": [each._asdict() for each in self.bins]}


def reliability(probabilities: ArrayLike, correct: Sequence[bool] | ArrayLike, *, bins: int = BINS) -> Reliability:
    """The reliability of entities with these probabilities, of which these were right."""
    shares, right = np.asarray(probabilities, dtype=float), np.asarray(correct, dtype=bool)
    if shares.shape != right.shape or shares.ndim != 1:
        raise ShapeError(f"one probability and one outcome for each entity, got {shares.shape} and {right.shape}")
    number = np.minimum((shares * bins).astype(int), bins - 1)
    found = [number == place for place in range(bins)]
    return Reliability(
        tuple(Bin(int(on.sum()), float(shares[on].mean()), float(right[on].mean())) for on in found if on.any())
    )
