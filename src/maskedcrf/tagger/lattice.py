"""Lattices over the emissions of a frozen encoder: likelihood, best paths, entity probabilities; and fitting one."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.evaluation.reliability import Reliability, reliability
from maskedcrf.tags.segments import Segment, read_paths

BATCH_SENTENCES = 256
TRANSITIONS = ("transitions", "start", "end")
MAX_LOG_TEMPERATURE = math.log(20)
STEPS, TOLERANCE = 60, 3e-5
"""Of L-BFGS: iterations, and the change in nats a sentence below which it stops."""


class Example(NamedTuple):
    """One sentence: the frozen model's scores, and its gold."""

    emissions: Tensor
    """(T, D)."""
    tags: Tensor | None
    """(T,): gold tag ids; None where the model cannot express the gold path, which likelihood then leaves out."""
    gold: frozenset[Segment]


class Batch(NamedTuple):
    """Sentences of similar length."""

    emissions: Tensor
    tags: Tensor
    mask: Tensor
    known: Tensor
    """(B,): sentences whose gold path the model can express."""
    indices: list[int]


@dataclass(frozen=True, slots=True)
class Lattice:
    """What is fitted: scale and bias of the emissions, and the transition scores."""

    scale: float
    bias: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor

    def divided_by(self, temperature: float) -> Lattice:
        """The same best paths, other probabilities."""
        scores = (each / temperature for each in (self.bias, self.transitions, self.start, self.end))
        return Lattice(self.scale / temperature, *scores)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which parts are fitted, and how strongly they are held back."""

    name: str
    parts: tuple[str, ...] = ()
    l2: float | None = None

    def __str__(self) -> str:
        return self.name if self.l2 is None else f"{self.name}, l2 {self.l2:g}"


def make_batches(examples: Sequence[Example]) -> list[Batch]:
    """The sentences in padded batches of similar length; `indices` say which they are."""
    order = sorted(range(len(examples)), key=lambda place: len(examples[place].emissions))
    batches = []
    for begin in range(0, len(order), BATCH_SENTENCES):
        chosen = order[begin : begin + BATCH_SENTENCES]
        rows = [examples[place] for place in chosen]
        shape = len(rows), max(1, max(len(each.emissions) for each in rows))
        emissions = torch.zeros(*shape, rows[0].emissions.shape[1], dtype=torch.float64)
        tags, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
        for row, each in enumerate(rows):
            emissions[row, : len(each.emissions)] = each.emissions
            mask[row, : len(each.emissions)] = True
            if each.tags is not None:
                tags[row, : len(each.tags)] = each.tags
        known = torch.tensor([each.tags is not None for each in rows])
        batches.append(Batch(emissions, tags, mask, known, chosen))
    return batches


class LatticeScorer:
    """The CRF's rules with any scores: likelihood, best paths, entity probabilities."""

    def __init__(self, crf: MaskedCRF) -> None:
        self.crf = copy.deepcopy(crf).cpu().double().requires_grad_(True)
        self.crf.mask_mode = "train"
        constraints = crf.constraints
        assert constraints.scheme is not None, "a tagger is built from a scheme"
        self.tags, self.scheme = constraints.tags, constraints.scheme
        scores = (self.crf.transitions, self.crf.start_transitions, self.crf.end_transitions)
        bias = torch.zeros(len(self.tags), dtype=torch.float64)
        self.base = Lattice(1.0, bias, *(each.detach().clone() for each in scores))

    def fit(self, batches: Sequence[Batch], recipe: Recipe, begin: Lattice) -> Lattice:
        """The lattice of the largest penalised likelihood."""
        known = [_known(batch) for batch in batches if batch.known.any()]
        sentences = sum(len(batch.mask) for batch in known)
        if not sentences or not recipe.parts:
            return begin
        values = {name: value.requires_grad_(name in recipe.parts) for name, value in self._load(begin).items()}
        prior = {name: torch.as_tensor(getattr(self.base, name), dtype=torch.float64) for name in recipe.parts}
        chosen = [values[name] for name in recipe.parts]
        optimiser = torch.optim.LBFGS(
            chosen, max_iter=STEPS, tolerance_change=TOLERANCE, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimiser.zero_grad()
            total = torch.zeros((), dtype=torch.float64)
            for batch in known:
                emissions = batch.emissions * values["scale"] + values["bias"]
                loss = self.crf(emissions, batch.tags, batch.mask, reduction="sum") / sentences
                loss.backward()
                total += loss.detach()
            squares = torch.stack([((values[name] - prior[name]) ** 2).sum() for name in recipe.parts])
            penalty = squares.sum() * (recipe.l2 or 0.0) / (2 * sentences)
            penalty.backward()  # type: ignore[no-untyped-call]
            return total + penalty.detach()

        with torch.enable_grad():
            optimiser.step(closure)  # type: ignore[no-untyped-call]
        scale = float(values["scale"].detach())
        return Lattice(scale, *(values[name].detach().clone() for name in ("bias", *TRANSITIONS)))

    def _load(self, lattice: Lattice) -> dict[str, Tensor]:
        """Put a lattice's scores into the CRF; what may be fitted, by name."""
        crf = self.crf
        with torch.no_grad():
            crf.transitions.copy_(lattice.transitions)
            crf.start_transitions.copy_(lattice.start)
            crf.end_transitions.copy_(lattice.end)
        return {
            "scale": torch.tensor(lattice.scale, dtype=torch.float64),
            "bias": lattice.bias.clone(),
            "transitions": crf.transitions,
            "start": crf.start_transitions,
            "end": crf.end_transitions,
        }

    @torch.no_grad()
    def loss(self, lattice: Lattice, batches: Iterable[Batch]) -> float:
        """Sum of the negative log-likelihoods of the gold paths that can be expressed."""
        self._load(lattice)
        total = 0.0
        for batch in batches:
            if batch.known.any():
                own = _known(batch)
                emissions = own.emissions * lattice.scale + lattice.bias
                total += float(self.crf(emissions, own.tags, own.mask, reduction="sum"))
        return total

    @torch.no_grad()
    def segments(self, lattice: Lattice, batch: Batch) -> list[list[Segment]]:
        """The entities of each sentence's best path."""
        self._load(lattice)
        paths = self.crf.decode(batch.emissions * lattice.scale + lattice.bias, batch.mask)
        return read_paths(paths, self.tags, self.scheme)

    def count(
        self, lattice: Lattice, batches: Sequence[Batch], gold: Sequence[frozenset[Segment]]
    ) -> tuple[NDArray[np.int64], float]:
        """(sentences, 3): entities right, predicted and gold, in the order of `gold`; and the loss."""
        counts = np.zeros((len(gold), 3), dtype=np.int64)
        for batch in batches:
            for place, row in zip(batch.indices, self.segments(lattice, batch), strict=True):
                counts[place] = len(gold[place].intersection(row)), len(row), len(gold[place])
        return counts, self.loss(lattice, batches)

    def temperature(self, held_out: Sequence[tuple[Lattice, Sequence[Batch]]]) -> float:
        """The one that makes held-out gold likeliest: likelihood has a single peak in its inverse."""

        def loss(log_temperature: float) -> float:
            divided = ((lattice.divided_by(math.exp(log_temperature)), batches) for lattice, batches in held_out)
            return sum(self.loss(lattice, batches) for lattice, batches in divided)

        return math.exp(golden_section(loss, -MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE))

    @torch.no_grad()
    def reliability(
        self, held_out: Sequence[tuple[Lattice, Sequence[Batch]]], gold: Sequence[Sequence[frozenset[Segment]]]
    ) -> Reliability:
        """How often entities of the best path are right, by their exact probability."""
        shares: list[float] = []
        right: list[bool] = []
        for (lattice, batches), own in zip(held_out, gold, strict=True):
            for batch in batches:
                rows = self.segments(lattice, batch)
                spans = [[(start, end, kind) for start, end, kind, _ in row] for row in rows]
                emissions = batch.emissions * lattice.scale + lattice.bias
                for share in self.crf.span_probability(emissions, spans, batch.mask):
                    shares += share.tolist()
                right += [each in own[place] for place, row in zip(batch.indices, rows, strict=True) for each in row]
        return reliability(shares, right)


def _known(batch: Batch) -> Batch:
    if batch.known.all():
        return batch
    on = batch.known
    indices = [place for place, known in zip(batch.indices, on.tolist(), strict=True) if known]
    return Batch(batch.emissions[on], batch.tags[on], batch.mask[on], on[on], indices)


def golden_section(function: Callable[[float], float], low: float, high: float, *, width: float = 2e-3) -> float:
    """Where a function with one valley between `low` and `high` is smallest, to within `width`."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    values = {left: function(left), right: function(right)}
    while high - low > width:
        if values[left] <= values[right]:
            high, right, left = right, left, right - ratio * (right - low)
            values.setdefault(left, function(left))
        else:
            low, left, right = left, right, left + ratio * (high - left)
            values.setdefault(right, function(right))
    return (low + high) / 2
