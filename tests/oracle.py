"""Every legal path of a small lattice, listed and scored one by one: the truth the library is tested against.

No torch, and nothing of maskedcrf: numpy, and rules written out by hand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class Lattice:
    """One sentence of n labelled positions and D tags; all paths of it are listed at birth."""

    emissions: NDArray  # (n, D)
    transitions: NDArray  # (D, D)
    start: NDArray  # (D,)
    end: NDArray  # (D,)
    legal: NDArray  # (D, D) bool
    start_legal: NDArray  # (D,) bool
    end_legal: NDArray  # (D,) bool
    allowed: NDArray  # (n, D) bool

    def __post_init__(self) -> None:
        length, size = self.emissions.shape
        paths = [path for path in itertools.product(range(size), repeat=length) if self.is_legal(path)]
        self.paths = np.array(paths, dtype=int).reshape(len(paths), length)
        self.scores = np.array([self.score(path) for path in paths])

    def is_legal(self, path: tuple[int, ...]) -> bool:
        if not path:
            return True
        return bool(
            self.start_legal[path[0]]
            and self.end_legal[path[-1]]
            and all(self.legal[a, b] for a, b in itertools.pairwise(path))
            and all(self.allowed[t, tag] for t, tag in enumerate(path))
        )

    def score(self, path: tuple[int, ...]) -> float:
        if not len(path):
            return 0.0
        total = self.start[path[0]] + self.end[path[-1]]
        total += sum(self.emissions[t, tag] for t, tag in enumerate(path))
        return float(total + sum(self.transitions[a, b] for a, b in itertools.pairwise(path)))

    @property
    def log_partition(self) -> float:
        highest = self.scores.max()
        return float(highest + np.log(np.exp(self.scores - highest).sum()))

    @property
    def probabilities(self) -> NDArray:
        return np.exp(self.scores - self.log_partition)

    def marginals(self) -> NDArray:
        result = np.zeros(self.emissions.shape)
        for path, probability in zip(self.paths, self.probabilities, strict=True):
            result[np.arange(len(path)), path] += probability
        return result

    def transition_counts(self) -> NDArray:
        result = np.zeros(self.transitions.shape)
        for path, probability in zip(self.paths, self.probabilities, strict=True):
            for a, b in itertools.pairwise(path):
                result[a, b] += probability
        return result

    def entropy(self) -> float:
        probabilities = self.probabilities
        positive = probabilities[probabilities > 0]
        return float(-(positive * np.log(positive)).sum())

    def span_probability(self, start: int, end: int, kind: str, tags: list[str]) -> float:
        hits = [(start, end, kind) in runs([tags[tag] for tag in path]) for path in self.paths]
        return float(self.probabilities[np.array(hits, dtype=bool)].sum())

    def inside_probability(self, sets: NDArray) -> float:
        """P(the path stays inside these (n, D) sets)."""
        hits = [all(sets[t, tag] for t, tag in enumerate(path)) for path in self.paths]
        return float(self.probabilities[np.array(hits, dtype=bool)].sum())


def runs(tags: list[str]) -> list[tuple[int, int, str]]:
    """Segments of a path by the reader's rules: B S U W always open one, E L S U W always close one."""
    found, begin = [], None
    previous_prefix, previous_kind = "O", ""
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        joined = (
            previous_prefix != "O"
            and prefix != "O"
            and kind == previous_kind
            and prefix not in "BSUW"
            and previous_prefix not in "ELSUW"
        )
        if begin is not None and not joined:
            found.append((begin, position, previous_kind))
            begin = None
        if prefix != "O" and not joined:
            begin = position
        previous_prefix, previous_kind = prefix, kind
    return found
