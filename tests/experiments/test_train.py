"""One training: every row keeps the best epoch by its own reading, and what it says can be computed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_corpus import SMALL, corpus

from experiments import train
from experiments.choice import Trial
from experiments.measure import Split, counts_of, errors, pack, unpack
from experiments.trainings import RATES, ROWS, Head, Training
from maskedcrf import Tagger

READINGS = ("retain", "discard", "masked")


@pytest.fixture
def small_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of a second."""
    settings = Training.settings
    small = {key: SMALL[key] for key in ("encoder", "batch_sentences", "epochs")}
    monkeypatch.setattr(Training, "settings", lambda self: {**settings(self), **small})


@pytest.mark.parametrize("head", ["softmax", "crf", "mcrf"])
@pytest.mark.usefixtures("small_data", "small_settings")
def test_each_row_keeps_the_epoch_that_its_own_reading_likes_best(head: Head, tmp_path: Path) -> None:
    training = Training("weibo", head, None if head == "softmax" else 1e-3, 1)
    line = train.train(training, "", "", tmp_path)
    served = {name for name, row in ROWS.items() if row.head == head}
    assert line["rows"].keys() == served
    for name in served:
        curve = [epoch["f1"][ROWS[name].reading] for epoch in line["epochs"]]
        row = line["rows"][name]
        assert curve[row["epoch"] - 1] == max(curve) == pytest.approx(row["dev"]["f1"], abs=5e-4)
        counts = counts_of(unpack(line["gold"], 1), unpack(row["test"]["errors"], 2))
        correct, predicted, gold = counts.sum(0)
        assert row["test"]["f1"] == pytest.approx(200 * correct / max(1, predicted + gold))
        saved = Tagger.load(tmp_path / training.name / name)
        scores = saved.evaluate(corpus(8, seed=2))
        assert getattr(scores, "discard" if name.endswith("discard") else "retain").total.f1 == pytest.approx(
            row["test"]["f1"]
        )


@pytest.mark.usefixtures("small_data", "small_settings")
def test_every_head_at_every_rate_makes_a_trial() -> None:
    lines = [train.train(Training("weibo", head, rate, 1), "") for head in ("crf", "mcrf") for rate in RATES]
    lines.append(train.train(Training("weibo", "softmax", None, 1), ""))
    trial = Trial({line["name"]: line for line in lines})
    assert trial.corpora() == ["weibo"]
    for row in ("CRF-retain", "CRF-discard", "MCRF-decoding", "MCRF-training"):
        best = {line["training"]["crf_rate"]: line["rows"][row]["dev"]["f1"] for line in lines if row in line["rows"]}
        assert best[trial.choose("weibo", row).rate] == max(best.values())


@pytest.mark.usefixtures("small_data", "small_settings")
def test_a_results_line_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    line = train.train(Training("weibo", "mcrf", 1e-2, 1), "", str(tmp_path))
    assert str(tmp_path) not in str(line)


def test_illegal_segments_are_counted_and_dropped_or_kept() -> None:
    split = Split(corpus(1), "BIO")
    split.gold = [["B-A", "O", "B-B", "I-B"]]
    paths = {"own": [["B-A", "I-B", "B-B", "I-B"]], "masked": [["B-A", "O", "B-B", "I-B"]]}
    found = split._readings(paths, "crf")
    assert [found[name].counts.tolist() for name in READINGS] == [[[2, 3, 2]], [[2, 2, 2]], [[2, 2, 2]]]
    assert [found[name].f1 for name in READINGS] == pytest.approx([80, 100, 100])
    assert found["retain"].cells == {"legal_tp": 2, "illegal_tp": 0, "legal_fp": 0, "illegal_fp": 1}
    assert [found[name].illegal for name in ("retain", "masked")] == pytest.approx([100 / 3, 0])


def test_the_counts_of_every_sentence_come_back_from_what_is_kept() -> None:
    counts = np.array([[2, 3, 2], [0, 0, 0], [0, 300, 1], [1, 1, 900]])  # correct, predicted, gold
    kept = pack(counts[:, 2:]), pack(errors(counts))
    assert (counts_of(unpack(kept[0], 1), unpack(kept[1], 2)) == counts).all()
