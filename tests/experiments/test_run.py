"""The runner and its results files: nothing is lost to a crash, nothing made twice, and what is no result is said."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from synthetic_results import entry

from experiments import page, run
from experiments.decoded import read_lines
from experiments.result_files import append_result, read_results
from experiments.trainings import GROUPS, RATES, Training

FILE = "weibo/lstm1.jsonl"
TRAININGS = [Training("weibo", "mcrf", 1e-2, seed) for seed in (1, 2)]
ONE, OTHER = map(entry, TRAININGS)


def decoded(training: Training) -> dict[str, Any]:
    """The line of a training's model decoded both ways, without what it found."""
    name = f"{training.name}/MCRF-training"
    return {"name": name, "training": training.as_dict(), **dict.fromkeys(("dev", "thresholds", "gold", "test"))}


def test_what_comes_after_a_line_cut_short_is_kept(tmp_path: Path) -> None:
    path = tmp_path / FILE
    append_result(ONE, tmp_path)
    path.write_bytes(path.read_bytes()[:-300])
    append_result(OTHER, tmp_path)
    assert set(read_results(tmp_path)) == {OTHER["name"]}
    append_result(ONE, tmp_path)
    assert set(read_results(tmp_path)) == {ONE["name"], OTHER["name"]}


@pytest.mark.parametrize("line", ["{}", "123", "[]", "null", '{"name": "x", "training": {}}', '{"training": {"a": 1}}'])
@pytest.mark.parametrize("command", ["run", "page"])
def test_a_line_that_is_no_result_is_named(
    command: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append_result(ONE, tmp_path)
    with (tmp_path / FILE).open("a") as file:
        file.write(line + "\n")
    start = {"run": [run.main, ["small", "--budget", "0"]], "page": [page.main, ["--root", str(tmp_path)]]}
    main, given = start[command]
    assert main([*given, "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err.strip() == (
        f"error: {tmp_path}/{FILE}:2: not a training's result; take the line out, or fetch the file again"
    )


def test_what_is_finished_is_not_trained_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Training] = []

    def fake(missing: list[Training], *_: Any, **__: Any) -> list[tuple[Training, Any]]:
        started.extend(missing)
        return [
            (each, run.Finished(entry(each), [decoded(each)]) if each.seed > 1 else ValueError("no\nmemory"))
            for each in missing
        ]

    monkeypatch.setattr(run, "in_processes", fake)
    options = argparse.Namespace(results=tmp_path, budget=1.0)
    append_result(ONE, tmp_path)
    assert run.run_missing([*TRAININGS, Training("weibo", "crf", 1e-2, 1)], options) == 1
    assert started == [TRAININGS[1], Training("weibo", "crf", 1e-2, 1)]
    assert set(read_results(tmp_path)) == {ONE["name"], OTHER["name"]}
    assert set(read_lines(tmp_path)) == {decoded(TRAININGS[1])["name"]}
    errors = capsys.readouterr().err
    assert "2 trainings to do, 1 in the results" in errors
    assert "weibo/lstm1/crf/0.01/1: failed: memory" in errors


@pytest.mark.usefixtures("small_data")
def test_a_model_is_decoded_both_ways_as_soon_as_it_is_trained(tmp_path: Path) -> None:
    options = argparse.Namespace(corpora="", encoders="", weights=tmp_path, decode=True)
    [line] = run.execute(TRAININGS[0], options).decoded
    assert line["name"] == f"{TRAININGS[0].name}/MCRF-training"
    assert (tmp_path / line["name"]).is_dir()
    options = argparse.Namespace(corpora="", encoders="", weights=None, decode=False)
    assert run.execute(TRAININGS[0], options).decoded == []
    assert logging.getLogger("maskedcrf").level == logging.NOTSET, "only a worker's process is made quiet"


def test_no_training_begins_after_the_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["small", "--budget", "0", "--only", "atis/", "--results", str(tmp_path / "new")]) == 0
    assert "21 are left: the same command goes on with them" in capsys.readouterr().err


def test_a_name_that_no_training_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["small", "--only", "nowhere"]) == 2
    assert "--only nowhere: no training's name contains this; they are like weibo/" in capsys.readouterr().err


def test_a_folder_of_results_that_cannot_be_is_named_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run.main(["small", "--results", str(tmp_path / "file")]) == 2
    assert f"error: {tmp_path / 'file'}: " in capsys.readouterr().err


def test_every_head_is_trained_at_every_rate_with_the_same_seeds() -> None:
    for group in ("small", "large", "more", "pretrained", "bioes", "tenth", "base"):
        found: dict[tuple[str, str], set[tuple[float | None, int]]] = {}
        for each in GROUPS[group]:
            found.setdefault((each.corpus, each.head), set()).add((each.crf_rate, each.seed))
        for corpus in {corpus for corpus, _ in found}:
            assert found[corpus, "crf"] == found[corpus, "mcrf"]
            assert {rate for rate, _ in found[corpus, "crf"]} == set(RATES)
            assert {seed for _, seed in found[corpus, "crf"]} == {seed for _, seed in found[corpus, "softmax"]}


def test_heads_differ_in_nothing_but_head_mask_and_rate() -> None:
    crf, mcrf = (Training("atis", head, 1e-1, 1).settings() for head in ("crf", "mcrf"))
    assert {name for name in crf if crf[name] != mcrf[name]} == {"mask"}
    slow = Training("atis", "crf", 1e-3, 1).settings()
    assert {name for name in crf if crf[name] != slow[name]} == {"optim"}
    assert json.dumps(crf["optim"]) == '{"head_rate": 0.002, "crf_rate": 0.1}'
