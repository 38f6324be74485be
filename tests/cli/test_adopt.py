"""maskedcrf adopt: what was understood, what changed, and a model that every command takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

from small_classifiers import SENTENCES, write_classifier

from maskedcrf.cli import main
from maskedcrf.tagger import Tagger


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("adopt")
    classifier = write_classifier(target / "classifier")
    answers = Tagger.from_pretrained(classifier).predict([list(words) for words in SENTENCES] * 2)
    rows = ("".join(f"{token} {tag}\n" for token, tag in zip(a.tokens, a.tags, strict=True)) for a in answers)
    (target / "gold.conll").write_text("\n".join(rows))
    return target


def test_labels_figures_and_the_table_are_told_and_the_model_is_saved(folder, tmp_path, capsys):
    source, gold, target = str(folder / "classifier"), str(folder / "gold.conll"), str(tmp_path / "legal")
    assert main(["adopt", source, "-o", target, "--fit", gold]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("5 of 5 labels read as BIO: O, B-PER, I-PER, B-LOC, I-LOC\n")
    for line in ("best tag of each word, illegal retained", "mask only, one temperature", "fitted: ", "bias, l2 10"):
        assert line in output.out
    assert output.err.endswith(f"maskedcrf: {target}: saved; maskedcrf predict {target} tags with it\n")
    fitted = Tagger.load(target)
    assert fitted.record.settings["fit"]["sentences"] == 2 * len(SENTENCES)
    (tmp_path / "text.conll").write_text("the O\ncat O\n")
    assert main(["predict", target, str(tmp_path / "text.conll")]) == 0


def test_json_has_all_of_it(folder, tmp_path, capsys):
    arguments = ["adopt", str(folder / "classifier"), "-o", str(tmp_path / "legal"), "--json"]
    assert main([*arguments, "--fit", str(folder / "gold.conll")]) == 0
    output = json.loads(capsys.readouterr().out)
    # The gold is what the mask gives: nothing is left to gain.
    assert output["fit"]["chosen"] == "mask only"
    assert output["fit"]["candidates"][0]["f1"] == 100
    assert output["best tags"]["illegal"] > 0
    assert output["best tags"]["retain"]["f1"] < 100
    assert output["labels"]["scheme"] == "BIO"


def test_gold_that_is_text_is_cut_as_the_model_cuts_text(folder, tmp_path, capsys):
    tagger = Tagger.from_pretrained(folder / "classifier")
    answers = tagger.predict(["the cat_sat", "cats,mat"] * 12)
    assert any("_" in answer.tokens for answer in answers)
    rows = [
        {"text": a.text, "spans": [{"start": e.start, "end": e.end, "label": e.type} for e in a.entities]}
        for a in answers
    ]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["adopt", str(folder / "classifier"), "-o", str(tmp_path / "legal"), "--json"]
    assert main([*arguments, "--fit", str(tmp_path / "gold.jsonl")]) == 0
    assert json.loads(capsys.readouterr().out)["fit"]["candidates"][0]["f1"] == 100


def test_gold_of_another_scheme_is_named_or_refused(folder, tmp_path, capsys):
    gold = (folder / "gold.conll").read_text()
    (tmp_path / "gold.conll").write_text("".join(f"{line} E-PER\n" for line in ("the", "cat")) + "\n" + gold)
    arguments = ["adopt", str(folder / "classifier"), "-o", str(tmp_path / "legal")]
    assert main([*arguments, "--fit", str(tmp_path / "gold.conll")]) == 2
    output = capsys.readouterr().err
    assert "'E-PER' does not fit BIO" in output
    assert "--gold-scheme" in output
    assert output.count("\n") == 1


def test_every_command_takes_the_folder_as_it_is(folder, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("the cat sat\n")
    assert main(["predict", str(folder / "classifier"), str(tmp_path / "text.txt"), "--format", "jsonl"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tags"]) == 3
    pytest.importorskip("onnxruntime")
    assert main(["export", str(folder / "classifier"), str(tmp_path / "legal.onnx")]) == 0
    assert main(["predict", str(tmp_path / "legal.onnx"), str(tmp_path / "text.txt"), "--format", "jsonl"]) == 0


def test_labels_and_transitions_may_be_given(folder, tmp_path, capsys):
    nameless = write_classifier(tmp_path / "nameless", labels=["LABEL_0", "LABEL_1", "LABEL_2"])
    assert main(["adopt", str(nameless), "-o", str(tmp_path / "legal")]) == 2
    assert "give labels=" in capsys.readouterr().err
    (tmp_path / "labels.txt").write_text("O\nB-X\nI-X\n")
    scores = np.arange(9.0).reshape(3, 3)
    np.save(tmp_path / "scores.npy", scores)
    options = ["--labels", str(tmp_path / "labels.txt"), "--transitions", str(tmp_path / "scores.npy")]
    assert main(["adopt", str(nameless), "-o", str(tmp_path / "legal"), *options]) == 0
    loaded = Tagger.load(tmp_path / "legal")
    assert loaded.tags == ("O", "B-X", "I-X")
    found = loaded.model.crf.transitions.detach().numpy()
    scores[0, 2] = 0  # O to I-X is illegal
    np.testing.assert_array_equal(found, scores)


def test_an_onnx_file_becomes_a_legal_one(folder, tmp_path, capsys):
    onnx_tests = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    table = numpy_helper.from_array(np.eye(6, 3, dtype=np.float32), "table")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["logits"], axis=0)],
        "theirs",
        [value("input_ids", TensorProto.INT64, ["batch", "length"])],
        [value("logits", TensorProto.FLOAT, ["batch", "length", 3])],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx_tests.save(model, tmp_path / "theirs.onnx")
    source, target = str(tmp_path / "theirs.onnx"), tmp_path / "legal.onnx"
    assert main(["adopt", source, "-o", str(target)]) == 2
    assert "give --labels FILE" in capsys.readouterr().err
    (tmp_path / "labels.txt").write_text("O\nB-X\nI-X\n")
    labels = ["--labels", str(tmp_path / "labels.txt")]
    assert main(["adopt", source, "-o", str(target), *labels, "--fit", "gold.conll"]) == 2
    assert "--fit needs the model's folder" in capsys.readouterr().err
    assert main(["adopt", source, "-o", str(target), *labels, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == ["input_ids", "word_mask"]
    target.unlink()
    assert main(["adopt", source, "-o", str(target), *labels]) == 0
    assert capsys.readouterr().out.startswith("3 of 3 labels read as BIO")


def test_what_is_there_is_not_overwritten_unasked(folder, tmp_path, capsys):
    (tmp_path / "legal").mkdir()
    (tmp_path / "legal" / "mine.txt").write_text("kept")
    arguments = ["adopt", str(folder / "classifier"), "-o", str(tmp_path / "legal")]
    assert main(arguments) == 2
    assert "there is something already" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 2
    assert "mine.txt is no part of a model" in capsys.readouterr().err
    assert (tmp_path / "legal" / "mine.txt").read_text() == "kept"


def test_scores_that_are_no_array_are_refused(folder, tmp_path, capsys):
    (tmp_path / "scores.npy").write_bytes(b"no array")
    arguments = ["adopt", str(folder / "classifier"), "-o", str(tmp_path / "legal")]
    assert main([*arguments, "--transitions", str(tmp_path / "scores.npy")]) == 2
    output = capsys.readouterr().err
    assert "not an array of numpy" in output
    assert output.count("\n") == 1
    assert not (tmp_path / "legal").exists()
