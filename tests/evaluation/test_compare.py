"""Paired tests and intervals against enumeration, and the signature line."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from maskedcrf import __version__
from maskedcrf.errors import ShapeError
from maskedcrf.evaluation.compare import approximate_randomisation, bootstrap, bootstrap_each, f1_scores, signature

FIRST = np.array([[1, 2, 2], [0, 1, 1], [2, 2, 2], [0, 0, 1], [1, 1, 1], [1, 3, 2]])
SECOND = np.array([[2, 2, 2], [1, 1, 1], [2, 2, 2], [1, 1, 1], [1, 1, 1], [2, 2, 2]])


def f1(total):
    return 200 * total[0] / (total[1] + total[2]) if total[1] + total[2] else 0.0


def test_a_signature_names_every_setting_and_ends_with_the_version():
    assert signature(corpus="dev", mask=None, seeds=10) == f"corpus:dev|seeds:10|v:{__version__}"


def test_f1_of_nothing_is_zero():
    assert f1_scores(np.zeros((2, 3), dtype=np.int64)).tolist() == [0.0, 0.0]


def test_randomisation_tends_to_the_share_of_all_swaps():
    observed = f1(SECOND.sum(0)) - f1(FIRST.sum(0))
    far = [
        abs(f1(np.where(swap, FIRST, SECOND).sum(0)) - f1(np.where(swap, SECOND, FIRST).sum(0))) >= abs(observed) - 1e-9
        for swap in (np.array(bits)[:, None] for bits in product([False, True], repeat=len(FIRST)))
    ]
    result = approximate_randomisation(FIRST, SECOND, trials=20_000, seed=3)
    assert result.difference == pytest.approx(observed)
    assert result.p_value == pytest.approx(np.mean(far), abs=0.02)


def test_two_equal_systems_do_not_differ():
    assert approximate_randomisation(FIRST, FIRST, trials=50).p_value == 1.0


def test_bootstrap_tends_to_the_quantiles_of_all_resamples():
    small = FIRST[:4]
    values = [f1(small[list(drawn)].sum(0)) for drawn in product(range(4), repeat=4)]
    result = bootstrap(small, level=0.8, trials=20_000, seed=1)
    assert result.value == pytest.approx(f1(small.sum(0)))
    low, high = np.quantile(values, [0.1, 0.9])
    assert (result.low, result.high) == (pytest.approx(low, abs=1.0), pytest.approx(high, abs=1.0))


def test_a_paired_bootstrap_is_of_the_gain():
    result = bootstrap(FIRST, SECOND, trials=500)
    assert result.value == pytest.approx(f1(SECOND.sum(0)) - f1(FIRST.sum(0)))
    assert 0 < result.low <= result.value <= result.high


def test_the_seed_decides_and_blocks_do_not(monkeypatch):
    whole = approximate_randomisation(FIRST, SECOND, trials=100, seed=5)
    assert whole == approximate_randomisation(FIRST, SECOND, trials=100, seed=5)
    assert bootstrap(FIRST, seed=1, trials=50) != bootstrap(FIRST, seed=2, trials=50)
    monkeypatch.setattr("maskedcrf.evaluation.compare._CELLS", 1)
    assert 0 < approximate_randomisation(FIRST, SECOND, trials=10).p_value <= 1


@pytest.mark.parametrize("second", [FIRST[:2], FIRST[:, :2], FIRST[0]])
def test_counts_that_do_not_pair_are_refused(second):
    with pytest.raises(ShapeError, match=r"give counts \(N, 3\) of the same N"):
        approximate_randomisation(FIRST, second)


def test_no_sentences_are_refused():
    with pytest.raises(ShapeError, match="N >= 1"):
        bootstrap(FIRST[:0])


def test_no_number_of_trials_makes_a_difference_impossible_by_chance():
    worse, better = np.tile([0, 1, 1], (40, 1)), np.tile([1, 1, 1], (40, 1))
    assert approximate_randomisation(worse, better, trials=9).p_value == pytest.approx(1 / 10)


def test_intervals_of_several_scores_are_those_of_each_drawn_alike():
    counts = np.stack([FIRST, SECOND, np.zeros_like(FIRST), np.tile([1, 1, 1], (6, 1))], axis=1)
    first, second, none, sure = bootstrap_each(counts, trials=20_000)
    for found, alone in ((first, bootstrap(FIRST)), (second, bootstrap(SECOND))):
        assert found.value == alone.value
        assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=1.0)
    assert (none.value, none.low, none.high) == (0.0, 0.0, 0.0)
    assert (sure.value, sure.low, sure.high) == (100.0, 100.0, 100.0)
    # By enumeration: the F1 of every resample of three sentences, each as likely as the others.
    draws = [f1(FIRST[list(chosen)].sum(0)) for chosen in product(range(3), repeat=3)]
    (three,) = bootstrap_each(FIRST[:3, None], trials=20_000, level=0.6)
    assert (three.low, three.high) == pytest.approx(tuple(np.quantile(draws, [0.2, 0.8])), abs=1e-9)


def test_intervals_need_sentences():
    with pytest.raises(ShapeError, match=r"give counts \(N, K, 3\)"):
        bootstrap_each(FIRST)
