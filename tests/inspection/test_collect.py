"""Readings and what is summed up of them, against other ways to the same numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

import numpy as np
import pytest
import torch
from small_corpus import corpus

from maskedcrf.data.sentence import Sentence
from maskedcrf.evaluation.reliability import reliability
from maskedcrf.inspection import collect
from maskedcrf.inspection.collect import Calibration, Collector, GroupCounts, class_of
from maskedcrf.inspection.comparison import Comparison, inspect_pair
from maskedcrf.inspection.reading import LEAST, read_sentences
from maskedcrf.tags.scheme import Scheme

TEST = corpus(40, 9)
BIO = Scheme.get("BIO")


def test_a_reading_has_the_taggers_answers(vague):
    readings = list(read_sentences(vague, [Sentence(()), *TEST], gold_scheme=BIO))
    answers = vague.predict(TEST, probabilities=True)
    probable = vague.predict(TEST, threshold=LEAST)
    for reading, answer, all_of_them in zip(readings, answers, probable, strict=True):
        assert reading.sentence.tokens == answer.tokens
        assert reading.predicted == tuple(segment[:3] for segment in answer.segments)
        for segment, share in zip(answer.segments, answer.probabilities, strict=True):
            assert reading.probabilities[segment[:3]] == pytest.approx(share, abs=1e-6)
        expected = {segment[:3] for segment in all_of_them.segments}
        assert {span for span, share in reading.probabilities.items() if share >= LEAST} == expected
        assert set(reading.gold) <= set(reading.probabilities)


def test_entropy_and_what_is_outside_are_those_of_all_paths(vague):
    sentence, crf = Sentence(("ann", "flew", "lee"), ("B-PER", "O", "O")), vague.model.crf
    (reading,) = read_sentences(vague, [sentence], gold_scheme=BIO)
    with torch.inference_mode():
        features = vague.model.encoder.prepare([sentence])
        (ranked,) = crf.nbest(vague.model.emissions(features), features["mask"], k=7**3)
    shares = np.exp([score for _, score in ranked])
    assert shares.sum() == pytest.approx(1)
    assert reading.entropy == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-4)
    outer = crf.tags.index("O")
    outside = [
        sum(share for (path, _), share in zip(ranked, shares, strict=True) if path[n] == outer) for n in range(3)
    ]
    assert reading.outside == pytest.approx(outside, abs=1e-5)


def test_words_that_training_lacked_are_known(vague):
    (reading,) = read_sentences(vague, [Sentence(("zzz", "flew", "qqq"), ("O",) * 3)], gold_scheme=BIO)
    assert reading.unseen == {0, 2}


def test_counts_are_those_of_evaluate(vague):
    found = Collector().add_all(read_sentences(vague, TEST, gold_scheme=BIO))
    expected = vague.evaluate(TEST).retain
    totals = found.counts.array().sum(0).tolist()
    names = ["total", *found.counts.names]
    assert dict(zip(names, map(tuple, totals), strict=True)) == {
        name: (tally.correct, tally.predicted, tally.gold)
        for name, tally in {"total": expected.total, **expected.types}.items()
    }
    assert (found.sentences, found.tokens) == (len(TEST), sum(map(len, TEST)))
    for tallies in (found.by_sentence, found.by_segment, found.by_words):
        assert sum(tally.correct for tally in tallies.values()) == expected.total.correct
        assert sum(tally.gold for tally in tallies.values()) == expected.total.gold
    errors = sum(found.errors.values())
    assert sum(found.confusion.values()) == expected.total.correct + errors
    kinds = {kind: sum(n for (each, _), n in found.errors.items() if each == kind) for kind in ("missed", "invented")}
    assert errors - kinds["missed"] == expected.total.predicted - expected.total.correct
    assert errors - kinds["invented"] == expected.total.gold - expected.total.correct
    assert found.wrong_sentences == sum(not each.is_right for each in read_sentences(vague, TEST, gold_scheme=BIO))


def test_calibration_is_that_of_all_at_once():
    generator = np.random.default_rng(0)
    shares = [0.0, 1.0, *generator.random(200).tolist()]
    right = [False, True, *(generator.random(200) < 0.5).tolist()]
    found = Calibration()
    for share, is_right in zip(shares, right, strict=True):
        found.add(share, right=is_right)
    expected = reliability(shares, right)
    assert found.result().error == pytest.approx(expected.error)
    assert [each.entities for each in found.result().bins] == [each.entities for each in expected.bins]


def test_memory_does_not_grow_with_the_text(vague, monkeypatch):
    monkeypatch.setattr(collect, "GROUPS", 16)
    (reading, *_) = read_sentences(vague, TEST[:1], gold_scheme=BIO)
    wrong = replace(reading, predicted=((0, 1, "NEW"),), probabilities={**reading.probabilities, (0, 1, "NEW"): 0.5})
    found = Collector(listed=5).add_all(repeat(wrong, 500))
    assert found.counts.array().shape == (16, 1 + len(found.counts.names), 3)
    assert (len(found.wrong), len(found.uncertain), found.wrong_sentences) == (5, 5, 500)
    assert found.counts.array()[:, 0, 2].sum() == 500 * len(reading.gold)


def test_counts_by_group_are_single_sentences_while_there_is_room():
    counts = GroupCounts()
    counts.add([(0, 1, "A")], [(0, 1, "A"), (1, 2, "B")])
    counts.add([(0, 1, "B")], [])
    assert counts.array().tolist() == [[[1, 2, 1], [1, 1, 1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [0, 0, 1]]]
    assert GroupCounts().array().tolist() == [[[0, 0, 0]]]


def test_classes_have_the_names_of_their_numbers():
    assert [class_of(number, (5, 10)) for number in (1, 5, 6, 11)] == ["1 to 5", "1 to 5", "6 to 10", "11 or more"]
    assert [class_of(number, (1, 2, 3)) for number in (1, 3, 4)] == ["1", "3", "4 or more"]


def test_two_models_are_compared_sentence_by_sentence(vague, able):
    found, comparison = inspect_pair(vague, able, iter(TEST), gold_scheme=BIO)
    first, second = (tagger.evaluate(TEST).retain.total for tagger in (vague, able))
    assert found.counts.array()[:, 0].sum(0).tolist() == [first.correct, first.predicted, first.gold]
    assert comparison.counts.array()[:, 0].sum(0).tolist() == [second.correct, second.predicted, second.gold]
    assert comparison.test(found.counts).difference == pytest.approx(second.f1 - first.f1)
    assert sum(comparison.found.values()) == first.gold
    assert comparison.found[True, True] + comparison.found[True, False] == first.correct
    assert comparison.found[True, True] + comparison.found[False, True] == second.correct
    for one, other in comparison.better.best_first():
        wrong = [len(set(each.gold).symmetric_difference(each.predicted)) for each in (one, other)]
        assert wrong[0] > wrong[1]


def test_a_model_is_no_better_than_itself(vague):
    found, comparison = inspect_pair(vague, vague, iter(TEST), gold_scheme=BIO)
    assert isinstance(comparison, Comparison)
    assert (comparison.test(found.counts).difference, comparison.test(found.counts).p_value) == (0.0, 1.0)
    assert len(comparison.better) == len(comparison.worse) == 0
