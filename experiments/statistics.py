"""Is a difference more than chance? Paired tests over sentences, over seeds and over corpora.

Two things are drawn by chance: the sentences of the test set and the seeds of the training. A difference counts as
significant only where both tests say so: the p-value of a comparison is the larger of the two (an
intersection-union test). P-values of one family are corrected for their number after Holm.

- Over sentences: approximate randomisation on counts summed over the seeds, so that a sentence is swapped in all
  runs at once. Swapping it run by run would take three runs on one test set for three test sets.
- Over seeds: Student's t on the differences of runs with the same seed.

The same two over corpora, each of which weighs the same: sentences swapped in every corpus at once, and the signs of
the runs' differences flipped.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.choice import Chosen, require_fair
from maskedcrf.evaluation.compare import as_far_by_chance, f1_scores, swapped_differences

Counts = NDArray[np.int64]
TRIALS = 10_000
"""Times that sentences are swapped."""
RESAMPLED = 2000
"""Times that seeds and sentences are drawn for an interval."""
LEVEL = 0.05
FEWEST_SEEDS = 3
"""With fewer seeds nothing is said about the method, only about these models."""


class Mean(NamedTuple):
    """A mean over seeds and half the width of its 95 % interval after Student, which needs two seeds."""

    value: float
    half_width: float | None
    seeds: int

    @staticmethod
    def of(values: Mapping[int, float]) -> Mean:
        """The mean of a number by seed."""
        found = np.array(list(values.values()))
        if len(found) < 2:
            return Mean(float(found.mean()), None, len(found))
        error = float(found.std(ddof=1)) / np.sqrt(len(found))
        return Mean(float(found.mean()), float(student_quantile(LEVEL, len(found) - 1) * error), len(found))


@dataclass(frozen=True)
class Comparison:
    """How much more test F1 `second` has than `first` on a corpus."""

    corpus: str
    first: str
    second: str
    differences: tuple[float, ...]
    """Of the runs with the same seed."""
    low: float
    high: float
    """95 % interval over resampled seeds and sentences."""
    p_value: float | None
    """The larger of two, over sentences and over seeds; None with too few seeds."""
    pooled: float = 0.0
    """Of all runs' segments counted together: what the sentences are swapped for."""
    chances: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    """(TRIALS,): the pooled difference with sentences swapped at random."""

    @property
    def difference(self) -> float:
        """Mean over the seeds, in points of F1."""
        return float(np.mean(self.differences))

    @property
    def seeds(self) -> int:
        """Pairs of runs."""
        return len(self.differences)


def compare(first: Chosen, second: Chosen, *, trials: int = TRIALS) -> Comparison:
    """Both rows of a corpus on the same seeds; refused where their rates do not come out of the same grid."""
    require_fair(first, second)
    name = f"{first.corpus}/{first.row}/{second.row}"
    return compare_counts(name, first.counts(), second.counts(), trials=trials)


def compare_counts(
    name: str, first: Mapping[int, Counts], second: Mapping[int, Counts], *, trials: int = TRIALS
) -> Comparison:
    """The same of counts per sentence, by seed; `name` is corpus/first/second."""
    seeds = sorted(first.keys() & second.keys())
    one, other = (np.stack([side[seed] for seed in seeds]) for side in (first, second))  # (S, N, 3)
    differences = f1_scores(other.sum(1)) - f1_scores(one.sum(1))
    low, high = interval(one, other)
    pooled = float(f1_scores(other.sum((0, 1))) - f1_scores(one.sum((0, 1))))
    # Each comparison swaps in its own way, so that corpora can be taken together.
    seed = zlib.crc32(name.encode())
    chances = swapped_differences(*_without_equals(one.sum(0), other.sum(0)), trials=trials, seed=seed)
    enough = len(seeds) >= FEWEST_SEEDS
    p_value = max(paired_t(differences), as_far_by_chance(pooled, chances)) if enough else None
    corpus, *rows = name.split("/")
    return Comparison(corpus, rows[0], rows[1], tuple(differences.tolist()), low, high, p_value, pooled, chances)


def _without_equals(one: Counts, other: Counts) -> tuple[Counts, Counts]:
    """The same question with fewer rows: swapping a sentence that both sides count alike changes nothing."""
    differs = (one != other).any(1)
    alike = one[~differs].sum(0, keepdims=True)
    return np.concatenate([one[differs], alike]), np.concatenate([other[differs], alike])


def over_corpora(comparisons: Sequence[Comparison]) -> float | None:
    """p-value of a mean of 0 over the corpora with enough seeds: the larger of that over seeds and over sentences."""
    tested = [each for each in comparisons if each.p_value is not None]
    over_seeds = sign_flip([each.differences for each in tested])
    if over_seeds is None:
        return None
    chances = np.mean([each.chances for each in tested], axis=0)
    return max(over_seeds, as_far_by_chance(float(np.mean([each.pooled for each in tested])), chances))


def interval(one: Counts, other: Counts, *, trials: int = RESAMPLED, seed: int = 0) -> tuple[float, float]:
    """95 % of what F1 gains over resampled seeds and sentences: (S, N, 3) counts of both sides -> low, high."""
    runs, size, _ = one.shape
    generator = np.random.default_rng(seed)
    columns = np.concatenate([one, other], axis=-1).transpose(1, 0, 2).reshape(size, -1)
    # Sentences with the same counts throughout are drawn together.
    columns, often = np.unique(columns, axis=0, return_counts=True)
    gains = []
    for block in np.array_split(np.arange(trials), max(1, trials * len(often) // (1 << 22))):
        drawn = generator.multinomial(size, often / size, size=len(block)).astype(np.float32)
        sums = (drawn @ columns.astype(np.float32)).reshape(len(block), runs, 6).astype(np.int64)
        chosen = generator.integers(0, runs, size=(len(block), runs))
        sums = np.take_along_axis(sums, chosen[:, :, None], axis=1)
        gains.append((f1_scores(sums[..., 3:]) - f1_scores(sums[..., :3])).mean(1))
    low, high = np.quantile(np.concatenate(gains), [0.025, 0.975])
    return float(low), float(high)


def paired_t(differences: ArrayLike) -> float:
    """Two-sided p-value of a mean of 0, after Student; 1 where every difference is 0."""
    values = np.asarray(differences, dtype=np.float64)
    if not np.abs(values).max() > 0:
        return 1.0
    error = max(values.std(ddof=1) / np.sqrt(len(values)), 1e-9)
    return student_tails(abs(float(values.mean())) / error, len(values) - 1)


def student_tails(statistic: float, freedom: int) -> float:
    """Probability that Student's t lies further out than this, on either side."""
    # With t = sqrt(freedom) tan(angle) the density is cos(angle)^(freedom - 1) on a finite stretch.
    edge = np.arctan(statistic / np.sqrt(freedom))
    grids = [np.linspace(low, np.pi / 2, 20_001) for low in (edge, 0.0)]
    tail, half = (np.trapezoid(np.cos(grid) ** (freedom - 1), grid) for grid in grids)
    return float(tail / half)


def student_quantile(tails: float, freedom: int) -> float:
    """The statistic with this probability further out on either side: the inverse of `student_tails`."""
    low, high = 0.0, 1e3
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tails(middle, freedom) > tails else (low, middle)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the p-values times the number still to be tested, never falling, at most 1."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable").tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def sign_flip(groups: Sequence[Sequence[float]], *, trials: int = 10_000, seed: int = 0) -> float | None:
    """Two-sided p-value of a mean of 0 over groups (corpora), by swapping the two sides of runs (pairs of a seed).

    The statistic is the mean of the groups' means, so that a corpus with more seeds has no more say. All swaps are
    tried where they are few. None without pairs.
    """
    weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in groups if len(each)] or [np.zeros(0)])
    values = np.concatenate([np.asarray(each, dtype=np.float64) for each in groups if len(each)] or [np.zeros(0)])
    if not len(values):
        return None
    if len(values) <= 12:
        signs = np.array(list(product((1.0, -1.0), repeat=len(values))))
        extra = 0
    else:
        signs = np.random.default_rng(seed).choice((1.0, -1.0), size=(trials, len(values)))
        extra = 1  # the order as it is, which a draw need not hit
    observed = abs(float(values @ weights))
    as_far = int((np.abs(signs @ (values * weights)) >= observed - 1e-9).sum())
    return (as_far + extra) / (len(signs) + extra)
