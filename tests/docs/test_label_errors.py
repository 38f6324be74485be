"""The guide to inspect: its table of wrong labels found is that of the results, and nobody else's list is better."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from benchmarks import label_errors
from benchmarks.label_errors import Corruption, corrupt, score
from maskedcrf.data.sentence import Sentence
from maskedcrf.tags.segments import Segment


def results() -> dict[str, Any]:
    return json.loads(label_errors.RESULTS.read_text(encoding="utf-8"))


def test_the_table_of_the_guide_is_that_of_the_results() -> None:
    table = f"{label_errors.BEGIN}\n{label_errors.table(results())}\n{label_errors.END}"
    assert table in label_errors.GUIDE.read_text(encoding="utf-8"), "run benchmarks/label_errors.py --table"


def test_no_other_list_finds_more_wrong_labels() -> None:
    assert {name.partition(" ")[0] for name in results()} == set(label_errors.SENTENCES)
    for row in results().values():
        for unit in ("places", "tokens"):
            found = {method: each[unit] for method, each in row["methods"].items()}
            assert found["inspect"] == max(found.values())


def test_a_share_of_the_segments_is_made_wrong_a_fourth_each_way() -> None:
    tags = ("O", "O", "B-PER", "I-PER", "O", "O", "B-LOC", "O", "O")
    good = [Sentence(tuple("abcdefghi"), tags) for _ in range(200)]
    bad, wrong = corrupt(good, share=0.1, seed=3)
    assert Counter(each.kind for each in wrong) == dict.fromkeys(label_errors.KINDS, 10)
    changed = {number for number, (one, other) in enumerate(zip(good, bad, strict=True)) if one.tags != other.tags}
    assert changed <= {each.sentence for each in wrong}
    assert len(changed) > 30


def test_a_wrong_place_counts_once_and_its_tokens_each() -> None:
    gold = [[Segment(0, 2, "PER")], [Segment(0, 1, "LOC")]]
    wrong = [Corruption(0, "type", 0, 2), Corruption(1, "type", 0, 1)]
    tokens = [(0, 0, 1), (0, 1, 2), (1, 3, 4), (1, 0, 1)]
    found = score(tokens, tokens, wrong, gold)
    assert found["tokens"] == 100  # both of the first two
    assert found["places"] == pytest.approx(50)  # the first of two; the other token of its segment is passed over
