"""What must hold of any CRF, whatever the numbers."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from lattice_strategies import Case, cases, device

from maskedcrf import Constraints, MaskedCRF

FEW = settings(max_examples=25)


@given(drawn=cases)
@FEW
def test_marginals_sum_to_one(backend: str, drawn: Case) -> None:
    found = drawn.layer(backend).marginals(**drawn.inputs(backend)).sum(-1).cpu()
    torch.testing.assert_close(found, drawn.mask.double())


@given(drawn=cases)
@FEW
def test_a_legal_path_only_gains_when_the_mask_goes_on(backend: str, drawn: Case) -> None:
    inputs, gold = drawn.inputs(backend), drawn.gold().to(device(backend))
    emissions = inputs.pop("emissions")
    masked, free = (drawn.layer(backend, mode).log_prob(emissions, gold, **inputs) for mode in ("train", "off"))
    assert (masked >= free - 1e-9 * free.abs().clamp(min=1)).all()


@given(drawn=cases)
@FEW
def test_padding_batch_and_order_change_nothing(backend: str, drawn: Case) -> None:
    crf, inputs, gold = drawn.layer(backend), drawn.inputs(backend), drawn.gold().to(device(backend))
    emissions, mask, allowed = inputs.values()
    together = crf(emissions, gold, mask, allowed=allowed, reduction="none")
    paths = crf.decode(emissions, mask, allowed=allowed)
    for row in range(len(mask)):
        on = mask[row]
        alone = (emissions[row][on][None], gold[row][on][None])
        narrowed = None if allowed is None else allowed[row][on][None]
        torch.testing.assert_close(crf(*alone, allowed=narrowed), together[row])
        assert crf.decode(alone[0], allowed=narrowed) == [paths[row]]
    order = torch.randperm(len(mask), generator=torch.Generator().manual_seed(drawn.seed % 2**31))
    shuffled = [part if part is None else part[order] for part in (emissions, gold, mask, allowed)]
    losses = crf(*shuffled[:3], allowed=shuffled[3], reduction="none")
    torch.testing.assert_close(losses, together[order])
    assert crf.decode(shuffled[0], shuffled[2], allowed=shuffled[3]) == [paths[row] for row in order.tolist()]


@given(drawn=cases)
@FEW
def test_what_stands_under_the_mask_is_never_read(backend: str, drawn: Case) -> None:
    crf, inputs, gold = drawn.layer(backend), drawn.inputs(backend), drawn.gold().to(device(backend))
    for rubbish in (torch.nan, torch.inf, 1e300):
        inputs["emissions"][~inputs["mask"]] = rubbish
        gold[~inputs["mask"]] = 10**9
        loss = crf(inputs["emissions"].requires_grad_(), gold, inputs["mask"], allowed=inputs["allowed"])
        loss.backward()
        assert loss.isfinite()
        assert inputs["emissions"].grad.isfinite().all()
        assert crf.marginals(**inputs).isfinite().all()
        assert crf.entropy(**inputs).isfinite().all()
        inputs["emissions"] = inputs["emissions"].detach()


@given(drawn=cases)
@FEW
def test_span_probabilities_add_up_to_the_marginal_of_their_type(backend: str, drawn: Case) -> None:
    """Every token of type X lies in exactly one segment of type X."""
    crf, inputs = drawn.layer(backend), drawn.inputs(backend)
    matrices = drawn.constraints.matrices
    marginals = crf.marginals(**inputs)
    for kind in matrices.types:
        lengths = drawn.mask.sum(1).tolist()
        spans = [[(a, b, kind) for a in range(n) for b in range(a + 1, n + 1)] for n in lengths]
        found = crf.span_probability(spans=spans, **inputs)
        tags = torch.from_numpy(matrices.type_index[:-1] == matrices.types.index(kind))
        for row, length in enumerate(lengths):
            covered = torch.zeros(length, dtype=torch.float64)
            for (a, b, _), probability in zip(spans[row], found[row].tolist(), strict=True):
                covered[a:b] += probability
            torch.testing.assert_close(covered, marginals[row][drawn.mask[row]].cpu()[:, tags].sum(1))


@given(drawn=cases)
@FEW
def test_nbest_with_every_path_sums_to_one(backend: str, drawn: Case) -> None:
    oracles = drawn.oracles()
    k = max(len(oracle.paths) for oracle in oracles)
    assume(k <= 400)
    for row in drawn.layer(backend).nbest(**drawn.inputs(backend), k=k):
        assert sum(torch.tensor(log_prob).exp().item() for _, log_prob in row) == pytest.approx(1)


def test_no_tokens_and_no_rows(backend: str) -> None:
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO", backend=backend).to(device(backend))
    nothing = torch.zeros(2, 0, 3, device=device(backend))
    assert crf.decode(nothing) == [[], []]
    assert crf(nothing, torch.zeros(2, 0, dtype=torch.long, device=device(backend))).item() == 0
    assert crf.nbest(nothing, k=2) == [[([], 0.0)], [([], 0.0)]]
    assert crf.marginals(nothing).sum() == 0
    nobody = torch.zeros(0, 3, 3, device=device(backend))
    tags = torch.zeros(0, 3, dtype=torch.long, device=device(backend))
    for reduction in ("sum", "mean", "token_mean"):
        assert crf(nobody, tags, reduction=reduction).item() == 0
        assert crf.partial_loss(nobody, torch.ones_like(nobody, dtype=torch.bool), reduction=reduction).item() == 0
    assert [len(ask(nobody)) for ask in (crf.decode, crf.log_partition, crf.marginals, crf.sample, crf.entropy)] == [
        0
    ] * 5
    assert len(crf.illegal_mass(nobody)) == len(crf.log_prob(nobody, tags)) == 0
    assert crf.nbest(nobody, k=2) == crf.span_probability(nobody, []) == []


def test_a_loss_per_token_without_tokens_is_none(backend: str) -> None:
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO", backend=backend).to(device(backend))
    emissions = torch.zeros(2, 3, 3, device=device(backend), requires_grad=True)
    off = torch.zeros(2, 3, dtype=torch.bool, device=device(backend))
    loss = crf(emissions, off.long(), off, reduction="token_mean")
    loss.backward()
    assert loss.item() == 0
    assert emissions.grad is not None
    assert not emissions.grad.any()


def test_a_dead_tag_gets_zero_mass_and_no_nan(backend: str) -> None:
    with pytest.warns(UserWarning, match="no legal path can use B-X"):
        rules = Constraints.from_scheme(["O", "B-X", "S-X"], "BIOES")
    crf = MaskedCRF(rules, backend=backend).to(device(backend))
    emissions = torch.zeros(1, 4, 3, device=device(backend))
    emissions[..., 1] = 1e4
    emissions.requires_grad_()
    marginals = crf.marginals(emissions)
    assert (marginals[..., 1] == 0).all()
    loss = crf(emissions, torch.tensor([[0, 2, 0, 2]], device=device(backend)))
    loss.backward()
    assert (emissions.grad[..., 1] == 0).all()
    assert all(parameter.grad.isfinite().all() for parameter in crf.parameters())
    assert 1 not in crf.decode(emissions)[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_or_wider(backend: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO", backend=backend).to(device(backend))
    half = torch.randn(4, 50, 3, device=device(backend)).to(dtype).requires_grad_()
    gold = crf.sample(half.detach(), n=1)[:, 0]
    loss = crf(half, gold)
    loss.backward()
    exact = half.detach().double().requires_grad_()
    crf_exact = MaskedCRF(crf.constraints, backend="reference").to(device(backend)).double()
    crf_exact.load_state_dict(crf.state_dict())
    expected = crf_exact(exact, gold)
    expected.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(half.grad, exact.grad.to(dtype))


def test_the_layer_runs_inside_autocast(backend: str) -> None:
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO", backend=backend).to(device(backend))
    emissions = torch.randn(2, 9, 3, device=device(backend))
    gold = crf.decode_tensor(emissions)
    with torch.autocast(device(backend), torch.bfloat16):
        inside = crf(emissions, gold)
    torch.testing.assert_close(inside, crf(emissions, gold))


LONG = {"long": (3.0, 4.0, 2000), "large": (1.0, 1e4, 60), "spread": (1e4, 0.0, 40)}
"""Spread, height and length of emissions whose masses are far beyond what float32 can tell apart."""


@pytest.mark.parametrize("name", LONG)
def test_ratios_of_masses_are_right_in_float32(backend: str, name: str) -> None:
    spread, height, length = LONG[name]
    tags = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    crf = MaskedCRF(tags, scheme="BIO", backend=backend, weights=[1, 2, 1, 3, 1], weighting="lannoy")
    crf = crf.to(device(backend))
    exact = copy.deepcopy(crf).double()
    torch.manual_seed(0)
    emissions = (spread * torch.randn(2, length, 5) + height).to(device(backend))
    gold = torch.zeros(2, length, dtype=torch.long, device=device(backend))
    allowed = torch.nn.functional.one_hot(gold, 5).bool()
    spans = [[(n, n + 1, "X") for n in range(0, length, 7)]] * 2
    for ask in (
        lambda layer, given: torch.cat(layer.span_probability(given, spans)),
        lambda layer, given: layer.entropy(given) / length,
        lambda layer, given: layer.illegal_mass(given),
        lambda layer, given: layer.partial_loss(given, allowed, reduction="none") / length,
        lambda layer, given: layer(given, gold, reduction="none") / length,
        lambda layer, given: torch.tensor([row[0][1] for row in layer.nbest(given, k=1)]) / length,
    ):
        found, right = ask(crf, emissions).double(), ask(exact, emissions.double()).double()
        torch.testing.assert_close(found, right, rtol=1e-6, atol=1e-6)


def test_rules_and_weights_outlive_weights_that_come_later(backend: str) -> None:
    tags = ["O", "B-X", "I-X"]
    trained = MaskedCRF(tags, scheme="BIO", backend=backend, weights=[1.0, 2.0, 3.0]).to(device(backend))
    rules = trained.illegal.clone()
    trained.illegal.zero_()
    trained.reset_parameters()
    assert torch.equal(trained.illegal, rules)
    for assign in (False, True):
        with torch.device("meta"):
            crf = MaskedCRF(tags, scheme="BIO", backend=backend, weights=[1.0, 2.0, 3.0])
        assert {buffer.device.type for buffer in crf.buffers()} == {"meta"}
        if not assign:
            crf.to_empty(device=device(backend))
            for buffer in crf.buffers():
                buffer.zero_()  # as freed memory may well be
        crf.load_state_dict(trained.state_dict(), assign=assign)
        for name, buffer in trained.named_buffers():
            assert torch.equal(buffer, crf.get_buffer(name))
        crf.illegal.zero_()
        crf.reset_parameters()
        assert torch.equal(crf.illegal, trained.illegal)


def test_no_probability_is_above_one_however_sums_are_rounded(backend: str) -> None:
    rows, length, generator = 400, 300, torch.Generator().manual_seed(0)
    crf = MaskedCRF(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO", backend=backend).to(device(backend), torch.float64)
    emissions = torch.randn(rows, length, 5, generator=generator, dtype=torch.float64)
    emissions[:, :, 0] += 60 + 30 * torch.rand(rows, length, generator=generator, dtype=torch.float64)
    emissions[:, 1, :2] = torch.tensor([0.0, 90.0], dtype=torch.float64)
    emissions = emissions.to(device(backend))
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            shares = torch.cat(crf.span_probability(emissions, [[(1, 2, "X")]] * rows))
        assert shares.max() <= 1
        assert shares.min() > 1 - 1e-9
    assert max(log_prob for ((_, log_prob),) in crf.nbest(emissions, k=1)) <= 0


def test_with_zero_transitions_the_emissions_and_the_rules_alone_decide():
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO").zero_transitions()
    emissions = torch.tensor([[[0.0, 0.2, 1.0], [0.0, 0.1, 0.5]]])
    # I-X may not come first: of the legal paths B-X I-X has 0.7, and the next best, O B-X, 0.1.
    assert crf.decode(emissions) == [[1, 2]]
    assert not any(bool(scores.any()) for scores in crf.parameters())
