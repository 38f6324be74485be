"""Hugging Face token classifiers, as they are and adopted: exported, served, tagged with in bulk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from service_helpers import asynchronous, connected
from small_classifiers import LABELS, SENTENCES, best_legal_path, first_piece_logits, write_classifier

from maskedcrf.bulk.formats import cut, tag
from maskedcrf.bulk.rows import Options
from maskedcrf.bulk.run import load_tagger
from maskedcrf.cli import main
from maskedcrf.onnx.export import export
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger import Tagger
from maskedcrf.tags.constraints import Constraints


@pytest.fixture(scope="module", params=["Bert", "DistilBert", "DebertaV2", "MPNet", "ModernBert"])
def classifier(request, tmp_path_factory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("doors") / request.param, request.param)


@pytest.fixture(scope="module")
def expected(classifier) -> list[list[str]]:
    """The best legal path of what transformers itself scores, by a Viterbi of the tests."""
    rules = Constraints.from_scheme(LABELS, "BIO")
    logits = [first_piece_logits(classifier, words) for words in SENTENCES]
    assert any(rules.violations(each.argmax(dim=1).tolist()) for each in logits), "nothing to make legal"
    return [list(best_legal_path(each, rules)) for each in logits]


@pytest.fixture(scope="module", params=["as it is", "adopted"])
def folder(request, classifier, tmp_path_factory) -> Path:
    if request.param == "as it is":
        return classifier
    target = tmp_path_factory.mktemp("doors") / "legal"
    assert main(["adopt", str(classifier), "-o", str(target)]) == 0
    return target


def test_the_service_answers_with_the_best_legal_path(folder, expected):
    answers = []

    @asynchronous
    async def ask() -> None:
        async with connected(tagger=Tagger.load(folder)) as client:
            for words in SENTENCES:
                answer = await client.post("/tag", json={"tokens": list(words), "probabilities": True, "nbest": 2})
                assert answer.status_code == 200
                answers.append(answer.json())

    ask()
    assert [answer["tags"] for answer in answers] == expected
    for answer in answers:
        ranked = [one["probability"] for one in answer["nbest"]]
        assert 0 < ranked[1] <= ranked[0] <= 1
        assert answer["nbest"][0]["tags"] == answer["tags"]


def test_an_exported_file_answers_with_the_best_legal_path(classifier, expected, tmp_path):
    pytest.importorskip("onnxruntime")
    export(Tagger.from_pretrained(classifier), tmp_path / "legal.onnx")
    answers = OnnxTagger.load(tmp_path / "legal.onnx").predict(list(SENTENCES))
    assert [list(answer.tags) for answer in answers] == expected


def test_bulk_tagging_writes_the_best_legal_path_of_every_row(folder, expected, tmp_path):
    given = tmp_path / "in.jsonl"
    given.write_text("".join(json.dumps({"id": n, "tokens": list(words)}) + "\n" for n, words in enumerate(SENTENCES)))
    options = Options(piece=200)
    tagger = load_tagger(folder, options)
    pieces = list(cut(str(given), "jsonl", options))
    assert len(pieces) > 1
    done = [tag(tagger, piece, path=str(given), form="jsonl", options=options) for piece in pieces]
    rows = [json.loads(line) for each in done for line in each.content.splitlines()]
    assert [row["id"] for row in rows] == list(range(len(SENTENCES)))
    assert [row["tags"] for row in rows] == expected
    assert not any(each.rejects for each in done)
