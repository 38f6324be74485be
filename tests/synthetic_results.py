"""Results as `experiments.run` writes them, made up by a seed: for trying tables and figures, never for reporting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from experiments.measure import errors, pack
from experiments.trainings import ROWS, Training, trainings_of

LEVEL = {"weibo": 0.5, "resume": 0.93, "atis": 0.94, "snips": 0.9, "conll2003": 0.75, "conll2000": 0.9}
CORPORA = ("weibo", "atis", "conll2000")


def entry(training: Training, *, sentences: int = 60, level: float = 0.0) -> dict[str, Any]:
    """One made-up line of a results file; `level` is added to the share of segments found."""
    generator = np.random.default_rng([training.seed, *training.name.encode()])
    rate = training.crf_rate or 0.0
    share = LEVEL[training.corpus] + level - (0.05 if training.head == "softmax" else 0) + generator.normal(0, 0.004)
    illegal = {0.0: 0.06, 1e-3: 0.04, 1e-2: 0.01}.get(rate, 0.0) * (training.head != "mcrf")
    # Gold is that of the corpus, so the same for every training.
    gold = 1 + np.random.default_rng(len(training.corpus)).poisson(2, sentences)
    right = generator.binomial(gold, min(share, 0.99))
    found = right + generator.binomial(gold, 1 - min(share, 0.99))
    wrong = generator.binomial(gold, illegal)
    return {
        "name": training.name,
        "training": training.as_dict(),
        "signature": f"corpus:{training.corpus}/test",
        "version": "0",
        "settings": training.settings(),
        "seconds": 36.0,
        "sentences": {"train": 100, "dev": sentences, "test": sentences},
        "epochs": [_epoch(training, share, epoch, illegal) for epoch in range(1, 9)],
        "gold": pack(gold[:, None]),
        "rows": {
            name: _row(row.reading, gold, right, found, wrong, rate=rate)
            for name, row in ROWS.items()
            if row.head == training.head
        },
    }


def _epoch(training: Training, share: float, epoch: int, illegal: float) -> dict[str, Any]:
    f1 = 100 * share * (1 - 0.5**epoch)
    readings = {"masked": f1} if training.head == "mcrf" else {"retain": f1 - 1, "discard": f1, "masked": f1}
    return {"loss": 9.0 / epoch, "dev_loss": 8.0 / epoch, "illegal": 100 * illegal, "largest": 0.5, "f1": readings}


def _row(reading: str, gold: Any, right: Any, found: Any, wrong: Any, *, rate: float) -> dict[str, Any]:
    predicted = found + wrong if reading == "retain" else found
    illegal = int(wrong.sum()) if reading != "masked" else 0
    correct, size, there = int(right.sum()), int(predicted.sum()), int(gold.sum())
    f1 = 200 * correct / (size + there)
    cells = {
        "legal_tp": correct,
        "illegal_tp": 0,
        "legal_fp": int(found.sum()) - correct,
        "illegal_fp": illegal,
    }
    share = 100 * illegal / (int(found.sum()) + illegal)
    counts = np.stack([right, predicted, gold], axis=1)
    return {
        "epoch": 7,
        "dev": {"f1": f1 + 0.1, "illegal": share, "loss": 2.0, **cells},
        "test": {"f1": f1, "illegal": share, **cells, "errors": pack(errors(counts))},
        "transitions": {"largest": 0.4 + 40 * rate, "legal": 0.1, "illegal": -20 * rate},
    }


def synthetic(
    trainings: Iterable[Training] | None = None, gains: Mapping[str, float] | None = None
) -> dict[str, dict[str, Any]]:
    """The lines of these trainings, or of three corpora with three seeds, by name.

    `gains` are added to the share of segments that MCRF finds, by corpus.
    """
    chosen = trainings_of(CORPORA, (1, 2, 3)) if trainings is None else trainings
    levels = {training: (gains or {}).get(training.corpus, 0.0) * (training.head == "mcrf") for training in chosen}
    return {training.name: entry(training, level=level) for training, level in levels.items()}
