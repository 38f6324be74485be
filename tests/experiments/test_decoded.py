"""Path against segments: what is measured of a model, and what is said of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_corpus import corpus
from synthetic_results import synthetic

from experiments import decoding
from experiments.choice import Trial
from experiments.decoded import (
    FOLDER,
    ROWS,
    Decoded,
    Model,
    decoding_sentence,
    decoding_table,
    read_lines,
    thresholds_table,
    ways_sentence,
)
from experiments.measure import counts_of, errors, pack, unpack
from experiments.result_files import append_line
from experiments.train import train
from experiments.trainings import Training
from maskedcrf import Tagger
from maskedcrf.errors import DataError
from maskedcrf.tagger.decoding import THRESHOLDS

TRIAL = Trial(synthetic())
WAYS = {"path": 0, "dev": 3, "half": 2, "expected": 1}
"""Of 60 sentences with two gold segments each, all of which are found, the wrong ones that each way does not have."""


def line(model: Model) -> dict[str, Any]:
    """Test F1 200 * 120 / (240 + 10 - saved), the same for every model."""
    test = {}
    for way, saved in WAYS.items():
        counts = np.tile([2, 2, 2], (60, 1))
        counts[: 10 - saved, 1] += 1
        test[way] = {"f1": 200 * 120 / (240 + 10 - saved), "errors": pack(errors(counts))}
    return {
        "name": model.name,
        "row": model.row,
        "dev": {
            "path_f1": 95.0,
            "held_out_f1": 95.0 + (model.row == "MCRF-training"),
            "curve": [[threshold, 90.0] for threshold in THRESHOLDS],
        },
        "thresholds": {"dev": 0.4, "half": 0.5, "expected": 0.46},
        "gold": pack(np.full((60, 1), 2)),
        "test": test,
        "curve": [96.5] * len(THRESHOLDS),
    }


MODELS = [
    Model(row, entry)
    for corpus in TRIAL.corpora()
    for row in ROWS
    for entry in TRIAL.choose(corpus, row).entries.values()
]
LINES: Mapping[str, Any] = {model.name: line(model) for model in MODELS}
GAIN = 24000 / 247 - 24000 / 250


def test_a_models_line_holds_what_its_tagger_says(small_data: None, tmp_path: Path) -> None:
    entry = train(Training("weibo", "mcrf", 1e-2, 1), "", weights=tmp_path)
    model = Model("MCRF-training", entry)
    found = decoding.measure(model, "", tmp_path)
    row = entry["rows"]["MCRF-training"]
    assert found["name"] == "weibo/lstm1/mcrf/0.01/1/MCRF-training"
    assert found["test"]["path"]["f1"] == pytest.approx(row["test"]["f1"])
    assert found["dev"]["path_f1"] == pytest.approx(row["dev"]["f1"])
    tagger, test = Tagger.load(tmp_path / model.name), corpus(8, seed=2)
    for way, threshold in found["thresholds"].items():
        f1 = tagger.evaluate(test, decoding="segments", segment_threshold=threshold).f1
        assert found["test"][way]["f1"] == pytest.approx(f1)
        counts = counts_of(unpack(found["gold"], 1), unpack(found["test"][way]["errors"], 2)).sum(0)
        assert 200 * counts[0] / (counts[1] + counts[2]) == pytest.approx(f1)
    assert found["curve"][THRESHOLDS.index(found["thresholds"]["dev"])] == pytest.approx(
        found["test"]["dev"]["f1"], abs=1e-3
    )


def test_gains_are_those_of_the_lines_and_tested_together() -> None:
    decoded = Decoded(TRIAL, LINES)
    assert decoded.corpora == ["weibo", "atis", "conll2000"]
    for each in decoded.compare():
        assert each.differences == pytest.approx([GAIN] * 3)
        # Three sentences of which one decoding has a wrong segment less: swapped at random, one time in four all alike.
        assert each.p_value == pytest.approx(1.0)
    table = decoding_table(decoded)
    assert table.rows[0] == ("Weibo", *[f"96.0 {GAIN:+.2f}"] * len(ROWS), 3)
    assert len(thresholds_table(decoded).rows) == 9
    gains = decoding_sentence(decoded)
    assert "adds 1.2 test F1 on average" in gains
    assert "27 of 27 models gain; no gain is significant, and no loss is." in gains
    ways = ways_sentence(decoded)
    assert f"adds {GAIN:.2f} on average, one half {24000 / 248 - 96:.2f}" in ways
    assert "goes back to the path for 18 of 27 models, 18 of which gain from segments on test." in ways


def test_a_significant_gain_names_its_corpus_and_the_heads_that_have_it() -> None:
    better = {name: each for name, each in LINES.items() if name.startswith("weibo")}
    for name, each in list(better.items()):
        wrong = np.tile([2, 2, 2], (60, 1))
        wrong[:, 1] += 1  # the path has a wrong segment in every sentence, segments in one of ten
        path = {"f1": 200 * 120 / 300, "errors": pack(errors(wrong))}
        if not name.endswith("MCRF-training"):
            better[name] = {**each, "test": {**each["test"], "path": path}}
    sentence = decoding_sentence(Decoded(TRIAL, better))
    assert "the gain is significant on Weibo (softmax, CRF), and no loss is." in sentence


def test_heads_are_shown_on_the_seeds_that_all_of_them_have() -> None:
    some = {name: each for name, each in LINES.items() if "weibo" not in name or "softmax/-/2" not in name}
    decoded = Decoded(TRIAL, some)
    assert {row: list(decoded.lines("weibo", row)) for row in ROWS} == {row: [1, 3] for row in ROWS}
    assert decoding_table(decoded).rows[0][-1] == 2


def test_models_that_were_not_measured_are_left_out() -> None:
    some = {name: each for name, each in LINES.items() if not name.startswith("atis/lstm1/softmax")}
    assert Decoded(TRIAL, some).corpora == ["weibo", "conll2000"]
    nothing = Decoded(TRIAL, {})
    assert (nothing.corpora, decoding_table(nothing).rows) == ([], ())
    assert decoding_sentence(nothing) == "No model was decoded both ways yet."


def test_lines_are_read_back_and_foreign_ones_refused(tmp_path: Path) -> None:
    (name, one), *_ = LINES.items()
    append_line(one, tmp_path / FOLDER / "weibo" / "lstm1.jsonl")
    assert read_lines(tmp_path) == {name: one}
    append_line({"name": "x"}, tmp_path / FOLDER / "weibo" / "lstm1.jsonl")
    with pytest.raises(DataError, match=r"lstm1.jsonl:2: not a model decoded both ways"):
        read_lines(tmp_path)
