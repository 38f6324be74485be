"""maskedcrf demo: the paper's six variants on a built-in corpus, in minutes, with no download."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer


def run(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the report goes.")] = Path("report.html"),
    sentences: Annotated[int, typer.Option(min=0, help="Use this many sentences of each part; 0 for all.")] = 0,
    epochs: Annotated[int, typer.Option(min=0, help="Train this many epochs; 0 for the demo's own number.")] = 0,
) -> None:
    """Train the paper's six variants on a built-in corpus, print the table, write html.html.

    \b
    Example:
      maskedcrf demo --output html.html
    """
    from rich.console import Console
    from rich.table import Table

    from maskedcrf import demo
    from maskedcrf.report import html

    if not output.parent.is_dir():
        raise typer.BadParameter(f"{output.parent} is not a folder; give a file in one that exists")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder; give a file to write")
    started = perf_counter()

    def tell(line: str) -> None:
        print(f"[{perf_counter() - started:5.0f} s] {line}", file=sys.stderr)

    found = demo.run_demo(sentences=sentences or None, epochs=epochs or None, tell=tell)
    table = Table(*demo.HEADER, title="Six variants, test set of the built-in corpus")
    for row in demo.rows(found):
        table.add_row(*row)
    for column in table.columns[1:]:
        column.justify = "right"
    console = Console()
    console.print(table)
    console.print("\nDev loss, an epoch a column", highlight=False)
    console.print(text_curves(found.dev_loss), highlight=False, markup=False)
    html.write(output, demo.page(found))
    tell(f"wrote {output}: open it in a browser")


def text_curves(series: Mapping[str, Sequence[float]], *, height: int = 10, step: int = 4) -> str:
    """Lines as text: a letter a series, an epoch a column."""
    values = [value for line in series.values() for value in line]
    low, high = min(values), max(values)
    longest = max(len(line) for line in series.values())
    grid = [[" "] * (longest * step) for _ in range(height)]
    for name, line in series.items():
        for number, value in enumerate(line):
            up = round((height - 1) * (value - low) / ((high - low) or 1.0))
            grid[height - 1 - up][number * step] = name[0]
    rows = [
        f"{high - (high - low) * number / (height - 1):8.3f} |{''.join(row).rstrip()}"
        for number, row in enumerate(grid)
    ]
    axis = " " * 9 + "+" + "-" * (longest * step)
    key = " " * 10 + ", ".join(f"{name[0]} = {name}" for name in series)
    return "\n".join([*rows, axis, key])
