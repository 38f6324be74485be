"""Which backend computes what, as operators of torch: the only file that knows every backend.

Each question is one operator, `torch.ops.maskedcrf.*`, so that `torch.compile`, `torch.export` and activation
checkpointing see one node and never the recursion inside. A backend is a module with the functions of `plain`.
The operators are registered by hand: `torch.library.custom_op` takes 100 us more for each loss and gradient.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.lattice import Illegal as Illegal
from maskedcrf.crf.lattice import Lattice as Lattice
from maskedcrf.crf.lattice import Scores, wide, widen
from maskedcrf.crf.reference import Paths
from maskedcrf.crf.shares import Shares
from maskedcrf.errors import MaskedCRFError, MissingExtraError


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
        raise MaskedCRFError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {name!r}")
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
            raise MaskedCRFError(
                f"backend {name!r} computes on {needs.device} tensors, these are on {key[1]}: use 'auto'"
            )
        if not importlib.util.find_spec(needs.library):
            raise MissingExtraError(
                f"backend {name!r} needs {needs.library}: pip install {needs.library}, or use 'auto'"
            )
        _modules[key] = importlib.import_module(f"maskedcrf.crf.{name}")
    return _modules[key]


def negative_log_likelihood(lattice: Lattice, tags: Tensor, *, backend: str) -> Tensor:
    """(B,): -log P(tags), in the dtype of the emissions."""
    return _losses(lattice, tags, backend)


class Reduced(NamedTuple):
    """The sum or the mean of the losses, the losses (B,), and whether a notice of the former is on its way."""

    total: Tensor
    losses: Tensor
    noticed: bool


def reduced_loss(lattice: Lattice, tags: Tensor, *, mean: bool, backend: str, notice: Tensor | None = None) -> Reduced:
    """The sum or the mean of the losses, differentiable; a GPU writes it to `notice` as well, where it can."""
    if _goes_alone(lattice, backend) and hasattr(_module(backend, lattice.emissions), "loss_and_gradients"):
        emissions, mask, transitions, start, end, illegal = lattice
        asked = _Asked(tags, mask, illegal, mean, backend, [])
        total: Tensor = _ReducedLoss.apply(asked, notice, emissions, transitions, start, end)  # type: ignore[no-untyped-call]
        return Reduced(total, asked.losses[0], notice is not None)
    losses = _losses(lattice, tags, backend)
    return Reduced(losses.mean() if mean else losses.sum(), losses, noticed=False)


def log_partition(lattice: Lattice, *, backend: str) -> Tensor:
    """(B,): log of the summed exp-scores of all legal paths."""
    return _losses(lattice, None, backend)


def marginals(lattice: Lattice, *, backend: str) -> Tensor:
    """(B, T, D): P(tag j at position t); differentiable, through the reference."""
    scores, wanted, own = lattice.scores(), _wants_gradient(lattice), _OPERATORS.marginals
    if backend == "reference" or (wanted and _watched()):
        return reference.marginals(*widen(scores)).to(lattice.emissions.dtype)
    return Shares.apply(own, backend, *scores) if wanted else own(*scores, backend)  # type: ignore[no-any-return, no-untyped-call]


def viterbi(lattice: Lattice, *, backend: str) -> Paths:
    """Tags (B, T) and score (B,) of the best legal path."""
    if backend != "reference" and _watched():
        return Paths(*_OPERATORS.viterbi(*lattice.scores(), backend))
    with torch.no_grad():
        if backend == "reference":
            return reference.viterbi(*widen(lattice.scores()))
        return Paths(*_module(backend, lattice.emissions).viterbi(*_unwatched(lattice, backend)))


def nbest(lattice: Lattice, k: int, *, backend: str) -> Paths:
    """Tags (B, k, T) and scores (B, k) of the k best legal paths."""
    if backend == "reference":
        return reference.nbest(*widen(lattice.scores()), k)
    return Paths(*_OPERATORS.nbest(*lattice.scores(), k, backend))


def sample(lattice: Lattice, uniforms: Tensor, *, backend: str) -> Tensor:
    """Tags (B, n, T) of n paths drawn from the distribution as `uniforms` (B, n, T) decide."""
    if backend == "reference":
        return reference.sample(*widen(lattice.scores()), uniforms)
    tags: Tensor = _OPERATORS.sample(*lattice.scores(), uniforms, backend)
    return tags


def span_probability(lattice: Lattice, spans: Tensor, member: Tensor, continues: Tensor, *, backend: str) -> Tensor:
    """(N,): P(this very segment is in the path); differentiable, through the reference."""
    scores, asked = lattice.scores(), (spans, member, continues)
    module = reference if backend == "reference" else _module(backend, lattice.emissions)
    if hasattr(module, "span_probability") and not (_wants_gradient(lattice) or _watched()):
        return module.span_probability(*scores, *asked)  # type: ignore[no-any-return]
    return reference.span_log_probability(*widen(scores), *asked).exp()


def _wants_gradient(tensors: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in tensors)


def _losses(lattice: Lattice, tags: Tensor | None, backend: str) -> Tensor:
    losses: Tensor
    if _goes_alone(lattice, backend):
        losses = _Loss.apply(tags, lattice.illegal, backend, *lattice[:5])  # type: ignore[no-untyped-call]
        return losses
    if backend == "reference":
        emissions, mask, *parameters = lattice.scores()
        return _reference_losses(emissions, tags, mask, *parameters)
    if _watched():
        emissions, *rest = lattice.scores()
        losses = _OPERATORS.loss(emissions, tags, *rest, backend)[0]
    else:
        given = _unwatched(lattice, backend)
        losses = _module(backend, lattice.emissions).forward(given[0], tags, *given[1:])[0]
    return losses


def _unwatched(lattice: Lattice, backend: str) -> Lattice | Scores:
    """What a backend is given past the operators: one that excludes by itself, as on a GPU, what is illegal, too."""
    return lattice if getattr(_module(backend, lattice.emissions), "EXCLUDES", False) else lattice.scores()


def _goes_alone(lattice: Lattice, backend: str) -> bool:
    """Gradients are wanted of a backend that has its own, and nobody watches."""
    return backend != "reference" and not _watched() and _wants_gradient(lattice)


def _watched() -> bool:
    """Something looks at operators, such as a compiler or a tracer; if not, their price (0.1 ms a step) is saved."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def _reference_losses(
    emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    wide, *rest = widen((emissions, mask, transitions, start, end))
    if tags is None:
        return reference.log_partition(wide, *rest).to(emissions.dtype)
    return reference.negative_log_likelihood(wide, tags, *rest).to(emissions.dtype)


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


@cache
def _kernel(name: str, emissions_at: int = 0) -> Callable[..., Any]:
    """The backend's function of that name; the backend is the operator's last argument."""

    def compute(*args: Any) -> Any:
        result = getattr(_module(args[-1], args[emissions_at]), name)(*args[:-1])
        return tuple(result) if isinstance(result, tuple) else result

    return compute


class _Loss(torch.autograd.Function):
    """The loss outside compilers: excluding what is illegal is part of it, so that its gradient is computed once."""

    @staticmethod
    def forward(ctx: Any, tags: Tensor | None, illegal: Illegal | None, backend: str, *given: Tensor) -> Tensor:
        emissions, mask, *parameters = Lattice(*given[:5], illegal).scores()  # type: ignore[call-arg, arg-type]
        losses: Tensor
        losses, saved = _module(backend, emissions).forward(emissions, tags, mask, *parameters)
        ctx.save_for_backward(saved, tags, *given, *parameters)
        ctx.illegal, ctx.backend = illegal, backend
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        saved, tags, *given = ctx.saved_tensors
        emissions, mask, *parameters = given[:2] + given[5:]
        if torch.is_grad_enabled():  # a second derivative is wanted: from the scores as they were given
            emissions, mask, *parameters = Lattice(*given[:5], ctx.illegal).scores()  # type: ignore[call-arg]
            gradients = _OPERATORS.loss_backward(upstream, saved, emissions, tags, mask, *parameters, ctx.backend)
        else:
            module = _module(ctx.backend, emissions)
            gradients = module.backward(upstream, saved, emissions, tags, mask, *parameters)
        return None, None, None, gradients[0], None, *gradients[1:]


class _Asked(NamedTuple):
    """What a reduced loss takes besides the scores, which alone have gradients; and where it leaves the losses (B,)."""

    tags: Tensor
    mask: Tensor
    illegal: Illegal | None
    mean: bool
    backend: str
    losses: list[Tensor]


class _ReducedLoss(torch.autograd.Function):
    """Sum or mean of the losses, with its gradients almost at once: going back is little more than a multiplication.

    The gradients are given away on the first way back; should there be another, they are computed anew.
    """

    @staticmethod
    def forward(ctx: Any, asked: _Asked, notice: Tensor | None, *scores: Tensor) -> Tensor:
        reduced: Tensor
        reduced, losses, ctx.finish = _at_once(asked, scores, notice)
        asked.losses.append(losses)
        ctx.save_for_backward(*scores)
        ctx.asked = asked
        return reduced

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        if torch.is_grad_enabled():
            return None, None, *_ReducedLoss._differentiable(ctx, upstream)
        finish, ctx.finish = ctx.finish, None
        return None, None, *(finish or _at_once(ctx.asked, ctx.saved_tensors)[2])(upstream)

    @staticmethod
    def _differentiable(ctx: Any, upstream: Tensor) -> Any:
        """The gradients through operators, which have gradients themselves."""
        tags, mask, illegal, mean, backend, _ = ctx.asked
        emissions, transitions, start, end = ctx.saved_tensors
        emissions, _, *parameters = Lattice(emissions, mask, transitions, start, end, illegal).scores()
        with torch.no_grad():
            saved = _module(backend, emissions).forward(emissions, tags, mask, *parameters)[1]
        each = (upstream / len(mask) if mean else upstream).expand(len(mask))
        return _OPERATORS.loss_backward(each, saved, emissions, tags, mask, *parameters, backend)


def _at_once(asked: _Asked, scores: Sequence[Tensor], notice: Tensor | None = None) -> Any:
    tags, mask, illegal, mean, backend, _ = asked
    emissions, *parameters = scores
    compute = _module(backend, emissions).loss_and_gradients
    options = {"mean": mean} if notice is None else {"mean": mean, "notice": notice}
    return compute(emissions, tags, mask, *parameters, illegal, **options)


class _WatchedLoss(torch.autograd.Function):
    """The same as an operator, which compilers see as one node."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            losses, saved = _OPERATORS.loss(*args)
        ctx.save_for_backward(saved, *args[:-1])
        ctx.backend = args[-1]
        ctx.mark_non_differentiable(saved)
        return losses, saved

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Any) -> Any:
        gradients = _OPERATORS.loss_backward(upstream, *ctx.saved_tensors, ctx.backend)
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
    return tags, emissions.new_empty(mask.shape[0], dtype=wide(emissions))


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
    ("loss", _kernel("forward"), _shape_of_loss, _WatchedLoss),
    ("loss_backward", _kernel("backward", 2), _shape_of_loss_backward, _LossBackward),
    ("marginals", _kernel("marginals"), _shape_of_marginals, None),
    ("viterbi", _kernel("viterbi"), _shape_of_viterbi, None),
    ("nbest", _kernel("nbest"), _shape_of_nbest, None),
    ("sample", _kernel("sample"), _shape_of_sample, None),
):
    _LIBRARY.impl(_name, _compute, "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _differentiable(_name, _gradient), "Autograd")
    torch.library.register_fake(f"maskedcrf::{_name}", _shapes, lib=_LIBRARY)

_OPERATORS = torch.ops.maskedcrf
