"""Promised thresholds: against enumeration, binomials in whole fractions, and the promise itself on drawn samples."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.evaluation.risk import (
    binomial_below,
    confident_threshold,
    expected_loss_at_most,
    expected_threshold,
    interval,
    p_value,
    sample_of,
    units_needed,
)

SCORES = st.sampled_from([0.1, 0.2, 0.5, 0.8, 0.9])
UNITS = st.lists(st.lists(SCORES, max_size=3), min_size=1, max_size=12).filter(any)


def mean_loss(units: list[list[float]], threshold: float) -> float:
    """By hand: the mean share of items below the threshold, over the units that have items."""
    shares = [sum(score < threshold for score in unit) / len(unit) for unit in units if unit]
    return sum(shares) / len(shares)


@given(UNITS, st.floats(0, 1))
def test_the_mean_loss_is_the_mean_of_the_shares_missed(units: list[list[float]], threshold: float) -> None:
    assert sample_of(units).mean_loss(threshold) == pytest.approx(mean_loss(units, threshold))


@given(UNITS, st.sampled_from([0.1, 0.3, 0.5, 0.9]))
def test_the_threshold_is_the_highest_score_that_keeps_the_promise(units: list[list[float]], alpha: float) -> None:
    sample = sample_of(units)
    keeps = [
        score
        for score in sorted({score for unit in units for score in unit})
        if (sample.size * mean_loss(units, score) + 1) / (sample.size + 1) <= alpha + 1e-12
    ]
    if not keeps:
        with pytest.raises(DataError, match="needs at least"):
            expected_threshold(sample, alpha)
    else:
        assert expected_threshold(sample, alpha) == max(keeps)


@given(UNITS, st.sampled_from([0.3, 0.6, 0.9]), st.sampled_from([0.05, 0.2, 0.5]))
def test_confidence_never_raises_the_threshold(units: list[list[float]], alpha: float, delta: float) -> None:
    sample = sample_of(units)
    try:
        confident = confident_threshold(sample, alpha, delta)
    except DataError:
        return
    assert p_value(sample.mean_loss(confident), sample.size, alpha) <= delta
    higher = [score for score in sample.scores if score > confident]
    assert all(p_value(sample.mean_loss(score), sample.size, alpha) > delta for score in higher)


def test_the_promise_holds_on_average_over_every_sample_and_next_unit() -> None:
    """Enumerated: units drawn from four kinds, every sample of three units and every next unit."""
    kinds = [[0.9], [0.2, 0.8], [0.5], [0.1, 0.6]]
    for alpha in (0.25, 0.3, 0.5, 0.75):
        losses = []
        for *sample, following in product(kinds, repeat=4):
            threshold = expected_threshold(sample_of(sample), alpha)
            losses.append(mean_loss([following], threshold))
        assert np.mean(losses) <= alpha


@pytest.mark.parametrize(
    ("count", "size", "share"), [(0, 1, "1/2"), (3, 10, "1/5"), (10, 10, "9/10"), (40, 5000, "1/100")]
)
def test_the_binomial_is_that_of_fractions(count: int, size: int, share: str) -> None:
    p = Fraction(share)
    exact = sum(math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(count + 1))
    assert binomial_below(count, size, float(p)) == pytest.approx(float(exact), rel=1e-9)


def test_as_many_units_as_said_suffice_and_one_less_does_not() -> None:
    for alpha in (0.1, 0.05, 0.02, 0.01, 0.003):
        needed = units_needed(alpha)
        assert expected_threshold(sample_of([[0.7]] * needed), alpha) == 0.7
        with pytest.raises(DataError, match=rf"at least {needed} units with entities, the sample has {needed - 1}"):
            expected_threshold(sample_of([[0.7]] * (needed - 1)), alpha)
        needed = units_needed(alpha, delta=0.1)
        assert confident_threshold(sample_of([[0.7]] * needed), alpha, 0.1) == 0.7
        with pytest.raises(DataError, match=rf"at least {needed} units"):
            confident_threshold(sample_of([[0.7]] * (needed - 1)), alpha, 0.1)


@pytest.mark.parametrize(("mean", "size"), [(0.0, 50), (0.1, 100), (0.5, 10), (1.0, 20)])
def test_an_interval_holds_the_mean_and_narrows_with_the_sample(mean: float, size: int) -> None:
    low, high = interval(mean, size)
    assert 0 <= low <= mean <= high <= 1
    closer = interval(mean, 100 * size)
    assert closer[0] >= low
    assert closer[1] <= high


@pytest.mark.parametrize(("size", "alpha"), [(99, "1/100"), (500, "1/100"), (150, "1/20"), (40, "1/10")])
def test_one_sample_rarely_loses_more_than_is_said_of_it(size: int, alpha: str) -> None:
    """Units of one item with even scores: the threshold is the k-th lowest of them, and so is what it loses."""
    k = int(Fraction(alpha) * (size + 1))
    most = Fraction(expected_loss_at_most(sample_of([[0.5]] * size), float(Fraction(alpha))))
    above = sum(math.comb(size, lower) * most**lower * (1 - most) ** (size - lower) for lower in range(k))
    assert 0.001 < above <= 0.025


def test_with_no_loss_the_interval_ends_where_chance_would_have_shown_some() -> None:
    assert interval(0.0, 100, level=0.9)[1] == pytest.approx(1 - 0.05 ** (1 / 100), rel=1e-6)


def test_what_no_share_is_is_refused() -> None:
    sample = sample_of([[0.5]] * 100)
    for alpha in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(MaskedCRFError, match="alpha is a share"):
            expected_threshold(sample, alpha)
    with pytest.raises(MaskedCRFError, match="delta is a share"):
        confident_threshold(sample, 0.1, 0.0)
    with pytest.raises(MaskedCRFError, match="finite"):
        sample_of([[math.nan]])
