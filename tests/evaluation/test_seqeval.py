"""seqeval from PyPI and our `seqeval` and `strict` strategies give the same numbers on any tags, right or wrong."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from evaluation.tag_strategies import pairs_of
from hypothesis import given

from maskedcrf import evaluate
from maskedcrf.errors import SchemeError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from seqeval import scheme as schemes
    from seqeval.metrics import sequence_labeling, v1

STRICT = {"IOB1": "BIO", "IOB2": "BIO", "IOE1": "IOE", "IOE2": "IOE", "IOBES": "BIOES", "BILOU": "BILOU"}
PREFIXES = {**STRICT, "IO": "IO", "BMES": "BMESO", "BMEWO": "BMEWO"}


def seqevals(pair, scheme=None):
    """Precision, recall, F1 and support: over all and per type, sorted by name; strict if a scheme is given."""
    score = (v1 if scheme else sequence_labeling).precision_recall_fscore_support
    options = {"scheme": scheme} if scheme else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tags it does not know (BILOU)
        return [score(*pair, average=average, zero_division=0, **options) for average in ("micro", None)]


def ours(result):
    tallies = list(result.types.values())
    rows = [[tally.precision, tally.recall, tally.f1, tally.gold] for tally in tallies]
    return (result.precision, result.recall, result.f1, result.gold), np.array(rows).reshape(-1, 4).T


def assert_same(result, expected):
    (total, types), (their_total, their_types) = ours(result), expected
    np.testing.assert_allclose(
        total, [100 * their_total[0], 100 * their_total[1], 100 * their_total[2], their_total[3]]
    )
    assert types.shape[1] == len(their_types[3])
    np.testing.assert_allclose(types[:3], 100 * np.array(their_types[:3]).reshape(3, -1))
    np.testing.assert_array_equal(types[3], their_types[3])


@pytest.mark.parametrize("name", PREFIXES)
def test_default_mode_gives_the_same_numbers_on_any_tags(name):
    @given(pairs_of(PREFIXES[name], types=("X", "Y", "a-b")))
    def compare(pair):
        if pair[0]:
            assert_same(evaluate(*pair, scheme=name, strategy="seqeval"), seqevals(pair))

    compare()


@pytest.mark.parametrize("name", STRICT)
def test_strict_mode_gives_the_same_numbers_on_any_tags(name):
    @given(pairs_of(STRICT[name], types=("X", "Y", "a-b")))
    def compare(pair):
        if pair[0]:
            expected = seqevals(pair, getattr(schemes, name))
            assert_same(evaluate(*pair, scheme=name, strategy="strict"), expected)

    compare()


@given(pairs_of("BIO"))
def test_strict_on_legal_gold_is_the_papers_discard_for_bio(pair):
    predicted = pair[1]
    legal_gold = [["B" + tag[1:] if tag[0] == "I" else tag for tag in sentence] for sentence in pair[0]]
    strict, discard = (evaluate(legal_gold, predicted, strategy=rule) for rule in ("strict", "discard"))
    assert (strict.correct, strict.predicted, strict.gold) == (discard.correct, discard.predicted, discard.gold)


@pytest.mark.parametrize(
    ("scheme", "tags", "theirs", "right", "strategy"),
    [
        # By default seqeval knows the letters B I E S only: neighbours of one type merge under BILOU and BMEWO.
        ("BILOU", ["U-X", "U-X"], 1, 2, "seqeval"),
        ("BILOU", ["B-X", "L-X", "U-X"], 1, 2, "seqeval"),
        ("BMEWO", ["W-X", "W-X"], 1, 2, "seqeval"),
        # Strict IOE1 does not see a single-token segment that touches the next of its type.
        ("IOE1", ["E-X", "I-X"], 1, 2, "strict"),
        ("IOE1", ["I-X", "E-Y", "I-Y"], 2, 3, "strict"),
    ],
)
def test_legal_tags_that_seqeval_reads_wrongly(scheme, tags, theirs, right, strategy):
    assert evaluate([tags], [tags], scheme=scheme, strategy=strategy).gold == theirs
    assert evaluate([tags], [tags], scheme=scheme, strategy="discard").predicted == right


def test_strict_iob1_takes_the_rest_of_an_illegal_segment_for_a_segment():
    tags = [["O", "B-X", "I-X"]]
    assert evaluate([["O", "O", "I-X"]], tags, scheme="IOB1", strategy="strict").correct == 1
    assert evaluate([["O", "O", "I-X"]], tags, scheme="IOB1", strategy="discard").predicted == 0


def test_strict_is_refused_for_a_scheme_seqeval_does_not_know():
    with pytest.raises(SchemeError, match="not BMES: use 'discard'"):
        evaluate([["O"]], [["O"]], scheme="BMES", strategy="strict")


def test_strict_mode_takes_types_without_the_delimiters_around_them():
    pair = [["B--X", "I--X", "O"]], [["B-X-", "I-X-", "B-X"]]
    assert_same(evaluate(*pair, scheme="BIO", strategy="strict"), seqevals(pair, schemes.IOB2))
