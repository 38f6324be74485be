"""Tagger.evaluate: from a file or from sentences, by default in the scheme the tagger answers in."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.tagger import Tagger, device
from maskedcrf.tagger.device import choose_device
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import convert

TEST = corpus(20, 2)


def in_scheme(sentences, scheme):
    return [replace(each, tags=tuple(convert(each.tags, "BIO", scheme))) for each in sentences]


def test_a_file_gets_the_scores_of_its_sentences(tagger, tmp_path):
    write_conll(tmp_path / "a.conll", TEST[:8])
    write_conll(tmp_path / "b.conll", TEST[8:])
    expected = tagger.evaluate(TEST)
    assert tagger.evaluate([str(tmp_path / "a.conll"), tmp_path / "b.conll"]) == expected
    assert tagger.evaluate([(list(each.tokens), list(each.tags)) for each in TEST]) == expected


def test_files_are_read_as_those_of_the_training_were(tmp_path):
    for name, sentences in (("train.conll", corpus(20)), ("test.conll", TEST)):
        with (tmp_path / name).open("w") as handle:
            for each in sentences:
                handle.writelines(f"x {tag} {word}\n" for word, tag in zip(each.tokens, each.tags, strict=True))
                handle.write("\n")
    settings = {**SMALL, "epochs": 1, "dev_fraction": 0.0}
    tagger = Tagger.train(tmp_path / "train.conll", data={"token_column": 2, "tag_column": 1}, **settings)
    assert tagger.evaluate(tmp_path / "test.conll") == tagger.evaluate(TEST)


def test_gold_is_in_the_scheme_the_tagger_answers_in(vague):
    other = Tagger(vague.model, output_scheme=Scheme.get("BIOES"))
    assert other.evaluate(in_scheme(TEST, "BIOES")) == vague.evaluate(TEST) == other.evaluate(TEST, scheme="BIO")


def test_a_tagger_trained_from_files_of_another_scheme_scores_its_own_data(tmp_path):
    write_conll(tmp_path / "train.conll", corpus(20))
    more = {"file_scheme": "BIO", "scheme": "BMES", "epochs": 1, "dev_fraction": 0.0}
    tagger = Tagger.train(tmp_path / "train.conll", **{**SMALL, **more})
    assert tagger.evaluate(tmp_path / "train.conll").retain.total.gold == sum(
        tag.startswith("B") for sentence in corpus(20) for tag in sentence.tags
    )


def test_a_scheme_by_its_name_is_written_as_the_tagger_writes_tags():
    def turned(tags):
        return tuple(tag if tag == "O" else "/".join(reversed(tag.split("-"))) for tag in tags)

    train, test = ([replace(each, tags=turned(each.tags)) for each in part] for part in (corpus(20), TEST))
    settings = {**SMALL, "epochs": 1, "dev_fraction": 0.0, "prefix_last": True, "delimiter": "/"}
    tagger = Tagger.train(train, **settings)
    assert tagger.evaluate(test, scheme="BIO") == tagger.evaluate(test)
    assert tagger.evaluate(test, scheme="BIO").retain.total.gold > 0


@pytest.mark.parametrize("data", [Sentence(("a",), ("O",)), {"a": "O"}, 3])
def test_what_is_no_list_of_sentences_is_refused(vague, data):
    with pytest.raises(DataError, match="labelled data are a path, or sentences in a list; got a"):
        vague.evaluate(data)


def test_one_rule_says_which_device(monkeypatch):
    assert choose_device("cpu") == choose_device(torch.device("cpu")) == torch.device("cpu")
    monkeypatch.setattr(device.torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    monkeypatch.setattr(device.torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert choose_device("auto") == torch.device("cuda", 3)
