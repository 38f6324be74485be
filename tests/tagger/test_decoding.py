"""Decoding by path or by segments: a setting of the tagger that every answer obeys."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_corpus import corpus

from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.decoding import THRESHOLDS
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
    assert dict(choice.curve)[choice.threshold] == max(f1 for _, f1 in choice.curve)
    assert own.decoding == ("segments" if choice.segments_f1 > choice.path_f1 else "path")
    assert own.record.settings["decoding"]["sentences"] == 40


def test_each_half_is_scored_at_the_threshold_of_the_other(own):
    choice = own.choose_decoding(DEV)
    first, second = DEV[0::2], DEV[1::2]
    own_choices = [own.choose_decoding(half).threshold for half in (first, second)]
    scores = [
        own.evaluate(half, decoding="segments", segment_threshold=threshold).retain.total
        for half, threshold in zip((first, second), own_choices[::-1], strict=True)
    ]
    right, found, gold = (sum(getattr(each, name) for each in scores) for name in ("correct", "predicted", "gold"))
    assert choice.segments_f1 == pytest.approx(200 * right / (found + gold))


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
    ("asked", "message"),
    [
        ({"decoding": "greedy"}, "decoding must be one of path, segments"),
        ({"segment_threshold": 0.3}, "segment_threshold belongs to decoding='segments'"),
        ({"decoding": "segments", "segment_threshold": 1.5}, "threshold is a probability from 0 to 1"),
    ],
)
def test_what_is_no_decoding_is_refused(own, asked, message):
    with pytest.raises(MaskedCRFError, match=message):
        own.predict(["a b"], **asked)


@pytest.mark.parametrize("sentences", [DEV[:1], [replace(DEV[0], tags=None), DEV[1]]])
def test_a_choice_needs_labelled_sentences(own, sentences):
    with pytest.raises(DataError, match="labelled sentences or more|no gold tags"):
        own.choose_decoding(sentences)
