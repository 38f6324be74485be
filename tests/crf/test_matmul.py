"""The plain backend: masses are used as far as they reach, and are exact there, whatever the mask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from maskedcrf.crf import matmul, reference


def _lattice(rows: int, length: int, size: int, *, emitted: float, stepped: float) -> tuple[Tensor, ...]:
    """Emissions, gold tags, a mask with holes, transitions of which some are excluded, start and end."""
    generator = torch.Generator().manual_seed(rows + length + size)

    def uniform(*shape: int, reach: float) -> Tensor:
        return torch.empty(shape, dtype=torch.float64).uniform_(-reach, reach, generator=generator)

    transitions = uniform(size, size, reach=stepped)
    transitions[torch.arange(size - 1), torch.arange(1, size)] = -torch.inf
    parameters = transitions, uniform(size, reach=stepped), uniform(size, reach=stepped)
    mask = torch.rand(rows, length, generator=generator) < 0.8
    uniforms = torch.rand(rows, 1, length, dtype=torch.float64, generator=generator)
    emissions = uniform(rows, length, size, reach=emitted / 2)
    tags = reference.sample(emissions, mask, *parameters, uniforms)[:, 0]
    return emissions, tags.where(mask, 1), mask, *parameters  # what is no label may well look like one


def _assert_exact(emissions: Tensor, tags: Tensor, mask: Tensor, *parameters: Tensor) -> None:
    """Losses and gradients are those of the reference, differentiated by torch."""
    upstream = torch.linspace(-1, 2, len(mask), dtype=torch.float64)
    losses, saved = matmul.loss(emissions, tags, mask, *parameters)
    found = matmul.loss_backward(upstream, saved, emissions, tags, mask, *parameters)
    inputs = [one.clone().requires_grad_() for one in (emissions, *parameters)]
    true_losses = reference.negative_log_likelihood(inputs[0], tags, mask, *inputs[1:])
    torch.testing.assert_close(losses, true_losses.detach(), rtol=1e-12, atol=1e-9)
    true = torch.autograd.grad(true_losses, inputs, upstream)
    for one, other, given in zip(found, true, inputs, strict=True):
        torch.testing.assert_close(one, other.masked_fill(given == -torch.inf, 0), rtol=1e-8, atol=1e-8)


@pytest.fixture(params=[False, True], ids=["denormal", "flushed"])
def flushed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Numbers below 1e-308 are kept, or 0 as some programs want it."""
    torch.set_flush_denormal(request.param)
    yield
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("flushed")
@pytest.mark.parametrize("emitted", [0.0, 8.0, 60.0, 135.0, 300.0])
@pytest.mark.parametrize("stepped", [0.0, 1.0, 30.0, 135.0, 300.0])
def test_every_reach_of_scores_is_exact(emitted: float, stepped: float) -> None:
    _assert_exact(*_lattice(5, 60, 4, emitted=emitted, stepped=stepped))


@pytest.mark.parametrize(("emitted", "stepped"), [(8.0, 1.0), (60.0, 10.0), (100.0, 1.0), (1.0, 100.0)])
def test_ordinary_scores_never_need_logarithms(emitted: float, stepped: float, monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = _lattice(5, 60, 4, emitted=emitted, stepped=stepped)
    monkeypatch.setattr(reference, "forward_scores", None)
    losses, saved = matmul.loss(*lattice)
    found = matmul.loss_backward(torch.ones_like(losses), saved, *lattice)
    assert all(one.isfinite().all() for one in (losses, *found))


@pytest.mark.parametrize("drift", [-130.0, 130.0])
def test_scores_that_all_fall_or_all_rise_are_exact(drift: float) -> None:
    emissions, tags, mask, transitions, *edges = _lattice(3, 50, 4, emitted=1.0, stepped=1.0)
    _assert_exact(emissions, tags, mask, transitions + drift, *edges)


@pytest.mark.parametrize("price", [100.0, 500.0, 1e4])
def test_the_only_path_costs_nothing_however_dear_it_is(price: float) -> None:
    emissions = torch.zeros(1, 9, 2, dtype=torch.float64)
    emissions[0, ::2, 0] = emissions[0, 1::2, 1] = -price
    transitions = torch.tensor([[-torch.inf, -price], [-price, -torch.inf]], dtype=torch.float64)
    start, end = torch.tensor([[-price, -torch.inf], [-price, -price]], dtype=torch.float64)
    lattice = torch.ones(1, 9, dtype=torch.bool), transitions, start, end
    assert matmul.loss(emissions, None, *lattice)[0].item() == pytest.approx(-19 * price, rel=1e-12)
    assert matmul.loss(emissions, torch.arange(9)[None] % 2, *lattice)[0].item() == pytest.approx(0, abs=1e-9)
    torch.testing.assert_close(matmul.marginals(emissions, *lattice), (emissions < 0).double())


def test_one_row_out_of_range_leaves_the_others_as_they_were() -> None:
    emissions, *rest = _lattice(5, 30, 4, emitted=8.0, stepped=1.0)
    spoilt = emissions.clone()
    spoilt[2] *= 1e3
    _assert_exact(spoilt, *rest)
    others = torch.tensor([0, 1, 3, 4])
    (losses, saved), (true_losses, true_saved) = matmul.loss(spoilt, *rest), matmul.loss(emissions, *rest)
    assert torch.equal(losses[others], true_losses[others])
    found, true = (
        matmul.loss_backward(torch.ones(5), one, given, *rest)[0]
        for one, given in ((saved, spoilt), (true_saved, emissions))
    )
    assert torch.equal(found[others], true[others])


@pytest.mark.parametrize(("rows", "length"), [(0, 7), (3, 0), (0, 0)])
def test_batches_without_rows_or_without_positions(rows: int, length: int) -> None:
    emissions, mask = torch.zeros(rows, length, 4), torch.zeros(rows, length, dtype=torch.bool)
    lattice = emissions, torch.zeros(rows, length, dtype=torch.long), mask, torch.zeros(4, 4), *torch.zeros(2, 4)
    losses, saved = matmul.loss(*lattice)
    assert losses.tolist() == [0.0] * rows
    assert saved.shape == matmul.empty_saved(emissions).shape
    gradients = matmul.loss_backward(torch.ones(rows), saved, *lattice)
    assert [one.shape for one in gradients] == [(rows, length, 4), (4, 4), (4,), (4,)]
    assert all((one == 0).all() for one in gradients)
