"""The plots of the CRF benchmark, from its results files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
AXES = {
    "length": ("tokens per sentence (16 x T x 9)", 1),
    "batch": ("sentences (B x 64 x 9)", 0),
    "tags": ("tags (16 x 64 x D)", 2),
}


def draw(results: Path) -> list[Path]:
    """One file for each results file: time of a loss with gradients against length, batch and tags."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no plot: pip install matplotlib")
        return []
    drawn = []
    for source in sorted(results.glob("crf-*.json")):
        record = json.loads(source.read_text())
        figure, panes = plt.subplots(1, len(AXES), figsize=(13, 4.2), sharey=True)
        for pane, (axis, (label, at)) in zip(panes, AXES.items(), strict=True):
            _draw_axis(pane, record["axes"][axis], label, at)
        panes[0].set_ylabel("milliseconds, loss and gradients")
        panes[-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
        made = record["signature"]
        figure.suptitle(
            f"{made['gpu'] or made['processor']}, {made['threads']} threads, torch {made['packages']['torch']}"
        )
        DOCS.mkdir(parents=True, exist_ok=True)
        target = DOCS / f"{source.stem}.svg"
        figure.savefig(target, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
        drawn.append(target)
    return drawn


def _draw_axis(pane: Any, rows: list[dict[str, Any]], label: str, at: int) -> None:
    names = dict.fromkeys(name for row in rows for name in row["seconds"])
    for name in names:
        points = [(row["shape"][at], 1e3 * row["seconds"][name]) for row in rows if name in row["seconds"]]
        ours = name.startswith("maskedcrf")
        pane.plot(
            *zip(*points, strict=True),
            marker="o",
            markersize=3,
            lw=2.2 if ours else 0.9,
            ls="-" if ours else "--",
            label=name,
        )
    pane.set(xscale="log", yscale="log", xlabel=label)
    pane.grid(alpha=0.3, which="both")
