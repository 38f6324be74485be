"""Which backend computes where, and what it takes and gives there."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import pytest
import torch
from lattice_strategies import device
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from maskedcrf import Constraints, MaskedCRF
from maskedcrf.crf import backends, reference, scores

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(backends, "_loaded", {})


@pytest.mark.usefixtures("everything_installed")
@pytest.mark.parametrize(
    ("name", "kind", "tags", "title"),
    [
        ("auto", "cpu", 9, "cpu (numba)"),
        ("auto", "cuda", 1024, "gpu (Triton)"),
        ("auto", "cuda", 1025, "plain (torch)"),
        ("gpu", "cuda", 1025, "plain (torch)"),
        ("auto", "cpu", 1025, "cpu (numba)"),
        ("auto", "mps", 9, "plain (torch)"),
        ("reference", "cuda", 1025, "reference (torch)"),
    ],
)
def test_every_device_and_number_of_tags_has_a_backend(name: str, kind: str, tags: int, title: str) -> None:
    assert backends.choose_backend(name, kind, tags).title == title


class _OnCuda:
    """Emissions as far as the choice of a backend looks at them."""

    device = torch.device("cuda")

    def __init__(self, tags: int) -> None:
        self.shape = (1, 1, tags)


@pytest.mark.usefixtures("everything_installed")
@pytest.mark.parametrize("name", ["auto", "gpu"])
def test_too_many_tags_for_a_gpu_go_to_the_plain_backend_with_one_warning(name: str) -> None:
    emissions: Any = _OnCuda(1500)
    with pytest.warns(UserWarning, match="at most 1024 tags, here are 1500: plain .* takes over") as warned:
        chosen, kernels = backends.backend_for(name, emissions)
    assert len(warned) == 1
    assert chosen == backends.BACKENDS["plain"]
    assert kernels.__name__ == "maskedcrf.crf.matmul"  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert backends.backend_for(name, emissions)[0] is chosen


class _NoFloat64(TorchDispatchMode):
    """Refuses what a device without double precision refuses."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            assert not (isinstance(one, torch.Tensor) and one.dtype == torch.float64), f"{function} makes float64"
        return result


@pytest.mark.parametrize("name", ["plain", "reference"])
def test_a_device_without_float64_is_never_asked_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    emissions, mask = torch.randn(3, 6, 5, generator=generator), torch.rand(3, 6, generator=generator) < 0.7
    emissions[1] *= 100  # out of the range of masses in single precision
    tags, spans = torch.zeros(3, 6, dtype=torch.long), [[(0, 1, "PER")]] * 3
    mask[:, 0] = True
    crf, exact = (MaskedCRF(TAGS, "BIO", backend=backend) for backend in (name, "reference"))
    exact.load_state_dict(crf.state_dict())
    exact = exact.double()
    questions = [
        lambda crf, emissions: crf(emissions, tags, mask),
        lambda crf, emissions: crf.log_prob(emissions, tags, mask),
        lambda crf, emissions: crf.log_partition(emissions, mask),
        lambda crf, emissions: crf.marginals(emissions, mask),
        lambda crf, emissions: crf.entropy(emissions, mask),
        lambda crf, emissions: crf.illegal_mass(emissions, mask),
        lambda crf, emissions: crf.partial_loss(emissions, emissions > -200, mask),
        lambda crf, emissions: torch.cat(crf.span_probability(emissions, spans, mask)),
        lambda crf, emissions: crf.decode_tensor(emissions, mask),
    ]
    expected = [ask(exact, emissions.double()).detach() for ask in questions]
    ranked = exact.nbest(emissions.double(), mask, k=2)
    monkeypatch.setattr(scores, "DEVICES_WITHOUT_FLOAT64", {"mps", "cpu"})
    with _NoFloat64():
        given = emissions.clone().requires_grad_()
        found = [ask(crf, given) for ask in questions]
        (gradient,) = torch.autograd.grad(found[0], given)
        drawn = crf.sample(given, mask, n=2)
        found_ranked = crf.nbest(given, mask, k=2)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.to(other.dtype), other, rtol=1e-4, atol=1e-4)
    assert gradient.isfinite().all()
    assert drawn.shape == (3, 2, 6)
    assert [[path for path, _ in row] for row in found_ranked] == [[path for path, _ in row] for row in ranked]


def test_batches_without_positions_have_answers_of_their_shape(backend: str) -> None:
    crf = MaskedCRF(TAGS, "BIO", backend=backend).to(device(backend))
    nothing = torch.zeros(2, 0, 5, device=device(backend))
    mask = torch.ones(2, 0, dtype=torch.bool, device=device(backend))
    for given in (None, mask):
        assert crf.decode_tensor(nothing, given).shape == (2, 0)
        assert crf.sample(nothing, given, n=3).shape == (2, 3, 0)
        assert crf.marginals(nothing, given).shape == (2, 0, 5)
        assert crf.entropy(nothing, given).tolist() == [0, 0]
        assert crf.decode(nothing, given) == [[], []]


KERNELS = ["plain", "cpu", pytest.param("gpu", marks=pytest.mark.gpu)]


def _arguments(dtype: torch.dtype, rows: int, length: int, where: str, *, slanted: bool) -> dict[str, tuple[Any, ...]]:
    """Of every operator, less the backend."""
    emissions = torch.randn(length, rows, 5, dtype=dtype, device=where).transpose(0, 1)
    emissions = emissions if slanted else emissions.contiguous()
    mask = torch.rand(rows, length, device=where) < 0.8
    tags = torch.zeros(rows, length, dtype=torch.long, device=where)
    parameters = [torch.randn(size, dtype=dtype, device=where) for size in ((5, 5), (5,), (5,))]
    parameters[0] = parameters[0].T if slanted else parameters[0]
    lattice = (emissions, mask, *parameters)
    uniforms = torch.rand(rows, 2, length, dtype=torch.float64, device=where)
    spans = torch.tensor([[0, 0, 1]] if rows and length and mask[0].any() else [], device=where).long().view(-1, 3)
    member = torch.ones(len(spans), 5, dtype=torch.bool, device=where)
    continues = torch.zeros(5, 5, dtype=torch.bool, device=where)
    return {
        "loss": (emissions, tags, *lattice[1:]),
        "loss_backward": (torch.ones(rows, dtype=dtype, device=where), None, emissions, tags, *lattice[1:]),
        "marginals": lattice,
        "entropy": lattice,
        "viterbi": lattice,
        "nbest": (*lattice, 3),
        "sample": (*lattice, uniforms),
        "span_probability": (*lattice, spans, member, continues),
    }


def _described(results: Any) -> list[tuple[Any, ...]]:
    return [(one.shape, one.dtype, one.stride(), one.device) for one in tree_leaves(results)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "length"), [(3, 4), (3, 0), (0, 4)])
@pytest.mark.parametrize("slanted", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_what_compilers_are_told_is_what_comes_out(
    name: str, slanted: bool, rows: int, length: int, dtype: torch.dtype
) -> None:
    """Shapes, dtypes, strides and devices of every operator, computed and pretended."""
    torch.manual_seed(0)
    found = _arguments(dtype, rows, length, "cuda" if name == "gpu" else "cpu", slanted=slanted)
    emissions, tags, *rest = found["loss"]
    saved = torch.ops.maskedcrf.loss(emissions, tags, *rest, name)[1]
    found["loss_backward"] = (found["loss_backward"][0], saved, *found["loss_backward"][2:])
    for operator, arguments in found.items():
        call = getattr(torch.ops.maskedcrf, operator)
        with torch._subclasses.FakeTensorMode() as pretended:
            copies = [pretended.from_tensor(one) if isinstance(one, torch.Tensor) else one for one in arguments]
            result = _described(call(*copies, name))
        assert result == _described(call(*arguments, name)), operator


def test_the_kernels_of_the_table_are_those_of_the_protocol() -> None:
    """A backend is a module with the functions of `Kernels`; mypy holds their types against it."""
    wanted = {name for name in vars(backends.Kernels) if not name.startswith("_")}
    assert wanted == {
        *("loss", "empty_saved", "loss_backward", "loss_and_gradients", "marginals", "entropy"),
        *("viterbi", "nbest", "sample", "span_probability"),
    }
    for name in ("plain", "cpu"):
        kernels = backends.backend_for(name, torch.zeros(1, 1, 5))[1]
        assert wanted <= set(dir(kernels))


def test_entropy_is_the_references_whatever_the_range(backend: str) -> None:
    generator = torch.Generator().manual_seed(2)
    for spread in (1.0, 60.0, 1e4):
        emissions = torch.randn(4, 9, 5, generator=generator, dtype=torch.float64) * spread + 1e5
        mask = torch.rand(4, 9, generator=generator) < 0.8
        mask[3] = False
        crf = MaskedCRF(Constraints.from_scheme(TAGS, "BIO"), backend=backend).to(device(backend)).double()
        given = crf._scores(emissions.to(device(backend)), mask.to(device(backend)))
        expected = reference.entropy(*given.exclude())
        found = crf.entropy(given.emissions.masked_fill(~given.mask[..., None], torch.nan), given.mask)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * max(1.0, spread / 100))
