"""The tables that decide the training defaults, on dev."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.claims import Evidence
from experiments.statistics import Mean
from experiments.table_format import Cell, Number, Table
from experiments.tables import TITLES, mean_by_rate
from experiments.trainings import CORPORA, LAYER_DECAYS, RATES

PATIENCES = (2, 4, 8)
WORDS = "lstm1-words"
RATE = 1e-2
"""`crf_rate` of the trainings that decide another default."""


def default_tables(evidence: Evidence) -> Sequence[Table]:
    """One table a default; one whose trainings are missing is left out."""
    tables = (rate_table(evidence), patience_table(evidence), characters_table(evidence), decay_table(evidence))
    return [table for table in tables if table.rows]


def rate_table(evidence: Evidence) -> Table:
    """Dev F1 of MCRF-training and CRF-retain at each rate, and what each rate lacks to the best."""
    rows: list[tuple[Cell, ...]] = []
    lacks: list[list[float]] = []
    names = ("MCRF-training", "CRF-retain")
    corpora = evidence.trial.corpora(evidence.encoder)
    for corpus in corpora:
        found = [mean_by_rate(evidence, corpus, row, "dev") for row in names]
        lacks.append([max(each) - value for each in found for value in each])
        seeds = len(evidence.trial.seeds(corpus, evidence.encoder))
        rows.append((TITLES[corpus], *(Number(value) for each in found for value in each), seeds))
    if lacks:
        for title, reduce in (("mean below the best rate", np.mean), ("most below the best rate", np.max)):
            rows.append((title, *(Number(float(value)) for value in reduce(lacks, axis=0)), f"{len(corpora)} corpora"))
    columns = ("dev F1", *(f"{row}, {rate:g}" for row in names for rate in RATES), "n")
    return Table("default_rate", "crf_rate", columns, tuple(rows), "`optim.crf_rate`: mean best dev F1 over n seeds.")


def patience_table(evidence: Evidence) -> Table:
    """What stopping early would have saved and cost in the trainings of MCRF."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in evidence.trial.corpora(evidence.encoder):
        made = evidence.trial.entries.values()
        own = {"corpus": corpus, "head": "mcrf", "encoder": evidence.encoder}
        curves = [each["epochs"] for each in made if own.items() <= each["training"].items()]
        best = [max(epoch["f1"]["masked"] for epoch in curve) for curve in curves]
        stops = [[stop(curve, patience) for curve in curves] for patience in PATIENCES]
        cells: list[Cell] = []
        for ends in stops:
            reached = [
                max(epoch["f1"]["masked"] for epoch in curve[:end]) for curve, end in zip(curves, ends, strict=True)
            ]
            lost = float(np.mean(np.subtract(best, reached)))
            cells.append(f"{np.mean(ends):.0f} epochs, -{lost:.2f} F1")
        rows.append((TITLES[corpus], CORPORA[corpus].epochs, *cells, len(curves)))
    columns = ("", "epochs", *(f"patience {patience}" for patience in PATIENCES), "trainings")
    note = "`patience`: epochs that MCRF trains for and dev F1 that stopping early costs, by the rule of `train` (no "
    note += "better F1 and no lower loss on dev for so many epochs), mean over rates and seeds."
    return Table("default_patience", "patience", columns, tuple(rows), note)


def stop(curve: Sequence[dict[str, Any]], patience: int) -> int:
    """The epoch after which training stops by the rule of `train`."""
    best, lowest, bad = (float("-inf"), float("-inf")), float("inf"), 0
    for number, epoch in enumerate(curve, start=1):
        score = (epoch["f1"]["masked"], -epoch["dev_loss"])
        better, falls = score > best, epoch["dev_loss"] < lowest
        best, lowest = max(best, score), min(lowest, epoch["dev_loss"])
        bad = 0 if better or falls else bad + 1
        if bad >= patience:
            return number
    return len(curve)


def characters_table(evidence: Evidence) -> Table:
    """MCRF with and without character features, on the same seeds."""
    rows = _side_by_side(evidence, (WORDS, evidence.encoder))
    note = "`encoder.characters`: dev F1 of MCRF at `crf_rate` 0.01 (± half of the 95 % interval)."
    return Table("default_characters", "characters", ("", "words", "words and characters", "n"), tuple(rows), note)


def decay_table(evidence: Evidence) -> Table:
    """MCRF on a pretrained encoder whose lower layers learn more and more slowly, on the same seeds."""
    columns = ("", *(f"{decay:.2g}" for decay in LAYER_DECAYS.values()), "n")
    note = "`optim.layer_decay`: dev F1 of MCRF on UER, two layers, at `crf_rate` 0.01 (± half of the 95 % interval)."
    return Table("default_decay", "layer_decay", columns, tuple(_side_by_side(evidence, tuple(LAYER_DECAYS))), note)


def _side_by_side(evidence: Evidence, encoders: Sequence[str]) -> list[tuple[Cell, ...]]:
    """A row a corpus: dev F1 of MCRF on each encoder, over the seeds that all of them have."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in CORPORA:
        found = [evidence.trial.rates(corpus, "mcrf", encoder).get(RATE, {}) for encoder in encoders]
        seeds = sorted(set.intersection(*(set(each) for each in found)))
        if seeds:
            sides = [{seed: each[seed]["rows"]["MCRF-training"]["dev"]["f1"] for seed in seeds} for each in found]
            rows.append((TITLES[corpus], *map(Mean.of, sides), len(seeds)))
    return rows
