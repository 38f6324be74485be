"""Is a difference more than chance? Paired tests over sentences, over seeds and over corpora.

Two things are drawn by chance: the sentences of the test set and the seeds of the training. A difference counts as
significant only where both tests say so: the p-value of a comparison is the larger of the two (an
intersection-union test, which needs no correction), then corrected for the number of corpora after Holm.

- Over sentences: approximate randomisation on counts summed over the seeds, so that a sentence is swapped in all
  runs at once. Swapping it run by run would take five runs on one test set for five test sets.
- Over seeds: Student's t on the differences of runs with the same seed.

The same two over corpora, each of which weighs the same: sentences swapped in every corpus at once, and the signs of
the runs' differences flipped.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.grid import OF_THE_PAPERS_SIZE
from experiments.reading import CORPORA, Results, Setting, main_setting
from maskedcrf.evaluation.compare import as_far_by_chance, f1_scores, swapped_differences

Counts = NDArray[np.int64]
Word = Literal["better", "level", "worse"]
TRIALS = 10_000
"""Times that sentences are swapped."""
RESAMPLED = 2000
"""Times that seeds and sentences are drawn for an interval."""
LEVEL = 0.05
FEWEST_SEEDS = 3
"""With fewer runs of each side nothing is said about the method, only about these models."""


@dataclass(frozen=True)
class Comparison:
    """How much more F1 `second` has than `first`, in one setting."""

    setting: Setting
    first: str
    second: str
    differences: tuple[float, ...]
    """Of the runs with the same seed."""
    low: float
    high: float
    """95 % interval over resampled seeds and sentences."""
    p_sentences: float
    p_seeds: float | None
    """None with fewer than three seeds."""
    pooled: float = 0.0
    """Of all runs' segments counted together: what the sentences are swapped for."""
    chances: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    """(TRIALS,): the pooled difference with sentences swapped at random."""
    p_corrected: float | None = None
    """Holm's, over the corpora compared together."""

    @property
    def shown_p(self) -> float | None:
        """The corrected p-value where there is one."""
        return self.p_value if self.p_corrected is None else self.p_corrected

    @property
    def difference(self) -> float:
        """Mean over the seeds, in points of F1."""
        return float(np.mean(self.differences))

    @property
    def runs(self) -> int:
        """Pairs of runs."""
        return len(self.differences)

    @property
    def p_value(self) -> float | None:
        """The larger of the two; None with too few seeds."""
        return None if self.p_seeds is None else max(self.p_seeds, self.p_sentences)

    @property
    def word(self) -> Word | None:
        """What the corrected p-value says of `second`; None with too few seeds."""
        if self.shown_p is None:
            return None
        if self.shown_p >= LEVEL:
            return "level"
        return "better" if self.difference > 0 else "worse"


def compare(
    results: Results, setting: Setting, *, first: str, second: str, part: str = "test", trials: int = TRIALS
) -> Comparison | None:
    """Both rows on the seeds that have both; None where there is none."""
    ones, others = results.counts(setting, first, part), results.counts(setting, second, part)
    seeds = sorted(ones.keys() & others.keys())
    if not seeds:
        return None
    one, other = (np.stack([side[seed] for seed in seeds]) for side in (ones, others))  # (S, N, 3)
    differences = f1_scores(other.sum(1)) - f1_scores(one.sum(1))
    low, high = interval(one, other)
    pooled = float(f1_scores(other.sum((0, 1))) - f1_scores(one.sum((0, 1))))
    # Each setting swaps in its own way, so that corpora can be taken together.
    seed = zlib.crc32(str(setting).encode())
    chances = swapped_differences(*_without_equals(one.sum(0), other.sum(0)), trials=trials, seed=seed)
    return Comparison(
        setting,
        first,
        second,
        tuple(differences.tolist()),
        low,
        high,
        p_sentences=as_far_by_chance(pooled, chances),
        p_seeds=paired_t(differences) if len(seeds) >= FEWEST_SEEDS else None,
        pooled=pooled,
        chances=chances,
    )


def _without_equals(one: Counts, other: Counts) -> tuple[Counts, Counts]:
    """The same question with fewer rows: swapping a sentence that both sides count alike changes nothing."""
    differs = (one != other).any(1)
    alike = one[~differs].sum(0, keepdims=True)
    return np.concatenate([one[differs], alike]), np.concatenate([other[differs], alike])


def compare_all(
    results: Results, settings: Sequence[Setting], *, first: str, second: str, part: str = "test"
) -> dict[Setting, Comparison]:
    """One comparison a setting, with p-values corrected for their number."""
    found = [compare(results, setting, first=first, second=second, part=part) for setting in settings]
    there = [each for each in found if each is not None]
    tested = [each.p_value for each in there if each.p_value is not None]
    corrected = iter(holm(tested))
    return {
        each.setting: each if each.p_value is None else replace(each, p_corrected=next(corrected)) for each in there
    }


def over_corpora(comparisons: Mapping[Setting, Comparison]) -> float | None:
    """p-value of a mean of 0 over the corpora with enough seeds: the larger of that over seeds and over sentences."""
    tested = [each for each in comparisons.values() if each.p_seeds is not None]
    over_seeds = sign_flip([each.differences for each in tested])
    if over_seeds is None:
        return None
    chances = np.mean([each.chances for each in tested], axis=0)
    return max(over_seeds, as_far_by_chance(float(np.mean([each.pooled for each in tested])), chances))


def tally(comparisons: Mapping[Setting, Comparison]) -> dict[Word, int]:
    """On how many corpora the second is significantly better, level, worse."""
    words = [each.word for each in comparisons.values()]
    return {"better": words.count("better"), "level": words.count("level"), "worse": words.count("worse")}


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


class Correlation(NamedTuple):
    """Spearman's rank correlation, its two-sided p-value by permutation, and how many points there are."""

    rho: float
    p_value: float
    points: int


def rank_correlation(
    first: Sequence[float], second: Sequence[float], *, trials: int = 10_000, seed: int = 0
) -> Correlation | None:
    """Spearman's rho; None with fewer than four points or where one side is all equal."""
    one, other = centred_ranks(first), centred_ranks(second)
    scale = float(np.sqrt((one @ one) * (other @ other)))
    if len(one) < 4 or not scale:
        return None
    rho = float(one @ other) / scale
    if len(one) <= 7:
        orders = np.array(list(permutations(range(len(one)))))
        extra = 0
    else:
        orders = np.random.default_rng(seed).permuted(np.tile(np.arange(len(one)), (trials, 1)), axis=1)
        extra = 1
    as_far = int((np.abs(other[orders] @ one) / scale >= abs(rho) - 1e-9).sum())
    return Correlation(rho, (as_far + extra) / (len(orders) + extra), len(one))


def centred_ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Ranks about their mean; equal values share theirs."""
    array = np.asarray(values, dtype=np.float64)
    below = (array[None] < array[:, None]).sum(1)
    equal = (array[None] == array[:, None]).sum(1)
    return np.asarray(below + (equal - 1) / 2 - (len(array) - 1) / 2, dtype=np.float64)


class Evidence:
    """Results, the paper's numbers, and the comparisons between them, each made once."""

    def __init__(self, results: Results, paper: Mapping[str, Any]) -> None:
        self.results = results
        self.paper = paper
        self._made: dict[tuple[Any, ...], dict[Setting, Comparison]] = {}

    def gains(
        self, first: str, second: str, *, scheme: str = "BIO", share: float = 1.0, base: bool = False
    ) -> Mapping[Setting, Comparison]:
        """What `second` gains over `first` on every corpus with its main encoder, or with one of the `base` size."""
        key = (first, second, scheme, share, base)
        if key not in self._made:
            main = [main_setting(corpus, scheme, share) for corpus in CORPORA]
            settings = [Setting(*each) for each in OF_THE_PAPERS_SIZE.items()] if base else main
            self._made[key] = compare_all(self.results, settings, first=first, second=second)
        return self._made[key]
