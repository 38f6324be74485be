"""Sentences that only their neighbours explain: tagged with them, in any batch, and saved with the model."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest
from context_corpus import documents, settings, text_of

from maskedcrf.cli import main
from maskedcrf.data.formats import conll
from maskedcrf.data.formats.conll import read_conll
from maskedcrf.tagger import Tagger, predict

TEST = documents(30, 2)
GOLD = [sentence.tags for sentence in TEST]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The model folder of a tagger that has learnt to look around."""
    folder = tmp_path_factory.mktemp("context")
    chosen = settings(folder / "bert")
    Tagger.train(documents(60), documents(20, 1), test=TEST, output=folder / "model", **chosen)
    return folder / "model"


@pytest.fixture(scope="module")
def reader(model):
    return Tagger.load(model)


def tags(tagger, texts, **options):
    return [answer.tags for answer in tagger.predict(texts, **options)]


@pytest.mark.parametrize("forward_tokens", [1, 7, 50, None])
def test_a_list_of_sentences_is_read_with_its_neighbours_in_any_batch(reader, forward_tokens, monkeypatch):
    monkeypatch.setattr(predict, "READ_AHEAD_BATCHES", 2)  # borders of buffers fall between neighbours
    assert tags(reader, TEST, forward_tokens=forward_tokens) == GOLD
    assert list(reader.stream(iter(TEST))) == reader.predict(TEST)


def test_documents_do_not_see_each_other(reader):
    pairs = [TEST[n : n + 2] for n in range(0, len(TEST), 2)]
    turned = [sentence for pair in reversed(pairs) for sentence in pair]
    assert tags(reader, turned) == [tags for n in reversed(range(0, len(TEST), 2)) for tags in GOLD[n : n + 2]]
    for n, pair in enumerate(pairs[:4]):
        assert tags(reader, pair) == GOLD[2 * n : 2 * n + 2]


def test_words_and_texts_without_neighbours_are_all_the_same(reader):
    alone = tags(reader, [sentence.tokens for sentence in TEST])
    assert len({found for found, sentence in zip(alone, TEST, strict=True) if sentence.tokens[0] == "a"}) == 1
    assert tags(reader, [TEST[0]]) == alone[:1]
    assert tags(reader, [" ".join(sentence.tokens) for sentence in TEST]) == alone


def test_fixed_tags_and_a_gazetteer_go_with_neighbours(reader):
    assert tags(reader, TEST, fixed=[None] * len(TEST)) == GOLD
    fixed = [{1: "B-X"} if sentence.tokens[0] == "a" else None for sentence in TEST]
    expected = [(own[0], "B-X") if fix else own for own, fix in zip(GOLD, fixed, strict=True)]
    assert tags(reader, TEST, fixed=fixed) == expected


def test_scores_are_of_sentences_among_their_neighbours(reader):
    assert reader.record.scores["test"]["retain"]["f1"] == reader.evaluate(TEST).f1 == 100
    apart = [replace(sentence, document=number) for number, sentence in enumerate(TEST)]
    assert reader.evaluate(apart).f1 < 80


@pytest.mark.parametrize("block", [5, 1 << 20])
@pytest.mark.parametrize("name", ["test.conll", "test.conll.gz"])
def test_a_file_gets_the_tags_of_its_sentences_and_is_written_as_it_was(
    model, reader, tmp_path, monkeypatch, block, name
):
    monkeypatch.setattr(conll, "BLOCK", block)
    monkeypatch.setattr(predict, "FORWARD_TOKENS", {"cpu": 16})
    monkeypatch.setattr(predict, "READ_AHEAD_BATCHES", 2)
    file, text = tmp_path / name, text_of(TEST).encode()
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert main(["predict", str(model), str(file), "-o", str(tmp_path / "out.conll")]) == 0
    found = list(read_conll(tmp_path / "out.conll"))
    assert [sentence.tags for sentence in found] == tags(reader, list(read_conll(file))) == GOLD
    before = [line for line in text_of(TEST).split("\n") if line]
    after = [line for line in (tmp_path / "out.conll").read_text().split("\n") if line]
    assert [line.rpartition(" ")[0] for line in after] == before


def test_the_folder_says_how_far_the_model_looks(model, reader):
    assert reader.model.encoder.config.context == 3
    assert json.loads((model / "config.json").read_text())["encoder"]["context"] == 3
    assert '"context": 3' in (model / "README.md").read_text()


def test_a_folder_from_before_there_was_a_context_loads_without_one(model, reader, tmp_path):
    target = reader.save(tmp_path / "old")
    for file, inner in (("config.json", "encoder"), ("encoder/encoder.json", "config")):
        content = json.loads((target / file).read_text())
        del content[inner]["context"]
        content.pop("digests", None)
        (target / file).write_text(json.dumps(content))
    old = Tagger.load(target)
    assert old.model.encoder.config.context == 0
    assert tags(old, TEST) == tags(reader, [sentence.tokens for sentence in TEST])
