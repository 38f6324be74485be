"""The README: short, its picture and its tables made by our own code from what was measured."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from benchmarks import readme
from experiments.figures import example_lattice
from maskedcrf.cli import main
from maskedcrf.data.demo_corpus import DemoCorpus, demo_corpus

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_speed_is_that_of_the_results() -> None:
    assert readme.written(README) == README, "run `python -m benchmarks.readme`"


def test_the_table_of_speed_compares_whole_batches_of_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"maskedcrf cpu": 0.001, "pytorch-crf": 0.02, "AllenNLP": 0.03, "torch-struct": 0.004}
    rows = [
        {"shape": [32, 128, 9], "work": work, "seconds": seconds, "times_best_peer": {"maskedcrf cpu": 4.0}}
        for work in ("step", "decode")
    ]
    record = {"signature": {"gpu": None, "threads": 2}, "shapes": rows}
    monkeypatch.setattr(readme, "OURS", {"crf-cpu": "maskedcrf cpu"})
    monkeypatch.setattr(readme.json, "loads", lambda _: record)
    line = readme.table().splitlines()[2]
    assert line == "| 2 CPU threads: loss and gradients | **1** | 4 (torch-struct) | 20 | 30 | 4 |"


def test_the_picture_is_the_one_our_code_draws() -> None:
    drawn = example_lattice()
    assert (ROOT / "docs/images/lattice.svg").read_text(encoding="utf-8") == drawn + "\n", "run `make paper`"
    assert 'class="cross"' in drawn


def test_it_fits_three_screens() -> None:
    assert len(README.splitlines()) <= 120


BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_its_commands_work_one_after_another_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a tenth of the corpus; all but the set-up, and the service, which would not end."""
    monkeypatch.chdir(tmp_path)
    parts = demo_corpus()
    small = DemoCorpus(parts.train[:300], parts.dev[:50], parts.test[:100])
    monkeypatch.setattr("maskedcrf.data.demo_corpus.demo_corpus", lambda: small)
    ran = []
    for language, block in BLOCK.findall(README):
        if language == "python":
            Path("block.py").write_text(block, encoding="utf-8")
            runpy.run_path("block.py")
            continue
        for line in block.splitlines():
            name, *arguments = shlex.split(line, comments=True)
            if name != "maskedcrf" or arguments[0] == "serve":
                continue
            target = Path(arguments.pop()) if ">" in arguments else None
            capsys.readouterr()
            assert main([argument for argument in arguments if argument != ">"]) == 0, line
            if target is not None:
                target.write_text(capsys.readouterr().out, encoding="utf-8")
            ran.append(arguments[0])
    assert ran == ["train", "predict", "inspect", "redact", "export", "audit", "evaluate", "check"]
    assert (tmp_path / "model.onnx").exists()


LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")


def test_links_outside_the_site_lead_somewhere() -> None:
    pages = [page for pattern in ("*.md", "examples/*.md", ".github/**/*.md") for page in ROOT.glob(pattern)]
    targets = [(page, target) for page in pages for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert len(targets) > 20
    assert [(page.name, target) for page, target in targets if not (page.parent / target).exists()] == []
