"""The demo on a small part of its corpus: all six variants, a page, a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from maskedcrf import demo
from maskedcrf.cli import main
from maskedcrf.cli.demo import text_curves


@pytest.fixture(scope="module")
def found() -> demo.Demo:
    return demo.run_demo(sentences=150, epochs=3)


def test_the_six_variants_are_those_of_the_paper(found: demo.Demo) -> None:
    names = [variant.name for variant in found.variants]
    assert names == [
        "tagger, retain",
        "tagger, discard",
        "CRF, retain",
        "CRF, discard",
        "MCRF-decoding",
        "MCRF-training",
    ]
    assert found.variants[2].illegal > 0  # too little training to know the scheme
    assert all(variant.illegal == 0 for variant in found.variants[1::2] + found.variants[4:])
    assert len(found.dev_loss["CRF"]) == len(found.dev_loss["MCRF"]) == 3
    assert 0 < found.illegal_mass <= 1


def test_the_gain_is_over_the_crf_with_retained_segments(found: demo.Demo) -> None:
    rows = {row[0]: row for row in demo.rows(found)}
    assert rows["CRF, retain"][-1] == "+0.00"
    assert float(rows["MCRF-training"][-1]) == pytest.approx(found.variants[5].f1 - found.variants[2].f1, abs=0.006)


def test_the_page_holds_table_curves_matrix_and_lattice(found: demo.Demo) -> None:
    html = demo.page(found)
    assert html.count("<section>") == 4
    assert "MCRF-training" in html
    assert html.count("<polyline") == 2
    assert html.count("class=masked") == int((~found.constraints.legal).sum() + (~found.constraints.start).sum())
    assert found.example is not None
    assert "illegal step" in html
    assert found.example.broken[0].tag in html
    green = html.partition(".masked{stroke:")[2].partition("}")[0]
    assert f'style="stroke:{green}"><title>MCRF</title>' in html, "the masked CRF has one colour on the page"


def test_the_command_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    assert main(["demo", "--sentences", "40", "--epochs", "1", "--output", str(target)]) == 0
    shown = capsys.readouterr()
    assert "MCRF-training" in shown.out
    assert "C = CRF, M = MCRF" in shown.out
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_missing_folder_is_refused_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--output", str(tmp_path / "nowhere" / "report.html")]) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err
    assert main(["demo", "--output", str(tmp_path)]) == 2
    assert f"{tmp_path} is a folder; give a file" in capsys.readouterr().err


def test_text_curves_put_each_value_at_its_height() -> None:
    rows = text_curves({"CRF": [3.0, 1.0], "MCRF": [2.0, 1.0]}, height=3, step=2).split("\n")
    assert [row.partition("|")[2] for row in rows[:3]] == ["C", "M", "  M"]
    assert rows[0].startswith("   3.000")
