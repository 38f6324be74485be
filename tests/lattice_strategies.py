"""Hypothesis-drawn CRFs with their brute-force truth."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from oracle import Lattice

from maskedcrf import Constraints, MaskedCRF, Scheme
from maskedcrf.tags.scheme import SCHEMES


@dataclass
class Case:
    """A CRF, a batch for it, and the oracle of each row."""

    constraints: Constraints
    emissions: torch.Tensor
    mask: torch.Tensor
    allowed: torch.Tensor | None
    parameters: dict[str, torch.Tensor]
    seed: int

    def layer(self, backend: str, mode: str = "train", dtype: torch.dtype = torch.float64) -> MaskedCRF:
        crf = MaskedCRF(self.constraints, mask=mode, backend=backend).to(device(backend), dtype)
        crf.load_state_dict(self.parameters)
        return crf

    def inputs(self, backend: str, dtype: torch.dtype = torch.float64) -> dict:
        where = device(backend)
        return {
            "emissions": self.emissions.to(where, dtype),
            "mask": self.mask.to(where),
            "allowed": None if self.allowed is None else self.allowed.to(where),
        }

    def oracles(self, mode: str = "train") -> list[Lattice]:
        size = len(self.constraints)
        free = mode == "off"
        rules = self.constraints
        values = {name: value.detach().double().cpu().numpy() for name, value in self.parameters.items()}
        found = []
        for row in range(len(self.mask)):
            on = self.mask[row].numpy()
            allowed = np.ones((on.sum(), size), bool) if self.allowed is None else self.allowed[row].numpy()[on]
            found.append(
                Lattice(
                    self.emissions[row].detach().double().numpy()[on],
                    values["transitions"],
                    values["start_transitions"],
                    values["end_transitions"],
                    np.ones((size, size), bool) if free else rules.legal,
                    np.ones(size, bool) if free else rules.start,
                    np.ones(size, bool) if free else rules.end,
                    allowed,
                )
            )
        return found

    def gold(self, mode: str = "train") -> torch.Tensor:
        """A random path of each oracle, in the batch's positions; -100 where the mask is off."""
        generator = np.random.default_rng(self.seed)
        tags = torch.full(self.mask.shape, -100)
        for row, oracle in enumerate(self.oracles(mode)):
            tags[row, self.mask[row]] = torch.from_numpy(oracle.paths[generator.integers(len(oracle.paths))])
        return tags


def device(backend: str) -> str:
    return "cuda" if backend == "gpu" else "cpu"


def case(seed: int, scheme: str, *, types: int = 1, kind: str = "normal", narrowed: bool = False) -> Case:
    """A seeded case: scheme over `types` types less some tags, three to four rows with any mask."""
    generator = np.random.default_rng(seed)
    tags = Scheme.get(scheme).tags(["PER", "LOC"][:types])
    constraints = _some_tags(tags, scheme, generator)
    size = len(constraints)
    longest = min(6, int(np.log(1500) / np.log(max(size, 2))))
    rows, width = int(generator.integers(1, 4)), longest + int(generator.integers(0, 3))
    mask = np.zeros((rows, width), bool)
    for row in range(rows):
        on = generator.choice(width, size=int(generator.integers(0, longest + 1)), replace=False)
        mask[row, on] = True
    emissions = _scores(generator, kind, (rows, width, size))
    emissions[~mask] = np.nan  # never to be read
    parameters = {
        "start_transitions": _scores(generator, kind, (size,)),
        "end_transitions": _scores(generator, kind, (size,)),
        "transitions": _scores(generator, kind, (size, size)),
    }
    made = Case(
        constraints,
        torch.from_numpy(emissions),
        torch.from_numpy(mask),
        None,
        {name: torch.from_numpy(value) for name, value in parameters.items()},
        seed,
    )
    if narrowed:
        made.allowed = _allowed_around(made, generator)
    return made


def _some_tags(tags: list[str], scheme: str, generator: np.random.Generator) -> Constraints:
    """All tags, or all but one where that leaves a legal path (ATIS has types without I-)."""
    kept = [tag for tag in tags if tag != tags[int(generator.integers(0, 2 * len(tags)) % len(tags)) or 1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Constraints.from_scheme(kept if generator.random() < 0.3 else tags, scheme)


def _scores(generator: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "ties":
        return generator.integers(-1, 2, shape).astype(float)
    if kind == "huge":
        return generator.uniform(-1e4, 1e4, shape)
    return generator.normal(0, 2, shape)


def _allowed_around(made: Case, generator: np.random.Generator) -> torch.Tensor:
    """Random allowed sets that hold at least one legal path."""
    gold = made.gold()
    allowed = torch.from_numpy(generator.random(made.emissions.shape) < 0.6)
    rows, positions = made.mask.nonzero(as_tuple=True)
    allowed[rows, positions, gold[rows, positions]] = True
    return allowed


cases = st.builds(
    case,
    st.integers(0, 2**32 - 1),
    st.sampled_from(sorted(SCHEMES)),
    types=st.sampled_from([1, 1, 2]),
    kind=st.sampled_from(["normal", "normal", "ties", "huge"]),
    narrowed=st.booleans(),
)
