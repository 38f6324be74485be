"""Decoding by path or by segments: a setting of the tagger that every answer obeys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_corpus import corpus

from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.decoding import LEAST_EXPECTED, THRESHOLDS, choose_by_counts, f_scores
from maskedcrf.tagger.options import DEFAULT_THRESHOLD
from maskedcrf.tags.segments import segments, violations

DEV = corpus(40, 5)
TOKENS = [sentence.tokens for sentence in DEV]


@pytest.fixture
def own(vague: Tagger) -> Tagger:
    """A tagger of one's own over the same weights, to set things on."""
    return Tagger(vague.model, output_scheme=vague.output_scheme, record=vague.record)


def test_segments_are_the_probable_ones_and_legal(own):
    answers = own.predict(TOKENS, decoding="segments", segment_threshold=0.5, probabilities=True)
    probable = own.predict(TOKENS, threshold=0.5)
    # At one half and above no two overlap: the answer is all of them.
    assert [sorted(each.segments) for each in answers] == [sorted(each.segments) for each in probable]
    for answer in answers:
        assert violations(answer.tags, "BIO") == []
        assert segments(answer.tags, "BIO") == list(answer.segments)


def test_what_is_left_out_is_the_taggers_own(own):
    by_path = own.predict(TOKENS)
    by_segments = own.predict(TOKENS, decoding="segments", segment_threshold=0.15)
    assert by_path != by_segments
    own.decoding, own.segment_threshold = "segments", 0.15
    assert own.predict(TOKENS) == by_segments
    assert own.predict(TOKENS, decoding="path") == by_path
    assert own.evaluate(DEV) == own.evaluate(DEV, decoding="segments", segment_threshold=0.15)


def test_alone_and_in_any_batch_alike(own):
    own.decoding, own.segment_threshold = "segments", 0.2
    together = own.predict(TOKENS)
    assert [own.predict([tokens])[0] for tokens in TOKENS] == together
    assert own.predict(TOKENS, forward_tokens=8) == together


def test_scores_are_those_of_the_predictions(own):
    right = predicted = gold = 0
    for sentence, answer in zip(DEV, own.predict(TOKENS, decoding="segments", segment_threshold=0.2), strict=True):
        wanted, found = set(segments(sentence.tags, "BIO")), set(answer.segments)
        right, predicted, gold = right + len(wanted & found), predicted + len(found), gold + len(wanted)
    scores = own.evaluate(DEV, decoding="segments", segment_threshold=0.2)
    assert scores.f1 == pytest.approx(200 * right / (predicted + gold))


def test_the_choice_keeps_the_better_decoding_and_tells_its_curve(own):
    choice = own.choose_decoding(DEV)
    assert choice.path_f1 == pytest.approx(own.evaluate(DEV, decoding="path").f1)
    assert [threshold for threshold, _ in choice.curve] == list(THRESHOLDS)
    for threshold, f1 in choice.curve[::10]:
        scores = own.evaluate(DEV, decoding="segments", segment_threshold=threshold)
        assert f1 == pytest.approx(scores.f1)
    assert dict(choice.curve)[choice.threshold] == choice.segments_f1 == max(f1 for _, f1 in choice.curve)
    assert own.decoding == ("segments" if choice.segments_f1 > choice.path_f1 else "path")
    assert own.record.settings["decoding_choice"]["sentences"] == 40


def test_held_out_each_tenth_is_scored_at_the_threshold_of_the_others(own):
    choice = own.choose_decoding(DEV)
    scores = []
    for fold in range(10):
        others = [sentence for number, sentence in enumerate(DEV) if number % 10 != fold]
        threshold = own.choose_decoding(others).threshold
        scores.append(own.evaluate(DEV[fold::10], decoding="segments", segment_threshold=threshold).retain.total)
    right, found, gold = (sum(getattr(each, name) for each in scores) for name in ("correct", "predicted", "gold"))
    assert choice.held_out_f1 == pytest.approx(200 * right / (found + gold))


def test_the_path_stays_where_no_threshold_beats_it() -> None:
    # By the path both entities of either sentence; by segments one of them, whatever the threshold.
    sentence = np.array([[2, 2, 2], *[[1, 1, 2]] * len(THRESHOLDS)])
    choice = choose_by_counts(np.stack([sentence, sentence]))
    assert (choice.decoding, choice.path_f1, choice.threshold) == ("path", 100.0, DEFAULT_THRESHOLD)
    assert choice.segments_f1 == choice.held_out_f1 == pytest.approx(100 * 2 / 3)


def test_beta_moves_the_threshold() -> None:
    # A low threshold finds all of 4 and 4 wrong ones besides, a high one 2 of 4 and none wrong.
    low, high = [4, 8, 4], [2, 2, 4]
    sentence = np.array([high, *[low if threshold < 0.5 else high for threshold in THRESHOLDS]])
    counts = np.stack([sentence, sentence])
    assert choose_by_counts(counts, beta=2).threshold == 0.48
    assert choose_by_counts(counts, beta=0.5).threshold == DEFAULT_THRESHOLD
    assert choose_by_counts(counts, beta=2).segments_f1 == pytest.approx(100 * 5 * 4 / (8 + 4 * 4))
    assert f_scores([2, 2, 4], 0.5) == pytest.approx(100 * 1.25 * 2 / (2 + 0.25 * 4))


def test_the_expected_threshold_has_the_best_f1_that_the_model_expects(own):
    # P of every segment by what `predict` says of them all; what is chosen, by predicting at that threshold.
    everything = own.predict(TOKENS, threshold=LEAST_EXPECTED)
    gold = sum(entity.probability for answer in everything for entity in answer.entities)
    expected = {}
    for threshold in THRESHOLDS[::4]:
        answers = own.predict(TOKENS, decoding="segments", segment_threshold=threshold, probabilities=True)
        shares = [entity.probability for answer in answers for entity in answer.entities]
        expected[threshold] = 2 * sum(shares) / (len(shares) + gold)
    answers = own.predict(TOKENS, decoding="segments", segment_threshold="expected", probabilities=True)
    shares = [entity.probability for answer in answers for entity in answer.entities]
    assert 2 * sum(shares) / (len(shares) + gold) >= max(expected.values()) - 1e-6
    scores = own.evaluate(DEV, decoding="segments", segment_threshold="expected")
    assert scores.retain.total.predicted == len(shares)
    few = own.predict(TOKENS, decoding="segments", segment_threshold="expected", beta=0.1)
    assert sum(len(answer.entities) for answer in few) < len(shares)


def test_expected_is_over_fixed_tags_too(own):
    fixed = [{0: "B-LOC"}] * len(TOKENS)
    answers = own.predict(TOKENS, decoding="segments", segment_threshold="expected", fixed=fixed)
    assert all(answer.tags[0] == "B-LOC" for answer in answers)


def test_f1_is_the_chosen_threshold_and_refused_where_none_was_chosen(own):
    with pytest.raises(MaskedCRFError, match="no threshold was chosen for the best F1; call choose_decoding"):
        own.predict(TOKENS, decoding="segments", segment_threshold="f1")
    choice = own.choose_decoding(DEV)
    by_name = own.predict(TOKENS, decoding="segments", segment_threshold="f1")
    assert by_name == own.predict(TOKENS, decoding="segments", segment_threshold=choice.threshold)


def test_the_setting_is_saved_loaded_and_on_the_card(own, tmp_path):
    own.decoding, own.segment_threshold = "segments", 0.3
    own.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    assert (loaded.decoding, loaded.segment_threshold) == ("segments", 0.3)
    assert loaded.predict(TOKENS) == own.predict(TOKENS)
    assert "it decodes by segments, threshold 0.30" in (tmp_path / "model" / "README.md").read_text()


def test_fixed_tags_are_kept_in_segments_too(own):
    fixed = [{0: "B-LOC"}] * len(TOKENS)
    answers = own.predict(TOKENS, decoding="segments", segment_threshold=0.9, fixed=fixed)
    assert all(answer.tags[0] == "B-LOC" for answer in answers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoding": "greedy"}, "decoding must be one of path, segments"),
        ({"segment_threshold": 0.3}, "segment_threshold belongs to decoding='segments'"),
        ({"decoding": "segments", "segment_threshold": 1.5}, "threshold is a probability from 0 to 1"),
        ({"decoding": "segments", "segment_threshold": "best"}, "a probability, 'f1' or 'expected'; got 'best'"),
        ({"decoding": "segments", "segment_threshold": "expected", "beta": 0}, "beta says how many times"),
    ],
)
def test_what_is_no_decoding_is_refused(own, options, message):
    with pytest.raises(MaskedCRFError, match=message):
        own.predict(["a b"], **options)


@pytest.mark.parametrize("sentences", [DEV[:1], [replace(DEV[0], tags=None), DEV[1]]])
def test_a_choice_needs_labelled_sentences(own, sentences):
    with pytest.raises(DataError, match="labelled sentences or more|no gold tags"):
        own.choose_decoding(sentences)
