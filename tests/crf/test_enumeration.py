"""Every answer of the layer equals the one got by listing all paths."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from lattice_strategies import Case, case, cases, device
from numpy.testing import assert_allclose

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.tags.scheme import SCHEMES

EXACT = {"rtol": 1e-9, "atol": 1e-9}
FEW = settings(max_examples=40)


@pytest.mark.parametrize("mode", ["train", "decode", "off"])
@given(drawn=cases)
@FEW
def test_log_partition_and_loss_in_every_mask_mode(backend: str, mode: str, drawn: Case) -> None:
    crf, inputs = drawn.layer(backend, mode), drawn.inputs(backend)
    answers = drawn.oracles("off" if mode == "off" else "train")
    assert_allclose(crf.log_partition(**inputs).tolist(), [oracle.log_partition for oracle in answers], **EXACT)

    loss_space = "train" if mode == "train" else "off"
    gold = drawn.gold(loss_space)
    losses = crf(inputs.pop("emissions"), gold.to(device(backend)), reduction="none", **inputs)
    expected = [
        oracle.log_partition - oracle.score(gold[row][drawn.mask[row]].tolist())
        for row, oracle in enumerate(drawn.oracles(loss_space))
    ]
    assert_allclose(losses.tolist(), expected, **EXACT)


@given(drawn=cases)
@FEW
def test_log_prob_and_reductions(backend: str, drawn: Case) -> None:
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    gold = drawn.gold().to(device(backend))
    emissions = inputs.pop("emissions")
    expected = [
        oracle.score(gold[row][drawn.mask[row]].tolist()) - oracle.log_partition
        for row, oracle in enumerate(drawn.oracles())
    ]
    assert_allclose(crf.log_prob(emissions, gold, **inputs).tolist(), expected, **EXACT)
    total = -math.fsum(expected)
    assert_allclose(crf(emissions, gold, reduction="sum", **inputs).item(), total, **EXACT)
    assert_allclose(crf(emissions, gold, **inputs).item(), total / len(expected), **EXACT)
    if drawn.mask.any():
        per_token = crf(emissions, gold, reduction="token_mean", **inputs).item()
        assert_allclose(per_token, total / drawn.mask.sum().item(), **EXACT)


@given(drawn=cases)
@FEW
def test_decode_finds_a_best_path(backend: str, drawn: Case) -> None:
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    paths = crf.decode(**inputs)
    padded = crf.decode_tensor(**inputs, pad=-7)
    for row, oracle in enumerate(drawn.oracles()):
        assert oracle.is_legal(tuple(paths[row]))
        assert_allclose(oracle.score(paths[row]), oracle.scores.max(), **EXACT)
        assert padded[row][drawn.mask[row]].tolist() == paths[row]
        assert (padded[row][~drawn.mask[row]] == -7).all()


@pytest.mark.parametrize("k", [1, 3, 20])
@given(drawn=cases)
@settings(max_examples=20)
def test_nbest_lists_the_best_paths_in_order_with_their_probability(backend: str, k: int, drawn: Case) -> None:
    found = drawn.layer(backend).nbest(**drawn.inputs(backend), k=k)
    for row, oracle in zip(found, drawn.oracles(), strict=True):
        best = np.sort(oracle.scores)[::-1][:k] - oracle.log_partition
        assert_allclose([log_prob for _, log_prob in row], best, **EXACT)
        assert len({tuple(path) for path, _ in row}) == len(row)
        for path, log_prob in row:
            assert oracle.is_legal(tuple(path))
            assert_allclose(oracle.score(path) - oracle.log_partition, log_prob, **EXACT)


@given(drawn=cases)
@FEW
def test_marginals(backend: str, drawn: Case) -> None:
    found = drawn.layer(backend).marginals(**drawn.inputs(backend))
    for row, oracle in enumerate(drawn.oracles()):
        assert_allclose(found[row][drawn.mask[row]].detach().cpu(), oracle.marginals(), rtol=1e-9, atol=1e-10)
        assert (found[row][~drawn.mask[row]] == 0).all()


@given(drawn=cases)
@FEW
def test_entropy(backend: str, drawn: Case) -> None:
    found = drawn.layer(backend).entropy(**drawn.inputs(backend))
    assert_allclose(found.tolist(), [oracle.entropy() for oracle in drawn.oracles()], **EXACT)


@given(drawn=cases)
@settings(max_examples=30)
def test_span_probability_of_every_possible_span(backend: str, drawn: Case) -> None:
    tags = list(drawn.constraints.tags)
    kinds = sorted({tag.split("-", 1)[1] for tag in tags if "-" in tag})
    lengths = drawn.mask.sum(1).tolist()
    spans = [[(a, b, kind) for a in range(n) for b in range(a + 1, n + 1) for kind in kinds] for n in lengths]
    found = drawn.layer(backend).span_probability(spans=spans, **drawn.inputs(backend))
    for row, oracle in enumerate(drawn.oracles()):
        expected = [oracle.span_probability(*span, tags) for span in spans[row]]
        assert_allclose(found[row].tolist(), expected, rtol=1e-9, atol=1e-10)


@given(drawn=cases)
@FEW
def test_illegal_mass_is_what_an_unmasked_crf_spends(backend: str, drawn: Case) -> None:
    found = drawn.layer(backend).illegal_mass(**drawn.inputs(backend))
    expected = []
    for legal, free in zip(drawn.oracles("train"), drawn.oracles("off"), strict=True):
        spent = [not legal.is_legal(tuple(path)) for path in free.paths]
        expected.append(free.probabilities[np.array(spent, bool)].sum())
    assert_allclose(found.tolist(), expected, rtol=1e-9, atol=1e-9)


@given(drawn=cases)
@FEW
def test_partial_loss_sums_every_path_inside_the_sets(backend: str, drawn: Case) -> None:
    drawn.allowed = None
    generator = np.random.default_rng(drawn.seed)
    sets = torch.from_numpy(generator.random(drawn.emissions.shape) < 0.5)
    gold = drawn.gold()
    rows, positions = drawn.mask.nonzero(as_tuple=True)
    sets[rows, positions, gold[rows, positions]] = True
    inputs = drawn.inputs(backend)
    found = drawn.layer(backend).partial_loss(
        inputs["emissions"], sets.to(device(backend)), inputs["mask"], reduction="none"
    )
    for row, oracle in enumerate(drawn.oracles()):
        mass = oracle.inside_probability(sets[row][drawn.mask[row]].numpy())
        if mass > 1e-300:  # below that the oracle itself underflows
            assert_allclose(found[row].item(), -math.log(mass), **EXACT)


def test_samples_follow_the_distribution(backend: str) -> None:
    drawn = case(7, "BIO", types=1)
    generator = torch.Generator(device(backend)).manual_seed(3)
    n = 40_000
    found = drawn.layer(backend).sample(**drawn.inputs(backend), n=n, generator=generator)
    assert drawn.mask.any()
    for row, oracle in enumerate(drawn.oracles()):
        paths = found[row][:, drawn.mask[row]].cpu().numpy()
        assert (found[row][:, ~drawn.mask[row]] == -100).all()
        counts = {tuple(path): 0 for path in oracle.paths.tolist()}
        for path in paths.tolist():
            counts[tuple(path)] += 1  # a KeyError is an illegal path
        spread = np.sqrt(oracle.probabilities * (1 - oracle.probabilities) / n)
        off = np.abs(np.array(list(counts.values())) / n - oracle.probabilities)
        assert (off <= 5 * spread + 1e-9).all()


@given(drawn=cases)
@settings(max_examples=20)
def test_samples_are_legal_and_the_same_for_the_same_seed(backend: str, drawn: Case) -> None:
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    one, two = (crf.sample(**inputs, n=5, generator=torch.Generator(device(backend)).manual_seed(1)) for _ in "ab")
    assert torch.equal(one, two)
    for row, oracle in enumerate(drawn.oracles()):
        for path in one[row][:, drawn.mask[row]].tolist():
            assert oracle.is_legal(tuple(path))


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_float32_answers_are_within_1e_4(backend: str, scheme: str) -> None:
    for seed in range(5):
        drawn = case(seed, scheme, types=1)
        crf, inputs = drawn.layer(backend, dtype=torch.float32), drawn.inputs(backend, torch.float32)
        answers = drawn.oracles()
        tolerance = {"rtol": 1e-4, "atol": 1e-4}
        found = crf.log_partition(**inputs)
        assert found.dtype == torch.float32
        assert_allclose(found.tolist(), [oracle.log_partition for oracle in answers], **tolerance)
        marginals = crf.marginals(**inputs)
        for row, oracle in enumerate(answers):
            assert_allclose(marginals[row][drawn.mask[row]].detach().cpu(), oracle.marginals(), **tolerance)


@pytest.mark.parametrize("weighting", ["emission", "emission_transition", "lannoy"])
def test_class_weights_as_allennlp_defines_them(backend: str, weighting: str) -> None:
    for seed in range(6):
        drawn = case(seed, "BIO", types=1)
        weights = np.random.default_rng(seed).uniform(0.2, 3, len(drawn.constraints))
        crf = drawn.layer(backend)
        crf.weighting, crf.weights = weighting, torch.from_numpy(weights).to(device(backend))
        gold = drawn.gold()
        inputs = drawn.inputs(backend)
        losses = crf(inputs["emissions"], gold.to(device(backend)), inputs["mask"], reduction="none")
        for row, oracle in enumerate(drawn.oracles()):
            path = gold[row][drawn.mask[row]].tolist()
            assert_allclose(losses[row].item(), _weighted_loss(oracle, path, weights, weighting), **EXACT)


def _weighted_loss(oracle, path: list[int], weights: np.ndarray, weighting: str) -> float:
    """The three definitions, by listing paths; lannoy weights log Z[t] - log Z[t-1] and the gold scores at t."""
    if not path:
        return 0.0
    if weighting != "lannoy":
        oracle.emissions = oracle.emissions * weights
        if weighting == "emission_transition":
            oracle.transitions = oracle.transitions * weights[:, None]
        oracle.__post_init__()
        return oracle.log_partition - oracle.score(path)
    beginnings = [_log_mass_of_beginnings(oracle, t) for t in range(len(path))]
    growth = np.diff([0.0, *beginnings])
    loss = sum(weights[tag] * growth[t] for t, tag in enumerate(path)) + oracle.log_partition - beginnings[-1]
    loss -= sum(weights[tag] * oracle.emissions[t, tag] for t, tag in enumerate(path))
    loss -= sum(weights[a] * oracle.transitions[a, b] for a, b in itertools.pairwise(path))
    return loss - oracle.start[path[0]] - oracle.end[path[-1]]


def _log_mass_of_beginnings(oracle, last: int) -> float:
    """log Z[t]: paths cut after position t, with no rule and no score for their end."""
    cut = type(oracle)(
        oracle.emissions[: last + 1],
        oracle.transitions,
        oracle.start,
        np.zeros_like(oracle.end),
        oracle.legal,
        oracle.start_legal,
        np.ones_like(oracle.end_legal),
        oracle.allowed[: last + 1],
    )
    return cut.log_partition


def test_a_weight_of_zero_is_a_weight():
    emissions, tags = torch.tensor([[[0.5, 1.0, -1.0], [2.0, 0.25, 0.75]]]), torch.tensor([[1, 2]])
    for weighting in ("emission", "emission_transition", "lannoy"):
        losses = []
        for weight in (0.0, 1e-9):
            torch.manual_seed(1)
            crf = MaskedCRF(["O", "B-X", "I-X"], "BIO", weights=[weight, 1.0, 2.0], weighting=weighting)
            losses.append(crf(emissions, tags).item())
        assert losses[0] == pytest.approx(losses[1], abs=1e-6)
        assert losses[0] > 0
