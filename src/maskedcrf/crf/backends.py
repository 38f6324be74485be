"""Which backend computes on which device: the only file that knows every backend."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from torch import Tensor

from maskedcrf.crf.reference import Paths
from maskedcrf.crf.scores import ExcludedSteps
from maskedcrf.errors import MaskedCRFError, MissingExtraError


class Kernels(Protocol):
    """The functions of a fast backend, which is a module.

    Scores come in the order of `reference`, -inf where excluded. Every sum over paths is computed in the widest
    precision of the device, whatever comes in; masked positions are never read; what is excluded has no mass, and a
    gradient of exactly 0. `matmul` is the shortest example.
    """

    def forward(
        self, emissions: Tensor, tags: Tensor | None, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, /
    ) -> tuple[Tensor, Tensor]:
        """(B,): log Z - score of `tags`, or log Z without tags; and one tensor that `backward` needs."""

    def empty_saved(self, emissions: Tensor, /) -> Tensor:
        """A tensor like the one that `forward` saves, for compilers, which only ask for its shape."""

    def backward(
        self,
        upstream: Tensor,
        saved: Tensor,
        emissions: Tensor,
        tags: Tensor | None,
        mask: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        /,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Gradients of sum(upstream * losses) by emissions, transitions, start and end."""

    def loss_and_gradients(
        self,
        emissions: Tensor,
        tags: Tensor | None,
        mask: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        excluded: ExcludedSteps | None,
        /,
        *,
        mean: bool,
        flag: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Callable[[Tensor], Sequence[Tensor]]]:
        """Sum or mean of the losses, the losses (B,), and what hands out the gradients, once, times a number.

        The scores come as they are; the steps in `excluded` are left out here. The sum or mean also goes to `flag`.
        """

    def marginals(self, emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, /) -> Tensor:
        """(B, T, D): P(tag at position); zero where not labelled."""

    def entropy(self, emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, /) -> Tensor:
        """(B,): log Z less the expected score of a path."""

    def viterbi(self, emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, /) -> Paths:
        """Tags (B, T) and score (B,) of the best path; of equals, the one with the lowest ids from the end."""

    def nbest(
        self, emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int, /
    ) -> Paths:
        """Tags (B, k, T) and scores (B, k) of the k best paths; score -inf where there are fewer."""

    def sample(
        self, emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor, uniforms: Tensor, /
    ) -> Tensor:
        """Tags (B, n, T) of n paths drawn from the distribution as `uniforms` (B, n, T) decide."""

    def span_probability(
        self,
        emissions: Tensor,
        mask: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        spans: Tensor,
        member: Tensor,
        continues: Tensor,
        /,
    ) -> Tensor:
        """(N,): P(this very segment is in the path), as `reference.span_probability`."""


if TYPE_CHECKING:  # mypy holds every backend against the protocol here
    from maskedcrf.crf import cpu, matmul
    from maskedcrf.crf.triton import launch

    _KERNELS: tuple[Kernels, ...] = (matmul, cpu, launch)


class Backend(NamedTuple):
    """Where the functions of a backend are, and what it needs."""

    title: str
    module: str
    library: str = "torch"
    device: str | None = None
    """The one kind of device it computes on; None for any."""
    any_number_of_tags: bool = True
    """Whether it takes more than `MANY_TAGS`."""
    takes_exclusions: bool = False
    """Whether its `viterbi` may be given `ExcludedSteps` instead of scores of -inf."""


BACKENDS = {
    "reference": Backend("reference (torch)", "reference"),
    "plain": Backend("plain (torch)", "matmul"),
    "cpu": Backend("cpu (numba)", "cpu", "numba", "cpu"),
    "gpu": Backend("gpu (Triton)", "triton.launch", "triton", "cuda", any_number_of_tags=False, takes_exclusions=True),
}
MANY_TAGS = 1024
"""A program on a GPU has at most 1024 threads."""
_PREFERRED = {backend.device: name for name, backend in BACKENDS.items() if backend.device}
_loaded: dict[tuple[str, str, bool], tuple[Backend, Kernels]] = {}


def require_backend(name: str) -> str:
    """The name, if there is such a backend."""
    if name != "auto" and name not in BACKENDS:
        raise MaskedCRFError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {name!r}")
    return name


def choose_backend(name: str, device: str, tags: int) -> Backend:
    """The backend of that name; for `auto`, the fastest on such a device that is installed."""
    if name == "auto":
        preferred = _PREFERRED.get(device)
        name = preferred if preferred and importlib.util.find_spec(BACKENDS[preferred].library) else "plain"
    chosen = BACKENDS[name]
    if tags <= MANY_TAGS or chosen.any_number_of_tags:
        return chosen
    return BACKENDS["plain"]


def backend_for(name: str, emissions: Tensor) -> tuple[Backend, Kernels]:
    """The backend that answers for these emissions, and its functions, imported on first use."""
    key = name, emissions.device.type, bool(emissions.shape[2] > MANY_TAGS)
    if key not in _loaded:
        _loaded[key] = _load(name, emissions.device.type, emissions.shape[2])
    return _loaded[key]


def _load(name: str, device: str, tags: int) -> tuple[Backend, Kernels]:
    named, chosen = choose_backend(name, device, 0), choose_backend(name, device, tags)
    if named.device not in (None, device):
        raise MaskedCRFError(f"backend {name!r} computes on {named.device} tensors, these are on {device}: use 'auto'")
    if not importlib.util.find_spec(named.library):
        raise MissingExtraError(f"backend {name!r} needs {named.library}: pip install {named.library}, or use 'auto'")
    if chosen is not named:
        warnings.warn(
            f"{named.title} computes with at most {MANY_TAGS} tags, here are {tags}: {chosen.title} takes over, slower",
            stacklevel=2,
        )
    return chosen, cast(Kernels, importlib.import_module(f"maskedcrf.crf.{chosen.module}"))
