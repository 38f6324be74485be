"""The demo on a small part of its corpus: a fair comparison, what it says, a page, a command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from maskedcrf.cli import main
from maskedcrf.cli.demo import bar
from maskedcrf.demo import Demo, run_demo
from maskedcrf.demo.findings import HEADER, conclusion, table_rows
from maskedcrf.demo.page import page
from maskedcrf.demo.trials import GRID, ROWS, Row, Trial, choose_rates
from maskedcrf.errors import MaskedCRFError
from maskedcrf.evaluation.counts import Tally


@pytest.fixture(scope="module")
def found() -> Demo:
    return run_demo(sentences=300, epochs=3)


def trial(name: str, rate: float | None, dev_f1: tuple[float, ...], right: int = 4, illegal: float = 0.0) -> Trial:
    """A trial whose ten test sentences hold a gold and a predicted segment each, `right` of them correct."""
    row: Row = next(row for row in ROWS if row.name == name)
    counts = np.array([[number < right, 1, 1] for number in range(10)], dtype=np.int64)
    return Trial(row, rate, dev_f1, Tally(right, 10, 10), counts, illegal)


def comparison(found: Demo, **right: tuple[int, int]) -> Demo:
    """A demo of two rates with so many right segments; the second rate is better on dev."""
    trials = [trial("softmax, retain", None, (50.0,)), trial("softmax, discard", None, (50.0,))]
    trials.append(trial("softmax, masked decoding", None, (60.0,), right=9))
    for name in ("CRF, retain", "CRF, discard", "MCRF-decoding", "MCRF-training"):
        low, high = right.get(name.replace(", ", "_").replace("-", "_"), (5, 5))
        illegal = 20.0 if name == "CRF, retain" else 0.0
        trials += [trial(name, 0.001, (40.0,), low, illegal), trial(name, 0.1, (50.0,), high)]
    return replace(found, trials=tuple(trials))


def test_every_row_is_tried_at_every_rate_of_one_grid(found: Demo) -> None:
    tried = {name: [one.crf_rate for one in found.of_row(name)] for name in found.chosen}
    assert list(tried) == [row.name for row in ROWS]
    for row in ROWS:
        assert tried[row.name] == ([None] if row.head == "softmax" else list(GRID))


def test_no_row_owes_its_place_to_a_rate_or_an_epoch(found: Demo) -> None:
    for name, chosen in found.chosen.items():
        assert chosen.best_dev_f1 == max(value for one in found.of_row(name) for value in one.dev_f1)
        assert chosen.dev_f1[chosen.epoch - 1] == chosen.best_dev_f1
        assert len(chosen.dev_f1) == 3


def test_rows_that_did_not_share_a_grid_are_refused() -> None:
    fair = [trial(name, rate, (50.0,)) for name in ("CRF, retain", "MCRF-training") for rate in (0.001, 0.1)]
    assert set(choose_rates(fair)) == {"CRF, retain", "MCRF-training"}
    with pytest.raises(MaskedCRFError, match=r"no fair comparison.*CRF, retain at 0.001, 0.1; MCRF-training at 0.001$"):
        choose_rates(fair[:-1])


def test_a_row_takes_the_rate_with_the_best_dev_f1_whatever_its_test_f1() -> None:
    low, high = trial("CRF, retain", 0.001, (10.0, 30.0, 30.0), right=9), trial("CRF, retain", 0.1, (40.0, 20.0), 1)
    assert choose_rates([low, high]) == {"CRF, retain": high}
    assert (low.epoch, high.epoch) == (2, 1)


def test_only_unmasked_rows_have_illegal_segments(found: Demo) -> None:
    assert max(one.illegal for one in found.of_row("CRF, retain")) > 0  # too little training to know the scheme
    for one in found.trials:
        if one.row.mask != "off":
            assert one.illegal == 0
            assert one.example is None


def test_the_conclusion_follows_from_the_scores(found: Demo) -> None:
    legal, gains, rates, softmax, _ = conclusion(comparison(found, MCRF_training=(9, 10), CRF_retain=(1, 5)))
    assert "the plain CRF has 0.0 % at its best rate and 20.0 % at crf_rate 0.001" in legal
    assert "MCRF-training scores +50.0 F1 (95 % interval" in gains
    assert "no difference shown" not in gains
    assert "MCRF-training moves by 10.0, of MCRF-decoding by 0.0, of the plain CRF by 40.0" in rates
    assert "brings the softmax tagger +50.0 F1" in softmax


def test_a_loss_and_a_tie_are_told_as_they_are(found: Demo) -> None:
    # Nine of ten sentences are lost: 95 % of binomial draws from (10, 0.9) lie between 7 and 10.
    gains = conclusion(comparison(found, MCRF_training=(5, 1), CRF_retain=(5, 10)))[1]
    assert "scores -90.0 F1 (95 % interval -100.0 to -70.0) against the plain CRF" in gains
    level = conclusion(comparison(found))[1]
    assert level.count("+0.0 F1 (95 % interval +0.0 to +0.0: no difference shown)") == 2


def test_the_page_holds_conclusion_table_pictures_and_matrix(found: Demo) -> None:
    html = page(found)
    assert html.count("<section ") == 7
    assert all(text in html for text in ("MCRF-training", "no difference shown", "F1 against the rate"))
    assert html.count("<polyline") == 4 + 2 + 4
    assert html.count("class=masked") == int((~found.constraints.legal).sum() + (~found.constraints.start).sum())
    example = found.chosen["CRF, retain"].example or found.chosen["softmax, retain"].example
    assert example is not None
    assert f"to {example.broken[0].tag}" in html
    green = html.partition(".masked{stroke:")[2].partition("}")[0]
    assert f'style="stroke:{green}"><title>MCRF-training</title>' in html, "the masked CRF has one colour on the page"


def test_the_page_says_so_where_nothing_is_illegal(found: Demo) -> None:
    legal = replace(found, trials=tuple(replace(one, example=None) for one in found.trials))
    assert "tagged every test sentence legally" in page(legal)


def test_the_table_is_formatted_row_by_row(found: Demo) -> None:
    rows = table_rows(comparison(found))
    assert all(len(row) == len(HEADER) for row in rows)
    assert rows[0][:2] == ["softmax, retain", "-"]
    assert rows[3] == ["CRF, retain", "0.1", "1", "50.00", "50.00", "50.00", "50.00", "0.00"]


def test_the_command_prints_both_tables_and_writes_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"
    assert main(["demo", "--sentences", "40", "--epochs", "1", "--output", str(target)]) == 0
    captured = capsys.readouterr()
    assert "MCRF-training" in captured.out
    assert "bars from" in captured.out
    assert "training 7 of 7: MCRF at crf_rate 0.1" in captured.err
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_json_gives_every_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--sentences", "40", "--epochs", "2", "--output", str(tmp_path / "r.html"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in answer["rows"]] == [row.name for row in ROWS]
    assert len(answer["trials"]) == 3 + 4 * len(GRID)
    assert sum(one["chosen"] for one in answer["trials"]) == len(ROWS)
    assert all(len(one["dev_f1_by_epoch"]) == 2 for one in answer["trials"])
    assert len(answer["conclusion"]) == 5
    assert answer["sentences"] == {"train": 40, "dev": 40, "test": 40}


def test_a_missing_folder_is_refused_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--output", str(tmp_path / "nowhere" / "report.html")]) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err
    assert main(["demo", "--output", str(tmp_path)]) == 2
    assert f"{tmp_path} is a folder; give a file" in capsys.readouterr().err


def test_bars_are_as_long_as_their_value() -> None:
    assert [bar(value, 4.0, width=8) for value in (0.0, 1.0, 4.0)] == ["", "##", "########"]
    assert bar(0.0, 0.0, width=8) == ""
