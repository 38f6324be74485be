"""Decoding by segments: the best sum over all legal paths, found by listing them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_strategies import Case, case, cases, device
from numpy.testing import assert_allclose
from oracle import Lattice, runs

from maskedcrf import Constraints, MaskedCRF, MaskedCRFError
from maskedcrf.segmentation.choice import UNITS
from maskedcrf.tags.scheme import SCHEMES

FEW = settings(max_examples=25)


def _worths(oracle: Lattice, truth: Lattice, tags: list[str], threshold: float) -> dict[tuple[int, ...], float]:
    """The sum of (P - threshold) over the segments of every legal path; probabilities are those of `truth`.

    Of the paths whose segments all reach the threshold, if there are any, else of all.
    """
    known: dict[tuple[int, int, str], float] = {}
    worths, reaching = {}, {}
    for path in oracle.paths.tolist():
        spans = runs([tags[tag] for tag in path])
        for span in spans:
            if span not in known:
                known[span] = truth.span_probability(*span, tags)
        worths[tuple(path)] = sum(known[span] - threshold for span in spans)
        if all(round(known[span] * UNITS) >= round(threshold * UNITS) for span in spans):
            reaching[tuple(path)] = worths[tuple(path)]
    return reaching or worths


@given(drawn=cases, threshold=st.sampled_from([0.0, 0.1, 0.37, 0.5, 0.8, 1.0]))
@settings(max_examples=60)
def test_the_chosen_path_is_legal_and_has_the_best_sum(backend: str, drawn: Case, threshold: float) -> None:
    _compare(drawn, backend, threshold)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_every_scheme_with_two_types_and_narrowed_tags(backend: str, scheme: str) -> None:
    for seed in range(6):
        _compare(case(seed, scheme, types=2, narrowed=bool(seed % 2)), backend, 0.3)


@given(drawn=cases)
@FEW
def test_many_thresholds_at_once_give_what_each_gives(backend: str, drawn: Case) -> None:
    thresholds = [0.1, 0.12, 0.3, 0.31, 0.5, 0.9, 0.2]
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    together = crf.segment_candidates(**inputs, least=0.1).choose_each(thresholds)
    for threshold, answers in zip(thresholds, together, strict=True):
        alone = crf.decode_segments(**inputs, threshold=threshold)
        assert [each.tags for each in answers] == [each.tags for each in alone]


def _compare(drawn: Case, backend: str, threshold: float) -> None:
    crf, tags = drawn.layer(backend), list(drawn.constraints.tags)
    answers = crf.decode_segments(**drawn.inputs(backend), threshold=threshold)
    for oracle, answer in zip(drawn.oracles(), answers, strict=True):
        worths = _worths(oracle, oracle, tags, threshold)
        assert tuple(answer.tags) in worths
        assert [each[:3] for each in answer.segments] == runs([tags[tag] for tag in answer.tags])
        # Probabilities are compared in millionths.
        assert_allclose(worths[tuple(answer.tags)], max(worths.values()), atol=4e-6)
        exact = [oracle.span_probability(*each[:3], tags) for each in answer.segments]
        assert_allclose([each.probability for each in answer.segments], exact, atol=1e-8)


@given(drawn=cases)
@FEW
def test_without_the_mask_probabilities_are_those_of_all_paths_and_the_answer_is_legal(drawn: Case) -> None:
    crf, tags = drawn.layer("cpu", "off"), list(drawn.constraints.tags)
    answers = crf.decode_segments(**drawn.inputs("cpu"), threshold=0.4)
    for oracle, truth, answer in zip(drawn.oracles(), drawn.oracles("off"), answers, strict=True):
        worths = _worths(oracle, truth, tags, 0.4)
        assert_allclose(worths[tuple(answer.tags)], max(worths.values()), atol=4e-6)


@given(drawn=cases)
@FEW
def test_a_row_is_answered_alone_as_in_its_batch(backend: str, drawn: Case) -> None:
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    together = crf.decode_segments(**inputs, threshold=0.35)
    alone = [
        crf.decode_segments(**{name: None if one is None else one[row : row + 1] for name, one in inputs.items()},
                            threshold=0.35)[0]
        for row in range(len(together))
    ]  # fmt: skip
    assert [each.tags for each in alone] == [each.tags for each in together]


def test_all_backends_choose_alike() -> None:
    for seed in range(20):
        drawn = case(seed, "BIO", types=2)
        answers = [
            [each.tags for each in drawn.layer(name).decode_segments(**drawn.inputs(name), threshold=0.3)]
            for name in ("reference", "plain", "cpu")
        ]
        assert answers[0] == answers[1] == answers[2]


RULES = Constraints.from_scheme(["O", "B-X", "I-X"], "BIO")


def _uniform() -> MaskedCRF:
    """Every legal path is as probable as any other."""
    return MaskedCRF(RULES).zero_transitions()


def test_a_threshold_of_one_takes_what_is_certain_and_nothing_else() -> None:
    allowed = torch.tensor([[[False, True, False], [True, False, False], [True, True, True]]])
    (answer,) = _uniform().decode_segments(torch.zeros(1, 3, 3), threshold=1.0, allowed=allowed)
    assert answer.tags == [1, 0, 0]
    assert [each[:3] for each in answer.segments] == [(0, 1, "X")]


def test_a_threshold_of_zero_covers_all_it_can() -> None:
    # Two tokens have five paths: OO, OB, BO, BB, BI. P(0:1) = 2/5, P(1:2) = 2/5, P(0:2) = 1/5: two beat one.
    (answer,) = _uniform().decode_segments(torch.zeros(1, 2, 3), threshold=0.0)
    assert answer.tags == [1, 1]
    assert_allclose([each.probability for each in answer.segments], [0.4, 0.4], atol=1e-6)


def test_a_segment_as_probable_as_the_threshold_is_taken() -> None:
    (answer,) = _uniform().decode_segments(torch.zeros(1, 1, 3), threshold=0.5)
    assert answer.tags == [1]


def test_of_equal_sums_the_longer_wins_and_then_the_earlier_type() -> None:
    free = Constraints.from_scheme(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
    crf = MaskedCRF(free).zero_transitions()
    # One token has the paths O, B-X, B-Y: both types are as probable.
    (answer,) = crf.decode_segments(torch.zeros(1, 1, 5), threshold=0.2)
    assert answer.tags == [1]
    # P(O B) = P(B O) = P(B I) by these scores and no other path: (0:1) and (0:2) are as probable.
    emissions = torch.tensor([[[-torch.inf, 0.0, -torch.inf], [0.0, -torch.inf, 0.0]]])
    (answer,) = _uniform().decode_segments(emissions, threshold=0.1)
    assert answer.tags == [1, 2]


def test_where_no_token_may_be_outside_the_least_bad_segments_are_taken() -> None:
    # Without O each of B B, B I has one half, below the threshold of 0.9.
    allowed = torch.tensor([[[False, True, True]] * 2])
    (answer,) = _uniform().decode_segments(torch.zeros(1, 2, 3), threshold=0.9, allowed=allowed)
    assert answer.tags == [1, 2]


def test_the_marginal_mode_of_a_segment_may_beat_the_best_path() -> None:
    # Best path: O O with 0.4; the segment is on the others, which differ in what follows it.
    emissions = torch.log(torch.tensor([[[0.4, 0.6, 0.0], [0.5, 0.5, 0.0]]]))
    crf = _uniform()
    with torch.no_grad():
        crf.transitions[0, 0] = 1.0
    assert crf.decode(emissions) == [[0, 0]]
    (answer,) = crf.decode_segments(emissions, threshold=0.45)
    # By hand: OO .2e, OB .2, BO .3, BB .3 over .2e + .8; P(0:1) = .6 / 1.3437.
    assert [each[:3] for each in answer.segments] == []
    (answer,) = crf.decode_segments(emissions, threshold=0.44)
    assert [each[:3] for each in answer.segments] == [(0, 1, "X")]
    assert_allclose(answer.segments[0].probability, 0.6 / (0.2 * torch.e + 0.8), atol=1e-6)


def test_candidates_answer_many_thresholds_as_each_alone() -> None:
    drawn = case(3, "BIOES", types=2)
    crf, inputs = drawn.layer("cpu"), drawn.inputs("cpu")
    candidates = crf.segment_candidates(**inputs, least=0.05)
    for threshold in (0.05, 0.2, 0.6):
        assert candidates.choose(threshold) == crf.decode_segments(**inputs, threshold=threshold)
    with pytest.raises(MaskedCRFError, match="below 0.05"):
        candidates.choose(0.01)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), True, "f1"])
def test_what_is_no_probability_is_refused(threshold: object) -> None:
    with pytest.raises(MaskedCRFError, match="threshold is a probability from 0 to 1"):
        _uniform().decode_segments(torch.zeros(1, 1, 3), threshold=threshold)  # type: ignore[arg-type]


def test_rows_and_batches_without_positions_have_no_segments() -> None:
    crf = _uniform().to(device("cpu"))
    assert crf.decode_segments(torch.zeros(0, 3, 3)) == []
    assert crf.decode_segments(torch.zeros(1, 0, 3)) == [([], [])]
    assert crf.decode_segments(torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.bool)) == [([], [])]
