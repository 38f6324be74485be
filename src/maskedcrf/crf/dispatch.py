"""Which backend computes what, as operators of torch: the only file that knows every backend.

Each question is one operator, `torch.ops.maskedcrf.*`, so that `torch.compile`, `torch.export` and activation
checkpointing see one node and never the recursion inside. A backend is a module with the functions of `plain`.
The operators are registered by hand: `torch.library.custom_op` takes 100 us more for each loss and gradient.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.reference import Paths
from maskedcrf.errors import MissingExtraError


class Lattice(NamedTuple):
    """The arguments of every recursion, in their order; see `reference`."""

    emissions: Tensor
    mask: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


class Backend(NamedTuple):
    """What a backend needs: a library, and tensors on one kind of device (None: any)."""

    title: str
    library: str = "torch"
    device: str | None = None


BACKENDS = {
    "reference": Backend("reference (torch)"),
    "plain": Backend("plain (torch)"),
    "cpu": Backend("cpu (numba)", "numba", "cpu"),
    "gpu": Backend("gpu (Triton)", "triton", "cuda"),
}
_PREFERRED = {backend.device: name for name, backend in BACKENDS.items() if backend.device}
_modules: dict[tuple[str, str], Any] = {}


def known_backend(name: str) -> str:
    """The name, if there is such a backend."""
    if name != "auto" and name not in BACKENDS:
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {name!r}")
    return name


def describe(backend: str, device: torch.device) -> str:
    """The backend that answers on this device, for `repr`."""
    return BACKENDS[_choose(backend, device.type)].title


def _choose(backend: str, device: str) -> str:
    if backend != "auto":
        return backend
    preferred = _PREFERRED.get(device)
    return preferred if preferred and importlib.util.find_spec(BACKENDS[preferred].library) else "plain"


def _module(backend: str, tensor: Tensor) -> Any:
    """The module that computes, imported on first use."""
    key = backend, tensor.device.type
    if key not in _modules:
        name = _choose(*key)
        needs = BACKENDS[name]
        if needs.device not in (None, key[1]):
            raise ValueError(f"backend {name!r} computes on {needs.device} tensors, these are on {key[1]}: use 'auto'")
        if not importlib.util.find_spec(needs.library):
            raise MissingExtraError(
                f"backend {name!r} needs {needs.library}: pip install {needs.library}, or use 'auto'"
            )
        _modules[key] = importlib.import_module(f"maskedcrf.crf.{name}")
    return _modules[key]


def negative_log_likelihood(
    emissions: Tensor, tags: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, *, backend: str
) -> Tensor:
    """(B,): -log P(tags), in the dtype of the emissions."""
    return _losses(emissions, tags, mask, transitions, start, end, backend)


def log_partition(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, *, backend: str
) -> Tensor:
    """(B,): log of the summed exp-scores of all legal paths."""
    return _losses(emissions, None, mask, transitions, start, end, backend)


def marginals(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, *, backend: str
) -> Tensor:
    """(B, T, D): P(tag j at position t); differentiable, through the reference."""
    lattice = Lattice(emissions, mask, transitions, start, end)
    if backend == "reference" or _wants_gradient(lattice):
        return reference.marginals(*widen(lattice)).to(emissions.dtype)
    shares: Tensor = _OPERATORS.marginals(*lattice, backend)
    return shares


def viterbi(emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, *, backend: str) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path."""
    if backend == "reference":
        return reference.viterbi(*widen(Lattice(emissions, mask, transitions, start, end)))
    if not _watched():
        with torch.no_grad():
            found: Paths = _module(backend, emissions).viterbi(emissions, mask, transitions, start, end)
        return found
    return Paths(*_OPERATORS.viterbi(emissions, mask, transitions, start, end, backend))


def nbest(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int, *, backend: str
) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths."""
    if backend == "reference":
        return reference.nbest(*widen(Lattice(emissions, mask, transitions, start, end)), k)
    return Paths(*_OPERATORS.nbest(emissions, mask, transitions, start, end, k, backend))


def sample(
    emissions: Tensor,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    uniforms: Tensor,
    *,
    backend: str,
) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution as `uniforms` (B, n, T) decide."""
    if backend == "reference":
        return reference.sample(*widen(Lattice(emissions, mask, transitions, start, end)), uniforms)
    tags: Tensor = _OPERATORS.sample(emissions, mask, transitions, start, end, uniforms, backend)
    return tags


def to_lists(tags: Tensor, mask: Tensor) -> list[list[int]]:
    """Each row's labelled ids as a list."""
    on, ids = mask.cpu().numpy(), tags.cpu().numpy()
    flat = ids[on].tolist()
    ends = on.sum(1).cumsum().tolist()
    return [flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def widen(lattice: Lattice) -> Lattice:
    """The lattice in double, where the device has it."""
    wide = _wide(lattice.emissions)
    return Lattice(*(tensor.to(wide) if tensor.is_floating_point() else tensor for tensor in lattice))


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _wants_gradient(tensors: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in tensors)


def _losses(
    emissions: Tensor,
    tags: Tensor | None,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    backend: str,
) -> Tensor:
    lattice = emissions, tags, mask, transitions, start, end
    if backend == "reference":
        return _reference_losses(*lattice)
    losses: Tensor
    if _watched():
        losses = _OPERATORS.loss(*lattice, backend)[0]
    elif _wants_gradient(lattice):
        losses = _Loss.apply(*lattice, backend)[0]  # type: ignore[no-untyped-call]
    else:
        losses = _module(backend, emissions).forward(*lattice)[0]
    return losses


def _watched() -> bool:
    """Something looks at operators, such as a compiler or a tracer; if not, their price (0.1 ms a step) is saved."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def _reference_losses(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    lattice = widen(Lattice(emissions, mask, transitions, start, end))
    if tags is None:
        return reference.log_partition(*lattice).to(emissions.dtype)
    return reference.negative_log_likelihood(lattice[0], tags, *lattice[1:]).to(emissions.dtype)


_LATTICE = "Tensor emissions, Tensor mask, Tensor transitions, Tensor start, Tensor end"
_GOLD = "Tensor emissions, Tensor? tags, Tensor mask, Tensor transitions, Tensor start, Tensor end, str backend"
_SCHEMAS = (
    f"loss({_GOLD}) -> (Tensor, Tensor)",
    f"loss_backward(Tensor upstream, Tensor saved, {_GOLD}) -> (Tensor, Tensor, Tensor, Tensor)",
    f"marginals({_LATTICE}, str backend) -> Tensor",
    f"viterbi({_LATTICE}, str backend) -> (Tensor, Tensor)",
    f"nbest({_LATTICE}, int k, str backend) -> (Tensor, Tensor)",
    f"sample({_LATTICE}, Tensor uniforms, str backend) -> Tensor",
)


def _kernel(name: str, emissions_at: int = 0) -> Callable[..., Any]:
    """The backend's function of that name; the backend is the operator's last argument."""

    def compute(*args: Any) -> Any:
        result = getattr(_module(args[-1], args[emissions_at]), name)(*args[:-1])
        return tuple(result) if isinstance(result, tuple) else result

    return compute


_compute_loss, _compute_loss_backward = _kernel("forward"), _kernel("backward", 2)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            compute = _OPERATORS.loss if _watched() else _compute_loss
            losses, saved = compute(*args)
        ctx.save_for_backward(saved, *args[:-1])
        ctx.backend = args[-1]
        ctx.mark_non_differentiable(saved)
        return losses, saved

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Any) -> Any:
        compute = _OPERATORS.loss_backward if _watched() or torch.is_grad_enabled() else _compute_loss_backward
        gradients = compute(upstream, *ctx.saved_tensors, ctx.backend)
        return gradients[0], None, None, *gradients[1:], None


class _LossBackward(torch.autograd.Function):
    """The gradient as a function of its own: its gradient goes through the reference."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            gradients = _OPERATORS.loss_backward(*args)
        ctx.save_for_backward(args[0], *args[2:-1])
        return gradients

    @staticmethod
    def backward(ctx: Any, *upstreams: Any) -> Any:
        upstream, emissions, tags, mask, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            # New nodes, so that only what is asked for is differentiated and a third derivative still finds its way.
            wanted = [one.view_as(one) if one.requires_grad else one.detach().requires_grad_() for one in
                      (upstream, emissions, *parameters)]  # fmt: skip
            losses = _reference_losses(wanted[1], tags, mask, *wanted[2:])
            first = torch.autograd.grad(losses, wanted[1:], wanted[0], create_graph=True)
            create_graph = torch.is_grad_enabled()
            second = torch.autograd.grad(first, wanted, upstreams, create_graph=create_graph, allow_unused=True)
        return second[0], None, second[1], None, None, *second[2:], None


def _differentiable(name: str, function: Any = None) -> Callable[..., Any]:
    """What an operator does where gradients are recorded: `function`, or nothing about them."""

    def compute(*args: Any) -> Any:
        if function and _wants_gradient(args):
            return function.apply(*args)
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(_OPERATORS, name)(*args)

    return compute


def _shape_of_loss(emissions: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return emissions.new_empty(emissions.shape[0]), _module(rest[-1], emissions).empty_saved(emissions)


def _shape_of_loss_backward(upstream: Tensor, saved: Tensor, emissions: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(one.new_empty(one.shape) for one in (emissions, *rest[2:5]))


def _shape_of_marginals(emissions: Tensor, *rest: Any) -> Tensor:
    return emissions.new_empty(emissions.shape)


def _shape_of_viterbi(emissions: Tensor, mask: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    tags = mask.new_empty(mask.shape, dtype=torch.int64)
    return tags, emissions.new_empty(mask.shape[0], dtype=_wide(emissions))


def _shape_of_nbest(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int, backend: str
) -> tuple[Tensor, Tensor]:
    tags, scores = _shape_of_viterbi(emissions, mask)
    return tags.new_empty((mask.shape[0], k, mask.shape[1])), scores.new_empty((mask.shape[0], k))


def _shape_of_sample(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor, backend: str
) -> Tensor:
    return uniforms.new_empty(uniforms.shape, dtype=torch.int64)


_LIBRARY: Any = torch.library.Library("maskedcrf", "DEF")  # type: ignore[no-untyped-call]
for _schema in _SCHEMAS:
    _LIBRARY.define(_schema)

for _name, _compute, _shapes, _gradient in (
    ("loss", _compute_loss, _shape_of_loss, _Loss),
    ("loss_backward", _compute_loss_backward, _shape_of_loss_backward, _LossBackward),
    ("marginals", _kernel("marginals"), _shape_of_marginals, None),
    ("viterbi", _kernel("viterbi"), _shape_of_viterbi, None),
    ("nbest", _kernel("nbest"), _shape_of_nbest, None),
    ("sample", _kernel("sample"), _shape_of_sample, None),
):
    _LIBRARY.impl(_name, _compute, "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _differentiable(_name, _gradient), "Autograd")
    torch.library.register_fake(f"maskedcrf::{_name}", _shapes, lib=_LIBRARY)

_OPERATORS = torch.ops.maskedcrf
