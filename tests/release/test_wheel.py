"""The wheel in an empty environment, away from the source tree: what a newcomer gets from `pip install maskedcrf`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import maskedcrf

ROOT = Path(__file__).parents[2]
BASE = {"filelock", "torch", "numpy", "numba", "safetensors", "pydantic", "typer", "rich", "regex"}
TEN_LINES = "Ann B-PER\nflew O\nto O\nNew B-LOC\nYork I-LOC\n\nBob B-PER\nleft O\nOslo B-LOC\n\n"
LAYER = """
import torch
from maskedcrf import MaskedCRF
crf = MaskedCRF(["O", "B-PER", "I-PER"], scheme="BIO")
loss = crf(torch.randn(1, 2, 3, requires_grad=True), torch.tensor([[1, 2]]))
loss.backward()
print(crf.decode(torch.tensor([[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0]]])))
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def done(*command: object, cwd: Path) -> str:
    """What the command prints; a failure shows what it said."""
    finished = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that has the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    done(sys.executable, "-m", "venv", folder, cwd=folder)
    done(folder / "bin" / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder / "bin"


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"maskedcrf", f"maskedcrf-{maskedcrf.__version__}.dist-info"}
    assert {"maskedcrf/py.typed", "maskedcrf/service/page/index.html"} <= set(names)
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "maskedcrf").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == source


def test_its_metadata_ask_for_what_the_layer_and_the_commands_need(wheel: Path) -> None:
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("METADATA")]
    metadata = message_from_string(zipfile.ZipFile(wheel).read(name).decode())
    wanted = [Requirement(text) for text in metadata.get_all("Requires-Dist") or []]
    assert {each.name for each in wanted if each.marker is None} == BASE
    assert metadata["Version"] == maskedcrf.__version__
    assert metadata["License-Expression"] == "MIT"
    assert "# maskedcrf" in metadata.get_payload()


def test_the_source_archive_can_test_itself(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    tracked = done("git", "ls-files", "src", "tests", "examples", "docs", "Makefile", "pyproject.toml", cwd=ROOT)
    assert set(tracked.split()) <= names


def test_nothing_but_the_requirements_is_installed(programs: Path, tmp_path: Path) -> None:
    listed = json.loads(done(programs / "pip", "list", "--format", "json", cwd=tmp_path))
    names = {package["name"].lower() for package in listed}
    assert names >= BASE | {"maskedcrf"}
    assert not names & {"transformers", "fastapi", "onnx", "ray", "matplotlib", "h5py", "pytest"}
    where = done(programs / "python", "-c", "import maskedcrf; print(maskedcrf.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(programs.parent)


def test_the_layer_works(programs: Path, tmp_path: Path) -> None:
    assert done(programs / "python", "-W", "error", "-c", LAYER, cwd=tmp_path).strip() == "[[1, 2]]"


def test_a_file_becomes_a_tagger_that_is_scored_and_audited(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text(TEN_LINES)
    maskedcrf_ = programs / "maskedcrf"
    done(maskedcrf_, "train", "--train", "train.conll", "--epochs", 3, "-o", "model", cwd=tmp_path)
    predicted = done(maskedcrf_, "predict", "model", "train.conll", cwd=tmp_path)
    assert [line.split()[:2] for line in predicted.splitlines()] == [line.split() for line in TEN_LINES.splitlines()]
    (tmp_path / "predicted.conll").write_text(predicted)
    assert re.match(
        r"processed 8 tokens with 4 phrases;", done(maskedcrf_, "evaluate", "predicted.conll", cwd=tmp_path)
    )
    assert json.loads(done(maskedcrf_, "audit", "--json", "predicted.conll", cwd=tmp_path))["illegal_fp"] == 0


def test_an_extra_that_is_missing_is_named(programs: Path, tmp_path: Path) -> None:
    finished = subprocess.run(
        [programs / "maskedcrf", "serve", "model"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2
    assert "pip install 'maskedcrf[serve]'" in finished.stderr
