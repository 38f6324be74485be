"""The guide to redaction: its figures are those of the results, and the results keep the promise."""

from __future__ import annotations

import json

import pytest

from benchmarks import redaction_table
from experiments.result_files import read_results


def test_the_tables_of_the_guide_are_those_of_the_results() -> None:
    guide = redaction_table.GUIDE.read_text(encoding="utf-8")
    assert redaction_table.written(guide) == guide, "run `python -m benchmarks.redaction_table`"


def test_the_promise_was_kept_in_every_split_of_the_results() -> None:
    kept = json.loads(redaction_table.RESULTS.read_text(encoding="utf-8"))
    corpora = [*kept["corpora"].values(), *kept["defaults"].values()]
    rows = [row for found in corpora for own in found["by_unit"].values() for row in own["rows"]]
    assert len(kept["corpora"]) == 4
    assert {row["splits"] for row in rows} == {0, kept["signature"]["splits"]}  # 0 where the sample was too small
    judged = [row for row in rows if row["splits"]]
    assert all(row["missed"] <= row["alpha"] + 2 * row["standard_error"] for row in judged)
    assert all(row["above"] <= kept["signature"]["delta"] for row in judged if row["confident"])


def test_the_models_of_the_results_are_those_of_the_trial() -> None:
    lines = read_results()
    for corpus in json.loads(redaction_table.RESULTS.read_text(encoding="utf-8"))["corpora"].values():
        for head, row in (("mcrf", "MCRF-training"), ("softmax", "softmax-retain")):
            found = lines[corpus["trainings"][head]]["rows"][row]["test"]["f1"]
            assert corpus["f1"][head] == pytest.approx(found)
