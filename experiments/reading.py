"""Results files and the paper's own numbers, as everything else here asks for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.grid import MAIN, OPEN, HeadName
from experiments.measure import counts_of, unpack
from experiments.store import RESULTS, files, finished
from maskedcrf.data.corpora import CORPORA as KNOWN

VARIANTS: dict[str, tuple[HeadName, str]] = {
    "tagger-retain": ("softmax", "retain"),
    "tagger-discard": ("softmax", "discard"),
    "CRF-retain": ("crf", "retain"),
    "CRF-discard": ("crf", "discard"),
    "MCRF-decoding": ("crf", "decoding"),
    "MCRF-training": ("mcrf", "training"),
}
"""The paper's six rows: which training serves each, and how its paths are read."""
WITHOUT_EDGES = "MCRF-decoding without start and end rules"
TRAINED_WITHOUT_EDGES, PAPERS_OWN = "MCRF trained without start and end rules", "MCRF without start and end rules"
READINGS: dict[str, tuple[HeadName, str]] = {
    **VARIANTS,
    WITHOUT_EDGES: ("crf", "decoding-open"),
    TRAINED_WITHOUT_EDGES: (OPEN, "training"),
    PAPERS_OWN: (OPEN, "training-open"),
}

CORPORA = {
    "resume": "Resume",
    "msra": "MSRA",
    "ontonotes4": "Ontonotes",
    "weibo": "Weibo",
    "atis": "ATIS",
    "snips": "SNIPS",
    "conll2000": "CoNLL2000",
    "conll2003": "CoNLL2003",
}
"""The paper's names, in its order."""


class Setting(NamedTuple):
    """What the runs of one cell have in common: all but head and seed."""

    corpus: str
    encoder: str
    scheme: str = "BIO"
    share: float = 1.0

    def __str__(self) -> str:
        rest = [self.encoder, *([self.scheme] if self.scheme != "BIO" else [])]
        rest += [f"{100 * self.share:g} % of train"] if self.share != 1 else []
        return f"{CORPORA.get(self.corpus, self.corpus)}, {', '.join(rest)}"


def main_setting(corpus: str, scheme: str = "BIO", share: float = 1.0) -> Setting:
    """The setting of a corpus's main table; Ontonotes needs a licence, so its encoder is that of the other three."""
    return Setting(corpus, MAIN.get(corpus, "uer"), scheme, share)


class Score(NamedTuple):
    """F1 over the runs of a cell; the deviation needs two runs, the mean may be all that is known."""

    best: float
    mean: float | None = None
    deviation: float | None = None
    runs: int | None = None

    @staticmethod
    def of(values: Mapping[int, float]) -> Score | None:
        """Of the F1 of each seed; None where there is none."""
        if not values:
            return None
        found = np.array(list(values.values()))
        deviation = float(found.std(ddof=1)) if len(found) > 1 else None
        return Score(float(found.max()), float(found.mean()), deviation, len(found))


@dataclass(frozen=True)
class Results:
    """Every finished run, by setting, head and seed."""

    runs: Mapping[tuple[Setting, str], Mapping[int, dict[str, Any]]]
    digest: str = ""
    """Of the files' bytes: says whether a page was made from these results."""

    @staticmethod
    def read(folder: Path = RESULTS) -> Results:
        """All results files of a folder."""
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files(folder))).hexdigest()
        return Results.of(finished(folder), digest)

    @staticmethod
    def of(entries: Mapping[str, dict[str, Any]], digest: str = "") -> Results:
        """Sort the lines of results files by what was run."""
        runs: dict[tuple[Setting, str], dict[int, dict[str, Any]]] = {}
        for entry in entries.values():
            run = entry["run"]
            setting = Setting(run["corpus"], run["encoder"], run["scheme"], run["share"])
            runs.setdefault((setting, run["head"]), {})[run["seed"]] = entry
        return Results({key: dict(sorted(found.items())) for key, found in runs.items()}, digest)

    def __len__(self) -> int:
        return sum(map(len, self.runs.values()))

    def settings(self) -> list[Setting]:
        """Every setting with a run, in the paper's order of corpora; the built-in corpus is none of them."""
        order = list(CORPORA)
        found = {setting for setting, _ in self.runs if setting.corpus in CORPORA}
        return sorted(found, key=lambda s: (order.index(s.corpus), s.encoder, s.scheme, -s.share))

    def of_head(self, setting: Setting, head: str) -> Mapping[int, dict[str, Any]]:
        """The runs of one head, by seed."""
        return self.runs.get((setting, head), {})

    def views(self, setting: Setting, variant: str, part: str = "test") -> dict[int, dict[str, Any]]:
        """One of the paper's rows: what was measured of it, by seed."""
        head, view = READINGS[variant]
        return {seed: run[part]["views"][view] for seed, run in self.of_head(setting, head).items() if run[part]}

    def f1(self, setting: Setting, variant: str, part: str = "test") -> dict[int, float]:
        """F1 by seed."""
        return {seed: view["f1"] for seed, view in self.views(setting, variant, part).items()}

    def score(self, setting: Setting, variant: str, part: str = "test") -> Score | None:
        """Best, mean and deviation over the seeds."""
        return Score.of(self.f1(setting, variant, part))

    def counts(self, setting: Setting, variant: str, part: str = "test") -> dict[int, np.ndarray]:
        """(N, 3) correct, predicted and gold segments of each sentence, by seed."""
        head, view = READINGS[variant]
        parts = {seed: run[part] for seed, run in self.of_head(setting, head).items() if run[part]}
        return {
            seed: counts_of(unpack(found["gold"], 1), unpack(found["views"][view]["errors"], 2))
            for seed, found in parts.items()
        }

    def cells(self, setting: Setting, variant: str, part: str = "test") -> dict[str, float] | None:
        """Segments by legality and correctness, mean over the runs."""
        views = list(self.views(setting, variant, part).values())
        names = ("legal_tp", "illegal_tp", "legal_fp", "illegal_fp")
        return {name: float(np.mean([view[name] for view in views])) for name in names} if views else None

    def mean(self, setting: Setting, head: str, *keys: str) -> float | None:
        """Mean over the runs of a number found by these keys; None where no run has it."""
        found = [_within(run, keys) for run in self.of_head(setting, head).values()]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if known else None


def _within(entry: Any, keys: tuple[str, ...]) -> float | None:
    for key in keys:
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry if isinstance(entry, int | float) else None


def ratios(cells: Mapping[str, float]) -> dict[str, float | None]:
    """The three ratios of the paper's Table 1 in percent; None where nothing is below the line."""
    illegal = cells["illegal_tp"] + cells["illegal_fp"]
    wrong = cells["legal_fp"] + cells["illegal_fp"]
    pairs = {
        "illegal_tp_over_illegal": (cells["illegal_tp"], illegal),
        "illegal_fp_over_fp": (cells["illegal_fp"], wrong),
        "illegal_over_total": (illegal, cells["legal_tp"] + cells["legal_fp"] + illegal),
    }
    return {name: 100 * part / whole if whole else None for name, (part, whole) in pairs.items()}


def read_paper() -> dict[str, Any]:
    """The paper's tables by their LaTeX labels, as printed."""
    text = Path(__file__).with_name("paper.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def paper_score(paper: Mapping[str, Any], corpus: str, variant: str) -> Score | None:
    """What the paper prints for one row of a corpus's main table."""
    for label in ("main_result", "result_sf", "RES_CHUNKING", "code_readme"):
        cell = paper["tables"][label]["rows"][variant].get(corpus)
        if cell is not None:
            return Score(cell["best"], cell.get("mean"))
    return None


def gold_in_dev(corpus: str) -> int:
    """How many entities the dev file of a corpus has."""
    dev = KNOWN[corpus].dev
    assert dev is not None
    return dev.counts[0].entities


def counted_f1(paper: Mapping[str, Any], corpus: str, *, kinds: Sequence[str] = ("legal", "illegal")) -> float:
    """F1 on dev from the paper's counts of a plain CRF's segments, legal ones and illegal ones, and ours of gold."""
    row = paper["tables"]["illegal_proportion"]["rows"][corpus]
    right = sum(row[f"{kind}_tp"] for kind in kinds)
    found = right + sum(row[f"{kind}_fp"] for kind in kinds)
    return float(200 * right / (found + gold_in_dev(corpus)))
