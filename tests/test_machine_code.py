"""Where the CPU engine's machine code is kept, and who is told that it is being made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args

import pytest
import torch
from numba.core import event

from maskedcrf import MaskedCRF, machine_code
from maskedcrf.cli import main
from maskedcrf.crf.layer import Reduction

DECODED = """
import torch
from maskedcrf import MaskedCRF
from maskedcrf.crf.cpu import paths
print(MaskedCRF(["O", "B-X", "I-X"], "BIO").decode(torch.tensor([[[9.0, 0.0, 0.0]] * 2])))
print(sum(paths.best_paths.stats.cache_hits.values()))
"""


def start(code: str, **environment: str) -> subprocess.Popen[str]:
    """A process with none of our folders for caches but those given."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**kept, **environment}, stdout=pipe, stderr=pipe, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.splitlines(), err


def test_who_waits_for_the_compiler_is_told_once_and_the_next_process_does_not_wait(tmp_path: Path) -> None:
    first, second = (finish(start(DECODED, NUMBA_CACHE_DIR=str(tmp_path))) for _ in range(2))
    assert first == (["[[0, 0]]", "0"], machine_code.NOTICE)
    assert second == (["[[0, 0]]", "1"], "")
    assert [path.name for path in (tmp_path / "maskedcrf").iterdir()] == [machine_code.cache_folder().name]


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms name another folder")
def test_two_processes_at_once_fill_one_empty_folder(tmp_path: Path) -> None:
    both = [start(DECODED, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    assert [finish(process)[0][0] for process in both] == ["[[0, 0]]"] * 2
    assert finish(start(DECODED, XDG_CACHE_HOME=str(tmp_path)))[0] == ["[[0, 0]]", "1"]


def test_nowhere_to_keep_it_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out, err = finish(start(DECODED, NUMBA_CACHE_DIR=str(tmp_path / "file")))
    assert out == ["[[0, 0]]", "0"]
    assert err == machine_code.NOTICE


def test_a_folder_that_can_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "index").write_text("code")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    copy = machine_code._writable(tmp_path / "kept")
    assert copy is not None
    assert copy != tmp_path / "kept"
    assert (copy / "index").read_text() == "code"


def test_an_edited_kernel_or_another_version_has_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(machine_code.__file__).parent
    kernels = source / "segmentation" / "paths.py", *(source / "crf" / "cpu").glob("*.py")
    for path in (source / "machine_code.py", *kernels):
        copy = tmp_path / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    before = machine_code.cache_folder()
    monkeypatch.setattr(machine_code, "__file__", str(tmp_path / "machine_code.py"))
    assert machine_code.cache_folder() == before
    monkeypatch.setattr(machine_code, "__version__", "99")
    assert machine_code.cache_folder() != before
    monkeypatch.undo()
    monkeypatch.setattr(machine_code, "__file__", str(tmp_path / "machine_code.py"))
    for path in tmp_path.rglob("*.py"):
        folder = machine_code.cache_folder()
        path.write_text(path.read_text() + "\n")
        assert machine_code.cache_folder() != folder


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {}, "~/.cache/maskedcrf"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/maskedcrf"),
        ("darwin", {}, "~/Library/Caches/maskedcrf"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/maskedcrf/cache"),
    ],
)
def test_it_is_kept_where_the_platform_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], folder: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(machine_code.numba.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine_code.cache_folder().parent == Path(folder).expanduser()


def test_warm_up_leaves_nothing_to_compile_for_any_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm-up", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(machine_code.FOLDER)
    with event.install_recorder("numba:compile") as compiled:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            crf = MaskedCRF(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO").to(torch.float64 if dtype.itemsize == 8 else None)
            timely = torch.zeros(4, 3, 5, dtype=dtype)
            far = timely + torch.tensor([0.0, 1e4, 0.0, 0.0, 0.0], dtype=dtype)  # done on logarithms
            for emissions in (timely, timely.transpose(0, 1), far):
                _ask_everything(crf, emissions, torch.ones(1, emissions.shape[1]).bool().expand(emissions.shape[:2]))
    assert [each for each in compiled.buffer] == []


def _ask_everything(crf: MaskedCRF, emissions: torch.Tensor, mask: torch.Tensor) -> None:
    emissions, tags = emissions.clone().requires_grad_(), torch.zeros_like(mask, dtype=torch.long)
    allowed = torch.ones(emissions.shape, dtype=torch.bool)
    for reduction in get_args(Reduction):
        crf(emissions, tags, mask, reduction=reduction).sum().backward()
    crf.partial_loss(emissions, allowed, mask).backward()
    crf.log_prob(emissions, tags, mask)
    for ask in (crf.log_partition, crf.marginals, crf.entropy, crf.illegal_mass, crf.decode, crf.decode_tensor):
        ask(emissions, mask, allowed=allowed)
        with torch.no_grad():
            ask(emissions)
    crf.nbest(emissions, mask, k=3)
    crf.sample(emissions, mask, n=2)
    crf.span_probability(emissions, [[(0, 2, "X"), (1, 2, "Y")]] * len(mask), mask)
    for threshold in (0.0, 0.5):
        crf.decode_segments(emissions, mask, threshold)


def test_warm_up_says_where_it_cannot_keep_anything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "FOLDER", None)
    assert main(["warm-up"]) == 2
    assert "cannot be written" in capsys.readouterr().err
