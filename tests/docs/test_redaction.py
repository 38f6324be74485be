"""The guide to redaction: its figures are those of the results, and the results keep the promise."""

from __future__ import annotations

import json

from benchmarks import redaction_table


def test_the_tables_of_the_guide_are_those_of_the_results() -> None:
    guide = redaction_table.GUIDE.read_text(encoding="utf-8")
    assert redaction_table.written(guide) == guide, "run `python -m benchmarks.redaction_table`"


def test_the_promise_was_kept_in_every_split_of_the_results() -> None:
    kept = json.loads(redaction_table.RESULTS.read_text(encoding="utf-8"))
    rows = [row for found in kept["corpora"].values() for own in found["by_unit"].values() for row in own["rows"]]
    assert len(kept["corpora"]) == 4
    assert {row["splits"] for row in rows} == {0, kept["signature"]["splits"]}  # 0 where the sample was too small
    judged = [row for row in rows if row["splits"]]
    assert all(row["missed"] <= row["alpha"] + 2 * row["standard_error"] for row in judged)
    assert all(row["above"] <= kept["signature"]["delta"] for row in judged if row["confident"])
