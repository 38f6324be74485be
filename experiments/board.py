"""What the runner shows: on a terminal a table of the grid that fills up, elsewhere a line a finished run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from experiments.grid import HEADS, Run


class Board:
    """The state of every run asked for: waiting, under way, failed, or its test F1."""

    def __init__(self, runs: Sequence[Run], done: Mapping[str, dict[str, Any]]) -> None:
        self.runs = runs
        self.scores = {run: _f1(done[run.name]) for run in runs if run.name in done}
        self.under_way: set[Run] = set()
        self.errors: dict[Run, BaseException] = {}
        self.begun = time.monotonic()
        self.console = Console(stderr=True)
        self._live: Live | None = None

    @property
    def failed(self) -> int:
        """Runs that ended in an error."""
        return len(self.errors)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show it while the runs go on."""
        self.console.print(f"{len(self.runs) - len(self.scores)} runs to do, {len(self.scores)} in the results")
        if self.console.is_terminal:
            with Live(get_renderable=self.table, console=self.console, refresh_per_second=2) as self._live:
                yield
        else:
            yield
        if left := len(self.runs) - len(self.scores) - len(self.errors):
            self.console.print(f"{left} runs are left: the same command goes on with them")

    def note(self, run: Run, result: dict[str, Any] | BaseException | None) -> None:
        """A run has begun (None), failed, or ended."""
        if result is None:
            self.under_way.add(run)
            return
        self.under_way.discard(run)
        if isinstance(result, BaseException):
            self.errors[run] = result
            said = f"failed: {(str(result).strip().splitlines() or [type(result).__name__])[-1]}"
        else:
            self.scores[run] = _f1(result)
            views = "  ".join(f"{name} {view['f1']:.2f}" for name, view in result["test"]["views"].items())
            said = f"{views}  ({result['seconds']:.0f} s)"
        if self._live is None or run in self.errors:
            count = f"{len(self.scores) + len(self.errors)}/{len(self.runs)}"
            clock = f"[{time.monotonic() - self.begun:5.0f} s]"
            self.console.print(f"{clock} {count} {run.name}: {said}", soft_wrap=True, markup=False, highlight=False)

    def table(self) -> Table:
        """A row a setting, a column a head: seeds done, under way and failed, and the mean test F1."""
        title = f"{len(self.scores)} of {len(self.runs)} runs done, {time.monotonic() - self.begun:.0f} s"
        columns = list(dict.fromkeys([*HEADS, *(run.head for run in self.runs)]))
        table = Table("", *columns, title=title)
        cells: dict[str, dict[str, list[Run]]] = {}
        for run in self.runs:
            setting = run.name.rpartition(f"/{run.head}/")[0]
            cells.setdefault(setting, {}).setdefault(run.head, []).append(run)
        for setting, heads in cells.items():
            table.add_row(setting, *(self._cell(heads.get(head, [])) for head in columns))
        return table

    def _cell(self, runs: Sequence[Run]) -> str:
        scores = [self.scores[run] for run in runs if run in self.scores]
        parts = [f"{len(scores)}/{len(runs)}"] if runs else []
        parts += [f"F1 {sum(scores) / len(scores):.1f}"] if scores else []
        for name, group in (("under way", self.under_way), ("failed", self.errors.keys())):
            number = sum(run in group for run in runs)
            parts += [f"{number} {name}"] if number else []
        return ", ".join(parts)


def _f1(entry: Mapping[str, Any]) -> float:
    """Test F1 of a run's first reading."""
    return float(next(iter(entry["test"]["views"].values()))["f1"])
