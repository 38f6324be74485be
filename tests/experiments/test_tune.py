"""Settings are chosen by dev F1, and the grid trains with what was chosen."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_corpus import corpus

from experiments import run, tune
from experiments.grid import CANDIDATES, ENCODERS, FAMILY, Run


def test_the_best_on_dev_is_chosen_and_all_that_was_tried_is_kept() -> None:
    tried = [{"dev_f1": f1, "settings": {"batch": batch}} for f1, batch in ((80.0, 16), (90.0, 32), (85.0, 64))]
    assert tune.chosen({"weibo/uer": tried}) == {"weibo/uer": {"settings": {"batch": 32}, "tried": tried}}


def test_a_candidate_is_trained_as_a_plain_crf_and_scored_on_dev(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SimpleNamespace(train=corpus(24), dev=corpus(6, seed=1), test=corpus(2), scheme="BIO", gold="error")
    monkeypatch.setattr(tune, "corpus_of", lambda name, folder: small)
    monkeypatch.setitem(ENCODERS, "uer", {"encoder": {"words": 8, "lstm_hidden": 8}})
    found = tune.dev_score("weibo", "uer", {"epochs": 2, "batch": 8}, Namespace(threads=1, corpora="", encoders=""))
    assert found["epoch"] in (1, 2)
    assert 0 <= found["dev_f1"] <= 100


def test_the_grid_trains_with_the_tuned_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps({"conll2003/lstm1": {"settings": {"batch": 7}, "tried": []}}), encoding="utf-8")
    monkeypatch.setattr(run, "TUNED", file)
    assert run.settings_of(Run("conll2003", "lstm1", "crf", 1), "")["batch"] == 7
    assert run.settings_of(Run("conll2003", "lstm2", "mcrf", 1), "")["batch"] == 7, "of the same family"
    assert run.settings_of(Run("weibo", "lstm1", "crf", 1), "")["batch"] == ENCODERS["lstm1"]["batch"]
    assert run.settings_of(Run("conll2003", "lstm1", "crf", 1, share=0.1), "")["minimum_steps"] > 0


def test_candidates_and_families_are_encoders_of_the_grid() -> None:
    assert {encoder for _, encoder in CANDIDATES} | set(FAMILY) | set(FAMILY.values()) <= set(ENCODERS)


def test_committed_settings_are_the_best_of_what_was_tried() -> None:
    for entry in json.loads(run.TUNED.read_text(encoding="utf-8")).values():
        best = max(entry["tried"], key=lambda each: each["dev_f1"])
        assert entry["settings"] == best["settings"]
