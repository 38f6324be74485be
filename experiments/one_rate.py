"""Older results, made with one rate for all heads: shown with that label, and never the basis of a verdict.

Comparisons have `crf_rate` 1e-3 throughout, as in the paper. Recipes (encoders called `tuned...`) trained MCRF alone,
for a high score: with 1e-2, a lexicon, other texts, another tagger's encoder or the dev part, as their name says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.measure import counts_of, unpack
from experiments.result_files import RESULTS, result_files
from experiments.statistics import Comparison, Mean, compare_counts
from maskedcrf.files import numbered_lines

FOLDER = RESULTS / "one-rate"
ROWS = {
    "softmax-retain": ("softmax", "retain"),
    "CRF-retain": ("crf", "retain"),
    "CRF-discard": ("crf", "discard"),
    "MCRF-decoding": ("crf", "decoding"),
    "MCRF-training": ("mcrf", "training"),
}
"""The training and the reading of each row."""
SMALL = dict.fromkeys(("resume", "msra", "weibo"), "uer")
SMALL |= dict.fromkeys(("atis", "snips", "conll2000", "conll2003"), "minilm")
BASE = dict.fromkeys(("resume", "msra", "weibo"), "bert-zh")
BASE |= dict.fromkeys(("atis", "snips", "conll2000", "conll2003"), "mpnet")


class Setting(NamedTuple):
    """What the runs of one line have in common: all but head and seed."""

    corpus: str
    encoder: str
    scheme: str = "BIO"
    share: float = 1.0


GROUPS: dict[str, list[Setting]] = {
    "transformers of two or six layers": [Setting(*each) for each in SMALL.items()],
    "of twelve layers": [Setting(*each) for each in BASE.items()],
    "two or six layers, BIOES": [Setting(corpus, "uer", "BIOES") for corpus in ("resume", "msra", "weibo")],
    "two or six layers, 10 % of train": [
        Setting(corpus, SMALL[corpus], share=0.1) for corpus in ("msra", "snips", "conll2003")
    ],
}


class OneRate:
    """The older runs by setting, head and seed."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.runs: dict[tuple[Setting, str], dict[int, Mapping[str, Any]]] = {}
        for path in result_files(folder):
            for _, line in numbered_lines(path):
                entry = json.loads(line)
                run = entry["run"]
                setting = Setting(run["corpus"], run["encoder"], run["scheme"], run["share"])
                self.runs.setdefault((setting, run["head"]), {})[run["seed"]] = entry

    def compared(self) -> list[Setting]:
        """Settings in which a CRF and an MCRF were trained, in order."""
        return sorted(setting for setting, head in self.runs if head == "crf" and (setting, "mcrf") in self.runs)

    def values(self, setting: Setting, row: str, name: str = "f1") -> dict[int, float]:
        """A number of a row on test, by seed."""
        head, view = ROWS[row]
        runs = self.runs.get((setting, head), {})
        return {seed: float(entry["test"]["views"][view][name]) for seed, entry in runs.items()}

    def mean(self, setting: Setting, row: str) -> Mean | None:
        """Test F1 over the seeds; None where there is none."""
        values = self.values(setting, row)
        return Mean.of(values) if values else None

    def illegal(self, setting: Setting) -> float:
        """Illegal segments of the plain CRF in percent of the predicted ones."""
        wrong = [self.values(setting, "CRF-retain", name) for name in ("illegal_tp", "illegal_fp")]
        predicted = self.values(setting, "CRF-retain", "predicted")
        return float(np.mean([100 * sum(each[seed] for each in wrong) / predicted[seed] for seed in predicted]))

    def compare(self, setting: Setting, first: str, second: str) -> Comparison:
        """Two rows at the one rate."""
        name = f"{setting.corpus} {setting.encoder} {setting.scheme} {setting.share:g}/{first}/{second}"
        return compare_counts(name, self._counts(setting, first), self._counts(setting, second))

    def _counts(self, setting: Setting, row: str) -> dict[int, np.ndarray]:
        head, view = ROWS[row]
        return {
            seed: counts_of(unpack(entry["test"]["gold"], 1), unpack(entry["test"]["views"][view]["errors"], 2))
            for seed, entry in self.runs[setting, head].items()
        }
