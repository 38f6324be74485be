"""Gradients: equal to expected counts, checked numerically, and exactly zero on what is excluded."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from lattice_strategies import Case, case, cases, device
from numpy.testing import assert_allclose

from maskedcrf import MaskedCRF
from maskedcrf.tags.scheme import SCHEMES

NAMES = ("transitions", "start_transitions", "end_transitions")


def _gradients(drawn: Case, backend: str) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
    """Gradients of a loss whose rows are weighted unevenly: a weight of one hides mistakes."""
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    emissions = inputs["emissions"].requires_grad_()
    upstream = torch.linspace(0.5, 2, len(drawn.mask), dtype=torch.float64, device=emissions.device)
    gold = drawn.gold().to(device(backend))
    (crf(emissions, gold, inputs["mask"], allowed=inputs["allowed"], reduction="none") * upstream).sum().backward()
    return emissions.grad, {name: getattr(crf, name).grad for name in NAMES}, upstream


@given(drawn=cases)
@settings(max_examples=40)
def test_gradients_are_expected_counts_less_gold_counts(backend: str, drawn: Case) -> None:
    on_emissions, on_parameters, upstream = _gradients(drawn, backend)
    gold = drawn.gold()
    expected = {name: torch.zeros_like(on_parameters[name], device="cpu") for name in NAMES}
    for row, oracle in enumerate(drawn.oracles()):
        path, weight = gold[row][drawn.mask[row]], upstream[row].item()
        if not len(path):
            continue
        marginals = torch.from_numpy(oracle.marginals())
        found = on_emissions[row][drawn.mask[row]].cpu()
        counts = marginals - torch.nn.functional.one_hot(path, len(drawn.constraints))
        assert_allclose(found, weight * counts, rtol=1e-9, atol=1e-9)
        expected["transitions"] += weight * torch.from_numpy(oracle.transition_counts())
        for before, after in itertools.pairwise(path):
            expected["transitions"][before, after] -= weight
        for name, at in (("start_transitions", 0), ("end_transitions", -1)):
            expected[name] += weight * counts[at]
    for name in NAMES:
        assert_allclose(on_parameters[name].cpu(), expected[name], rtol=1e-9, atol=1e-9)


@given(drawn=cases)
@settings(max_examples=40)
def test_what_is_excluded_has_a_gradient_of_exactly_zero(backend: str, drawn: Case) -> None:
    on_emissions, on_parameters, _ = _gradients(drawn, backend)
    rules = drawn.constraints
    assert (on_parameters["transitions"].cpu().numpy()[~rules.legal] == 0).all()
    assert (on_parameters["start_transitions"].cpu().numpy()[~rules.start] == 0).all()
    assert (on_parameters["end_transitions"].cpu().numpy()[~rules.end] == 0).all()
    assert (on_emissions[~drawn.mask] == 0).all()
    if drawn.allowed is not None:
        assert (on_emissions.cpu()[~drawn.allowed] == 0).all()
    assert all(found.isfinite().all() for found in (on_emissions, *on_parameters.values()))


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("narrowed", [False, True])
def test_first_and_second_derivatives_agree_with_differences(backend: str, scheme: str, narrowed: bool) -> None:
    drawn = case(11, scheme, types=1, narrowed=narrowed)
    crf, inputs, gold = drawn.layer(backend), drawn.inputs(backend), drawn.gold().to(device(backend))
    emissions = inputs.pop("emissions").nan_to_num(0).requires_grad_()

    def loss(emissions: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        given = dict(zip(NAMES, parameters, strict=True))
        return torch.func.functional_call(crf, given, (emissions, gold), {**inputs, "reduction": "none"})

    arguments = (emissions, *(getattr(crf, name).detach().clone().requires_grad_() for name in NAMES))
    assert torch.autograd.gradcheck(loss, arguments)
    assert torch.autograd.gradgradcheck(loss, arguments)


def test_partial_loss_and_span_probability_are_differentiable(backend: str) -> None:
    drawn = case(21, "BIO", types=2, narrowed=True)
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    emissions = inputs["emissions"].nan_to_num(0).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda given: crf.partial_loss(given, inputs["allowed"], inputs["mask"], reduction="none"), (emissions,)
    )
    spans = [[(0, 1, "PER")] if n else [] for n in drawn.mask.sum(1).tolist()]
    assert torch.autograd.gradcheck(
        lambda given: torch.cat(crf.span_probability(given, spans, inputs["mask"])), (emissions,)
    )


@pytest.mark.parametrize("answer", ["log_partition", "marginals", "entropy", "illegal_mass"])
def test_answers_are_differentiable(backend: str, answer: str) -> None:
    drawn = case(9, "BIO", types=1)
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    emissions = inputs.pop("emissions").nan_to_num(0).requires_grad_()
    assert (crf.entropy(emissions, **inputs) > 0.1).any(), "of one path alone every derivative is zero"
    assert torch.autograd.gradcheck(lambda given: getattr(crf, answer)(given, **inputs), (emissions,))


def test_marginals_have_second_derivatives_and_gradients_by_the_transitions(backend: str) -> None:
    drawn = case(9, "BIO", types=1)
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    emissions = inputs.pop("emissions").nan_to_num(0).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda given: crf.marginals(given, **inputs), (emissions,))
    weights = torch.arange(emissions.numel(), device=emissions.device).view(emissions.shape) % 7 / 7.0
    (crf.marginals(emissions.detach(), **inputs) * weights).sum().backward()
    found = [getattr(crf, name).grad for name in NAMES]
    exact = MaskedCRF(crf.constraints, mask=crf.mask_mode, backend="reference").to(emissions)
    exact.load_state_dict(crf.state_dict())
    (exact.marginals(emissions.detach(), **inputs) * weights).sum().backward()
    for gradient, name in zip(found, NAMES, strict=True):
        assert gradient.abs().max() > 1e-3
        torch.testing.assert_close(gradient, getattr(exact, name).grad)
