"""The guide to data: its table of what raw text costs is that of the results."""

from __future__ import annotations

import json

from benchmarks import raw_text
from benchmarks.dotted_corpus import dotted_corpus, names
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizer_choice import choose_for_tokens


def test_the_table_of_the_guide_is_that_of_the_results() -> None:
    guide = raw_text.GUIDE.read_text(encoding="utf-8")
    assert raw_text.written(guide) == guide, "run `python -m benchmarks.raw_text table`"


def test_raw_text_costs_at_most_a_point_wherever_it_was_measured() -> None:
    rows = json.loads(raw_text.RESULTS.read_text(encoding="utf-8"))
    assert {row["corpus"] for row in rows} == set(raw_text.CORPORA)
    assert {row["model"] for row in rows} == {"words", "minilm-l6-en"}
    assert all(row["f1"]["given"] - row["f1"]["raw"] <= 1 for row in rows)


def test_a_line_has_the_means_of_its_seeds() -> None:
    f1 = dict.fromkeys(("simple", "unicode", "spacy:en"), 50.0)
    about = {"corpus": "atis", "model": "words", "train": 4478, "epochs": 6, "tokenizer": "learned"}
    rows = [
        {**about, "f1": {"given": 90.0, "raw": 89.0, **f1}, "finer": {"given": 80.0, "raw": 79.96}},
        {**about, "f1": {"given": 92.0, "raw": 92.0, **f1}},
        {**about, "train": 1500, "f1": {"given": 70.0, "raw": 69.0, **f1}},
    ]
    assert raw_text.table(rows).splitlines()[2:] == [
        "| ATIS, 1,500 sentences: words and LSTM (6 epochs, 1 seed) | 70.0 | 69.0 (`learned`) | 1.0 "
        "| 50.0 | 50.0 | 50.0 | - |",
        "| ATIS, 4,478 sentences: words and LSTM (6 epochs, 2 seeds) | 91.0 | 90.5 (`learned`) | 0.5 "
        "| 50.0 | 50.0 | 50.0 | 80.0, 80.0 |",
    ]


def test_the_corpus_of_our_own_is_text_with_tokens_that_other_names_are_cut_like() -> None:
    train, test = dotted_corpus(200, 0, test=False), dotted_corpus(200, 1, test=True)
    for sentence in (*train, *test):
        assert sentence.text is not None
        assert tuple(sentence.text[start:end] for start, end in sentence.offsets or ()) == sentence.tokens
        assert "|" not in sentence.text
        assert "{" not in sentence.text
    assert all(not set(known) & set(others) for known, others in names().values())
    tokenizer = choose_for_tokens([Sentence(each.tokens, each.tags) for each in train]).tokenizer
    assert all(tuple(tokenizer(each.text or "")) == each.offsets for each in test)


def test_tokens_cut_again_are_read_back_on_the_tokens() -> None:
    sentence = Sentence(("the", "U.N.", "met"), ("O", "B-ORG", "O"))
    pieces, firsts = raw_text._pieces(sentence)
    assert pieces.tokens == ("the", "U", ".", "N", ".", "met")
    assert pieces.tags == ("O", "B-ORG", "I-ORG", "I-ORG", "I-ORG", "O")
    assert firsts == [0, 1, 5, 6]
