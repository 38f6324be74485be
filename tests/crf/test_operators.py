"""Operators of torch: one node each, right shapes without computing, and the backend that is asked for."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from maskedcrf import MaskedCRF
from maskedcrf.crf import backends
from maskedcrf.crf.layer import _lists
from maskedcrf.errors import MissingExtraError

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
FAST = ["plain", "cpu"]


def _no_numba(name: str) -> object | None:
    return None if name == "numba" else object()


@pytest.fixture(params=FAST)
def crf(request: pytest.FixtureRequest) -> MaskedCRF:
    torch.manual_seed(3)
    return MaskedCRF(TAGS, "BIO", backend=request.param)


def _batch(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    emissions = torch.randn(6, 8, 5, generator=generator, dtype=dtype)
    tags = torch.tensor([0, 1, 2, 2, 0, 3, 4, 1]).expand(6, 8).contiguous()
    mask = torch.arange(8) < torch.tensor([[8], [1], [5], [3], [8], [6]])
    return emissions, tags, mask


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("operator", ["loss", "log_partition", "marginals", "viterbi", "nbest", "sample"])
def test_operators_keep_to_what_they_declare(backend: str, operator: str) -> None:
    emissions, tags, mask = _batch(torch.float64)
    parameters = [torch.randn(n, dtype=torch.float64) for n in ((5, 5), (5,), (5,))]
    if operator in ("loss", "log_partition"):
        given = [emissions, tags if operator == "loss" else None, mask, *parameters]
        for at in (0, 3, 4, 5):
            given[at].requires_grad_()
        name, arguments = "loss", (*given, backend)
    else:
        uniforms = torch.rand(6, 2, 8, dtype=torch.float64)
        extra = {"nbest": (3,), "sample": (uniforms,)}.get(operator, ())
        name, arguments = operator, (emissions, mask, *parameters, *extra, backend)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    result = torch.library.opcheck(getattr(torch.ops.maskedcrf, name).default, arguments, test_utils=tests)
    assert set(result.values()) == {"SUCCESS"}


def _count(graph: torch.fx.Graph) -> list[str]:
    return [str(node.target) for node in graph.nodes if "maskedcrf" in str(node.target)]


def test_compile_sees_one_node_for_the_loss_and_one_for_its_gradient(crf: MaskedCRF) -> None:
    # Imported here: every process that collects the tests would wait for the compiler.
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    emissions, tags, mask = _batch()
    emissions.requires_grad_()
    seen: list[str] = []

    def keep(module: torch.fx.GraphModule, inputs: list) -> object:
        seen.extend(_count(module.graph))
        return make_boxed_func(module.forward)

    compiled = torch.compile(crf, fullgraph=True, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    loss = compiled(emissions, tags, mask)
    (gradient,) = torch.autograd.grad(loss, emissions)
    assert seen == ["maskedcrf.loss.default", "maskedcrf.loss_backward.default"]
    (expected,) = torch.autograd.grad(crf(emissions, tags, mask), emissions)
    assert torch.equal(gradient, expected)


def test_export_sees_one_node_for_decoding(crf: MaskedCRF) -> None:
    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.crf = crf

        def forward(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.crf.decode_tensor(emissions, mask)

    emissions, _, mask = _batch()
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(Decoder(), (emissions, mask), dynamic_shapes=({0: batch}, {0: batch}))
    assert _count(exported.graph) == ["maskedcrf.viterbi.default"]
    assert torch.equal(exported.module()(emissions[:4], mask[:4]), crf.decode_tensor(emissions[:4], mask[:4]))


def test_activation_checkpointing_gives_the_same_gradients(crf: MaskedCRF) -> None:
    emissions, tags, mask = _batch()
    emissions.requires_grad_()
    plain = torch.autograd.grad(crf(emissions, tags, mask), (emissions, *crf.parameters()))
    again = checkpoint(crf, emissions, tags, mask, use_reentrant=False)
    for one, other in zip(plain, torch.autograd.grad(again, (emissions, *crf.parameters())), strict=True):
        assert torch.equal(one, other)


def test_a_graph_kept_for_a_second_backward_gives_the_same_twice(crf: MaskedCRF) -> None:
    emissions, tags, mask = _batch()
    emissions.requires_grad_()
    loss = crf(emissions, tags, mask)
    (first,) = torch.autograd.grad(loss, emissions, retain_graph=True)
    (second,) = torch.autograd.grad(loss, emissions)
    assert torch.equal(first, second)


def test_third_derivatives_agree_with_those_of_the_reference(crf: MaskedCRF) -> None:
    emissions, tags, mask = _batch(torch.float64)
    found = []
    for backend in (crf.backend, "reference"):
        layer = MaskedCRF(TAGS, "BIO", backend=backend).double()
        layer.load_state_dict(crf.state_dict())
        given = emissions.clone().requires_grad_()
        value = layer(given, tags, mask)
        for _ in range(3):
            (gradient,) = torch.autograd.grad(value, given, create_graph=True)
            value = (gradient**2).sum()
        found.append(gradient.detach())
    torch.testing.assert_close(*found)


def test_lists_hold_the_labelled_positions_only() -> None:
    tags = torch.tensor([[1, -100, 2], [-100, -100, -100], [3, 4, 0]])
    assert _lists(tags) == [[1, 2], [], [3, 4, 0]]


def test_repr_names_the_backend_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "backend=cpu (numba)" in repr(MaskedCRF(TAGS, "BIO"))
    assert "backend=reference (torch)" in repr(MaskedCRF(TAGS, "BIO", backend="reference"))
    monkeypatch.setattr(importlib.util, "find_spec", _no_numba)
    assert "backend=plain (torch)" in repr(MaskedCRF(TAGS, "BIO"))


def test_without_numba_the_plain_backend_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    emissions, _, mask = _batch()
    crf = MaskedCRF(TAGS, "BIO")
    expected = crf.decode(emissions, mask)
    monkeypatch.setattr(importlib.util, "find_spec", _no_numba)
    monkeypatch.setattr(backends, "_loaded", {})
    assert backends.backend_for("auto", emissions)[0] == backends.BACKENDS["plain"]
    assert crf.decode(emissions, mask) == expected


def test_a_backend_that_cannot_run_there_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    emissions, tags, mask = _batch()
    monkeypatch.setattr(backends, "_loaded", {})
    with pytest.raises(ValueError, match="backend 'gpu' computes on cuda tensors, these are on cpu"):
        MaskedCRF(TAGS, "BIO", backend="gpu")(emissions, tags, mask)
    monkeypatch.setattr(importlib.util, "find_spec", _no_numba)
    with pytest.raises(MissingExtraError, match="backend 'cpu' needs numba: pip install numba"):
        MaskedCRF(TAGS, "BIO", backend="cpu")(emissions, tags, mask)
    with pytest.raises(ValueError, match="backend must be one of auto, reference, plain, cpu, gpu"):
        MaskedCRF(TAGS, "BIO", backend="tpu")


@pytest.mark.parametrize("reduction", ["mean", "sum", "token_mean"])
def test_what_stands_on_the_loss_scales_its_gradients(crf: MaskedCRF, reduction: str) -> None:
    emissions, tags, mask = _batch()
    emissions.requires_grad_()
    wanted = [emissions, *crf.parameters()]
    expected = torch.autograd.grad(-2.5 * crf(emissions, tags, mask, reduction="none").sum(), wanted)
    divisor = {"mean": len(mask), "sum": 1, "token_mean": mask.sum()}[reduction]
    found = torch.autograd.grad(-2.5 * divisor * crf(emissions, tags, mask, reduction=reduction), wanted)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("operator", ["marginals", "viterbi", "nbest", "sample"])
def test_operators_keep_to_what_they_declare_in_single_precision_too(backend: str, operator: str) -> None:
    emissions, _, mask = _batch(torch.float32)
    parameters = [torch.randn(n) for n in ((5, 5), (5,), (5,))]
    uniforms = torch.rand(6, 2, 8, dtype=torch.float64)
    extra = {"nbest": (3,), "sample": (uniforms,)}.get(operator, ())
    arguments = (emissions, mask, *parameters, *extra, backend)
    operation = getattr(torch.ops.maskedcrf, operator).default
    result = torch.library.opcheck(operation, arguments, test_utils=("test_schema", "test_faketensor"))
    assert set(result.values()) == {"SUCCESS"}


@pytest.mark.parametrize("answer", ["marginals", "entropy"])
def test_compiled_answers_have_the_gradients_of_the_others(crf: MaskedCRF, answer: str) -> None:
    emissions, _, mask = _batch(torch.float64)
    emissions.requires_grad_()
    crf.double()

    def ask(given: torch.Tensor) -> torch.Tensor:
        return getattr(crf, answer)(given, mask).square().sum()

    (expected,) = torch.autograd.grad(ask(emissions), emissions)
    compiled = torch.compile(ask, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(emissions), emissions)
    torch.testing.assert_close(found, expected)
