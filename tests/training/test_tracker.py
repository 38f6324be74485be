"""TensorBoard for real: the curves of a run are on disk after it, beside the model, with the values of its history."""

from __future__ import annotations

import warnings

import pytest
from small_corpus import SMALL, corpus

from maskedcrf.tagger import Tagger

pytest.importorskip("accelerate")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what TensorBoard imports
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def curves(folder) -> dict[str, list[tuple[int, float]]]:
    """Every curve under the folder, as TensorBoard reads it."""
    found: dict[str, list[tuple[int, float]]] = {}
    for place in sorted({path.parent for path in folder.rglob("events.out.tfevents.*")}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            events = accumulator.EventAccumulator(str(place)).Reload()
            for name in events.Tags()["scalars"]:
                found[name] = [(event.step, event.value) for event in events.Scalars(name)]
    return found


def test_tensorboard_has_every_epoch_of_the_run(tmp_path):
    settings = {**SMALL, "epochs": 2, "tracker": "tensorboard"}
    tagger = Tagger.train(corpus(16), corpus(4, 1), output=tmp_path / "model", **settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.logs"]
    found = curves(tmp_path / "model.logs")
    history = tagger.history
    assert found["loss"] == [(entry["step"], pytest.approx(entry["loss"])) for entry in history]
    f1 = [(entry["step"], pytest.approx(entry["dev"]["retain"]["f1"])) for entry in history]
    assert found["dev/retain/f1"] == f1
    assert len(f1) == 2


def test_overwriting_a_run_begins_its_curves_anew(tmp_path):
    settings = {**SMALL, "epochs": 1, "tracker": "tensorboard", "output": tmp_path / "model"}
    Tagger.train(corpus(8), corpus(2, 1), **settings)
    Tagger.train(corpus(16), corpus(2, 1), overwrite=True, **settings)
    assert [step for step, _ in curves(tmp_path / "model.logs")["loss"]] == [2]
