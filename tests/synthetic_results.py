"""Results as `experiments.run` writes them, made up by a seed: for trying tables and figures, never for reporting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.grid import GROUPS, MAIN, OPEN, Run
from experiments.measure import BINS, CALIBRATED, errors, pack
from experiments.run import settings_of
from maskedcrf.data.corpora import CORPORA

ILLEGAL = {"weibo": 0.09, "resume": 0.02, "msra": 0.02, "atis": 0.004, "snips": 0.03, "conll2000": 0.004}
LEVEL = {"weibo": 0.62, "resume": 0.94, "msra": 0.92, "atis": 0.94, "snips": 0.94, "conll2000": 0.96}
GAIN = {"weibo": 0.02, "resume": 0.01, "msra": -0.006, "snips": 0.004}


def entry(run: Run, *, sentences: int = 200) -> dict[str, Any]:
    """One made-up line of a results file."""
    generator = np.random.default_rng([run.seed, *run.name.rpartition("/")[0].encode()])
    info = CORPORA[run.corpus]
    mass = (
        ILLEGAL.get(run.corpus, 0.013) * (1 if run.share == 1 else 1.4) * (2 if run.encoder.startswith("lstm") else 1)
    )
    losses = 4 * np.exp(-np.arange(6) / 2) + 1 + generator.normal(0, 0.05, 6) - (run.head == "mcrf") * 10 * mass
    found: dict[str, Any] = {
        "name": run.name,
        "run": run.as_dict(),
        "signature": f"corpus:{run.corpus}/test",
        "settings": settings_of(run, "{folder}"),
        "seconds": 1.0,
        "sentences": {"train": int(info.train.counts[0].sentences * run.share), "dev": sentences, "test": sentences},
        "initial": {"illegal_mass": 0.99 if run.head in ("softmax", "crf") else None},
        "best_epoch": 5,
        "epochs": [[1.0, round(float(loss), 4), 80.0, 1.0] for loss in losses],
    }
    # Gold is that of the corpus, so the same for every run.
    gold = 1 + np.random.default_rng(len(run.corpus)).poisson(2, sentences)
    for part in ("dev", "test"):
        views = _views(run, generator, gold, mass)
        found[part] = {"views": views, "gold": pack(gold[:, None]), "illegal_mass": _mass(run, mass, generator)}
    if run.head in CALIBRATED:
        found["test"]["calibration"] = {"exact": _bins(generator, 0.02), "softmax": _bins(generator, 0.12)}
    return found


def _views(run: Run, generator: np.random.Generator, gold: Any, mass: float) -> dict[str, Any]:
    level = LEVEL.get(run.corpus, 0.9) - (0.03 if run.head == "softmax" else 0) - (0.1 if run.share < 1 else 0)
    level += GAIN.get(run.corpus, 0) + 0.5 * mass * (run.corpus not in GAIN) if run.head == "mcrf" else 0
    level += generator.normal(0, 0.004)
    right = generator.binomial(gold, min(level, 0.99))
    found = right + generator.binomial(gold, 1 - min(level, 0.99))
    if run.head == "mcrf":
        return {"training": _view(right, found, gold, right * 0, right * 0)}
    if run.head == OPEN:
        more = generator.binomial(gold, 0.01)
        return {
            "training": _view(right, found, gold, right * 0, right * 0),
            "training-open": _view(right, found + more, gold, right * 0, more),
        }
    wrong = generator.binomial(gold, mass)
    lucky = generator.binomial(wrong, 0.05)
    views = {
        "retain": _view(right + lucky, found + wrong, gold, lucky, wrong - lucky),
        "discard": _view(right, found, gold, lucky, wrong - lucky),
    }
    if run.head == "crf":
        saved = generator.binomial(wrong, 0.3)
        views["decoding"] = _view(right + saved, found + saved, gold, right * 0, right * 0)
        views["decoding-open"] = _view(right + saved, found + wrong, gold, right * 0, wrong - saved)
    return views


def _view(right: Any, found: Any, gold: Any, illegal_tp: Any, illegal_fp: Any) -> dict[str, Any]:
    correct, predicted, there = int(right.sum()), int(found.sum()), int(gold.sum())
    return {
        "f1": 200 * correct / (predicted + there),
        "correct": correct,
        "predicted": predicted,
        "gold": there,
        "legal_tp": correct - int(illegal_tp.sum()),
        "illegal_tp": int(illegal_tp.sum()),
        "legal_fp": predicted - correct - int(illegal_fp.sum()),
        "illegal_fp": int(illegal_fp.sum()),
        "errors": pack(errors(np.stack([right, found, gold], axis=1))),
    }


def _mass(run: Run, mass: float, generator: np.random.Generator) -> float:
    return float(mass * {"softmax": 3, "crf": 1, "mcrf": 8, OPEN: 8}[run.head] * generator.uniform(0.9, 1.1))


def _bins(generator: np.random.Generator, off: float) -> list[list[float]]:
    centres = (np.arange(BINS) + 0.5) / BINS
    counts = np.round(10 + 400 * centres**6)
    shares = np.clip(centres - off + generator.normal(0, 0.02, BINS), 0, 1)
    return np.stack([counts, np.round(counts * shares), counts * centres], axis=1).tolist()


def synthetic(
    groups: tuple[str, ...] = ("main", "encoders", "bioes", "tenth"), *, size: int = 200
) -> list[dict[str, Any]]:
    """The lines of these groups of the grid."""
    runs = dict.fromkeys(run for group in groups for run in GROUPS[group])
    return [entry(run, sentences=size) for run in runs]


def write(folder: Path, entries: list[dict[str, Any]]) -> None:
    """As the runner does, one file a corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    for corpus in MAIN:
        lines = [json.dumps(each) + "\n" for each in entries if each["run"]["corpus"] == corpus]
        if lines:
            (folder / f"{corpus}.jsonl").write_text("".join(lines), encoding="utf-8")
