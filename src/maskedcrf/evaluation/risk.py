"""Thresholds with a promised risk: how high may a threshold be so that at most a share alpha is missed?

Everything here works on *units* (sentences, documents, files), because only whole units are exchangeable. A unit has
some items, such as its entities, each with a score; an item is missed where its score lies below the threshold. The
loss of a unit is the share of its items that is missed: it lies in [0, 1] and never falls as the threshold rises.

`expected_threshold` bounds the expected loss of the next unit (conformal risk control, Angelopoulos et al. 2022);
`confident_threshold` bounds it with probability 1 - delta over the sample (Bates et al. 2021, with the bound of
Hoeffding and Bentkus). Both hold for any model and any finite sample, as long as the units are exchangeable.
docs/maths.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedcrf.errors import DataError, MaskedCRFError

Floats = NDArray[np.float64]


class Sample(NamedTuple):
    """The items of all units, lowest score first."""

    scores: Floats
    losses: Floats
    """How much of the summed loss of all units is lost up to and with this item; the last entry is the size."""
    size: int
    """The number of units that have items."""

    def mean_loss(self, threshold: float) -> float:
        """The mean loss of the units if items below the threshold are missed."""
        missed = int(np.searchsorted(self.scores, threshold, side="left"))
        return float(self.losses[missed - 1]) / self.size if missed else 0.0


def sample_of(units: Sequence[Sequence[float]]) -> Sample:
    """The sample of units, each given as the scores of its items; a unit without items has nothing to miss.

    >>> sample_of([[0.9], [0.4, 0.8], []]).mean_loss(0.5)  # the first unit loses nothing, the second one of two
    0.25
    """
    counted = [unit for unit in units if len(unit)]
    scores = np.array([score for unit in counted for score in unit], dtype=np.float64)
    if not np.isfinite(scores).all():
        raise MaskedCRFError("a score is not a finite number; the model's probabilities cannot be promised on")
    weights = np.array([1 / len(unit) for unit in counted for _ in unit], dtype=np.float64)
    order = np.argsort(scores, kind="stable")
    return Sample(scores[order], np.cumsum(weights[order]), len(counted))


def expected_threshold(sample: Sample, alpha: float) -> float:
    """The highest threshold whose expected loss on the next unit is at most alpha.

    One more unit, of which nothing is known, may lose everything: (n * mean loss + 1) / (n + 1) <= alpha.
    """
    return _highest(sample, lambda mean: (sample.size * mean + 1) / (sample.size + 1) <= alpha, alpha, 1.0)


def confident_threshold(sample: Sample, alpha: float, delta: float) -> float:
    """The highest threshold whose expected loss is at most alpha, with probability 1 - delta over the sample."""
    require_share(delta, "delta")
    return _highest(sample, lambda mean: p_value(mean, sample.size, alpha) <= delta, alpha, delta)


def units_needed(alpha: float, delta: float | None = None) -> int:
    """How many units a promise needs at least, if none of them loses anything.

    >>> units_needed(0.01), units_needed(0.01, delta=0.05)
    (99, 299)
    """
    require_share(alpha, "alpha")
    if delta is None:
        return math.ceil(1 / alpha - 1 - 1e-9)
    require_share(delta, "delta")
    return math.ceil(math.log(delta) / math.log1p(-alpha) - 1e-9)


def expected_loss_at_most(sample: Sample, alpha: float, level: float = 0.95) -> float:
    """What the expected loss at a threshold of `expected_threshold` may be: alpha is its mean over samples.

    Its sample lost at most a known mean there; this is the upper end of the interval around that.

    >>> round(expected_loss_at_most(sample_of([[0.5]] * 500), 0.01), 3)
    0.024
    """
    mean = (alpha * (sample.size + 1) - 1) / sample.size
    return interval(min(max(mean, 0.0), 1.0), sample.size, level)[1]


def p_value(mean: float, size: int, alpha: float) -> float:
    """How likely a mean loss this low is, at most, if the expected loss were above alpha (Hoeffding and Bentkus)."""
    if mean >= alpha:
        return 1.0
    hoeffding = math.exp(-size * _divergence(mean, alpha))
    bentkus = math.e * binomial_below(math.ceil(size * mean - 1e-9), size, alpha)
    return min(hoeffding, bentkus, 1.0)


def interval(mean: float, size: int, level: float = 0.95) -> tuple[float, float]:
    """The expected losses that a mean loss over so many units does not rule out; the level covers both ends."""
    delta = (1 - level) / 2
    high = _crossing(lambda loss: p_value(mean, size, loss) - delta, mean, 1.0)
    low = 1 - _crossing(lambda loss: p_value(1 - mean, size, loss) - delta, 1 - mean, 1.0)
    return low, high


def binomial_below(count: int, size: int, share: float) -> float:
    """P(at most `count` successes in `size` trials of this probability)."""
    if count >= size:
        return 1.0
    counts = np.arange(count + 1)
    steps = np.log(size - counts[:-1]) - np.log(counts[1:])
    choose = np.concatenate([[0.0], np.cumsum(steps)])
    logs = choose + counts * math.log(share) + (size - counts) * math.log1p(-share)
    peak = logs.max()
    return min(1.0, math.exp(peak) * float(np.exp(logs - peak).sum()))


def _highest(sample: Sample, holds: Callable[[float], bool], alpha: float, delta: float) -> float:
    """The highest threshold at which the condition on the mean loss holds."""
    require_share(alpha, "alpha")
    if not holds(0.0):
        needed = units_needed(alpha, None if delta == 1.0 else delta)
        raise DataError(
            f"a miss rate of {alpha:.2%} needs at least {needed} units with entities, the sample has {sample.size}; "
            "label more, or promise less"
        )
    # At the score of an item that item is not missed, only those below it: bisect over the items.
    kept, lost = 0, len(sample.scores)
    while kept + 1 < lost:
        middle = (kept + lost) // 2
        if holds(sample.mean_loss(float(sample.scores[middle]))):
            kept = middle
        else:
            lost = middle
    return float(sample.scores[kept])


def _divergence(mean: float, alpha: float) -> float:
    """The relative entropy of a coin of probability `mean` to one of alpha."""
    low = mean * math.log(mean / alpha) if mean > 0 else 0.0
    return low + (1 - mean) * math.log((1 - mean) / (1 - alpha))


def _crossing(falls: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses zero."""
    if low >= high:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if falls(middle) > 0 else (low, middle)
    return high


def require_share(value: object, name: str) -> None:
    """Refuse what lies not between 0 and 1."""
    if not isinstance(value, int | float) or not 0 < value < 1:
        raise MaskedCRFError(f"{name} is a share between 0 and 1, such as 0.01; got {value!r:.40}")
