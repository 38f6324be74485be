"""The README: short, its picture and its tables made by our own code from what was measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import readme
from experiments.figures import figure_1
from experiments.reading import Results, read_paper
from experiments.statistics import Evidence

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
    drawn = figure_1(Evidence(Results.of({}), read_paper()))
    assert (ROOT / "docs/images/lattice.svg").read_text(encoding="utf-8") == drawn + "\n", "run `make paper`"
    assert 'class="cross"' in drawn


def test_it_fits_three_screens() -> None:
    assert len(README.splitlines()) <= 120


LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob(".github/**/*.md")], ids=lambda page: page.name
)
def test_links_outside_the_site_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
