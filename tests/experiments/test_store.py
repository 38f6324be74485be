"""Results files: nothing is lost to a crash or to a new recipe, and what is no result is said."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from synthetic_results import entry

from experiments import run, tune
from experiments.candidates import CANDIDATES
from experiments.grid import Run
from experiments.store import finished, put

FILE = "weibo/uer.jsonl"
ONE, OTHER = (entry(Run("weibo", "uer", "mcrf", seed), sentences=5) for seed in (1, 2))


def test_what_comes_after_a_line_cut_short_is_kept(tmp_path: Path) -> None:
    path = tmp_path / FILE
    put(tmp_path, ONE)
    path.write_bytes(path.read_bytes()[:-300])
    put(tmp_path, OTHER)
    assert set(finished(tmp_path)) == {OTHER["name"]}
    put(tmp_path, ONE)
    assert set(finished(tmp_path)) == {ONE["name"], OTHER["name"]}


def test_a_runs_new_line_takes_the_place_of_its_old_one(tmp_path: Path) -> None:
    for each in (ONE, OTHER, {**ONE, "seconds": 2.0}):
        put(tmp_path, each)
    lines = (tmp_path / FILE).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["name"] for line in lines] == [OTHER["name"], ONE["name"]]
    assert finished(tmp_path)[ONE["name"]]["seconds"] == 2.0


@pytest.mark.parametrize("line", ["{}", "123", "[]", "null", '{"name": "x", "run": {}}', '{"run": {"corpus": "x"}}'])
@pytest.mark.parametrize("command", ["run", "page"])
def test_a_line_that_is_no_result_is_named(
    command: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, ONE)
    with (tmp_path / FILE).open("a") as file:
        file.write(line + "\n")
    assert started(command, tmp_path) == 2
    assert capsys.readouterr().err.strip() == (
        f"error: {tmp_path}/{FILE}:2: not a run's result; take the line out, or fetch the file again"
    )


def test_results_that_are_no_text_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weibo.jsonl").write_bytes(b"\xff\n")
    assert started("run", tmp_path) == 2
    assert "weibo.jsonl:1: not UTF-8" in capsys.readouterr().err


def started(command: str, results: Path) -> int:
    from experiments import page

    if command == "run":
        return run.main(["demo", "--budget", "0", "--results", str(results)])
    return page.main(["--results", str(results), "--docs", str(results), "--readme", str(results / "README.md")])


def test_a_broken_file_of_recipes_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "TUNED", tmp_path / "tuned.json")
    (tmp_path / "tuned.json").write_text('{"weibo/uer": ')
    put(tmp_path, ONE)
    assert run.main(["main", "--budget", "0", "--encoders", str(tmp_path), "--results", str(tmp_path)]) == 2
    assert "tuned.json: not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--jobs", "0"], ["--jobs", "-1"], ["--jobs", "two"], ["--budget", "nan"]])
@pytest.mark.parametrize("main", [lambda given: run.main(["demo", *given]), tune.main])
def test_numbers_that_make_no_sense_are_refused(main: Any, given: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == 2


def test_a_name_that_no_run_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["demo", "--only", "nowhere"]) == 2
    assert "--only nowhere: no run's name contains this; they are like demo/demo/" in capsys.readouterr().err


@pytest.fixture
def with_old_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Run]:
    """Four runs in the results, the second and the fourth made by other recipes than today's."""
    runs = [Run("weibo", encoder, "mcrf", seed) for encoder in ("tuned", "uer") for seed in (1, 2)]
    recipe = CANDIDATES["weibo", "tuned"][-1]
    monkeypatch.setattr(run, "tuned", lambda: {"weibo/tuned": {"settings": recipe}})
    for each, more in zip(runs, ({}, {"adversarial": 0.3}, {}, {"batch": 9}), strict=True):
        put(tmp_path, {**entry(each, sentences=5), "settings": run.settings_of(each, "{folder}") | more})
    monkeypatch.setattr(run, "Board", MagicMock(return_value=MagicMock(failed=0)))
    return runs


@pytest.mark.parametrize("ends", [True, False])
def test_runs_of_a_recipe_given_up_are_run_again_and_kept_until_then(
    ends: bool, with_old_ones: list[Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[Run] = []

    def fake(missing: list[Run], *_: Any) -> list[tuple[Run, dict[str, Any]]]:
        begun.extend(missing)
        new = [(each, {**entry(each, sentences=5), "seconds": 9.0}) for each in missing]
        return new if ends else []

    monkeypatch.setattr(run, "in_processes", fake)
    encoders = tmp_path / "encoders"
    (encoders / "uer-zh-L2-H512").mkdir(parents=True)
    options = {"ray": False, "as_listed": True, "jobs": 1, "budget": 1.0, "corpora": "", "threads": 1}
    run.run_grid(with_old_ones, Namespace(results=tmp_path, encoders=str(encoders), **options))
    assert begun == [with_old_ones[1], with_old_ones[3]]
    seconds = {name: each["seconds"] for name, each in finished(tmp_path).items()}
    assert [seconds[each.name] for each in with_old_ones] == ([1.0, 9.0, 1.0, 9.0] if ends else [1.0] * 4)


def test_a_folder_of_results_that_cannot_be_is_named_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "in_processes", MagicMock(side_effect=AssertionError("trained")))
    (tmp_path / "file").touch()
    assert run.main(["demo", "--results", str(tmp_path / "file")]) == 2
    assert f"error: {tmp_path / 'file'}: " in capsys.readouterr().err


def test_without_ray_its_option_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run.main(["demo", "--ray", "--results", str(tmp_path)]) == 2
    assert "pip install 'maskedcrf[ray]'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_runs_on_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    command = [sys.executable, "-m", "experiments.run", "demo", "--only", "mcrf/1", "--ray", "--results", str(tmp_path)]
    command += ["--budget", "0.01"]  # less than Ray takes to start
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    assert set(finished(tmp_path)) == {"demo/demo/BIO/1/mcrf/1"}
