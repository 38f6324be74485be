"""The tests behind the verdicts, against enumeration and published tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_results import synthetic

from experiments.choice import Trial
from experiments.statistics import (
    Mean,
    _without_equals,
    compare,
    holm,
    interval,
    over_corpora,
    paired_t,
    sign_flip,
    student_quantile,
    student_tails,
)
from maskedcrf.evaluation.compare import approximate_randomisation

SOME = st.lists(st.floats(-5, 5), min_size=3, max_size=8)


@pytest.mark.parametrize(
    ("freedom", "statistic", "tails"),
    [(1, 12.706, 0.05), (2, 4.303, 0.05), (4, 2.776, 0.05), (4, 4.604, 0.01), (9, 2.262, 0.05), (30, 2.750, 0.01)],
)
def test_student_agrees_with_the_printed_table(freedom: int, statistic: float, tails: float) -> None:
    assert student_tails(statistic, freedom) == pytest.approx(tails, rel=2e-3)


def test_runs_that_never_differ_are_level() -> None:
    assert paired_t([0.0, 0.0, 0.0]) == 1.0


def test_runs_that_all_differ_by_the_same_are_significant() -> None:
    assert paired_t([0.5, 0.5, 0.5]) < 1e-6


def test_holm_agrees_with_a_worked_example() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(before <= after <= 1 for before, after in zip(p_values, corrected, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()


@given(SOME)
def test_sign_flips_of_one_corpus_are_those_of_all_swaps(values: list[float]) -> None:
    means = [abs(np.mean(np.multiply(values, signs))) for signs in product((1, -1), repeat=len(values))]
    share = np.mean([mean >= abs(np.mean(values)) - 1e-9 for mean in means])
    assert sign_flip([values]) == pytest.approx(share)


def test_a_corpus_with_more_seeds_has_no_more_say() -> None:
    # The mean of the two means is 0: nothing lies nearer.
    assert sign_flip([[1.0] * 6, [-1.0] * 3]) == 1.0
    assert sign_flip([]) is None


def test_ten_runs_all_better_are_as_unlikely_as_ten_heads_or_tails() -> None:
    assert sign_flip([[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0]]) == 2 / 1024


def test_many_runs_are_swapped_at_random() -> None:
    generator = np.random.default_rng(0)
    assert sign_flip(generator.normal(0, 1, (7, 5)).tolist(), trials=500) > 0.05
    assert sign_flip(generator.normal(2, 1, (7, 5)).tolist(), trials=500) == 1 / 501


def test_the_interval_of_one_run_is_the_bootstrap_over_sentences() -> None:
    generator = np.random.default_rng(3)
    gold = generator.integers(1, 5, 150)
    one, other = (np.stack([generator.binomial(gold, share), gold, gold], axis=1)[None] for share in (0.7, 0.8))
    # An independent bootstrap, sentence by sentence.
    draws = generator.integers(0, 150, (1500, 150))
    f1 = [200 * side[0][draws, 0].sum(1) / (2 * gold[draws].sum(1)) for side in (one, other)]
    low, high = np.quantile(f1[1] - f1[0], [0.025, 0.975])
    assert interval(one, other, trials=1500) == pytest.approx((low, high), abs=0.8)


def test_the_interval_grows_when_seeds_disagree() -> None:
    gold = np.full(100, 10)
    level = [np.stack([np.full(100, right), gold, gold], axis=1) for right in (8, 8, 8)]
    apart = [np.stack([np.full(100, right), gold, gold], axis=1) for right in (6, 8, 10)]
    assert interval(np.stack(level), np.stack(level), trials=200) == (0, 0)
    low, high = interval(np.stack(level), np.stack(apart), trials=200)
    assert low <= -10
    assert high >= 10


def test_the_quantile_agrees_with_the_printed_table() -> None:
    assert student_quantile(0.05, 2) == pytest.approx(4.303, rel=1e-3)
    assert student_quantile(0.05, 4) == pytest.approx(2.776, rel=1e-3)


def test_the_interval_of_a_mean_agrees_with_a_worked_example() -> None:
    # Mean 4, deviation 2, three seeds: 4.303 * 2 / sqrt(3).
    found = Mean.of({1: 2.0, 2: 4.0, 3: 6.0})
    assert (found.value, found.seeds) == (4.0, 3)
    assert found.half_width == pytest.approx(4.969, rel=1e-3)
    assert Mean.of({1: 2.0}) == (2.0, None, 1)


TRIAL = Trial(synthetic())


def test_rows_are_compared_seed_by_seed() -> None:
    one, other = (TRIAL.choose("weibo", row) for row in ("CRF-retain", "MCRF-training"))
    found = compare(one, other, trials=100)
    first, second = one.values("test", "f1"), other.values("test", "f1")
    assert found.differences == pytest.approx([second[seed] - first[seed] for seed in (1, 2, 3)])
    assert found.low < found.difference < found.high
    assert found.p_value is not None
    assert found.p_value >= paired_t(found.differences)


def test_two_seeds_are_too_few_for_a_verdict() -> None:
    few = Trial({name: line for name, line in synthetic().items() if line["training"]["seed"] < 3})
    found = compare(few.choose("weibo", "CRF-retain"), few.choose("weibo", "MCRF-training"), trials=100)
    assert found.seeds == 2
    assert found.p_value is None
    assert over_corpora([found]) is None


def test_over_corpora_the_larger_p_value_counts() -> None:
    pairs = [[TRIAL.choose(corpus, row) for row in ("CRF-retain", "MCRF-training")] for corpus in ("weibo", "atis")]
    found = [compare(*pair, trials=200) for pair in pairs]
    p_value = over_corpora(found)
    over_seeds = sign_flip([each.differences for each in found])
    assert p_value is not None
    assert over_seeds is not None
    assert p_value >= over_seeds


def test_leaving_out_sentences_that_do_not_differ_changes_no_p_value() -> None:
    generator = np.random.default_rng(5)
    gold = generator.integers(1, 4, 60)
    one = np.stack([generator.binomial(gold, 0.8), gold, gold], axis=1)
    other = one.copy()
    other[:6, 0] = gold[:6]
    short = _without_equals(one, other)
    assert len(short[0]) == 1 + (one[:6, 0] != gold[:6]).sum()
    # All swaps of the sentences that differ, listed.
    changed = np.flatnonzero((one != other).any(1))
    gaps = []
    for swaps in product((False, True), repeat=len(changed)):
        first, second = one.copy(), other.copy()
        for place, swap in zip(changed, swaps, strict=True):
            if swap:
                first[place], second[place] = other[place], one[place]
        gaps.append(abs(200 * (second[:, 0].sum() - first[:, 0].sum()) / (2 * gold.sum())))
    observed = 200 * (other[:, 0].sum() - one[:, 0].sum()) / (2 * gold.sum())
    share = np.mean([gap >= observed - 1e-9 for gap in gaps])
    assert approximate_randomisation(*short, trials=4000).p_value == pytest.approx(share, abs=0.03)
