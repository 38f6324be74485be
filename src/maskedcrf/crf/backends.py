"""Which backend computes on which device: the only file that knows every backend."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from torch import Tensor

from maskedcrf.crf.reference import Paths
from maskedcrf.crf.scores import LatticeScores, Scores
from maskedcrf.errors import MaskedCRFError, MissingExtraError

_LossInputs = tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor, Tensor]
_Gradients = tuple[Tensor, Tensor, Tensor, Tensor]


class Kernels(Protocol):
    """The functions of a fast backend, which is a module; `matmul` is the shortest.

    Scores come in the order of `reference`, emissions, mask, transitions, start, end, and are -inf where excluded. Sums
    over paths are computed in the widest precision of the device, whatever comes in. Masked positions are never read.
    What is excluded has no mass, and a gradient of exactly 0.
    """

    def loss(self, *inputs: *_LossInputs) -> tuple[Tensor, Tensor]:
        """Emissions, tags, mask, ... to log Z - score of the tags, or log Z (B,); and a tensor for `loss_backward`."""

    def empty_saved(self, emissions: Tensor, /) -> Tensor:
        """A tensor like the one that `loss` saves: compilers ask for its shape."""

    def loss_backward(self, upstream: Tensor, saved: Tensor, *inputs: *_LossInputs) -> _Gradients:
        """Upstream (B,), saved, and what `loss` was given, to gradients of emissions, transitions, start and end."""

    def loss_and_gradients(
        self, scores: LatticeScores, tags: Tensor, /, *, mean: bool, flag: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Callable[[Tensor], Sequence[Tensor]]]:
        """Sum or mean of the losses, the losses (B,), and a function from a factor to the gradients times it.

        The function may be called once. The sum or mean is also written to `flag`.
        """

    def marginals(self, *scores: *Scores) -> Tensor:
        """P(tag at position) (B, T, D); zero where not labelled."""

    def entropy(self, *scores: *Scores) -> Tensor:
        """log Z less the expected score of a path (B,)."""

    def viterbi(self, *scores: *Scores) -> Paths:
        """The best path; of equals, the one with the lowest ids from the end."""

    def nbest(self, *scores_and_k: *tuple[*Scores, int]) -> Paths:
        """The k best paths (B, k, T); score -inf where there are fewer."""

    def sample(self, *scores_and_uniforms: *tuple[*Scores, Tensor]) -> Tensor:
        """As many paths as uniforms (B, n, T), drawn as these decide (B, n, T)."""

    def span_probability(self, *scores_and_spans: *tuple[*Scores, Tensor, Tensor, Tensor]) -> Tensor:
        """P(this very segment is in the path) (N,), for spans, member, continues; see `reference`."""


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
