"""Suspected labels of readings written by hand."""

from __future__ import annotations

from maskedcrf.data.sentence import Sentence
from maskedcrf.inspection.reading import Reading
from maskedcrf.inspection.suspects import PRIOR, SuspectList, suspect_to_json

TOKENS = ("ann", "lee", "saw", "oslo", "town")


def reading(gold, probabilities, outside, line=1) -> Reading:
    tags = ["O"] * len(TOKENS)
    for start, end, kind in gold:
        tags[start:end] = [f"{'I' if n else 'B'}-{kind}" for n in range(end - start)]
    sentence = Sentence(TOKENS, tuple(tags), "a.conll", line)
    return Reading(sentence, tuple(gold), (), dict(probabilities), tuple(outside), 0.0, None)


def ranked(*readings):
    found = SuspectList()
    for each in readings:
        found.add(each)
    return found.ranked()


def test_every_kind_of_wrong_label_is_found_with_its_two_probabilities():
    place = (0, 2, "PER")
    cases = {
        "type": reading([place], {place: 0.1, (0, 2, "LOC"): 0.85}, [0.05, 0.05, 1, 1, 1]),
        "boundary": reading([place], {place: 0.1, (0, 1, "PER"): 0.8}, [0.1, 0.85, 1, 1, 1]),
        "both": reading([place], {place: 0.1, (0, 1, "LOC"): 0.8}, [0.1, 0.75, 1, 1, 1]),
        "superfluous": reading([place], {place: 0.1}, [0.9, 0.85, 1, 1, 1]),
        "missing": reading([], {(3, 4, "LOC"): 0.7}, [1, 1, 1, 0.2, 1]),
    }
    other = {"type": 0.85, "boundary": 0.8, "both": 0.8, "superfluous": 0.85, "missing": 0.7}
    for kind, each in cases.items():
        (found,) = ranked(each)
        assert (found.suspect.kind, found.suspect.reading_probability) == (kind, other[kind])
        assert found.suspect.gold_probability == (0.2 if kind == "missing" else 0.1)


def test_what_the_model_agrees_with_is_not_suspected():
    place = (0, 2, "PER")
    assert ranked(reading([place], {place: 0.5, (0, 1, "PER"): 0.45}, [0.05, 0.5, 1, 1, 1])) == []
    assert ranked(reading([], {(3, 4, "LOC"): 0.4}, [1, 1, 1, 0.6, 1])) == []
    # A segment that another beats is not the reading of these words; nor is one that overlaps gold.
    (found,) = ranked(reading([], {(3, 4, "LOC"): 0.3, (3, 5, "LOC"): 0.65}, [1, 1, 1, 0.05, 0.35]))
    assert found.suspect.reading == (3, 5, "LOC")


def test_the_surest_contradiction_comes_first():
    place = (0, 1, "PER")
    weak = reading([place], {place: 0.3, (0, 1, "LOC"): 0.6}, [0.1, 1, 1, 1, 1], line=1)
    strong = reading([place], {place: 0.01, (0, 1, "LOC"): 0.98}, [0.01, 1, 1, 1, 1], line=10)
    missing = reading([], {(3, 4, "LOC"): 0.8}, [1, 1, 1, 0.2, 1], line=20)
    assert [place.sentence.line for place in ranked(weak, strong, missing)] == [10, 20, 1]


def test_a_type_of_which_the_model_is_never_sure_is_not_suspected_as_a_whole():
    hard, easy = (0, 1, "HARD"), (0, 1, "EASY")
    readings = [reading([hard], {hard: 0.3, (0, 1, "X"): 0.6}, [0.1, 1, 1, 1, 1]) for _ in range(40)]
    readings += [reading([easy], {easy: 0.99}, [0.01, 1, 1, 1, 1]) for _ in range(39)]
    readings += [reading([easy], {easy: 0.4, (0, 1, "X"): 0.6}, [0.0, 1, 1, 1, 1], line=99)]
    first, *rest = ranked(*readings)
    assert first.sentence.line == 99  # although its own margin is less than that of the others
    # By hand: one margin 40 times, that of the sure ones 39 times, and the last one's.
    common, sure, odd = 0.6 - 0.3**0.5, 0.01 - 0.99**0.5, 0.6 - 0.4**0.5
    overall = (40 * common + 39 * sure + odd) / 80
    mean = (40 * common + PRIOR * overall) / (40 + PRIOR)
    assert abs(rest[0].score - (common - (mean - overall))) < 1e-12


def test_gold_of_an_unknown_type_is_not_judged():
    found = SuspectList()
    found.add(reading([(0, 1, "NEW")], {}, [1, 1, 1, 1, 1]))
    assert (found.ranked(), found.unjudged) == ([], 1)


def test_a_line_for_re_annotation_names_the_place_and_holds_the_sentence():
    (place,) = ranked(reading([], {(3, 4, "LOC"): 0.7}, [1, 1, 1, 0.2, 1], line=7))
    assert suspect_to_json(place) == {
        "file": "a.conll",
        "line": 10,
        "suspected": "missing",
        "words": "oslo",
        "gold": None,
        "reading": {"start": 3, "end": 4, "type": "LOC"},
        "gold_probability": 0.2,
        "reading_probability": 0.7,
        "score": 0.7 - 0.2**0.5,
        "tokens": list(TOKENS),
        "tags": ["O"] * 5,
    }
