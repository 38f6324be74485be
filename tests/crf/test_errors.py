"""What the layer refuses, and what it says."""

from __future__ import annotations

import copy

import pytest
import torch
from drawing import device

from maskedcrf import Constraints, MaskedCRF
from maskedcrf.errors import ConstraintError, IllegalPathError, ShapeError

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture
def crf(backend: str) -> MaskedCRF:
    return MaskedCRF(TAGS, scheme="BIO", backend=backend).to(device(backend))


@pytest.fixture
def emissions(backend: str) -> torch.Tensor:
    return torch.zeros(2, 3, 5, device=device(backend))


def _raised(crf: MaskedCRF, *arguments: torch.Tensor, **named: torch.Tensor) -> None:
    """Compute a loss; on a GPU the error comes with the next call, once the device is done."""
    crf(*arguments, **named)
    if arguments[0].is_cuda:
        torch.cuda.synchronize()
        crf(*arguments, **named)


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ([0, 0, 2], r"row 1, position 2: gold steps from O to I-PER, which BIO forbids"),
        ([2, 2, 0], r"row 1, position 0: gold steps from the start to I-PER"),
        ([1, 4, 0], r"row 1, position 1: gold steps from B-PER to I-LOC"),
        ([0, 9, 0], r"row 1, position 1: 9 is no tag id, ids run from 0 to 4"),
        ([0, -100, 0], r"row 1, position 1: -100 is no tag id.*pass mask=tags != -100"),
    ],
)
def test_illegal_gold_is_named_by_row_position_and_tags(
    crf: MaskedCRF, emissions: torch.Tensor, gold: list[int], message: str
) -> None:
    tags = torch.tensor([[0, 1, 2], gold], device=emissions.device)
    with pytest.raises(IllegalPathError, match=message):
        _raised(crf, emissions, tags)


def test_an_illegal_end_is_named(backend: str) -> None:
    crf = MaskedCRF(["O", "B-X", "I-X", "E-X", "S-X"], scheme="BIOES", backend=backend).to(device(backend))
    emissions = torch.zeros(1, 2, 5, device=device(backend))
    with pytest.raises(IllegalPathError, match=r"row 0, position 1: gold steps from B-X to the end"):
        _raised(crf, emissions, torch.tensor([[0, 1]], device=device(backend)))


def test_positions_are_the_callers_own_under_a_mask_with_holes(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    mask = torch.tensor([[False, True, True], [True, False, True]], device=emissions.device)
    tags = torch.tensor([[-100, 0, 0], [0, -100, 2]], device=emissions.device)
    with pytest.raises(IllegalPathError, match="row 1, position 2: gold steps from O to I-PER"):
        _raised(crf, emissions, tags, mask)


def test_illegal_gold_is_fine_where_the_loss_is_not_masked(emissions: torch.Tensor, backend: str) -> None:
    for mask in ("decode", "off"):
        crf = MaskedCRF(TAGS, scheme="BIO", mask=mask, backend=backend).to(emissions.device)
        assert crf(emissions, torch.full((2, 3), 2, device=emissions.device)).isfinite()


def test_gold_outside_the_allowed_set_is_named(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    allowed = torch.ones(2, 3, 5, dtype=torch.bool, device=emissions.device)
    allowed[0, 1, 1] = False
    tags = torch.tensor([[0, 1, 2], [0, 1, 2]], device=emissions.device)
    with pytest.raises(IllegalPathError, match="row 0, position 1: gold tag B-PER is not in the allowed set"):
        _raised(crf, emissions, tags, allowed=allowed)


@pytest.mark.parametrize(
    "ask",
    [
        lambda crf, e, a: crf.decode(e, allowed=a),
        lambda crf, e, a: crf.nbest(e, k=2, allowed=a),
        lambda crf, e, a: crf.marginals(e, allowed=a),
        lambda crf, e, a: crf.sample(e, allowed=a),
        lambda crf, e, a: crf.entropy(e, allowed=a),
        lambda crf, e, a: crf.log_partition(e, allowed=a),
        lambda crf, e, a: crf.partial_loss(e, a),
        lambda crf, e, a: crf.span_probability(e, [[], []], allowed=a),
    ],
)
def test_a_row_with_no_legal_path_is_an_error_never_nan(crf: MaskedCRF, emissions: torch.Tensor, ask) -> None:
    allowed = torch.ones(2, 3, 5, dtype=torch.bool, device=emissions.device)
    allowed[1, :, [0, 1, 3]] = False  # only I- tags are left, and none may start

    def ask_until_the_device_is_done() -> None:
        ask(crf, emissions, allowed)
        if emissions.is_cuda:
            torch.cuda.synchronize()
            ask(crf, emissions, allowed)

    with pytest.raises(IllegalPathError, match="row 1: no legal path over its 3 labelled positions"):
        ask_until_the_device_is_done()


def test_log_prob_of_an_illegal_path_is_minus_infinity(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    tags = torch.tensor([[0, 1, 2], [0, 0, 2]], device=emissions.device)
    found = crf.log_prob(emissions, tags)
    assert found[0].isfinite()
    assert found[1] == -torch.inf


def test_nan_emissions_are_named(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    emissions[1, 2, 0] = torch.nan
    with pytest.raises(IllegalPathError, match="row 1, position 2: emissions are NaN"):
        _raised(crf, emissions, torch.zeros(2, 3, dtype=torch.long, device=emissions.device))


def test_diverged_transitions_are_named(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    torch.nn.init.constant_(crf.transitions, torch.nan)
    with pytest.raises(IllegalPathError, match="has training diverged"):
        _raised(crf, emissions, torch.zeros(2, 3, dtype=torch.long, device=emissions.device))


SHAPES = [
    ({"emissions": torch.zeros(2, 3, 4)}, r"emissions must be \(B, T, 5\), got \(2, 3, 4\)"),
    ({"emissions": torch.zeros(3, 5)}, r"emissions must be \(B, T, 5\), got \(3, 5\)"),
    ({"emissions": torch.zeros(2, 3, 5, dtype=torch.long)}, "emissions must be floating point, got torch.int64"),
    ({"tags": torch.zeros(2, 4, dtype=torch.long)}, r"tags must be \(2, 3\) like the emissions, got \(2, 4\)"),
    ({"tags": torch.zeros(2, 3)}, "tags must be integers, got torch.float32"),
    ({"mask": torch.ones(2, 4, dtype=torch.bool)}, r"mask must be \(2, 3\) like the emissions, got \(2, 4\)"),
    ({"mask": torch.ones(2, 3)}, r"mask must be Boolean, got torch.float32: write mask > 0"),
    ({"allowed": torch.ones(2, 3, dtype=torch.bool)}, r"allowed must be \(2, 3, 5\) like the emissions"),
    ({"allowed": torch.ones(2, 3, 5)}, "allowed must be Boolean, got torch.float32"),
]


@pytest.mark.parametrize(("wrong", "message"), SHAPES)
def test_wrong_shapes_and_dtypes_are_named(wrong: dict[str, torch.Tensor], message: str) -> None:
    given = {"emissions": torch.zeros(2, 3, 5), "tags": torch.zeros(2, 3, dtype=torch.long), **wrong}
    with pytest.raises(ShapeError, match=message):
        MaskedCRF(TAGS, scheme="BIO")(**given)


def test_wrong_words_are_named() -> None:
    with pytest.raises(ValueError, match="mask must be one of train, decode, off, got 'on'"):
        MaskedCRF(TAGS, scheme="BIO", mask="on")
    with pytest.raises(ValueError, match="backend must be one of"):
        MaskedCRF(TAGS, scheme="BIO", backend="tpu")
    with pytest.raises(ValueError, match="reduction must be one of mean, sum, token_mean, none"):
        MaskedCRF(TAGS)(torch.zeros(1, 1, 5), torch.zeros(1, 1, dtype=torch.long), reduction="average")
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        MaskedCRF(TAGS).nbest(torch.zeros(1, 1, 5), k=0)
    with pytest.raises(ConstraintError, match="not both"):
        MaskedCRF(Constraints.free(TAGS), scheme="BIO")
    with pytest.raises(ShapeError, match=r"weights must be \(5,\)"):
        MaskedCRF(TAGS, weights=[1.0, 2.0])
    with pytest.raises(ShapeError, match="finite and not negative"):
        MaskedCRF(TAGS, weights=[1.0, 2.0, -1.0, 1.0, 1.0])


def test_wrong_spans_are_named() -> None:
    crf = MaskedCRF(TAGS, scheme="BIO")
    emissions = torch.zeros(2, 3, 5)
    with pytest.raises(ShapeError, match="one list for each of the 2 rows, got 1"):
        crf.span_probability(emissions, [[]])
    with pytest.raises(ShapeError, match=r"row 1: span \(1, 4\) leaves its 3 labelled positions"):
        crf.span_probability(emissions, [[], [(1, 4, "PER")]])
    with pytest.raises(ConstraintError, match="row 0: no tag has the type 'ORG'; types are PER, LOC"):
        crf.span_probability(emissions, [[(0, 1, "ORG")], []])
    with pytest.raises(ConstraintError, match="know no scheme"):
        MaskedCRF(TAGS).span_probability(emissions, [[], []])


def test_the_layer_says_what_it_is_and_can_be_copied() -> None:
    crf = MaskedCRF(TAGS, scheme="BIO", mask="decode", backend="reference")
    assert repr(crf) == "MaskedCRF(5 tags, BIO, mask=decode, backend=reference (torch))"
    twin = copy.deepcopy(crf)
    emissions = torch.randn(1, 4, 5)
    assert twin.decode(emissions) == crf.decode(emissions)
    assert "own rules" in repr(MaskedCRF(TAGS))
