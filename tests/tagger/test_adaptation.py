"""A tagger fitted and calibrated in place: what changes, what never does, what the record keeps."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from small_classifiers import LABELS, write_classifier

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.adaptation import audit_best_tags, calibrate, gold_examples
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment

pytest.importorskip("transformers")

BIO = Scheme.get("BIO")


@pytest.fixture
def tagger(tmp_path) -> Tagger:
    return Tagger.from_pretrained(write_classifier(tmp_path / "bert"))


def labelled(tagger: Tagger, sentences: int, *, temperature: float = 2.0) -> list[Sentence]:
    """Gold drawn from the tagger's own lattice, flatter by this temperature."""
    generator = np.random.default_rng(0)
    vocabulary = np.array(["the", "cat", "sat", "mat", "a", "b", "cats", "北"])
    model, draw = tagger.model, torch.Generator().manual_seed(0)
    found = []
    with torch.inference_mode():
        for length in generator.integers(2, 7, sentences).tolist():
            words = tuple(generator.choice(vocabulary, length).tolist())
            emissions = model.emissions(model.encoder.prepare([Sentence(words)])) / temperature
            path = model.crf.sample(emissions, generator=draw)[0, 0].tolist()
            found.append(Sentence(words, tuple(tagger.tags[number] for number in path)))
    return found


def test_a_fitted_tagger_answers_alike_when_saved_and_its_record_has_the_table(tagger, tmp_path):
    gold = labelled(tagger, 80)
    fit = tagger.fit_transitions(gold)
    assert {each.recipe for each in fit.candidates} >= {"mask only", "bias, l2 1", "joint scale, l2 100"}
    assert "chosen" in str(fit)
    texts = [list(each.tokens) for each in gold]
    answers = tagger.predict(texts, probabilities=True)
    tagger.save(tmp_path / "fitted")
    loaded = Tagger.load(tmp_path / "fitted")
    assert [each.tags for each in loaded.predict(texts)] == [each.tags for each in answers]
    kept = loaded.record.settings
    assert kept["fit"]["chosen"] == fit.chosen
    assert kept["temperature"] == pytest.approx(fit.temperature)
    assert kept["fit"] == json.loads(json.dumps(fit.to_json()))


def test_fitted_answers_stay_legal(tagger):
    gold = labelled(tagger, 60)
    tagger.fit_transitions(gold)
    rules = Constraints.from_scheme(LABELS, "BIO")
    index = {tag: number for number, tag in enumerate(LABELS)}
    for answer in tagger.predict([list(each.tokens) for each in gold], nbest=3):
        for tags in (answer.tags, *(each.tags for each in answer.nbest)):
            assert not rules.violations([index[tag] for tag in tags])


def test_calibration_changes_no_path_and_brings_probabilities_nearer_to_what_happens(tagger):
    gold = labelled(tagger, 400)
    texts = [list(each.tokens) for each in gold]
    before = tagger.predict(texts, probabilities=True, decoding="path")
    found = tagger.calibrate(gold)
    assert found.temperature == pytest.approx(2, rel=0.15)  # which the gold was drawn with
    after = tagger.predict(texts, probabilities=True, decoding="path")
    assert [each.tags for each in after] == [each.tags for each in before]
    assert [each.probabilities for each in after] != [each.probabilities for each in before]
    assert found.after.error < found.before.error
    assert tagger.record.settings["temperature"] == pytest.approx(found.temperature)
    again = tagger.calibrate(gold)
    assert again.temperature == pytest.approx(1, abs=0.01)
    assert tagger.record.settings["temperature"] == pytest.approx(found.temperature * again.temperature)


@pytest.mark.parametrize("door", ["calibrate", "fit_transitions"])
def test_the_decoding_is_chosen_with_the_new_probabilities(tagger, door):
    gold = labelled(tagger, 60)
    getattr(tagger, door)(gold)
    kept = tagger.record.settings["decoding_choice"]
    own = tagger.decoding, tagger.segment_threshold
    assert own == (kept["decoding"], kept["threshold"])
    chosen = tagger.choose_decoding(gold)
    assert own == (chosen.decoding, chosen.threshold)
    assert kept["path_f1"] == pytest.approx(chosen.path_f1)
    assert [f1 for _, f1 in kept["curve"]] == pytest.approx([f1 for _, f1 in chosen.curve])


def test_gold_may_be_a_file_in_another_scheme(tagger, tmp_path):
    gold = labelled(tagger, 40)
    file = tmp_path / "gold.conll"
    file.write_text("".join("".join(f"{w} {t}\n" for w, t in zip(s.tokens, s.tags, strict=True)) + "\n" for s in gold))
    assert tagger.calibrate(file).temperature == pytest.approx(calibrate_fresh(tagger, gold), rel=5e-3)


def calibrate_fresh(tagger: Tagger, gold: list[Sentence]) -> float:
    """What a first calibration on these sentences gives, whatever was done since."""
    whole = tagger.record.settings["temperature"]
    return calibrate(tagger, gold, scheme=BIO).temperature * whole


def test_illegal_gold_is_read_as_conlleval_reads_it(tagger):
    (found,) = gold_examples(tagger.model, [Sentence(("the", "cat", "sat"), ("O", "I-PER", "I-PER"))], scheme=BIO)
    assert found.gold == {Segment(1, 3, "PER")}
    assert found.tags.tolist() == [0, 1, 2]


def test_gold_of_a_type_the_model_lacks_is_scored_but_not_fitted(tagger):
    sentences = [Sentence(("the", "cat"), ("B-PER", "B-ORG")), Sentence(("a",), ("B-LOC",))]
    first, second = gold_examples(tagger.model, sentences, scheme=BIO)
    assert first.tags is None
    assert len(first.gold) == 2
    assert second.tags.tolist() == [3]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "no labelled sentence"),
        ([Sentence((), ())], "no labelled sentence"),
        ([Sentence(("a",), None, "file.conll", 3)], "file.conll:3: no gold tags"),
        ([Sentence(("a",), ("B-ORG",))], "gold has types ORG, the model LOC, PER, none in common"),
    ],
)
def test_gold_that_says_nothing_is_refused(tagger, sentences, message):
    with pytest.raises(DataError, match=message):
        gold_examples(tagger.model, sentences, scheme=BIO)


def test_what_best_tags_alone_give_by_hand(tagger):
    """Two sentences of two words: I-PER alone is illegal, retained it is right."""

    def scores(*best: int) -> torch.Tensor:
        return 4.0 * torch.nn.functional.one_hot(torch.tensor(best), 5)

    examples = [
        gold_examples(tagger.model, [Sentence(("a", "b"), tags)], scheme=BIO)[0]._replace(emissions=emissions)
        for tags, emissions in ((("B-PER", "O"), scores(2, 0)), (("O", "B-LOC"), scores(0, 3)))
    ]
    found = audit_best_tags(examples, LABELS, BIO)
    assert found.retain.f1 == 100
    assert found.discard.f1 == pytest.approx(100 * 2 / 3)
    assert found.illegal == 50
    share = np.exp(4) / (np.exp(4) + 4)
    assert found.mean_softmax.error == pytest.approx(100 * (1 - share))


def test_progress_counts_every_sentence(tagger):
    steps: list[int] = []
    gold = labelled(tagger, 40)
    tagger.fit_transitions(gold, progress=steps.append)
    assert sum(steps) == 40


def test_calibration_of_one_sentence_is_refused(tagger):
    with pytest.raises(DataError, match="2 labelled sentences or more"):
        tagger.calibrate([Sentence(("a",), ("B-PER",))])
