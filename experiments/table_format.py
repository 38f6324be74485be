"""A table as data, its cells what was measured and not their text, written as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.statistics import Comparison, Mean

NOT_RUN, NOT_THERE = "not run", "-"


class Number(NamedTuple):
    """A figure and how it is written."""

    value: float
    form: str = ".1f"


class Probability(NamedTuple):
    """A p-value."""

    value: float


Cell = str | int | Number | Probability | Mean | Comparison | None


@dataclass(frozen=True)
class Table:
    """One table: its file's name, what it shows, its columns and rows, what to know when reading it."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def text(cell: Cell) -> str:
    """A cell as it is read."""
    writer = _WRITERS.get(type(cell), str)
    return writer(cell)


def _mean(cell: Mean) -> str:
    return f"{cell.value:.1f}" + (f"±{cell.half_width:.1f}" if cell.half_width is not None else "")


def _comparison(cell: Comparison) -> str:
    return f"{cell.difference:+.2f} [{cell.low:+.2f}, {cell.high:+.2f}]"


def joined(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def probability(value: float) -> str:
    """A p-value to three places."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: NOT_RUN,
    Number: lambda cell: format(cell.value, cell.form),
    Probability: lambda cell: probability(cell.value).removeprefix("p ").removeprefix("= "),  # its column says p
    Mean: _mean,
    Comparison: _comparison,
}


def markdown(table: Table) -> str:
    """The table in Markdown; the first column names the row."""
    rules = ["---" if _words(table, place) else "---:" for place in range(len(table.columns))]
    lines: list[Sequence[str]] = [table.columns, rules]
    lines += [tuple(_unbroken(text(cell)).replace("|", "\\|") for cell in row) for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _unbroken(cell: str) -> str:
    """No line ends inside a p-value."""
    return re.sub(r"(p )?[<=] 0\.", lambda found: found.group().replace(" ", "\u00a0"), cell)


def _words(table: Table, place: int) -> bool:
    """Whether a column holds words alone, and is read from the left."""
    return all(isinstance(row[place], str) for row in table.rows)


def as_csv(table: Table) -> str:
    """The table in CSV, unrounded: a mean takes three columns, a comparison four; not run is empty."""
    columns: list[str] = []
    cells: list[list[object]] = [[] for _ in table.rows]
    for place, name in enumerate(table.columns):
        column = [row[place] for row in table.rows]
        parts = next((parts for kind, parts in _PARTS.items() if any(isinstance(cell, kind) for cell in column)), None)
        columns += [f"{name} {part}" for part in parts] if parts else [name]
        for row, cell in zip(cells, column, strict=True):
            row += _parts(cell, len(parts) if parts else 1)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([columns, *cells])
    return file.getvalue()


_PARTS: dict[type, tuple[str, ...]] = {
    Mean: ("mean", "half width", "seeds"),
    Comparison: ("difference", "low", "high", "seeds"),
}


def _parts(cell: Cell, width: int) -> list[object]:
    found: list[object] = [cell]
    if isinstance(cell, Comparison):
        found = [cell.difference, cell.low, cell.high, cell.seeds]
    elif isinstance(cell, Mean):
        found = list(cell)
    elif isinstance(cell, Number | Probability):
        found = [cell.value]
    found = ["" if value is None else round(value, 6) if isinstance(value, float) else value for value in found]
    return found + [""] * (width - len(found))
