"""maskedcrf predict: text, columns and JSON lines in; columns, JSON lines and marked text out."""

from __future__ import annotations

import io
import json
import sys

import pytest
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.cli import main
from maskedcrf.tagger import Tagger


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    target = tmp_path_factory.mktemp("predict") / "model"
    Tagger.train(corpus(60), corpus(20, 1), output=target, **{**SMALL, "epochs": 6})
    return str(target)


def test_text_on_standard_input_becomes_columns(model, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ann flew\n\nto new york\n")))
    assert main(["predict", model, "-"]) == 0
    assert capsys.readouterr().out == "ann B-PER\nflew O\n\nto O\nnew B-LOC\nyork I-LOC\n\n"


def test_columns_are_kept_and_can_be_evaluated(model, capsys, tmp_path):
    write_conll(tmp_path / "test.conll", corpus(10, 7))
    assert main(["predict", model, str(tmp_path / "test.conll"), "-o", str(tmp_path / "out.conll")]) == 0
    before = (tmp_path / "test.conll").read_text().split("\n")
    after = (tmp_path / "out.conll").read_text().split("\n")
    assert [line.rpartition("\t")[0] for line in after] == before
    assert main(["evaluate", "--json", str(tmp_path / "out.conll")]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] > 90


def test_json_lines_keep_their_text_and_offsets(model, capsys, tmp_path):
    records = [{"text": "ann  flew to\tnew york."}, {"tokens": ["bob", "lee"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert (
        main(["predict", model, str(tmp_path / "in.jsonl"), "--format", "jsonl", "--probabilities", "--nbest", "2"])
        == 0
    )
    first, second = map(json.loads, capsys.readouterr().out.strip().split("\n"))
    assert first["text"] == records[0]["text"]
    assert [(e["type"], first["text"][e["start"] : e["end"]]) for e in first["entities"]] == [
        ("PER", "ann"),
        ("LOC", "new york"),
    ]
    assert all(0 < e["probability"] <= 1 for e in first["entities"])
    assert len(first["nbest"]) == 2
    assert second["tokens"] == ["bob", "lee"]
    assert second["tags"] == ["B-PER", "I-PER"]


def test_a_threshold_shows_what_is_not_on_the_best_path(model, capsys, tmp_path):
    (tmp_path / "in.txt").write_text("ann north bank\n")
    found = []
    for extra in ([], ["--threshold", "0.0001"]):
        assert main(["predict", model, str(tmp_path / "in.txt"), "--format", "jsonl", *extra]) == 0
        found.append(len(json.loads(capsys.readouterr().out)["entities"]))
    assert found[1] > found[0]


def test_marked_text_shows_the_entities_in_place(model, capsys, tmp_path):
    (tmp_path / "in.txt").write_text("ann flew to new york .\n\n")
    assert main(["predict", model, str(tmp_path / "in.txt"), "--format", "text"]) == 0
    assert capsys.readouterr().out == "[ann PER] flew to [new york LOC] .\n\n"


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        (b"ann\n", ["--probabilities"], "--format jsonl"),
        (b"\xff\xfe\n", [], "not UTF-8"),
        (b"{]\n", ["--input-format", "jsonl"], ":1: not JSON"),
        (b'{"tokens": 3}\n', ["--input-format", "jsonl"], ":1: neither tokens"),
        (b"a b\nc\n", ["--input-format", "conll"], ":2:"),
        (b"ann\n", ["--threshold", "7", "--format", "jsonl"], "threshold"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_two(model, capsys, tmp_path, content, arguments, said):
    (tmp_path / "in.txt").write_bytes(content)
    output = tmp_path / "out"
    assert main(["predict", model, str(tmp_path / "in.txt"), *arguments, "-o", str(output)]) == 2
    errors = capsys.readouterr().err.strip().split("\n")
    assert len(errors) == 1
    assert said in errors[0]
    assert not output.exists()


def test_a_folder_that_is_no_model_is_refused(capsys, tmp_path):
    assert main(["predict", str(tmp_path), "-"]) == 2
    assert "model.safetensors" in capsys.readouterr().err


def test_help_has_an_example(capsys):
    assert main(["predict", "--help"]) == 0
    assert "maskedcrf predict model" in capsys.readouterr().out
