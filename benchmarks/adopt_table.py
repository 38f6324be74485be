"""`python -m benchmarks.adopt_table`: the guide's table of adopted taggers, from results/adopt.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "adopt.md"
RESULTS = Path(__file__).parent / "results" / "adopt.json"
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
HEADER = (
    "| tagger and test set | illegal % | best tag, illegal retained / discarded "
    "| pipeline: simple, first, average, max | mask only | fitted | MCRF-training "
    "| calibration error: mean softmax, mask, one temperature, fitted |\n"
    "|---|---|---|---|---|---|---|---|"
)
TRAINED = {
    "conll2003": "MiniLM, {train:,} sentences of CoNLL2003; {test:,} of its test, fitted to {fitted_on:,} of its dev",
    "weibo": "UER, {train:,} sentences of Weibo; its test, {test:,}, fitted to {fitted_on:,} of its dev",
}
LAC = {"mask only": "best tag of each word", "its own CRF, masked": "its own CRF"}
"""LAC with the mask, and what it is without."""
Row = dict[str, Any]


def table(kept: dict[str, Any]) -> str:
    """A line for each tagger, a mean where several seeds were run."""
    found = {part: record["rows"] for part, record in kept.items()}
    lines = [_rampart(each) for each in found["rampart"]]
    lines += _lac({each["decoding"]: each for each in found["lac"]})
    for corpus, title in TRAINED.items():
        softmax, mcrf = (_of(found.get(part, []), corpus) for part in ("trained", "mcrf"))
        if softmax:
            lines.append(_trained(title, softmax, mcrf))
    return "\n".join([HEADER, *lines])


def _of(rows: Iterable[Row], corpus: str) -> list[Row]:
    return [each for each in rows if each["corpus"].startswith(f"{corpus}/")]


def _rampart(row: Row) -> str:
    title = (
        f"Rampart (PII, {row['tags']} labels); {_size(row)} sentences of templates "
        f"it was not fitted to, {row['fitted_on']} of others"
    )
    return _line(title, [row], "-")


def _lac(rows: dict[str, Row]) -> list[str]:
    lines = []
    for masked, bare in LAC.items():
        given = "LAC with its own CRF" if "CRF" in masked else "LAC (Chinese)"
        title = f"{given}; {_size(rows[masked])} sentences of MSRA's test"
        cells = [f"{rows[bare]['illegal']:.1f}", f"{rows[bare]['retain']:.1f} / -", "-"]
        lines.append(f"| {title} | {' | '.join(cells)} | {rows[masked]['retain']:.1f} | - | - | - |")
    return lines


def _trained(title: str, softmax: Sequence[Row], mcrf: Sequence[Row]) -> str:
    first = softmax[0]
    filled = title.format(train=first["train"], test=_size(first), fitted_on=first["fitted_on"])
    scratch = f"{mean(each['f1'] for each in mcrf):.1f} ({_seeds(mcrf)})" if mcrf else "-"
    return _line(f"{filled} ({_seeds(softmax)})", softmax, scratch)


def _line(title: str, rows: Sequence[Row], scratch: str) -> str:
    f1 = {name: mean(each["f1"][name]["f1"] for each in rows) for name in rows[0]["f1"]}
    pipeline, errors = _means(rows, "pipeline"), _means(rows, "calibration_error")
    cells = [
        title,
        f"{mean(each['illegal'] for each in rows):.1f}",
        f"{f1['retain']:.1f} / {f1['discard']:.1f}",
        pipeline,
        f"{f1['mask only']:.1f}",
        f"{f1['fitted']:.1f}",
        scratch,
        errors,
    ]
    return f"| {' | '.join(cells)} |"


def _means(rows: Sequence[Row], name: str) -> str:
    return ", ".join(f"{mean(each[name][key] for each in rows):.1f}" for key in rows[0][name])


def _size(row: Row) -> int:
    return int(row["corpus"].rpartition("/")[2])


def _seeds(rows: Sequence[Row]) -> str:
    return "1 seed" if len(rows) == 1 else f"{len(rows)} seeds"


def written(guide: str) -> str:
    """The guide's text with the table of today's results between the markers."""
    before, _, rest = guide.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{GUIDE.name} lacks {BEGIN} or {END}"
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    return f"{before}{BEGIN}\n{table(kept)}\n{END}{after}"


if __name__ == "__main__":
    GUIDE.write_text(written(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
