"""One threshold against one for each type: what is chosen on dev, what is counted, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_corpus import corpus

from experiments import thresholds_by_type
from experiments.decoded import Model, append_decoded, read_lines
from experiments.measure import Split, counts_of, errors, pack, unpack
from experiments.thresholds_by_type import (
    FOLDER,
    ROW,
    Candidates,
    by_type_sentence,
    choose,
    compare,
    measure,
)
from experiments.train import train
from experiments.trainings import Training
from maskedcrf import Tagger
from maskedcrf.tagger.decoding import THRESHOLDS


def counts(best: list[int], gold: int = 20) -> np.ndarray:
    """Two alike sentences; each type has a wrong segment more for each step from the threshold that is best for it."""
    steps = np.abs(np.arange(len(THRESHOLDS))[:, None] - np.array([*best, 0]))
    gold_of = np.array([gold] * len(best) + [0])
    one = np.stack([np.broadcast_to(gold_of, steps.shape), gold_of + steps * (gold_of > 0), steps * 0 + gold_of], -1)
    return np.stack([one, one])


def test_each_type_takes_its_own_best_threshold() -> None:
    one, each, held_out = choose(counts([5, 20, 21]), [0, 1, 2])
    assert one == THRESHOLDS[20]  # 15 + 0 + 1 wrong ones, the fewest
    assert each.tolist() == [THRESHOLDS[5], THRESHOLDS[20], THRESHOLDS[21]]
    assert held_out == pytest.approx(200 * 60 / (120 + 16))


def test_a_type_with_few_segments_keeps_the_common_threshold() -> None:
    assert choose(counts([5, 20, 25]), [2])[1].tolist() == [THRESHOLDS[20], THRESHOLDS[20], THRESHOLDS[25]]


def test_a_type_that_no_threshold_changes_keeps_the_common_one() -> None:
    alike = counts([9, 9])
    alike[:, :, 1] = alike[:, 9:10, 1]
    assert choose(alike, [0, 1])[1].tolist() == [THRESHOLDS[9]] * 2


def test_a_models_line_holds_what_its_tagger_says(
    small_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds_by_type, "FEWEST", 1)
    model = Model(ROW, train(Training("weibo", "mcrf", 1e-2, 1), "", weights=tmp_path))
    found, tagger, test = measure(model, "", tmp_path), Tagger.load(tmp_path / model.name), corpus(8, seed=2)
    f1 = tagger.evaluate(test, decoding="segments", segment_threshold=found["thresholds"]["one"]).f1
    assert found["test"]["one"]["f1"] == pytest.approx(f1)
    assert found["thresholds"]["each"].keys() == set(tagger.model.crf.constraints.matrices.types)
    total = counts_of(unpack(found["gold"], 1), unpack(found["test"]["each"]["errors"], 2)).sum(0)
    assert 200 * total[0] / (total[1] + total[2]) == pytest.approx(found["test"]["each"]["f1"])
    asked = "each" if found["held_out"]["each"] > found["held_out"]["one"] else "one"
    assert found["test"]["asked"] == found["test"][asked]
    _segments_are_those_above_the_threshold_of_their_type(Candidates(tagger, Split(test, "BIO")))


def _segments_are_those_above_the_threshold_of_their_type(candidates: Candidates) -> None:
    """From one half on no two candidates overlap, so that a type's segments do not depend on the others' thresholds."""
    size = len(candidates.types)
    ways = np.linspace(0.5, 0.9, size)
    mixed = candidates.count(ways)
    for kind, threshold in enumerate(ways):
        assert (mixed[:, kind] == candidates.count(np.full(size, threshold))[:, kind]).all()
    none = candidates.count(np.array([2.0] + [0.1] * (size - 1)))
    assert none[:, 0, 1].sum() == 0 < none[:, 1:, 1].sum()


def lines(saved: int, *, corpora: tuple[str, ...] = ("weibo", "atis"), seeds: int = 3) -> dict[str, dict[str, Any]]:
    """Of 60 sentences with two gold segments, all of which are found, 20 have a wrong one; `each` saves so many.

    Dev of the first seed alone asks for it.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in corpora:
        for seed in range(1, seeds + 1):
            training = Training(name, "mcrf", 1e-2, seed)
            test, each = {}, saved if seed == 1 else 0
            for way, less in {"one": 0, "each": saved, "asked": each}.items():
                wrong = np.tile([2, 2, 2], (60, 1))
                wrong[: 20 - less, 1] += 1
                test[way] = {"f1": 200 * 120 / (260 - less), "errors": pack(errors(wrong))}
            found[f"{training.name}/{ROW}"] = {
                "name": f"{training.name}/{ROW}",
                "training": training.as_dict(),
                "thresholds": {"one": 0.5, "each": {"PER": 0.4}},
                "dev": {"one": 90.0, "each": 90.5, "asked": 90.5},
                "held_out": {"one": 90.0, "each": 90.0 + (seed == 1)},
                "gold": pack(np.full((60, 1), 2)),
                "test": test,
            }
    return found


def asked_everywhere(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for line in found.values():
        line["test"]["asked"], line["held_out"]["each"] = line["test"]["each"], 91.0
    return found


def test_gains_are_those_of_the_lines() -> None:
    gain = 24000 / 250 - 24000 / 260
    for way, expected in (("each", [gain] * 3), ("asked", [gain, 0, 0])):
        for each in compare(lines(10), way):
            assert each.differences == pytest.approx(expected)


def test_the_sentence_says_what_a_threshold_for_each_type_gains() -> None:
    gain = 24000 / 250 - 24000 / 260
    chance = by_type_sentence(lines(10))
    assert "tried on 6 models of 2 corpora. It changes F1 by +0.50 on the dev set" in chance
    assert f"by {gain:+.2f} on test. Used only where cross-validation on dev asks for it (2 models)" in chance
    assert f"by {gain / 3:+.2f} on average (p = " in chance
    assert chance.endswith("): no gain beyond chance, and it is not built.")
    assert by_type_sentence(asked_everywhere(lines(10))).endswith(
        f"by {gain:+.2f} on average (p = 0.031): a gain, to be built."
    )
    assert by_type_sentence(asked_everywhere(lines(-10))).endswith(": a loss, and it is not built.")
    assert "p = " not in by_type_sentence(asked_everywhere(lines(10, seeds=2)))
    assert by_type_sentence({}) == "A threshold for each type was not tried yet."


def test_the_command_measures_what_the_results_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = lines(10, corpora=("weibo",))
    for name in [*made, "weibo/lstm1/crf/0.01/1/MCRF-decoding"]:
        (tmp_path / "weights" / name).mkdir(parents=True)
    first = next(iter(made.values()))
    append_decoded(first, tmp_path, FOLDER)
    monkeypatch.setattr(thresholds_by_type, "measure", lambda model, corpora, weights: made[model.name])
    given = ["--weights", str(tmp_path / "weights"), "--results", str(tmp_path)]
    assert thresholds_by_type.main(given) == 0
    assert read_lines(tmp_path, FOLDER) == made
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0] == f"weibo/lstm1/mcrf/0.01/2/{ROW}: one 92.31  each 96.00  asked 92.31"
