"""The scripts and notebooks of examples/ run as they stand, and show what they say they show."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from maskedcrf import MaskedCRFError

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def printed(request, monkeypatch, capsys, tmp_path) -> str:
    """What a script prints when run from somewhere else."""
    script = EXAMPLES / request.param
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    return capsys.readouterr().out


def script(name: str):
    return pytest.mark.parametrize("printed", [name], indirect=True)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text, re.MULTILINE)]


@script("swap_the_layer.py")
def test_swapping_the_layer_takes_every_illegal_entity_out(printed):
    before, after = numbers(r"(\d+) of \d+ predicted", printed)
    assert before > 0
    assert after == 0


@script("audit_predictions.py")
def test_masking_a_softmax_tagger_raises_its_score(printed):
    before, after = numbers(r"(\d+) of \d+ predicted", printed)
    assert before > after == 0
    retained, masked = numbers(r"F1 ([\d.]+) with", printed)
    assert masked > retained


@script("partial_labels.py")
def test_leaving_the_unknown_open_beats_calling_it_outside(printed):
    taken_for_outside, left_open = numbers(r"F1 ([\d.]+)", printed)
    assert left_open > taken_for_outside + 10


@script("anonymise.py")
def test_a_lower_threshold_misses_less_and_hides_more(printed):
    missed = numbers(r" ([\d.]+)% +[\d.]+%", printed)
    hidden = numbers(r"% +([\d.]+)%", printed)
    assert len(missed) == len(hidden) == 5
    assert missed == sorted(missed, reverse=True)
    assert hidden == sorted(hidden)
    assert missed[0] > missed[-1] + 10
    assert "█" in printed.splitlines()[-1]


@script("huggingface_encoder.py")
def test_an_encoder_is_fine_tuned_and_handed_on(printed):
    assert "illegal segments 0" in printed
    assert numbers(r"F1 ([\d.]+)", printed)[0] > 20
    assert "MaskedCRFForTokenClassification with 21 labels" in printed
    assert "'entity_group'" in printed


@script("adopt_a_classifier.py")
def test_a_classifier_is_adopted_and_fitted(printed):
    best, masked, fitted = numbers(r"^\w[\w ]+  F1 ([\d.]+)", printed)
    (illegal,) = numbers(r"([\d.]+) % of its entities illegal", printed)
    assert illegal > 5
    assert best < masked < fitted
    assert "chosen" in printed
    assert "Entity(type=" in printed


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs_and_its_pictures_cross_a_step_out(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, startup_timeout=300, resources=folder).execute()  # a machine may be busy
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    errors = "".join(output["text"] for output in outputs if output.get("name") == "stderr")
    assert [
        line for line in errors.splitlines() if "compiling" not in line
    ] == []  # which it says once on a new machine
    pictures = [output.data["image/svg+xml"] for output in outputs if "data" in output]
    assert any('class="cross"' in picture and 'class="illegal"' in picture for picture in pictures)


def test_there_are_six_scripts_and_two_notebooks():
    assert len(list(EXAMPLES.glob("*.py"))) == 6
    assert len(list(EXAMPLES.glob("*.ipynb"))) == 2


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_a_script_says_how_to_run_it(path):
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")


def test_the_encoder_can_be_named(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["huggingface_encoder.py", "--encoder", "no/such/folder"])
    with pytest.raises(MaskedCRFError, match="no/such/folder"):
        runpy.run_path(str(EXAMPLES / "huggingface_encoder.py"), run_name="__main__")
