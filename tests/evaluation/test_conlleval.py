"""conlleval's report, to the byte, against an oracle that goes line by line."""

from __future__ import annotations

import pytest
from evaluation.line_by_line import conlleval
from evaluation.tag_strategies import pairs_of
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf import evaluate
from maskedcrf.errors import MaskedCRFError, SchemeError, ShapeError
from maskedcrf.evaluation.counts import Counts, Tally, count, count_sentences


@given(pairs_of("BIO"), st.sampled_from(["BIO", "IOB1", "IOB2"]))
def test_report_equals_conlleval_on_any_bio_or_iob1_tags(pair, scheme):
    assert evaluate(*pair, scheme=scheme).report() == conlleval(*pair)


@given(pairs_of("BIO", types=("LOC",), bare=False))
def test_report_equals_conlleval_where_neighbours_have_one_type(pair):
    assert evaluate(*pair).report() == conlleval(*pair)


def test_the_oracle_gives_a_report_worked_out_by_hand():
    gold = [["B-PER", "I-PER", "O", "B-LOC"]]
    predicted = [["B-PER", "I-PER", "O", "I-ORG"]]
    expected = (
        "processed 4 tokens with 2 phrases; found: 2 phrases; correct: 1.\n"
        "accuracy:  75.00%; precision:  50.00%; recall:  50.00%; FB1:  50.00\n"
        "              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  0\n"
        "              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  1\n"
        "              PER: precision: 100.00%; recall: 100.00%; FB1: 100.00  1\n"
    )
    assert conlleval(gold, predicted) == expected
    assert evaluate(gold, predicted).report() == expected


def test_bare_tags_are_listed_with_an_empty_type_twice_as_perl_does():
    report = evaluate([["B", "I"]], [["B", "I"]]).report()
    assert report.splitlines()[2:] == [f"{'':17}: precision: 100.00%; recall: 100.00%; FB1: 100.00  1"] * 2


def test_nothing_to_score_gives_one_line():
    assert evaluate([], []).report() == "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"
    assert evaluate([[]], [[]]).tokens == 0


@pytest.mark.parametrize("tags", [["S-X", "S-X"], ["B-X", "E-X", "B-X", "E-X"], ["B-X", "E-X", "S-X"]])
def test_bioes_neighbours_stay_apart_where_conlleval_merges_them(tags):
    assert "with 1 phrases; found: 1 phrases" in conlleval([tags], [tags])  # an error of the original
    assert evaluate([tags], [tags], scheme="BIOES").gold == 2


@given(pairs_of("BIO"))
def test_discard_scores_as_conlleval_does_once_illegal_segments_are_outside(pair):
    gold, predicted = pair
    legal = [_without_illegal(sentence) for sentence in predicted]
    assert evaluate(gold, predicted, strategy="discard").report() == conlleval(gold, legal)


def _without_illegal(sentence):
    """BIO tags with every run that starts with I- made outside, one token at a time."""
    kept, alive = [], None
    for tag in sentence:
        prefix, _, kind = tag.partition("-")
        if prefix == "B":
            alive = kind
        elif prefix == "O" or alive != kind:
            alive = None
        kept.append(tag if alive is not None else "O")
    return kept


@given(pairs_of("BIO"), st.sampled_from(["retain", "discard", "seqeval", "strict"]))
def test_counts_add_up(pair, strategy):
    parts = [count([g], [p], strategy=strategy) for g, p in zip(*pair, strict=True)]
    assert sum(parts, Counts()) == count(*pair, strategy=strategy)
    tallies = [Tally(*row) for row in count_sentences(*pair, strategy=strategy).tolist()]
    assert tallies == [part.total for part in parts]


def test_json_has_the_documented_keys_and_unrounded_percent():
    result = evaluate([["B-X", "O", "B-X", "B-Y"]], [["B-X", "O", "O", "I-X"]])
    answer = result.to_dict()
    assert list(answer) == [
        *("tokens", "accuracy", "gold", "predicted", "correct", "precision", "recall", "f1"),
        *("types", "strategy", "scheme", "signature"),
    ]
    assert answer["recall"] == pytest.approx(100 / 3)
    assert answer["types"]["Y"] == {"gold": 1, "predicted": 0, "correct": 0, "precision": 0, "recall": 0, "f1": 0}
    assert answer["signature"].startswith("scheme:BIO|illegal:retain|v:")
    assert (result.correct, result.predicted, result.precision, result.recall) == (1, 2, 50, 100 / 3)


def test_both_gives_retain_and_discard():
    results = evaluate([["O", "B-X"]], [["O", "I-X"]], strategy="both")
    assert {rule: result.f1 for rule, result in results.items()} == {"retain": 100.0, "discard": 0.0}


def test_prefix_last_and_types_with_dots_are_read():
    from maskedcrf import Scheme

    scheme = Scheme.get("BIO", prefix_last=True)
    assert evaluate([["a.b-c-B", "a.b-c-I"]], [["a.b-c-B", "a.b-c-I"]], scheme=scheme).types == {
        "a.b-c": Tally(1, 1, 1)
    }


@pytest.mark.parametrize(
    ("gold", "predicted", "error", "message"),
    [
        ([["O"]], [], ShapeError, "1 gold sentences but 0 predicted"),
        ([["O"], ["O"]], [["O"], ["O", "O"]], ShapeError, "sentence 1 has 1 gold tags but 2 predicted"),
        (["O"], ["O"], ShapeError, r"gold\[0\] is the string 'O'"),
        ([["O"]], [[None]], ShapeError, "must be strings, got None"),
        ([["O"]], [["X-A"]], SchemeError, r"predicted\[0\]\[0\]: tag 'X-A' does not fit BIO"),
        ([["O"], ["O", "S-A"]], [["O"], ["O", "O"]], SchemeError, r"gold\[1\]\[1\]: tag 'S-A' does not fit BIO"),
    ],
)
def test_input_that_cannot_be_scored_is_named(gold, predicted, error, message):
    with pytest.raises(error, match=message):
        evaluate(gold, predicted)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(MaskedCRFError, match="unknown strategy 'keep': choose one of retain"):
        evaluate([["O"]], [["O"]], strategy="keep")
