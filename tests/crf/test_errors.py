"""What the layer refuses, and what it says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from lattice_strategies import device

from maskedcrf import Constraints, MaskedCRF
from maskedcrf.errors import ConstraintError, IllegalPathError, MaskedCRFError, ShapeError

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture
def crf(backend: str) -> MaskedCRF:
    return MaskedCRF(TAGS, scheme="BIO", backend=backend).to(device(backend))


@pytest.fixture
def emissions(backend: str) -> torch.Tensor:
    return torch.zeros(2, 3, 5, device=device(backend))


def _raised(crf: MaskedCRF, *arguments: torch.Tensor, **named: torch.Tensor) -> None:
    """Compute a loss."""
    _until_the_device_is_done(arguments[0], lambda: crf(*arguments, **named))


def _until_the_device_is_done(emissions: torch.Tensor, ask: Callable[[], object]) -> None:
    """Ask; on a GPU the error comes with the next call, once the device is done."""
    ask()
    if emissions.is_cuda:
        torch.cuda.synchronize()
        ask()


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
        lambda crf, e, a: crf.log_prob(e, torch.zeros(2, 3, dtype=torch.long, device=e.device), allowed=a),
        lambda crf, e, a: crf.partial_loss(e, a),
        lambda crf, e, a: crf.span_probability(e, [[], []], allowed=a),
    ],
)
def test_a_row_with_no_legal_path_is_an_error_never_nan(crf: MaskedCRF, emissions: torch.Tensor, ask) -> None:
    allowed = torch.ones(2, 3, 5, dtype=torch.bool, device=emissions.device)
    allowed[1, :, [0, 1, 3]] = False  # only I- tags are left, and none may start

    with pytest.raises(IllegalPathError, match="row 1: no legal path over its 3 labelled positions"):
        _until_the_device_is_done(emissions, lambda: ask(crf, emissions, allowed))


def test_what_waits_for_the_device_raises_at_once(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    allowed = torch.ones(2, 3, 5, dtype=torch.bool, device=emissions.device)
    allowed[1, 0] = False
    for ask in (crf.decode, partial(crf.nbest, k=2)):
        with pytest.raises(IllegalPathError, match="row 1: no legal path"):
            ask(emissions, allowed=allowed)


def test_illegal_mass_is_one_where_only_illegal_paths_are_left_and_an_error_where_none_is(
    crf: MaskedCRF, emissions: torch.Tensor
) -> None:
    allowed = torch.ones(2, 3, 5, dtype=torch.bool, device=emissions.device)
    allowed[1, 0, [0, 1, 3]] = False  # I- tags are left, and none may start
    assert crf.illegal_mass(emissions, allowed=allowed)[1] == 1
    allowed[1, 0] = False
    with pytest.raises(IllegalPathError, match="row 1: no legal path"):
        _until_the_device_is_done(emissions, lambda: crf.illegal_mass(emissions, allowed=allowed))


@pytest.mark.parametrize("wrong", [{"mask": "on"}, {"backend": "tpu"}, {"weighting": "x"}])
def test_a_wrong_word_is_of_the_family(wrong: dict[str, str]) -> None:
    with pytest.raises(MaskedCRFError, match="must be one of"):
        MaskedCRF(["O"], **wrong)


@pytest.mark.parametrize("tags", [5, {0: "O", 1: "B-X"}, "O"])
def test_tags_of_another_kind_are_told_what_to_give(tags: Any) -> None:
    with pytest.raises(ConstraintError, match="tags are a list of names in the order of their ids"):
        MaskedCRF(tags, "BIO")


def test_weights_by_name_are_refused() -> None:
    with pytest.raises(ShapeError, match="weights must be a list"):
        MaskedCRF(["O"], weights={"O": 0.1})  # type: ignore[arg-type]


def test_what_is_no_tensor_is_named(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    tags = torch.zeros(2, 3, dtype=torch.long)
    array: Any = np.zeros((2, 3, 5))
    given: list[tuple[str, dict[str, Any]]] = [
        ("emissions", {"emissions": array, "tags": tags}),
        ("tags", {"emissions": emissions, "tags": [[0, 0, 0]] * 2}),
        ("mask", {"emissions": emissions, "tags": tags, "mask": [[True] * 3] * 2}),
        ("allowed", {"emissions": emissions, "tags": tags, "allowed": array}),
    ]
    for name, arguments in given:
        with pytest.raises(ShapeError, match=f"{name} must be a tensor, got .*torch.as_tensor"):
            crf(**arguments)


def test_labels_given_as_the_mask_are_refused_where_that_costs_no_waiting() -> None:
    crf = MaskedCRF(TAGS, scheme="BIO")
    emissions, labels = torch.zeros(1, 3, 5), torch.tensor([[0, 1, 2]])
    with pytest.raises(ShapeError, match="Boolean, or of 0 and 1"):
        crf.decode(emissions, labels)
    assert crf.decode(emissions, labels.clamp(max=1)) == [crf.decode(emissions[:, 1:])[0]]


@pytest.mark.parametrize("spans", [[[0]], [[None]], [[(0.5, 1, "PER")]], [[(0, 1)]], [(0, 1, "PER")]])
def test_a_span_of_another_form_is_named(spans: Any) -> None:
    with pytest.raises(ShapeError, match=r"row 0: a span is \(start, end, type\)"):
        MaskedCRF(TAGS, scheme="BIO").span_probability(torch.zeros(1, 3, 5), spans)
    with pytest.raises(ShapeError, match="row 0: its spans are a list, empty where there are none; got None"):
        MaskedCRF(TAGS, scheme="BIO").span_probability(torch.zeros(1, 3, 5), [None])


def test_spans_may_be_of_numpys_integers() -> None:
    crf, emissions = MaskedCRF(TAGS, scheme="BIO"), torch.zeros(1, 3, 5)
    [found] = crf.span_probability(emissions, [[(np.int64(0), np.int64(1), "PER")]])
    assert found.tolist() == crf.span_probability(emissions, [[(0, 1, "PER")]])[0].tolist()


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.* is deprecated:DeprecationWarning")
def test_tracing_is_refused_rather_than_wrong(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    with pytest.raises(MaskedCRFError, match=r"torch.export or torch.compile"):
        torch.jit.trace(lambda given: crf.decode_tensor(given), (emissions,), check_trace=False)


def test_no_path_asked_for_is_refused(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    with pytest.raises(MaskedCRFError, match="k must be a whole number and at least 1, got 0"):
        crf.nbest(emissions, k=0)
    with pytest.raises(MaskedCRFError, match="n must be a whole number and at least 1, got -1"):
        crf.sample(emissions, n=-1)


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
        MaskedCRF(Constraints.free(TAGS))(
            torch.zeros(1, 1, 5), torch.zeros(1, 1, dtype=torch.long), reduction="average"
        )
    with pytest.raises(ValueError, match="k must be a whole number and at least 1, got 0"):
        MaskedCRF(Constraints.free(TAGS)).nbest(torch.zeros(1, 1, 5), k=0)
    with pytest.raises(ConstraintError, match="not both"):
        MaskedCRF(Constraints.free(TAGS), scheme="BIO")
    with pytest.raises(ShapeError, match=r"weights must be \(5,\)"):
        MaskedCRF(TAGS, "BIO", weights=[1.0, 2.0])
    with pytest.raises(ShapeError, match="finite and not negative"):
        MaskedCRF(TAGS, "BIO", weights=[1.0, 2.0, -1.0, 1.0, 1.0])


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
        MaskedCRF(Constraints.free(TAGS)).span_probability(emissions, [[], []])


def test_the_layer_says_what_it_is_and_can_be_copied() -> None:
    crf = MaskedCRF(TAGS, scheme="BIO", mask="decode", backend="reference")
    assert repr(crf) == "MaskedCRF(5 tags, BIO, mask=decode, backend=reference (torch))"
    twin = copy.deepcopy(crf)
    emissions = torch.randn(1, 4, 5)
    assert twin.decode(emissions) == crf.decode(emissions)
    assert "own rules" in repr(MaskedCRF(Constraints.free(TAGS)))


def test_nan_emissions_are_named_at_the_callers_own_position(crf: MaskedCRF, emissions: torch.Tensor) -> None:
    mask = torch.tensor([[False, True, True], [True, False, True]], device=emissions.device)
    emissions[1, 2, 0] = torch.nan
    with pytest.raises(IllegalPathError, match="row 1, position 2: emissions are NaN"):
        _raised(crf, emissions, torch.zeros(2, 3, dtype=torch.long, device=emissions.device), mask)


@pytest.mark.parametrize("rules", [["O", "B-X", "I-X"], ["B-X", "I-X", "O", "E-X", "S-X"]])
def test_tags_of_a_scheme_that_nobody_named_are_asked_about(rules: list[str]) -> None:
    with pytest.warns(UserWarning, match="no scheme: every step is legal; say scheme='BIO'") as warned:
        MaskedCRF(rules)
    assert warned[0].filename == __file__
    MaskedCRF(Constraints.free(rules))
    MaskedCRF(["DET", "NOUN"])
