"""How fast and how steadily CRF and MCRF learn at each rate: the curves of dev F1, both decoded with the mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.claims import Evidence
from experiments.statistics import LEVEL, holm, sign_flip
from experiments.table_format import Cell, Number, Table, joined, probability
from experiments.trainings import CORPORA, RATES

NEAR = 1.0
"""Points of dev F1 below the final level from which on a curve counts as arrived."""
MEASURES = {
    "epochs needed": ("arrives {:.1f} epochs earlier", "arrives {:.1f} epochs later"),
    "final F1": ("ends {:.1f} F1 lower", "ends {:.1f} F1 higher"),
    "change per epoch": ("changes {:.2f} F1 less per epoch", "changes {:.2f} F1 more per epoch"),
}
"""What is measured of a curve, and how it is said of MCRF where it is lower and where it is higher than CRF."""
_COLUMNS = tuple(f"{name}, {head}" for name in MEASURES for head in ("CRF", "MCRF"))
_NOTE = (
    "Dev F1, both decoded with the mask. Final F1: mean over the last quarter of the epochs. Epochs needed: until dev "
    f"F1 is within {NEAR:g} point of the higher final F1 of the two; a run that never is counts one epoch more than it "
    "has. Change per epoch: mean size of the change, up or down, in the last quarter."
)


class Difference(NamedTuple):
    """MCRF less CRF in one measure at one rate."""

    measure: str
    rate: float
    mean: float
    p_value: float
    """Over seeds, after Holm over all measures and rates."""


def learning(evidence: Evidence) -> Table:
    """Mean over the corpora."""
    rows: list[tuple[Cell, ...]] = []
    for rate in RATES if evidence.corpora else ():
        found = np.mean([_measure(evidence, corpus, rate).mean(-1).ravel() for corpus in evidence.corpora], axis=0)
        rows.append((f"{rate:g}", *_cells(found.tolist()), len(evidence.corpora)))
    return Table("learning", "Learning", ("crf_rate", *_COLUMNS, "corpora"), tuple(rows), _NOTE)


def learning_by_corpus(evidence: Evidence) -> Table:
    """The same for each corpus, mean over the seeds."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in evidence.trial.corpora(evidence.encoder):
        for rate in RATES:
            found = _measure(evidence, corpus, rate)
            rows.append((CORPORA[corpus].title, f"{rate:g}", *_cells(found.mean(-1).ravel().tolist()), found.shape[-1]))
    return Table("learning_by_corpus", "Learning by corpus", ("", "crf_rate", *_COLUMNS, "n"), tuple(rows), _NOTE)


def _cells(found: Sequence[float]) -> list[Cell]:
    return [Number(value, ".2f" if place > 3 else ".1f") for place, value in enumerate(found)]


def learning_differences(evidence: Evidence) -> list[Difference]:
    """Every measure at every rate, tested together."""
    found: list[tuple[str, float, float, float]] = []
    for rate in RATES:
        gaps = [measured[:, 1] - measured[:, 0] for measured in (_measure(evidence, c, rate) for c in evidence.corpora)]
        for place, name in enumerate(MEASURES):
            groups = [gap[place].tolist() for gap in gaps]
            found.append((name, rate, float(np.mean([np.mean(each) for each in groups])), sign_flip(groups) or 1.0))
    corrected = holm([each[-1] for each in found])
    return [Difference(*each[:-1], p_value) for each, p_value in zip(found, corrected, strict=True)]


def learning_sentence(evidence: Evidence) -> str:
    """Where MCRF arrives earlier, ends higher or moves less than the CRF, beyond chance."""
    found = sorted(learning_differences(evidence), key=lambda each: each.p_value)
    said = [
        f"at {each.rate:g} MCRF {MEASURES[each.measure][each.mean > 0].format(abs(each.mean))} than the CRF"
        for each in found
    ]
    clear = [each for each, difference in zip(said, found, strict=True) if difference.p_value < LEVEL]
    rising = [CORPORA[corpus].title for corpus in evidence.corpora if still_rising(evidence, corpus)]
    verdict = f"these are significant over seeds after Holm's correction: {'; '.join(clear)}"
    if not clear:
        verdict = "none is significant over seeds after Holm's correction. "
        verdict += f"The clearest: {said[0]} ({probability(found[0].p_value)})"
    caution = f" Most trainings on {joined(rising)} were best in their last tenth and might have risen further."
    return f"Of the {len(found)} differences between CRF and MCRF in the table {verdict}." + (caution if rising else "")


def still_rising(evidence: Evidence, corpus: str) -> bool:
    """Whether most trainings of CRF and MCRF had their best epoch in the last tenth."""
    curves = np.concatenate([dev_curves(evidence, corpus, head, rate) for head in ("crf", "mcrf") for rate in RATES])
    return bool(np.mean(curves.argmax(1) + 1 > 0.9 * curves.shape[1]) > 0.5)


def dev_curves(evidence: Evidence, corpus: str, head: str, rate: float) -> np.ndarray:
    """(S, E): dev F1 of every seed by epoch, with the decoding masked."""
    entries = evidence.trial.rates(corpus, head, evidence.encoder)[rate]
    seeds = evidence.trial.seeds(corpus, evidence.encoder)
    return np.array([[epoch["f1"]["masked"] for epoch in entries[seed]["epochs"]] for seed in seeds])


def _measure(evidence: Evidence, corpus: str, rate: float) -> np.ndarray:
    """(measures, 2, S): every measure of CRF and MCRF by seed."""
    curves = [dev_curves(evidence, corpus, head, rate) for head in ("crf", "mcrf")]
    ends = [curve[:, -max(2, curve.shape[1] // 4) :] for curve in curves]
    level = max(float(end.mean()) for end in ends)
    arrived = [[_arrival(run, level) for run in curve] for curve in curves]
    return np.array([arrived, [end.mean(1) for end in ends], [np.abs(np.diff(end)).mean(1) for end in ends]])


def _arrival(run: np.ndarray, level: float) -> int:
    near = np.flatnonzero(run >= level - NEAR)
    return int(near[0]) + 1 if len(near) else len(run) + 1
