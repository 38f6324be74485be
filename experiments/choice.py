"""Which training a row takes: its best rate out of the grid by its own dev F1; and no comparison of unlike grids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from experiments.measure import counts_of, unpack
from experiments.trainings import CORPORA, HEADS, RATES, ROWS, Head
from maskedcrf.errors import MaskedCRFError

Entries = Mapping[int, Mapping[str, Any]]
"""Lines of the results by seed."""


class UnfairComparisonError(MaskedCRFError):
    """Two rows whose rates were not chosen out of the same grid with the same seeds."""


@dataclass(frozen=True)
class Chosen:
    """A row of a corpus at one rate out of a grid."""

    corpus: str
    row: str
    grid: tuple[float, ...]
    """Rates tried; empty for a softmax head, which has no transitions."""
    rate: float | None
    entries: Entries

    def values(self, part: str, name: str) -> dict[int, float]:
        """A number of the row by seed, such as `test`, `f1`."""
        return {seed: float(entry["rows"][self.row][part][name]) for seed, entry in self.entries.items()}

    def mean(self, part: str, name: str) -> float:
        """The number's mean over the seeds."""
        return float(np.mean(list(self.values(part, name).values())))

    def counts(self) -> dict[int, np.ndarray]:
        """(N, 3) correct, predicted and gold segments of each test sentence, by seed."""
        return {
            seed: counts_of(unpack(entry["gold"], 1), unpack(entry["rows"][self.row]["test"]["errors"], 2))
            for seed, entry in self.entries.items()
        }


class Trial:
    """Every finished training, and what each row chooses out of them."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self.entries = entries
        self._by_rate: dict[tuple[str, str, str], dict[float | None, dict[int, Mapping[str, Any]]]] = {}
        for entry in entries.values():
            made = entry["training"]
            rates = self._by_rate.setdefault((made["corpus"], made["encoder"], made["head"]), {})
            rates.setdefault(made["crf_rate"], {})[made["seed"]] = entry

    def rates(self, corpus: str, head: str, encoder: str = "lstm1") -> Mapping[float | None, Entries]:
        """The trainings of a head by rate and seed."""
        return self._by_rate.get((corpus, encoder, head), {})

    def seeds(self, corpus: str, encoder: str = "lstm1") -> tuple[int, ...]:
        """Seeds with which every head was trained at every rate of the grid: what is under way is left out."""
        found: list[set[int]] = []
        for head in HEADS:
            rates = self.rates(corpus, head, encoder)
            found += [set(rates.get(rate, {})) for rate in ((None,) if head == "softmax" else RATES)]
        return tuple(sorted(set.intersection(*found)))

    def corpora(self, encoder: str = "lstm1", *, seeds: int = 1) -> list[str]:
        """Corpora that are done with so many seeds at least."""
        return [corpus for corpus in CORPORA if len(self.seeds(corpus, encoder)) >= seeds]

    def at_rate(self, corpus: str, row: str, rate: float | None, encoder: str = "lstm1") -> Chosen:
        """A row at a rate given, not chosen: its grid is that rate alone."""
        found, seeds = self.rates(corpus, ROWS[row].head, encoder)[rate], self.seeds(corpus, encoder)
        entries = {seed: found[seed] for seed in seeds}
        return Chosen(corpus, row, () if rate is None else (rate,), rate, entries)

    def choose(self, corpus: str, row: str, encoder: str = "lstm1") -> Chosen:
        """The row at the rate whose mean dev F1, read as the row reads, is the highest; the lower of equals."""
        head: Head = ROWS[row].head
        if head == "softmax":
            return self.at_rate(corpus, row, None, encoder)
        rates = self.rates(corpus, head, encoder)
        grid = tuple(sorted(rate for rate in rates if rate is not None))
        seeds = self.seeds(corpus, encoder)
        if any(set(seeds) - rates[rate].keys() for rate in grid):
            raise UnfairComparisonError(f"{corpus}, {row}: not every rate has the same seeds; train what is missing")
        means = {rate: np.mean([rates[rate][seed]["rows"][row]["dev"]["f1"] for seed in seeds]) for rate in grid}
        rate = max(grid, key=lambda each: (means[each], -each))
        return Chosen(corpus, row, grid, rate, {seed: rates[rate][seed] for seed in seeds})

    def choose_rows(self, corpus: str, rows: Iterable[str], encoder: str = "lstm1") -> list[Chosen]:
        """Rows that may stand side by side: their rates come out of one grid, their scores from the same seeds."""
        chosen = [self.choose(corpus, row, encoder) for row in rows]
        for first, second in combinations(chosen, 2):
            require_fair(first, second)
        return chosen


def require_fair(first: Chosen, second: Chosen) -> None:
    """Refuse two rows whose rates do not come out of the same grid, or that were not made with the same seeds."""
    what = f"{first.corpus}: {first.row} and {second.row}"
    if first.corpus != second.corpus or first.entries.keys() != second.entries.keys():
        raise UnfairComparisonError(f"{what} are not of one corpus and the same seeds; compare like with like")
    with_transitions = [each for each in (first, second) if ROWS[each.row].head != "softmax"]
    if len({each.grid for each in with_transitions}) > 1:
        grids = " and ".join(", ".join(f"{rate:g}" for rate in each.grid) for each in with_transitions)
        raise UnfairComparisonError(
            f"{what}: their rates come out of unlike grids ({grids}); train both at all of them"
        )
    if any(each.rate not in each.grid for each in with_transitions):
        raise UnfairComparisonError(f"{what}: a rate is none of its grid; let Trial.choose take it")
