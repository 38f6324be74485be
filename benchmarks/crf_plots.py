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
    plt.rcParams["svg.hashsalt"] = "maskedcrf"  # the same picture is the same file
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


TITLES = {"step": "loss and gradients", "decode": "decode to lists", "decode_tensor": "decode to a tensor"}


def write_page(results: Path) -> Path:
    """docs/benchmarks/index.md: how many times faster than the best peer of the same run, from the results files."""
    parts = [
        "# Speed",
        "How many times as long the fastest other library takes, in the same run. Rows are sentences x tokens x tags, "
        "lengths ragged, float32. Columns are our backends: `cpu` (numba), `gpu` (Triton), `gpu graph` (the same in a "
        "CUDA graph), `plain` (torch alone). `make bench` measures again and rewrites this page.",
    ]
    for source in sorted(results.glob("crf-*.json")):
        record = json.loads(source.read_text())
        made = record["signature"]
        place = made["gpu"] or f"{made['processor']}, {made['threads']} threads"
        parts.append(f"## {place}\n\ntorch {made['packages']['torch']}, {made['figures']}; ours masked, peers not.")
        ours = [name for name in record["shapes"][0]["times_best_peer"]]
        for work, title in TITLES.items():
            names = [n for n in ours if any(n in r["times_best_peer"] for r in record["shapes"] if r["work"] == work)]
            lines = [f"| {title} | {' | '.join(n.removeprefix('maskedcrf ') for n in names)} |"]
            lines.append("|---|" + "---:|" * len(names))
            for row in (r for r in record["shapes"] if r["work"] == work):
                cells = [f"{row['times_best_peer'][n]:.1f}" if n in row["times_best_peer"] else "-" for n in names]
                lines.append(f"| {'x'.join(map(str, row['shape']))} | {' | '.join(cells)} |")
            parts.append("\n".join(lines))
        parts += [_yardstick(record, name, rows) for name, rows in record.get("yardstick", {}).items() if rows]
        memory = record["peak_memory"]
        sizes = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in memory["bytes"].items())
        parts.append(f"Peak memory of a step at {'x'.join(map(str, memory['shape']))}: {sizes}.")
        long = record["long"]
        parts.append(
            f"One sequence of {long['tokens']:,} tokens: {1e3 * long['step']:.0f} ms a step, "
            f"{1e3 * long['decode']:.0f} ms to decode."
        )
        if share := record.get("fine_tuning_step"):
            timings = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in share.items())
            parts.append(f"A fine-tuning step of a BERT-base-sized encoder, 32x128x9 in bfloat16: {timings}.")
        parts.append(f"![Time against length, batch and tags]({source.stem}.svg)")
    DOCS.mkdir(parents=True, exist_ok=True)
    target = DOCS / "index.md"
    target.write_text("\n\n".join(parts) + "\n")
    return target


def _yardstick(record: dict[str, Any], name: str, rows: list[dict[str, Any]]) -> str:
    """A table of what is no peer, beside our own times."""
    steps = [row for row in record["shapes"] if row["work"] == "step"]
    ours = {tuple(row["shape"]): row["seconds"]["maskedcrf cpu"] for row in steps}
    lines = [
        f"A yardstick: {name}, a CRF in C, training on sentences of the same lengths with as many tags. It is not the "
        "same computation (binary features, no constraint, no gradients for an encoder, one thread), so it is in no "
        "ratio above.",
        "",
        f"| milliseconds | our loss and gradients | {name}, an iteration of L-BFGS |",
        "|---|---:|---:|",
    ]
    for row in rows:
        shape = tuple(row["shape"])
        lines.append(f"| {'x'.join(map(str, shape))} | {1e3 * ours[shape]:.2f} | {1e3 * row['seconds']:.2f} |")
    return "\n".join(lines)
