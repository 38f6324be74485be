"""maskedcrf demo: softmax, CRF and masked CRF compared on a built-in corpus, with no download."""

from __future__ import annotations

import sys
from math import floor
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from maskedcrf.cli.options import AsJson

if TYPE_CHECKING:
    from rich.table import Table

    from maskedcrf.demo import Demo


def run(
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write the report to.")] = Path("report.html"),
    sentences: Annotated[int, typer.Option(min=0, help="Use this many sentences of each part; 0 for all.")] = 0,
    epochs: Annotated[int, typer.Option(min=0, help="Train this many epochs; 0 for the demo's own number.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a softmax tagger, a CRF and a masked CRF on a built-in corpus at three rates, and compare them fairly.

    Each row of the table has its own best rate and epoch, chosen on dev. The report has the same as pictures.

    \b
    Example:
      maskedcrf demo --output report.html
    """
    from maskedcrf.cli.streams import print_json, print_table
    from maskedcrf.demo import run_demo
    from maskedcrf.demo.findings import conclusion, to_dict
    from maskedcrf.demo.page import page
    from maskedcrf.report import html

    if not output.parent.is_dir():
        raise typer.BadParameter(f"{output.parent} is not a folder; give a file in one that exists")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder; give a file to write")
    started = perf_counter()

    def tell(line: str) -> None:
        print(f"[{perf_counter() - started:5.0f} s] {line}", file=sys.stderr)

    found = run_demo(sentences=sentences or None, epochs=epochs or None, tell=tell)
    html.write(output, page(found))
    if as_json:
        print_json(to_dict(found))
    else:
        print_table(score_table(found))
        print_table(rate_picture(found))
        print("\n" + "\n".join(conclusion(found)))
    tell(f"wrote {output}: open it in a browser")


def score_table(demo: Demo) -> Table:
    """Every row at its own best rate."""
    from rich.table import Table

    from maskedcrf.demo.findings import HEADER, table_rows

    columns = [number for number, name in enumerate(HEADER) if name not in ("precision", "recall")]
    table = Table(title="Test scores, each row at the rate and epoch that are best on dev")
    for number in columns:
        table.add_column(HEADER[number], justify="right" if number else "left")
    for row in table_rows(demo):
        table.add_row(*(row[number] for number in columns))
    return table


def rate_picture(demo: Demo, *, width: int = 24) -> Table:
    """F1 and illegal segments against the rate, as bars."""
    from rich.table import Table

    from maskedcrf.demo.findings import rate_name
    from maskedcrf.demo.page import AGAINST_THE_RATE

    rows = [demo.of_row(name) for name in AGAINST_THE_RATE]
    scores = [trial.test.f1 for trials in rows for trial in trials]
    low, high = float(floor(min(scores))), max(scores)
    table = Table("crf_rate", "row", f"test F1, bars from {low:.0f}", "", "illegal %")
    for column in table.columns[3:]:
        column.justify = "right"
    for trials in zip(*rows, strict=True):
        for trial in trials:
            first = trial is trials[0]
            table.add_row(
                rate_name(trial) if first else "",
                trial.row.name,
                bar(trial.test.f1 - low, high - low, width=width),
                f"{trial.test.f1:.1f}",
                f"{trial.illegal:.1f}",
                end_section=trial is trials[-1],
            )
    return table


def bar(value: float, most: float, *, width: int) -> str:
    """A bar whose full width means `most`; plain characters, which any terminal has."""
    return "#" * round(width * value / most) if most else ""
