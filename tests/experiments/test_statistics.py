"""The tests behind the verdicts, against enumeration and published tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_results import synthetic

from experiments.reading import Results, main_setting
from experiments.statistics import (
    _without_equals,
    compare,
    compare_all,
    holm,
    interval,
    paired_t,
    rank_correlation,
    sign_flip,
    student_tails,
    tally,
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


def test_rank_correlation_agrees_with_worked_examples() -> None:
    # No ties: 1 - 6 * 4 / (5 * 24), after Spearman's formula; d = 1, -1, 0, 1, -1.
    found = rank_correlation([1, 2, 3, 4, 5], [20, 10, 30, 50, 40])
    assert found is not None
    assert found.rho == pytest.approx(0.8)
    assert found.points == 5
    # Of the 120 orders 16 reach 0.8 or -0.8: the printed table's 0.067 on one side.
    assert found.p_value == pytest.approx(16 / 120)


def test_rank_correlation_is_that_of_ranks_alone() -> None:
    x = [0.1, 0.5, 0.2, 0.9, 0.7, 0.3, 0.8, 0.6, 0.4]
    found = rank_correlation(x, np.exp(9 * np.array(x)).tolist(), trials=300)
    assert found is not None
    assert found.rho == pytest.approx(1)
    assert found.p_value == 1 / 301


@pytest.mark.parametrize(("x", "y"), [([1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1], [1, 2, 3, 4]), ([], [])])
def test_too_little_says_nothing_of_correlation(x: list[float], y: list[float]) -> None:
    assert rank_correlation(x, y) is None


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


RESULTS = Results.of({entry["name"]: entry for entry in synthetic(("main",), size=80)})


def test_rows_are_compared_seed_by_seed() -> None:
    setting = main_setting("weibo")
    found = compare(RESULTS, setting, first="CRF-retain", second="CRF-discard", trials=100)
    assert found is not None
    one, other = RESULTS.f1(setting, "CRF-retain"), RESULTS.f1(setting, "CRF-discard")
    assert found.differences == pytest.approx([other[seed] - one[seed] for seed in (1, 2, 3, 4, 5)])
    assert found.low < found.difference < found.high
    assert found.word == "better"


def test_what_was_not_run_is_not_compared() -> None:
    assert compare(RESULTS, main_setting("ontonotes4"), first="CRF-retain", second="CRF-discard") is None


def test_two_seeds_are_too_few_for_a_verdict() -> None:
    runs = {key: dict(list(found.items())[:2]) for key, found in RESULTS.runs.items()}
    found = compare(Results(runs), main_setting("weibo"), first="CRF-retain", second="CRF-discard", trials=100)
    assert found is not None
    assert found.runs == 2
    assert found.p_value is None
    assert found.word is None


def test_every_comparison_is_counted_once() -> None:
    settings = [main_setting(corpus) for corpus in ("weibo", "resume", "ontonotes4", "atis")]
    found = compare_all(RESULTS, settings, first="CRF-retain", second="CRF-discard")
    assert len(found) == 3
    assert sum(tally(found).values()) == 3
    assert all(each.p_corrected >= each.p_value for each in found.values())


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
