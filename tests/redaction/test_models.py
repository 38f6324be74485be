"""Redaction by models of other kinds: adopted classifiers over word pieces, encoders that look around."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("transformers")

from context_corpus import documents, settings
from small_classifiers import SENTENCES, write_classifier

from maskedcrf.cli import main
from maskedcrf.data.sentence import Sentence
from maskedcrf.redaction.marks import Marks
from maskedcrf.redaction.redactor import Redactor
from maskedcrf.tagger import Tagger


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("redaction") / "classifier")


def test_words_of_several_pieces_are_hidden_whole(classifier):
    tagger = Tagger.from_pretrained(classifier)
    texts = [" ".join(words) for words in SENTENCES]
    seen = 0
    for text, redaction in zip(texts, tagger.redact(texts, threshold=0.5), strict=True):
        edges = {edge for start, end in tagger.tokenizer(text) for edge in (start, end)}
        for each in redaction.hidden:
            assert {each.start, each.end} <= edges
            seen += 1
    assert seen


def test_an_adopted_model_keeps_its_promise_in_its_folder(classifier, tmp_path):
    folder = tmp_path / "legal"
    assert main(["adopt", str(classifier), "-o", str(folder)]) == 0
    tagger = Tagger.load(folder)
    gold = [Sentence(tuple(words), each.tags) for words in SENTENCES for each in tagger.predict([words])]
    (tmp_path / "gold.jsonl").write_text(
        "".join(json.dumps({"tokens": each.tokens, "tags": each.tags}) + "\n" for each in gold * 20)
    )
    (tmp_path / "in.txt").write_text("".join(" ".join(words) + "\n" for words in SENTENCES))
    command = ["redact", str(folder), "--calibrate", str(tmp_path / "gold.jsonl"), "--miss-rate", "0.2"]
    assert main([*command, str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]) == 0
    loaded = Tagger.load(folder)
    whole = loaded.redact((tmp_path / "in.txt").read_text())
    assert (tmp_path / "out.txt").read_text() == whole.text
    assert whole.hidden


def test_a_classifier_as_it_is_has_no_place_for_a_promise(classifier, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("Ann\n")
    command = ["redact", str(classifier), str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]
    assert main([*command, "--threshold", "0"]) == 0
    assert main([*command, "--calibrate", str(tmp_path / "in.txt")]) == 2
    assert "a folder in Hugging Face's form keeps no promise" in capsys.readouterr().err


def test_a_sentence_is_read_with_its_neighbours_in_the_document(tmp_path):
    tagger = Tagger.train(documents(60), **{**settings(tmp_path / "bert"), "dev_fraction": 0.0, "epochs": 1})
    redactor = Redactor(tagger, threshold=0)
    lines = [" ".join(sentence.tokens) for sentence in documents(6, 2)]

    def scores(texts: list[str]) -> list[list[float]]:
        pieces = (redactor.piece(text, Marks(), 1)._replace(finish=lambda covers: covers) for text in texts)
        return [cover.scores.tolist() for covers in redactor.each(pieces) for cover in covers]

    in_lines, in_one = scores(lines), scores(["\n".join(lines)])
    assert in_lines == [pytest.approx(row, abs=1e-5) for row in in_one]
    alone = [row for line in lines for row in scores([line])]
    assert any(row != pytest.approx(other, abs=1e-5) for row, other in zip(in_lines, alone, strict=True))
