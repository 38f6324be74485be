"""Is one system better than another? Signatures, paired tests and intervals over counts per sentence.

`count_sentences` gives the (N, 3) arrays; counts add up, so that no test reads the text twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maskedcrf import __version__
from maskedcrf.errors import ShapeError
from maskedcrf.tags.scheme import Ints

Floats = NDArray[np.float64]
_CELLS = 1 << 22  # of one block of trials, so that memory stays bounded


def signature(**settings: object) -> str:
    """One line that says how a number was made: `corpus:...|scheme:BIO|illegal:retain|v:0.1.0`.

    What is None is left out; the version closes the line.
    """
    parts = [f"{name}:{value}" for name, value in settings.items() if value is not None]
    return "|".join([*parts, f"v:{__version__}"])


def f1_scores(totals: Ints | Floats) -> Floats:
    """F1 in percent of summed counts: (..., 3) correct, predicted, gold -> (...)."""
    found = totals[..., 1] + totals[..., 2]
    return np.asarray(200.0 * totals[..., 0] / np.maximum(found, 1))


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better the second system is, in points of F1, and how likely so much is by chance."""

    difference: float
    p_value: float
    trials: int
    seed: int


@dataclass(frozen=True, slots=True)
class Interval:
    """F1 (or a difference of two) with the interval that holds this share of the resampled values."""

    value: float
    low: float
    high: float
    level: float
    trials: int
    seed: int


def approximate_randomisation(first: Ints, second: Ints, *, trials: int = 10_000, seed: int = 0) -> Difference:
    """Two-sided p-value of the difference in F1, by swapping the two systems' sentences at random."""
    first, second = _require_pairs(first, second)
    observed = float(f1_scores(second.sum(0)) - f1_scores(first.sum(0)))
    chances = swapped_differences(first, second, trials=trials, seed=seed)
    return Difference(observed, as_far_by_chance(observed, chances), trials, seed)


def swapped_differences(first: Ints, second: Ints, *, trials: int, seed: int = 0) -> Floats:
    """(trials,): the difference in F1 with the two systems' sentences swapped at random."""
    first, second = _require_pairs(first, second)
    total, change = first.sum(0) + second.sum(0), second - first
    generator = np.random.default_rng(seed)
    found = []
    for size in _blocks(trials, len(first)):
        swapped = generator.integers(0, 2, size=(size, len(first)), dtype=np.int8)
        one = first.sum(0) + np.stack([swapped @ change[:, part] for part in range(3)], axis=-1)
        found.append(f1_scores(total - one) - f1_scores(one))
    return np.concatenate(found)


def as_far_by_chance(observed: float, chances: Floats) -> float:
    """Share of chance differences as far from 0 as the observed one, which counts as one of them."""
    # Sums of the same numbers in another order differ in the last digit.
    return float((np.abs(chances) >= abs(observed) - 1e-9).sum() + 1) / (len(chances) + 1)


def bootstrap(
    counts: Ints, other: Ints | None = None, *, level: float = 0.95, trials: int = 10_000, seed: int = 0
) -> Interval:
    """Percentile interval of F1 over resampled sentences; with `other`, of what F1 gains from `counts` to `other`."""
    first, second = _require_pairs(counts, other if other is not None else np.zeros_like(counts))
    sign = -1.0 if other is not None else 1.0  # gain = other - first

    def score(one: Ints, two: Ints) -> Floats:
        return sign * (f1_scores(one) - f1_scores(two))

    generator = np.random.default_rng(seed)
    values = []
    for size in _blocks(trials, 6 * len(first)):
        samples = generator.integers(0, len(first), size=(size, len(first)))
        values.append(score(first[samples].sum(1), second[samples].sum(1)))
    low, high = np.quantile(np.concatenate(values), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(score(first.sum(0), second.sum(0))), float(low), float(high), level, trials, seed)


def bootstrap_each(counts: Ints, *, level: float = 0.95, trials: int = 1000, seed: int = 0) -> list[Interval]:
    """Percentile intervals of the F1 of K scores over the same resampled sentences: (N, K, 3) -> K intervals."""
    counts = np.asarray(counts, dtype=np.int64)
    if counts.ndim != 3 or counts.shape[2] != 3 or not len(counts):
        raise ShapeError(f"give counts (N, K, 3) of N >= 1 sentences, got {counts.shape}")
    generator = np.random.default_rng(seed)
    size, scores, _ = counts.shape
    flat = counts.reshape(size, -1).astype(np.float64)  # whole numbers, so that any order of summing is exact
    samples = [generator.multinomial(size, np.full(size, 1 / size), size=block) for block in _blocks(trials, size)]
    values = np.concatenate([f1_scores((times @ flat).reshape(-1, scores, 3)) for times in samples])
    lows, highs = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    columns = (f1_scores(counts.sum(0)).tolist(), lows.tolist(), highs.tolist())
    return [Interval(value, low, high, level, trials, seed) for value, low, high in zip(*columns, strict=True)]


def _require_pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    first, second = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    if first.shape != second.shape or first.ndim != 2 or first.shape[1] != 3 or not len(first):
        raise ShapeError(
            f"give counts (N, 3) of the same N >= 1 sentences for both systems, got {first.shape} and {second.shape}"
        )
    return first, second


def _blocks(trials: int, cells: int) -> Iterator[int]:
    """Sizes of blocks of trials that together make `trials`."""
    block = max(1, _CELLS // cells)
    for start in range(0, trials, block):
        yield min(block, trials - start)
