"""Calibration error against figures worked out by hand."""

from __future__ import annotations

import pytest

from maskedcrf.errors import ShapeError
from maskedcrf.evaluation.reliability import reliability


def test_the_error_is_the_mean_gap_between_promise_and_outcome():
    found = reliability([0.95, 0.95, 0.95, 0.95, 0.55], [True, True, False, False, True])
    assert [each.entities for each in found.bins] == [1, 4]
    # Four promise 0.95 and half of them hold: 0.45. One promises 0.55 and holds: 0.45.
    assert found.error == pytest.approx(45.0)


def test_probability_one_belongs_to_the_last_bin_and_is_no_error_if_it_holds():
    found = reliability([1.0, 1.0], [True, True])
    assert found.error == 0
    assert found.entities == 2


def test_without_entities_there_is_no_error():
    found = reliability([], [])
    assert found.error is None
    assert found.to_json() == {"error": None, "entities": 0, "bins": []}


def test_each_probability_needs_an_outcome():
    with pytest.raises(ShapeError, match="one outcome for each entity"):
        reliability([0.5], [])
