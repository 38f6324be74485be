"""AllenNLP's calls, against path enumeration and against its own files."""

from __future__ import annotations

import pytest
import torch
from lattice_strategies import case
from numpy.testing import assert_allclose
from peers_of_compat import load

from maskedcrf.compat.allennlp import ConditionalRandomField, allowed_transitions
from maskedcrf.errors import ConstraintError

LABELS = {0: "O", 1: "B-X", 2: "I-X"}


def test_allowed_transitions_number_start_and_end_after_the_tags() -> None:
    found = set(allowed_transitions("BIO", LABELS))
    inner = {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)}
    assert found == inner | {(3, 0), (3, 1)} | {(0, 4), (1, 4), (2, 4)}


def test_bmes_has_outside_which_allennlp_forbids() -> None:
    labels = dict(enumerate(["O", "B-X", "M-X", "E-X", "S-X"]))
    found = set(allowed_transitions("BMES", labels))
    assert {(0, 0), (0, 1), (3, 0), (2, 2), (5, 0), (0, 6)} <= found
    assert not {(1, 0), (2, 0), (0, 2), (5, 3), (1, 6)} & found


def _crf(**options) -> ConditionalRandomField:
    torch.manual_seed(2)
    return ConditionalRandomField(3, allowed_transitions("BIO", LABELS), **options)


def test_constraints_steer_viterbi_and_leave_the_likelihood_alone() -> None:
    logits = torch.tensor([[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0]]])
    illegal_gold = torch.tensor([[2, 2]])
    crf = _crf()
    assert crf(logits, illegal_gold).isfinite()
    assert crf.viterbi_tags(logits)[0][0] == [1, 2]


def test_viterbi_scores_are_not_normalised_and_top_k_gives_lists() -> None:
    drawn = case(3, "BIO", types=1)
    drawn.mask[:, 0] = True
    drawn.emissions = drawn.emissions.nan_to_num(0.25)
    crf = _crf().double()
    if len(drawn.constraints) != 3:
        pytest.fail("this seed should keep all three tags")
    drawn.parameters = {name: value for name, value in crf.state_dict().items()}
    oracles = drawn.oracles()
    found = crf.viterbi_tags(drawn.emissions, drawn.mask, top_k=2)
    for row, oracle in enumerate(oracles):
        best = sorted(oracle.scores, reverse=True)[:2]
        assert_allclose([score for _, score in found[row]], best)
        assert found[row][0][0] == crf.viterbi_tags(drawn.emissions, drawn.mask)[row][0]


def test_the_likelihood_is_summed() -> None:
    crf = _crf()
    logits, tags = torch.randn(2, 4, 3), torch.tensor([[0, 1, 2, 0], [1, 2, 2, 2]])
    torch.testing.assert_close(crf(logits, tags), crf(logits[:1], tags[:1]) + crf(logits[1:], tags[1:]))
    assert crf(logits, tags) < 0


def test_masked_training_is_one_word_away() -> None:
    logits, tags = torch.randn(1, 3, 3), torch.tensor([[1, 2, 0]])
    assert _crf(mask="train")(logits, tags) > _crf()(logits, tags)


def test_without_start_and_end_scores() -> None:
    crf = _crf(include_start_end_transitions=False)
    assert (crf.start_transitions == 0).all()
    assert not crf.end_transitions.requires_grad
    state = {"transitions": torch.ones(3, 3), "_constraint_mask": torch.ones(5, 5)}
    crf.load_state_dict(state)
    assert (crf.transitions == 1).all()


def test_scores_drawn_anew_bring_the_rules_back() -> None:
    crf = _crf()
    crf.to_empty(device="cpu")
    for buffer in crf.buffers():
        buffer.zero_()  # as freed memory may well be
    crf.reset_parameters()
    assert crf.viterbi_tags(torch.tensor([[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0]]]))[0][0] == [1, 2]


def test_ids_out_of_range_are_refused() -> None:
    with pytest.raises(ConstraintError, match=r"\(0, 7\) names no tag: ids run from 0 to 4"):
        ConditionalRandomField(3, [(0, 7)])


# Against AllenNLP's own files.

UTIL = dict.fromkeys(["int_to_device", "is_distributed", "is_global_primary"])
STUBS = {"allennlp.common.util": UTIL, "allennlp.nn": {}}
FOLDER = "allennlp.modules.conditional_random_field.conditional_random_field"
SUFFIXES = {"emission": "wemission", "emission_transition": "wtrans", "lannoy": "wlannoy"}


@pytest.fixture(scope="module")
def allennlp():
    return load(FOLDER, stubs=STUBS)


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, legal tags and a right-padded mask."""
    torch.manual_seed(8)
    tags = torch.tensor([[0, 1, 2, 2, 0], [1, 2, 0, 0, 0], [1, 0, 0, 0, 0]])
    return torch.randn(3, 5, 3), tags, torch.arange(5) < torch.tensor([5, 3, 1])[:, None]


def _pair(allennlp, **options) -> tuple[torch.nn.Module, ConditionalRandomField]:
    torch.manual_seed(9)
    theirs = allennlp.ConditionalRandomField(3, allowed_transitions("BIO", LABELS), **options)
    ours = _crf(**options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOUL"])
def test_the_list_of_allowed_transitions_is_allennlps(allennlp, scheme):
    prefixes = {"BIO": "BI", "IOB1": "IB", "BIOUL": "BIUL"}[scheme]
    labels = dict(enumerate(["O", *(f"{prefix}-{kind}" for kind in ("X", "Y") for prefix in prefixes)]))
    assert set(allowed_transitions(scheme, labels)) == set(allennlp.allowed_transitions(scheme, labels))


@pytest.mark.parametrize("edges", [True, False])
def test_the_likelihood_is_allennlps(allennlp, batch, edges):
    theirs, ours = _pair(allennlp, include_start_end_transitions=edges)
    torch.testing.assert_close(ours(*batch), theirs(*batch))


def test_the_best_paths_and_scores_are_allennlps(allennlp, batch):
    logits, _, mask = batch
    theirs, ours = _pair(allennlp)
    one = [path for path, _ in ours.viterbi_tags(logits, mask)]
    assert one == [path for path, _ in theirs.viterbi_tags(logits, mask)]
    for found, expected in zip(ours.viterbi_tags(logits, mask, 3), theirs.viterbi_tags(logits, mask, 3), strict=True):
        legal = [(path, score) for path, score in expected if score > -1000]  # it fills up with what it forbids
        assert [path for path, _ in found] == [path for path, _ in legal]
        assert_allclose([score for _, score in found], [float(score) for _, score in legal], rtol=1e-5)


@pytest.mark.parametrize("strategy", SUFFIXES)
def test_class_weights_are_allennlps(batch, strategy):
    library = load(f"{FOLDER}_{SUFFIXES[strategy]}", stubs=STUBS)
    (name,) = [each for each in vars(library) if each.startswith("ConditionalRandomFieldWeight")]
    torch.manual_seed(10)
    theirs = getattr(library, name)(3, label_weights=[1.0, 3.0, 2.0])
    ours = ConditionalRandomField(3, label_weights=[1.0, 3.0, 2.0], weight_strategy=strategy)
    state = {key: value for key, value in theirs.state_dict().items() if key in ours.state_dict()}
    ours.load_state_dict(state)
    torch.testing.assert_close(ours(*batch), theirs(*batch))
