"""The guide to redaction: its figures are those of the results, and the results keep the promise."""

from __future__ import annotations

import json

from benchmarks import redaction_table


def test_the_tables_of_the_guide_are_those_of_the_results() -> None:
    guide = redaction_table.GUIDE.read_text(encoding="utf-8")
    assert redaction_table.written(guide) == guide, "run `python -m benchmarks.redaction_table`"


def test_the_promise_was_kept_in_every_split_of_the_results() -> None:
    kept = json.loads(redaction_table.RESULTS.read_text(encoding="utf-8"))
    corpora = kept["corpora"].values()
    rows = [row for found in corpora for own in found["by_unit"].values() for row in own["rows"]]
    assert len(kept["corpora"]) == 4
    assert {row["splits"] for row in rows} == {0, kept["signature"]["splits"]}  # 0 where the sample was too small
    judged = [row for row in rows if row["splits"]]
    assert all(row["missed"] <= row["alpha"] + 2 * row["standard_error"] for row in judged)
    assert all(row["above"] <= kept["signature"]["delta"] for row in judged if row["confident"])


def test_the_models_of_the_results_are_those_of_a_user_who_names_no_setting() -> None:
    for name, corpus in json.loads(redaction_table.RESULTS.read_text(encoding="utf-8"))["corpora"].items():
        made = {"mcrf": f"{name}/defaults/mcrf/0.01/1", "softmax": f"{name}/defaults/softmax/-/1"}
        assert corpus["trainings"] == made
