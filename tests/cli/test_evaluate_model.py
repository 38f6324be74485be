"""maskedcrf evaluate MODEL FILE: what predict and evaluate give one after the other, for every format."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.cli import main
from maskedcrf.data.formats import to_bytes
from maskedcrf.tagger import Tagger
from maskedcrf.tags.segments import convert

TEST = corpus(30, 5)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    target = tmp_path_factory.mktemp("evaluate") / "model"
    Tagger.train(corpus(30), output=target, **{**SMALL, "epochs": 2, "dev_fraction": 0.0})
    return str(target)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_report_is_that_of_predict_and_evaluate_to_the_byte(model, capsys, tmp_path):
    write_conll(tmp_path / "plain.conll", TEST)
    text = "-DOCSTART-\tO\n\n" + (tmp_path / "plain.conll").read_text()
    (tmp_path / "test.conll").write_text(text)
    assert run(capsys, "predict", model, tmp_path / "test.conll", "-o", tmp_path / "both.conll")[0] == 0
    expected = run(capsys, "evaluate", tmp_path / "both.conll")
    code, out, err = run(capsys, "evaluate", model, tmp_path / "test.conll")
    assert (code, out) == (0, expected[1])
    assert out.startswith(f"processed {sum(map(len, TEST)) + 1} tokens")
    made = f"corpus:{tmp_path / 'test.conll'}|scheme:BIO|illegal:retain|model:{model}|decoding:segments at 0.5|v:"
    assert made in err


@pytest.mark.parametrize("form", ["jsonl", "doccano", "labelstudio", "csv"])
def test_every_format_has_the_scores_of_its_columns(model, capsys, tmp_path, form):
    write_conll(tmp_path / "test.conll", TEST)
    content = b"".join(to_bytes(TEST, form))
    if form == "labelstudio":  # written as suggestions; gold are annotations
        content = content.replace(b'"predictions"', b'"annotations"')
    (tmp_path / f"test.{form}").write_bytes(content)
    columns, other = (
        json.loads(run(capsys, "evaluate", "--json", model, tmp_path / name)[1])
        for name in ("test.conll", f"test.{form}")
    )
    assert {**other, "signature": ""} == {**columns, "signature": ""}
    assert columns["gold"] > 30


@pytest.mark.parametrize("command", ["evaluate", "inspect"])
def test_spans_that_fit_no_tokens_are_refused_snapped_or_dropped_as_the_message_says(model, capsys, tmp_path, command):
    path, page = tmp_path / "test.jsonl", tmp_path / "page.html"
    path.write_text('{"text": "Fly to Lima.", "spans": [{"start": 7, "end": 10, "label": "LOC"}]}\n')
    given = [command, "--json", model, path, *(["-o", page] if command == "inspect" else [])]
    code, _, err = run(capsys, *given)
    assert code == 2
    assert err.startswith(f"maskedcrf: {path}:1: span 7:10 LOC 'Lim' cuts the token 'Lima'; the nearest boundaries are")
    assert err.endswith("choose: misfits snap or drop (--misfits)\n")
    for policy, gold, done in (("snap", 1, "snapped"), ("drop", 0, "dropped")):
        code, out, err = run(capsys, *given, "--misfits", policy)
        assert code == 0
        assert f'"gold": {gold}' in out
        assert f"1 spans {done} that fit no tokens" in err


def test_scores_are_those_of_the_tagger_by_path_and_by_segments(model, capsys, tmp_path):
    write_conll(tmp_path / "test.conll", TEST)
    tagger = Tagger.load(model)
    for decoding, options in (("path", []), ("segments", ["--segment-threshold", "0.3"])):
        command = ["evaluate", "--json", model, tmp_path / "test.conll", "--decoding", decoding, *options]
        found = json.loads(run(capsys, *command)[1])
        threshold = 0.3 if options else None
        expected = tagger.evaluate(TEST, decoding=decoding, segment_threshold=threshold).retain.total
        assert (found["correct"], found["predicted"], found["f1"]) == (
            expected.correct,
            expected.predicted,
            expected.f1,
        )
    assert "decoding:segments at 0.3" in found["signature"]


def test_gold_in_another_scheme_is_named(model, capsys, tmp_path):
    write_conll(tmp_path / "bio.conll", TEST)
    write_conll(
        tmp_path / "bioes.conll", [replace(each, tags=tuple(convert(each.tags, "BIO", "BIOES"))) for each in TEST]
    )
    bio = json.loads(run(capsys, "evaluate", "--json", model, tmp_path / "bio.conll")[1])
    code, out, _ = run(capsys, "evaluate", "--json", "--scheme", "BIOES", model, tmp_path / "bioes.conll")
    assert (code, json.loads(out)["f1"], json.loads(out)["types"]) == (0, bio["f1"], bio["types"])
    code, _, err = run(capsys, "evaluate", model, tmp_path / "bioes.conll")
    assert code == 2
    assert "gold is read as BIO (--scheme)" in err


def test_an_onnx_file_is_scored_as_its_folder(model, capsys, tmp_path):
    pytest.importorskip("onnxruntime")
    write_conll(tmp_path / "test.conll", TEST)
    assert run(capsys, "export", model, tmp_path / "model.onnx")[0] == 0
    names = (model, tmp_path / "model.onnx")
    reports = [run(capsys, "evaluate", each, tmp_path / "test.conll")[1] for each in names]
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["MODEL"], "a model; give the labelled files to score it on after it"),
        (["MODEL", "plain.txt"], "plain.txt:1: no gold tags here"),
        (["MODEL", "empty.conll"], "no sentence in it"),
        (["MODEL", "gold.conll", "--predicted-column", "2"], "a model predicts"),
        (["gold.conll", "--decoding", "path"], "give a model folder first"),
        (["MODEL", "gold.conll", "--gold-column", "7"], "there is no column 7"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_a_line(model, capsys, tmp_path, arguments, reason):
    (tmp_path / "plain.txt").write_text("ann flew to oslo\n")
    (tmp_path / "empty.conll").write_text("")
    write_conll(tmp_path / "gold.conll", TEST[:2])
    given = [model if each == "MODEL" else tmp_path / each if "." in each else each for each in arguments]
    code, out, err = run(capsys, "evaluate", *given)
    assert (code, out) == (2, "")
    assert reason in err
    assert len(err.splitlines()) == 1
