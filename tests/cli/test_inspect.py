"""maskedcrf inspect: the page, the lists, two models, folds, and what to label next."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.cli import main
from maskedcrf.data.formats import read_sentences
from maskedcrf.tagger import Tagger

TEST = corpus(40, 9)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    target = tmp_path_factory.mktemp("inspect") / "vague"
    Tagger.train(corpus(20), output=target, **{**SMALL, "epochs": 2, "dev_fraction": 0.0})
    return str(target)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    target = tmp_path_factory.mktemp("inspect") / "able"
    Tagger.train(corpus(40), output=target, **{**SMALL, "epochs": 4, "dev_fraction": 0.0})
    return str(target)


@pytest.fixture
def gold(tmp_path):
    write_conll(tmp_path / "gold.conll", TEST)
    return str(tmp_path / "gold.conll")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_page_is_written_and_its_summary_printed(model, gold, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "inspect", model, gold)
    assert code == 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    f1 = Tagger.load(model).evaluate(gold).f1
    assert out.startswith(f"F1 {f1:.2f}, with 95 % confidence")
    assert f"corpus:{gold}|scheme:BIO|decoding:segments|model:{model}|v:" in err
    assert "wrote report.html" in err


def test_json_has_what_the_page_has_and_writes_none(model, gold, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "inspect", model, gold, "--json")
    found = json.loads(out)
    expected = json.loads(run(capsys, "evaluate", model, gold, "--json")[1])
    assert code == 0
    assert {name: found[name] for name in ("tokens", "gold", "predicted", "correct", "f1")} == {
        name: expected[name] for name in ("tokens", "gold", "predicted", "correct", "f1")
    }
    assert found["interval"]["low"] <= found["f1"] <= found["interval"]["high"]
    assert set(found["errors"]) == {"missed", "invented", "boundary", "type", "both"}
    entropies = [each["entropy"] for each in found["uncertain"]]
    assert entropies == sorted(entropies, reverse=True)
    assert not (tmp_path / "report.html").exists()


def test_suspected_labels_are_lines_that_train_reads(model, gold, capsys, tmp_path):
    path = tmp_path / "suspects.jsonl"
    assert run(capsys, "inspect", model, gold, "-o", tmp_path / "p.html", "--suspects", path)[0] == 0
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each["score"] for each in records] == sorted((each["score"] for each in records), reverse=True)
    lines = (tmp_path / "gold.conll").read_text().split("\n")
    for record in records:
        first = record["words"].split()[0]
        assert record["file"] == gold
        assert lines[record["line"] - 1].split("\t")[0] == first
    tokens = [sentence.tokens for sentence in read_sentences(path)]
    assert tokens == [tuple(record["tokens"]) for record in records]


def test_two_models_are_compared(model, other, gold, capsys, tmp_path):
    code, out, _ = run(capsys, "inspect", model, gold, other, "--json", "-o", tmp_path / "p.html")
    found = json.loads(out)
    f1 = [Tagger.load(name).evaluate(gold).f1 for name in (model, other)]
    assert code == 0
    assert found["comparison"]["difference"] == pytest.approx(f1[1] - f1[0])
    assert 0 < found["comparison"]["p_value"] <= 1
    assert "The two models" in (tmp_path / "p.html").read_text()
    assert "model&#x27;s F1 is " in (tmp_path / "p.html").read_text()
    _, out, err = run(capsys, "inspect", model, gold, other, "-o", tmp_path / "p.html")
    assert "\nthe second model's F1 is " in out
    assert "|decoding:segments,segments|" in err


def test_a_file_of_no_known_format_is_read_as_the_one_that_is_named(model, capsys, tmp_path):
    path = tmp_path / "odd"
    path.write_text("ann\nflew\n\nbob\n")
    code, _, err = run(capsys, "inspect", model, path, "--select", "2", "-o", tmp_path / "out")
    assert code == 2
    assert "--input-format" in err
    code, _, _ = run(capsys, "inspect", model, path, "--select", "2", "-o", tmp_path / "out", "--input-format", "text")
    assert code == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 2


@pytest.mark.parametrize("form", ["jsonl", "doccano", "labelstudio"])
def test_the_least_certain_sentences_are_listed_for_annotation(model, capsys, tmp_path, form):
    texts = [" ".join(sentence.tokens) for sentence in TEST]
    (tmp_path / "pool.txt").write_text("\n".join([*texts, *texts]) + "\n")
    code, out, err = run(capsys, "inspect", model, tmp_path / "pool.txt", "--select", "5", "--format", form)
    assert code == 0
    assert "5 sentences, the least certain first" in err
    tagger = Tagger.load(model)
    if form == "labelstudio":
        records = [(task["data"]["text"], task["predictions"][0]["result"]) for task in json.loads(out)]
        marked = [{(each["value"]["text"], each["value"]["labels"][0]) for each in result} for _, result in records]
    else:
        lines = [json.loads(line) for line in out.splitlines()]
        rows = [line["spans"] if form == "jsonl" else line["label"] for line in lines]
        spans = [[tuple(each.values()) if form == "jsonl" else tuple(each) for each in row] for row in rows]
        records = [(line["text"], None) for line in lines]
        marked = [{(text[a:b], kind) for a, b, kind in own} for (text, _), own in zip(records, spans, strict=True)]
    chosen = [text for text, _ in records]
    assert len(set(chosen)) == 5
    for text, own in zip(chosen, marked, strict=True):
        assert own == {(entity.text, entity.type) for entity in tagger.predict(text).entities}
    least = {" ".join(each["tokens"]) for each in _uncertain(capsys, model, tmp_path)}
    assert set(chosen) <= least


def _uncertain(capsys, model, folder):
    write_conll(folder / "gold.conll", list({each.tokens: each for each in TEST}.values()))
    found = json.loads(run(capsys, "inspect", model, folder / "gold.conll", "--json")[1])["uncertain"]
    return [each for each in found if each["entropy"] >= found[4]["entropy"]]


def test_out_of_fold_the_wrong_labels_of_training_data_are_found(capsys, tmp_path):
    sentences = corpus(60, 4)
    wrong = {5: "B-ORG", 17: "O", 31: "B-LOC"}
    for number, tag in wrong.items():
        place = next(n for n, each in enumerate(sentences[number].tags) if each.startswith("B-") and each != tag)
        tags = list(sentences[number].tags)
        tags[place] = tag
        if place + 1 < len(tags) and tags[place + 1].startswith("I-"):
            tags[place + 1] = "O"
        sentences[number] = replace(sentences[number], tags=tuple(tags))
    write_conll(tmp_path / "train.conll", sentences)
    settings = ["encoder.words=16", "encoder.lstm_hidden=16", "encoder.dropout=0.1", "optim.head_rate=0.01"]
    settings += ["batch_sentences=8", "epochs=8", "dev_fraction=0.0"]
    command = ["inspect", "--folds", "3", "--train", tmp_path / "train.conll", "--device", "cpu"]
    command += [part for each in settings for part in ("--set", each)]
    command += ["--suspects", tmp_path / "s.jsonl", "-o", tmp_path / "p.html"]
    code, out, err = run(capsys, *command)
    assert code == 0
    assert "folds:3" in err
    assert "60 sentences" in out
    first = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()[:3]]
    begins = [1]
    for sentence in sentences:
        begins.append(begins[-1] + len(sentence) + 1)
    found = {next(n for n in range(60) if begins[n] <= each["line"] < begins[n + 1]) for each in first}
    assert found == set(wrong)


def test_folds_take_the_settings_of_a_model(model, gold, capsys, tmp_path):
    command = ["inspect", model, "--folds", "2", "--train", gold, "-o", tmp_path / "p.html", "--set", "epochs=1"]
    code, _, err = run(capsys, *command)
    assert code == 0
    assert f"settings:{model}" in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no model folder given"),
        (["GOLD"], "no model folder given"),
        (["MODEL"], "is a model; give files after it"),
        (["MODEL", "MODEL", "MODEL", "GOLD"], "3 models; two at most"),
        (["MODEL", "GOLD", "--train", "GOLD"], "--train and --set belong to --folds"),
        (["MODEL", "GOLD", "--folds", "5"], "--folds judges the files after --train"),
        (["--folds", "100", "--train", "GOLD"], "100 folds of 40 sentences"),
        (["--folds", "2", "--train", "GOLD", "--set", "epocs=1"], "did you mean epochs?"),
        (["MODEL", "TEXT"], "text.txt:1: no gold tags here"),
        (["MODEL", "EMPTY"], "no sentence in it"),
        (["MODEL", "EMPTY", "--select", "3"], "no sentence in it"),
        (["MODEL", "MODEL", "GOLD", "--select", "3"], "2 models; one is asked"),
        (["MODEL", "ODD"], "odd.conll:2"),
        (["MODEL", "GOLD", "-o", "FOLDER"], "a folder; give a file to write"),
    ],
)
def test_what_cannot_be_inspected_is_refused_in_a_line(model, gold, capsys, tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("ann flew to oslo\n")
    (tmp_path / "empty.conll").write_text("")
    (tmp_path / "odd.conll").write_text("ann\tB-PER\nflew\tQ-X-Y\n")
    names = {"MODEL": model, "GOLD": gold, "TEXT": tmp_path / "text.txt", "EMPTY": tmp_path / "empty.conll"}
    names |= {"ODD": tmp_path / "odd.conll", "FOLDER": tmp_path}
    code, out, err = run(capsys, "inspect", *(names.get(each, each) for each in arguments))
    assert (code, out) == (2, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "report.html").exists()
