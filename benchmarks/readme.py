"""`python -m benchmarks.readme`: the README's table of speed, written from results/ between its two markers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- speed:begin -->", "<!-- speed:end -->"
SHAPE = [32, 128, 9]
WORKS = {"step": "loss and gradients", "decode": "best paths, as lists"}
NAMED = ("pytorch-crf", "AllenNLP", "torch-struct")
OURS = {"crf-cpu": "maskedcrf cpu", "crf-gpu": "maskedcrf gpu"}
"""The backend `auto` takes on each machine."""


def table() -> str:
    """Milliseconds of one batch, ours and theirs, on every machine that was measured."""
    lines = [
        f"| {' x '.join(map(str, SHAPE))}, milliseconds | maskedcrf | fastest other | {' | '.join(NAMED)} |",
        "|---|---:|---:|" + "---:|" * len(NAMED),
    ]
    ranges = []
    for stem, ours in OURS.items():
        record = json.loads((RESULTS / f"{stem}.json").read_text())
        place = _place(record["signature"])
        lines += [_line(f"{place}: {title}", row, ours) for row, title in _rows(record)]
        times = [row["times_best_peer"][ours] for row in record["shapes"] if row["work"] == "step"]
        ranges.append(f"{min(times):.1f} to {max(times):.0f} times as long on {place}")
    sentence = (
        "Sentences x tokens x tags, ragged, in float32; ours masked, theirs not. For loss and gradients, the fastest\n"
        f"other library takes {', '.join(ranges)}. [All shapes and peers](docs/benchmarks/index.md)."
    )
    return "\n".join([*lines, "", sentence])


def _place(signature: dict[str, Any]) -> str:
    return str(signature["gpu"] or f"{signature['threads']} CPU threads")


def _rows(record: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    found = {row["work"]: row for row in record["shapes"] if row["shape"] == SHAPE}
    return [(found[work], title) for work, title in WORKS.items()]


def _line(title: str, row: dict[str, Any], ours: str) -> str:
    seconds = row["seconds"]
    best = min((name for name in seconds if not name.startswith("maskedcrf")), key=seconds.__getitem__)
    others = " | ".join(_milliseconds(seconds[name]) if name in seconds else "-" for name in NAMED)
    return f"| {title} | **{_milliseconds(seconds[ours])}** | {_milliseconds(seconds[best])} ({best}) | {others} |"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2g}" if seconds < 0.01 else f"{1e3 * seconds:.0f}"


def written(readme: str) -> str:
    """The README's text with the table of today's results between the markers."""
    before, _, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"README.md lacks {BEGIN} or {END}"
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
