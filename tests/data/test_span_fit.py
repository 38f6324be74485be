"""Spans that fit no tokens or share one: what each policy keeps, and what the report and the model's record count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_corpus import SMALL

from maskedcrf.data.annotation import ReadReport
from maskedcrf.data.formats import read_sentences
from maskedcrf.tagger import Tagger

#       0   4  7     13      21  25
TEXT = "Fly to North America soon."
SNAPPED, MISFIT = "spans snapped that fit no tokens", "spans dropped that fit no tokens"
SHARED = "overlapping spans dropped"

# name: (misfits, overlaps, spans, tags of Fly to North America soon . , counts)
CASES: dict[str, tuple[str, str, list[tuple[int, int, str]], str, dict[str, int]]] = {
    "snap: the end grows": ("snap", "error", [(7, 18, "A")], "O O B-A I-A O O", {SNAPPED: 1}),
    "snap: the start grows": ("snap", "error", [(9, 20, "A")], "O O B-A I-A O O", {SNAPPED: 1}),
    "snap: inside one token": ("snap", "error", [(14, 16, "A")], "O O O B-A O O", {SNAPPED: 1}),
    "snap: blanks at the edges fit": ("snap", "error", [(6, 13, "A")], "O O B-A O O O", {}),
    "snap: a blank has no token": ("snap", "error", [(6, 7, "A")], "O O O O O O", {MISFIT: 1}),
    "drop: the others stay": ("drop", "error", [(0, 3, "B"), (7, 18, "A")], "B-B O O O O O", {MISFIT: 1}),
    "drop: two": ("drop", "error", [(1, 3, "B"), (6, 7, "A"), (21, 25, "C")], "O O O O B-C O", {MISFIT: 2}),
    "longest: the inner goes": ("error", "longest", [(7, 12, "A"), (7, 20, "B")], "O O B-B I-B O O", {SHARED: 1}),
    "longest: the later": ("error", "longest", [(4, 12, "A"), (7, 25, "B")], "O O B-B I-B I-B O", {SHARED: 1}),
    "longest: the first of equals": ("error", "longest", [(4, 12, "A"), (7, 20, "B")], "O B-A I-A O O O", {SHARED: 1}),
    "longest: the middle beats both": (
        "error", "longest", [(0, 6, "A"), (4, 20, "B"), (13, 25, "C")], "O B-B I-B I-B O O", {SHARED: 2},
    ),
    "first: the shorter": ("error", "first", [(4, 12, "A"), (7, 25, "B")], "O B-A I-A O O O", {SHARED: 1}),
    "first: by place, not by line": ("error", "first", [(7, 25, "B"), (4, 12, "A")], "O B-A I-A O O O", {SHARED: 1}),
    "first: what is dropped blocks none": (
        "error", "first", [(0, 6, "A"), (4, 20, "B"), (13, 25, "C")], "B-A I-A O B-C I-C O", {SHARED: 1},
    ),
    "snap, then longest": (
        "snap", "longest", [(7, 14, "A"), (13, 20, "B")], "O O B-A I-A O O", {SNAPPED: 1, SHARED: 1},
    ),
    "drop, then nothing is shared": ("drop", "error", [(7, 14, "A"), (13, 20, "B")], "O O O B-B O O", {MISFIT: 1}),
}  # fmt: skip


def write(path: Path, text: str, spans: list[tuple[int, int, str]]) -> Path:
    rows = [{"start": start, "end": end, "label": label} for start, end, label in spans]
    path.write_text(json.dumps({"text": text, "spans": rows}) + "\n")
    return path


@pytest.mark.parametrize("name", CASES)
def test_each_policy_keeps_and_counts(tmp_path: Path, name: str) -> None:
    misfits, overlaps, spans, tags, counts = CASES[name]
    path, report = write(tmp_path / "data.jsonl", TEXT, spans), ReadReport()
    (found,) = read_sentences(path, misfits=misfits, overlaps=overlaps, report=report)  # type: ignore[arg-type]
    assert found.tokens == ("Fly", "to", "North", "America", "soon", ".")
    assert found.tags == tuple(tags.split())
    assert report.counts == counts
    assert len(report.places) == sum(counts.values()), "every span that is changed or left out is named"


@pytest.mark.parametrize("misfits", ["snap", "drop"])
def test_a_span_across_sentences_is_dropped_since_it_cannot_grow(tmp_path: Path, misfits: str) -> None:
    path, report = write(tmp_path / "data.jsonl", "in Lima\nNorth", [(3, 13, "A"), (8, 13, "B")]), ReadReport()
    found = [one.tags for one in read_sentences(path, misfits=misfits, report=report)]  # type: ignore[arg-type]
    assert found == [("O", "O"), ("B-B",)]
    assert report.counts == {MISFIT: 1}
    assert report.places == [
        f"{path}:1: span 3:13 A 'Lima\\nNorth' crosses a sentence break; "
        "split otherwise (--sentences, data.sentences); dropped"
    ]


def test_the_report_names_the_span_and_what_was_done(tmp_path: Path) -> None:
    path, report = write(tmp_path / "data.jsonl", TEXT, [(7, 14, "A"), (13, 20, "B")]), ReadReport()
    list(read_sentences(path, misfits="snap", overlaps="first", report=report))
    assert report.places == [
        f"{path}:1: span 7:14 A 'North A' cuts the token 'America'; the nearest boundaries are 7:20 'North America'; "
        "snapped",
        f"{path}:1: span 13:20 B 'America': A and B both cover 'America'; dropped (first kept)",
    ]


def test_the_models_record_keeps_the_counts_of_each_part(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", TEXT, [(7, 14, "A"), (13, 20, "B"), (6, 7, "A")])
    dev = write(tmp_path / "dev.jsonl", TEXT, [(7, 18, "A")])
    test = write(tmp_path / "test.jsonl", TEXT, [(7, 20, "A")])
    reading = {"misfits": "snap", "overlaps": "longest", "tokenizer": "simple"}
    Tagger.train(train, dev, test=test, output=tmp_path / "model", data=reading, **{**SMALL, "epochs": 1})
    record = json.loads((tmp_path / "model" / "config.json").read_text())["record"]["data"]
    assert record["train"]["read"] == {SNAPPED: 1, MISFIT: 1, SHARED: 1}
    assert record["dev"]["read"] == {SNAPPED: 1}
    assert "read" not in record["test"], "nothing was changed there"
