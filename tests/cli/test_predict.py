"""maskedcrf predict: text, columns and JSON lines in; columns, JSON lines and marked text out."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys

import pytest
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.cli import main
from maskedcrf.files import SUFFIXES
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


def test_decoding_by_segments_overrides_the_model(model, capsys, tmp_path):
    (tmp_path / "in.txt").write_text("ann flew to new york\nblorg of north zap hired oslo\n")
    command = ["predict", model, str(tmp_path / "in.txt"), "--format", "jsonl"]
    assert main([*command, "--decoding", "segments", "--segment-threshold", "0.15"]) == 0
    found = [json.loads(line)["tags"] for line in capsys.readouterr().out.splitlines()]
    texts = (tmp_path / "in.txt").read_text().splitlines()
    answers = Tagger.load(model).predict(texts, decoding="segments", segment_threshold=0.15)
    assert found == [list(each.tags) for each in answers]
    assert main([*command, "--segment-threshold", "0.15"]) == 2
    assert "segment_threshold belongs to decoding='segments'" in capsys.readouterr().err


def test_columns_are_kept_and_can_be_evaluated(model, capsys, tmp_path):
    write_conll(tmp_path / "test.conll", corpus(10, 7))
    assert main(["predict", model, str(tmp_path / "test.conll"), "-o", str(tmp_path / "out.conll")]) == 0
    before = (tmp_path / "test.conll").read_text().split("\n")
    after = (tmp_path / "out.conll").read_text().split("\n")
    assert [line.rpartition("\t")[0] for line in after] == before
    assert main(["evaluate", "--json", str(tmp_path / "out.conll")]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] > 90


def test_json_lines_keep_their_other_fields(model, capsys, tmp_path):
    records = [{"id": 7, "text": "ann flew", "spans": []}, {"meta": {"é": [1]}, "tokens": ["bob"], "tags": ["O"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert main(["predict", model, str(tmp_path / "in.jsonl"), "--format", "jsonl"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.strip().split("\n"))
    assert (first["id"], first["spans"], first["tags"]) == (7, [], ["B-PER", "O"])
    assert (second["meta"], second["tags"], second["predicted_tags"]) == ({"é": [1]}, ["O"], ["B-PER"])
    assert main(["predict", model, str(tmp_path / "in.jsonl"), "--format", "conll"]) == 0
    assert capsys.readouterr().out == "ann B-PER\nflew O\n\nbob B-PER\n\n"
    (tmp_path / "half.jsonl").write_text('{"text": "ann", "id": "\\ud800"}')
    assert main(["predict", model, str(tmp_path / "half.jsonl"), "--format", "jsonl"]) == 2
    assert "half.jsonl:1: fields hold half a character" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("record", "added"),
    [
        ({"text": "bob"}, {"tokens", "tags", "entities"}),
        ({"tokens": ["bob"]}, {"text", "tags", "entities"}),
        ({"tokens": ["bob"], "tags": ["B-PER"]}, {"text", "predicted_tags", "entities"}),
        ({"text": "bob", "entities": ["gold"]}, {"tokens", "tags", "predicted_entities"}),
        ({"text": "Bob!", "tokens": ["bob"]}, {"predicted_text", "tags", "entities"}),
    ],
)
def test_no_field_of_a_json_line_is_written_over(model, capsys, tmp_path, record, added):
    (tmp_path / "in.jsonl").write_text(json.dumps(record))
    assert main(["predict", model, str(tmp_path / "in.jsonl"), "--format", "jsonl"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() - record.keys() == added
    assert {key: found[key] for key in record} == record
    assert found["predicted_tags" if "tags" in record else "tags"] == ["B-PER"]


def test_an_earlier_prediction_is_replaced_and_gold_stays(model, capsys, tmp_path):
    record = {"tokens": ["bob"], "tags": ["O"], "predicted_tags": ["O"]}
    (tmp_path / "in.jsonl").write_text(json.dumps(record))
    assert main(["predict", model, str(tmp_path / "in.jsonl"), "--format", "jsonl"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tags"], found["predicted_tags"]) == (["O"], ["B-PER"])


def test_who_types_is_answered_line_by_line(model):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "maskedcrf", "predict", model, "-", "--format", "text"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    with process, os.fdopen(ours, "w+b", buffering=0) as terminal:
        assert process.stderr.readline() == "maskedcrf: a text a line, answered one by one; Ctrl-D ends\n"
        for line, answer in {b"ann flew\n": b"[ann PER]", b"bob sat\n": b"[bob PER]"}.items():
            terminal.write(line)
            seen = b""
            while answer not in seen:
                seen += terminal.read(1000)
        terminal.write(b"\x04")
        assert process.wait(100) == 0


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


@pytest.mark.parametrize("name", ["in.ndjson", "IN.JSONL", "in.json", "in.JSONL.GZ"])
def test_json_lines_are_known_by_every_name_that_tag_takes(model, capsys, tmp_path, name):
    line = b'{"text": "ann flew"}\n'
    (tmp_path / name).write_bytes(gzip.compress(line) if name.endswith("GZ") else line)
    assert main(["predict", model, str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == "ann B-PER\nflew O\n\n"


@pytest.mark.parametrize("suffix", SUFFIXES["conll"])
def test_columns_are_known_by_every_name_that_tag_takes(model, capsys, tmp_path, suffix):
    path = tmp_path / f"in{suffix.upper()}"
    path.write_text("ann\tx\nflew\ty\n")
    assert main(["predict", model, str(path)]) == 0
    assert capsys.readouterr().out == "ann\tx\tB-PER\nflew\ty\tO\n\n"


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz", "-"])
def test_columns_are_columns_whatever_they_are_called(model, capsys, tmp_path, monkeypatch, name):
    columns = b"ann NNP B-PER\nflew VBD O\n\neve NNP B-PER\n"
    path = tmp_path / name
    if name == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(columns))))
    else:
        path.write_bytes(gzip.compress(columns) if name.endswith("gz") else columns)
    given = name if name == "-" else str(path)
    assert main(["predict", model, given]) == 0
    assert capsys.readouterr().out == "ann NNP B-PER B-PER\nflew VBD O O\n\neve NNP B-PER B-PER\n\n"


def test_json_lines_on_standard_input_are_read_as_such(model, capsys, monkeypatch):
    line = b'{"text": "ann flew"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(line))))
    assert main(["predict", model, "-"]) == 0
    assert capsys.readouterr().out == "ann B-PER\nflew O\n\n"


def test_a_file_that_nobody_recognises_is_never_tagged_as_text(model, capsys, tmp_path):
    (tmp_path / "in.html").write_text("<p>ann flew</p>\n")
    assert main(["predict", model, str(tmp_path / "in.html")]) == 2
    message = capsys.readouterr().err
    assert "in.html: no known format fits what is in it; say what it is (--input-format" in message
    assert main(["predict", model, str(tmp_path / "in.html"), "--input-format", "text"]) == 0


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("NO_COLOR", "")])
def test_colours_are_left_out_where_they_are_not_wanted(model, capsys, tmp_path, monkeypatch, name, value):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    (tmp_path / "in.txt").write_text("ann flew\n")
    assert main(["predict", model, str(tmp_path / "in.txt")]) == 0
    assert ("\033" in capsys.readouterr().out) == (value == "")


def test_text_and_what_is_said_to_be_text_get_no_note(model, capsys, tmp_path):
    (tmp_path / "in.txt").write_text("ann flew\n\neve left\n")
    (tmp_path / "columns.txt").write_text("ann B-PER\n")
    assert main(["predict", model, str(tmp_path / "in.txt")]) == 0
    assert main(["predict", model, str(tmp_path / "columns.txt"), "--input-format", "text"]) == 0
    assert capsys.readouterr().err == ""


def test_document_marks_stay_in_columns_with_an_outside_tag(model, capsys, tmp_path):
    path = tmp_path / "in.conll"
    path.write_text("-DOCSTART- -X-\n\nann x\nflew y\n\n-DOCSTART-\neve z\n\n-DOCSTART- -X-\n")
    assert main(["predict", model, str(path)]) == 0
    expected = "-DOCSTART- -X- O\n\nann x B-PER\nflew y O\n\n-DOCSTART- O O\neve z B-PER\n\n-DOCSTART- -X- O\n\n"
    assert capsys.readouterr().out == expected
    assert main(["predict", model, str(path), "--format", "jsonl"]) == 0
    assert [json.loads(line)["tokens"] for line in capsys.readouterr().out.splitlines()] == [["ann", "flew"], ["eve"]]


def test_comments_stay_in_columns_where_they_stood(model, capsys, tmp_path):
    path = tmp_path / "in.conll"
    path.write_text("# file\n\n# a 1\n# b\nann x\nflew y\n\n# c\n-DOCSTART-\neve z\n\n# end\n")
    assert main(["predict", model, str(path), "--comment", "#"]) == 0
    expected = "# file\n\n# a 1\n# b\nann x B-PER\nflew y O\n\n# c\n-DOCSTART- O O\neve z B-PER\n\n# end\n\n"
    assert capsys.readouterr().out == expected
    assert main(["predict", model, str(path), "--comment", "#", "--format", "jsonl"]) == 0
    assert [json.loads(line)["tokens"] for line in capsys.readouterr().out.splitlines()] == [["ann", "flew"], ["eve"]]


def test_a_file_that_is_parquet_by_its_name_alone_is_refused(model, capsys, tmp_path):
    (tmp_path / "in.pq").write_text("PAR1")
    assert main(["predict", model, str(tmp_path / "in.pq")]) == 2
    assert "in.pq: not a Parquet file that can be read" in capsys.readouterr().err


def test_errors_on_standard_input_name_it(model, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "ann"}\n{]\n')))
    assert main(["predict", model, "-", "--input-format", "jsonl"]) == 2
    assert "<stdin>:2: not JSON" in capsys.readouterr().err


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


def test_marked_text_shows_the_most_probable_of_entities_that_overlap(model, capsys, tmp_path):
    (tmp_path / "in.txt").write_text("ann lee flew to new york .\n")
    best = Tagger.load(model).predict("ann lee flew to new york .", probabilities=True).entities
    assert [each.text for each in best] == ["ann lee", "new york"]
    assert main(["predict", model, str(tmp_path / "in.txt"), "--format", "text", "--threshold", "0.0001"]) == 0
    printed = capsys.readouterr().out
    assert all(f"[{each.text} {each.type} {each.probability:.2f}]" in printed for each in best)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"ann\n", ["--probabilities"], "--format jsonl"),
        (b"ann\n", ["--nbest", "3", "--format", "text"], "marked text has no room for n-best paths"),
        (b"\xff\xfe\n", [], "not UTF-8"),
        (b"{]\n", ["--input-format", "jsonl"], ":1: not JSON"),
        (b"[3]\n", ["--input-format", "jsonl"], ":1: list where an object"),
        (b'{"tokens": 3}\n', ["--input-format", "jsonl"], ":1: tokens must be a list of strings, got int"),
        (b'{"text": ["ann"]}\n', ["--input-format", "jsonl"], ':1: text must be a string, got ["ann"]'),
        (b'{"tokens": ["a", "\\ud800"]}\n', ["--input-format", "jsonl"], ":1: tokens hold half a character"),
        (b'\n{"text": "\\ud800"}\n', ["--input-format", "jsonl", "--format", "jsonl"], ":2: text hold half a"),
        (b"a b\nc\n", ["--input-format", "conll"], ":2:"),
        (b"ann\n", ["--threshold", "7", "--format", "jsonl"], "threshold"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_two(model, capsys, tmp_path, content, arguments, message):
    (tmp_path / "in.txt").write_bytes(content)
    output = tmp_path / "out"
    assert main(["predict", model, str(tmp_path / "in.txt"), *arguments, "-o", str(output)]) == 2
    errors = capsys.readouterr().err.strip().split("\n")
    assert len(errors) == 1
    assert message in errors[0]
    assert not output.exists()


def test_a_folder_that_is_no_model_is_refused(capsys, tmp_path):
    assert main(["predict", str(tmp_path), "-"]) == 2
    assert "model.safetensors" in capsys.readouterr().err


def test_help_has_an_example(capsys):
    assert main(["predict", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "maskedcrf predict model" in printed
    assert all(re.search(rf"\{suffix}\b", printed) for form in ("conll", "jsonl") for suffix in SUFFIXES[form])


def test_tokens_are_cut_as_the_model_learnt_them(capsys, tmp_path):
    text = "".join(f"x{n} B-PER\ny{n} O\n\n" for n in range(30))
    (tmp_path / "train.conll").write_text(text)
    flags = ["--set", "data.first_character=true", "--set", "encoder.words=8", "--set", "encoder.lstm_hidden=8"]
    rest = ["--set", "epochs=20", "--set", "batch_sentences=4", "--set", "patience=0"]
    files = ["--train", str(tmp_path / "train.conll"), "--dev", str(tmp_path / "train.conll")]
    assert main(["train", *files, "-o", str(tmp_path / "model"), *flags, *rest]) == 0
    (tmp_path / "in.conll").write_text("x99 B-PER\ny77 O\n\n")
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "model.onnx")]) == 0
    for model in ("model", "model.onnx"):
        capsys.readouterr()
        assert main(["predict", str(tmp_path / model), str(tmp_path / "in.conll")]) == 0
        assert capsys.readouterr().out == "x99 B-PER B-PER\ny77 O O\n\n", "columns stay as they came"


def test_a_bare_document_mark_gets_the_columns_of_its_file(model, capsys, tmp_path):
    (tmp_path / "in.conll").write_text("-DOCSTART-\n\nann X B-PER\n\n")
    assert main(["predict", model, str(tmp_path / "in.conll"), "-o", str(tmp_path / "out.conll")]) == 0
    assert (tmp_path / "out.conll").read_text().startswith("-DOCSTART- O O O\n\nann X B-PER ")
    assert main(["evaluate", str(tmp_path / "out.conll")]) == 0
