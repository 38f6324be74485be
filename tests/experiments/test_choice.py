"""Rates are chosen by the score a row reports, and rows whose rates come out of unlike grids are not compared."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
from synthetic_results import entry, synthetic

from experiments.choice import Trial, UnfairComparisonError, require_fair
from experiments.claims import Evidence, _lower_loss, all_claims
from experiments.statistics import compare
from experiments.tables import best_rates, readme_table
from experiments.trainings import RATES, Training, trainings_of

ONE = list(trainings_of(["weibo"], (1, 2, 3)))


def test_a_row_takes_the_rate_that_its_own_dev_score_likes_best() -> None:
    entries = synthetic(ONE)
    wanted = {"CRF-retain": 1e-1, "CRF-discard": 1e-2, "MCRF-decoding": 1e-3, "MCRF-training": 1e-2}
    for made in entries.values():
        for row, found in made["rows"].items():
            found["dev"]["f1"] = (
                90.0 if made["training"]["crf_rate"] == wanted.get(row) else 80.0 + made["training"]["seed"]
            )
    trial = Trial(entries)
    assert {row: trial.choose("weibo", row).rate for row in wanted} == wanted
    assert trial.choose("weibo", "softmax-masked").rate is None


def test_test_scores_have_no_say_in_the_choice() -> None:
    entries, others = synthetic(ONE), synthetic(ONE)
    for made in others.values():
        for found in made["rows"].values():
            found["test"]["f1"] = 100.0 - found["test"]["f1"]
    for row in ("CRF-retain", "MCRF-training"):
        assert Trial(entries).choose("weibo", row).rate == Trial(others).choose("weibo", row).rate


def test_heads_with_unlike_grids_are_not_compared() -> None:
    # The CRF alone was also tried at a fourth rate: more chances to look good on dev.
    trial = Trial(synthetic([*ONE, *(Training("weibo", "crf", 3e-2, seed) for seed in (1, 2, 3))]))
    crf, mcrf = (trial.choose("weibo", row) for row in ("CRF-retain", "MCRF-training"))
    assert crf.grid == (1e-3, 1e-2, 3e-2, 1e-1)
    with pytest.raises(UnfairComparisonError, match=r"unlike grids \(0.001, 0.01, 0.03, 0.1 and 0.001, 0.01, 0.1\)"):
        compare(crf, mcrf)
    for build in (all_claims, best_rates, readme_table, _lower_loss):
        with pytest.raises(UnfairComparisonError, match="unlike grids"):
            build(Evidence(trial))  # type: ignore[operator]


def test_a_rate_shared_instead_of_chosen_is_no_basis_of_a_comparison_with_a_chosen_one() -> None:
    trial = Trial(synthetic(ONE))
    with pytest.raises(UnfairComparisonError, match="unlike grids"):
        compare(trial.at_rate("weibo", "CRF-retain", 1e-3), trial.choose("weibo", "MCRF-training"))


def test_a_rate_from_outside_its_grid_and_unlike_seeds_are_refused() -> None:
    trial = Trial(synthetic(ONE))
    crf, mcrf = (trial.choose("weibo", row) for row in ("CRF-retain", "MCRF-training"))
    require_fair(crf, mcrf)
    with pytest.raises(UnfairComparisonError, match="a rate is none of its grid"):
        require_fair(replace(crf, rate=0.5), mcrf)
    with pytest.raises(UnfairComparisonError, match="the same seeds"):
        require_fair(replace(crf, entries={1: crf.entries[1]}), mcrf)


def test_a_rate_with_other_seeds_than_the_rest_is_refused() -> None:
    trial = Trial(synthetic([*ONE, Training("weibo", "crf", 3e-2, 1)]))
    with pytest.raises(UnfairComparisonError, match="not every rate has the same seeds"):
        trial.choose("weibo", "CRF-retain")


def test_a_corpus_is_left_out_until_every_head_has_every_rate() -> None:
    entries = synthetic(ONE)
    del entries[Training("weibo", "mcrf", RATES[-1], 2).name]
    trial = Trial(entries)
    assert trial.seeds("weibo") == (1, 3)
    for seed in (1, 3):
        del entries[Training("weibo", "crf", RATES[0], seed).name]
    assert Trial(entries).corpora() == []
    assert best_rates(Evidence(Trial(entries))).rows == ()


def test_seeds_under_way_change_nothing() -> None:
    entries = synthetic(ONE)
    more = deepcopy(entries)
    extra = entry(Training("weibo", "mcrf", 1e-1, 4), level=0.4)
    more[extra["name"]] = extra
    assert Trial(more).choose("weibo", "MCRF-training") == Trial(entries).choose("weibo", "MCRF-training")
