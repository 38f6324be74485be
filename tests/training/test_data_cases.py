"""Odd data: each case is handled, or refused in one line before anything is trained."""

from __future__ import annotations

import logging

import pytest
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.tagger import Tagger


def train(sentences, dev=None, **more):
    return Tagger.train(sentences, dev, **{**SMALL, "epochs": 1, "dev_fraction": 0.0, **more})


def test_empty_data_are_refused():
    with pytest.raises(DataError, match="train: no sentence"):
        train([])


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "train.conll").write_text("\n\n")
    with pytest.raises(DataError, match=r"train\.conll: no sentence in it; train needs at least one"):
        train(tmp_path / "train.conll")
    with pytest.raises(DataError, match=r"train\.conll: no sentence in it; dev needs at least one"):
        train(corpus(4), [tmp_path / "train.conll"])
    with pytest.raises(DataError, match=r"^train: no sentence in it"):
        train([])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"missing\.conll"):
        train(tmp_path / "missing.conll")


def test_sentences_without_tags_are_refused_with_their_place():
    with pytest.raises(DataError, match="somewhere:7"):
        train([Sentence(("a",), None, "somewhere", 7)])


@pytest.mark.parametrize(
    "row",
    [
        ("abc", "OBI"),
        ("Ann left", ["B-PER", "O"]),
        {"tokens": ["Ann"], "ner_tags": ["B-PER"]},
        ("Ann left", {"entities": [(0, 3, "PER")]}),
        (["Ann"], ["NNP"], ["B-PER"]),
        3,
    ],
)
def test_what_is_no_pair_of_lists_is_refused(row):
    with pytest.raises(DataError, match=r"a sentence is a Sentence or a pair \(tokens, tags\), each a list of strings"):
        train([row])


def test_a_dataset_is_trained_on_as_it_is():
    datasets = pytest.importorskip("datasets")
    rows = corpus(8)
    given = {"tokens": [list(row.tokens) for row in rows], "ner_tags": [list(row.tags) for row in rows]}
    tagger = train(datasets.Dataset.from_dict(given))
    assert tagger.record.data["train"]["sentences"] == 8


def test_a_tag_set_of_only_outside_is_refused():
    with pytest.raises(DataError, match=r"^train: every tag is outside, so there is nothing to learn"):
        train([Sentence(("a", "b"), ("O", "O"))])


def test_a_character_is_trained_on_without_its_place_in_the_word(tmp_path):
    (tmp_path / "train.conll").write_text("奥0 B-LOC\n斯1 I-LOC\n陆2 I-LOC\n。0 O\n\n" * 4, encoding="utf-8")
    tagger = train(tmp_path / "train.conll", data={"first_character": True})
    assert set(tagger.model.encoder.parts["words"].vocabulary.words) == set("奥斯陆。")


def test_one_sentence_trains_even_with_a_dev_share():
    tagger = train(corpus(1), dev_fraction=0.1)
    assert len(tagger.predict([corpus(1)[0].tokens])[0].tags) == len(corpus(1)[0].tokens)


def test_gold_of_types_that_train_lacks_counts_as_not_found(caplog):
    dev = [Sentence(("x", "ann"), ("B-NEW", "B-PER"))]
    with caplog.at_level(logging.WARNING):
        tagger = train(corpus(8), dev)
    assert "dev: 1 segments of types that train lacks (NEW)" in caplog.text
    assert tagger.record.scores["dev"]["retain"]["gold"] == 2
    assert tagger.record.scores["dev"]["loss"] is None  # the model cannot express this gold


def test_inside_tags_exist_for_types_that_train_shows_as_single_tokens():
    tagger = train([Sentence(("ann",), ("B-PER",))])
    assert tagger.tags == ("O", "B-PER", "I-PER")


@pytest.mark.parametrize(("policy", "kept"), [("repair", 2), ("drop", 1)])
def test_illegal_gold_is_repaired_or_dropped_by_name(policy, kept, caplog):
    bad = Sentence(("a", "b"), ("O", "I-PER"), "gold.conll", 4)
    with pytest.raises(DataError, match=r"gold\.conll:5"):
        train([*corpus(1), bad])
    with caplog.at_level(logging.WARNING):
        tagger = train([*corpus(1), bad], illegal_gold=policy)
    assert "gold.conll:5" in caplog.text
    assert tagger.record.data["train"]["sentences"] == kept


def test_illegal_gold_in_dev_is_read_leniently():
    dev = [Sentence(("ann", "lee"), ("I-PER", "I-PER"))]
    assert train(corpus(4), dev).record.scores["dev"]["retain"]["gold"] == 1


def test_ten_thousand_tokens_train_and_are_tagged():
    long = Sentence(("ann", *["word"] * 9_999), ("B-PER", *["O"] * 9_999))
    tagger = train([long, *corpus(3)])
    assert len(tagger.predict([long.tokens])[0].tags) == 10_000


def test_emoji_and_combining_characters_keep_their_tokens_and_offsets():
    text = "👩‍👩‍👧 met Zoe\u0301 in 東京 \u200b."
    answer = train(corpus(4)).predict(text)
    assert len(answer.tags) == len(answer.tokens)
    assert [text[start:end] for start, end in answer.offsets] == list(answer.tokens)
    assert "".join(answer.tokens) == "".join(text.split())


def test_files_in_one_scheme_train_in_another_and_write_a_third(tmp_path):
    sentences = [Sentence(("ann", "oslo", "rome", "x"), ("I-PER", "I-LOC", "B-LOC", "O"))] * 8  # IOB1
    write_conll(tmp_path / "train.conll", sentences)
    tagger = train(
        tmp_path / "train.conll",
        tmp_path / "train.conll",
        file_scheme="IOB1",
        scheme="BIOES",
        output_scheme="BILOU",
        epochs=15,
    )
    assert tagger.tags[:5] == ("O", "B-LOC", "E-LOC", "I-LOC", "S-LOC")
    assert tagger.predict([sentences[0].tokens])[0].tags == ("U-PER", "U-LOC", "U-LOC", "O")
    assert tagger.record.scores["dev"]["retain"]["f1"] == 100.0
