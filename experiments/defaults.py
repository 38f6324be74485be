"""The tables that decide the training defaults, on dev, and what each says of the default in the code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.claims import HEADLINE, Evidence
from experiments.statistics import Mean
from experiments.table_format import Cell, Number, Table
from experiments.tables import TITLES, mean_by_rate
from experiments.trainings import (
    BARE,
    BARE_PRETRAINED,
    BARE_WORDS,
    CORPORA,
    LAYER_DECAYS,
    LSTM,
    PRETRAINED,
    RATES,
    TRIAL_DECAYS,
)
from maskedcrf.training.settings import Settings

DEFAULTS = Settings().resolved(0)
"""What a user gets who names no setting and no pretrained encoder."""
PATIENCES = (2, 4, 8)
WORDS = "lstm1-words"
RATE = 1e-2
"""`crf_rate` of the trainings that decide another default."""
CLEAR = 0.1
"""Points of dev F1 by which another default would have to be better on average to be named."""
ENOUGH = 0.5
"""Points of dev F1 that the defaults may lack to what was tuned."""


def default_tables(evidence: Evidence) -> Sequence[Table]:
    """One table a default; one whose trainings are missing is left out."""
    others = (patience_table, characters_table, decay_table, no_setting_table, encoder_alone_table)
    rates = rate_table(evidence), rate_table(evidence.of_encoder(PRETRAINED))
    return [table for table in (*rates, *(make(evidence) for make in others)) if table.rows]


def rate_table(evidence: Evidence) -> Table:
    """Dev F1 of MCRF-training and CRF-retain at each rate, and what each rate lacks to the best."""
    rows: list[tuple[Cell, ...]] = []
    lacks: list[list[float]] = []
    names = ("MCRF-training", "CRF-retain")
    for corpus in evidence.corpora:
        found = [mean_by_rate(evidence, corpus, row, "dev") for row in names]
        lacks.append([max(each) - value for each in found for value in each])
        seeds = len(evidence.trial.seeds(corpus, evidence.encoder))
        rows.append((TITLES[corpus], *(Number(value) for each in found for value in each), seeds))
    encoder = "an LSTM" if evidence.encoder == HEADLINE else "a small pretrained encoder"
    note = (
        f"`optim.crf_rate` with {encoder}: mean best dev F1 over n seeds. The default is {DEFAULTS.optim.crf_rate:g}."
    )
    if lacks:
        for title, reduce in (("mean below the best rate", np.mean), ("most below the best rate", np.max)):
            rows.append((title, *(Number(float(each)) for each in reduce(lacks, axis=0)), f"{len(lacks)} corpora"))
        lacking = np.mean(lacks, axis=0).reshape(len(names), len(RATES)).mean(0)
        best, more = RATES[int(lacking.argmin())], lacking[RATES.index(DEFAULTS.optim.crf_rate)] - lacking.min()
        note += " Taking both rows together, "
        note += (
            f"{best:g} lacks {more:.1f} less on average." if more > CLEAR else "no rate lacks clearly less on average."
        )
    columns = ("dev F1", *(f"{row}, {rate:g}" for row in names for rate in RATES), "n")
    return Table(evidence.key("default_rate"), "crf_rate", columns, tuple(rows), note)


def patience_table(evidence: Evidence) -> Table:
    """When trainings of MCRF are best, and what stopping early would have saved and cost."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in evidence.corpora:
        made = evidence.trial.entries.values()
        own = {"corpus": corpus, "head": "mcrf", "encoder": evidence.encoder}
        curves = [each["epochs"] for each in made if own.items() <= each["training"].items()]
        cells: list[Cell] = [Number(float(np.mean([int(np.argmax(_scores(curve))) + 1 for curve in curves])), ".0f")]
        for patience in PATIENCES:
            ends = [stop(curve, patience) for curve in curves]
            lost = [max(_scores(curve)) - max(_scores(curve[:end])) for curve, end in zip(curves, ends, strict=True)]
            cells.append(f"{np.mean(ends):.0f} epochs, -{np.mean(lost):.2f} F1")
        rows.append((TITLES[corpus], CORPORA[corpus].epochs, *cells, len(curves)))
    columns = ("", "epochs", "best", *(f"patience {patience}" for patience in PATIENCES), "trainings")
    note = (
        "`epochs` and `patience`: the best epoch of MCRF, mean over rates and seeds; how long it trains, and how much "
        "dev F1 it loses, if it stops as `train` does after so many epochs with no better F1 and no lower loss on dev. "
        f"The defaults without a transformer are {DEFAULTS.epochs} and {DEFAULTS.patience}."
    )
    return Table("default_patience", "patience", columns, tuple(rows), note)


def _scores(curve: Sequence[dict[str, Any]]) -> list[float]:
    return [epoch["f1"]["masked"] for epoch in curve]


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
    rows = [row for corpus in CORPORA for row in _side_by_side(evidence, (WORDS, evidence.encoder), corpus)]
    note = f"`encoder.characters`: dev F1 of MCRF at `crf_rate` {RATE:g} (± half of the 95 % interval). "
    note += f"The default is {DEFAULTS.encoder.characters or 'none'}."
    return Table("default_characters", "characters", ("", "words", "words and characters", "n"), tuple(rows), note)


def decay_table(evidence: Evidence) -> Table:
    """MCRF on a pretrained encoder whose lower layers learn more and more slowly, on the same seeds."""
    rows: list[tuple[Cell, ...]] = []
    for corpus, how in CORPORA.items():
        own = TRIAL_DECAYS[how.pretrained]
        encoders = [PRETRAINED if decay == own else encoder for decay, encoder in LAYER_DECAYS.items()]
        rows += _side_by_side(evidence, encoders, corpus)
    columns = ("", *(f"{decay:.2g}" for decay in LAYER_DECAYS), "n")
    note = (
        "`optim.layer_decay`: dev F1 of MCRF with a pretrained encoder (two layers on Weibo and Resume, six elsewhere) "
    )
    note += f"at `crf_rate` {RATE:g}. The default is {DEFAULTS.optim.layer_decay:.2g}."
    return Table("default_decay", "layer_decay", columns, tuple(rows), note)


def _side_by_side(evidence: Evidence, encoders: Sequence[str], corpus: str) -> list[tuple[Cell, ...]]:
    """A corpus's row: dev F1 of MCRF on each encoder, over the seeds that all have which were trained at all."""
    found = [evidence.trial.rates(corpus, "mcrf", encoder).get(RATE, {}) for encoder in encoders]
    seeds = sorted(set.intersection(*(set(each) for each in found if each))) if sum(map(bool, found)) > 1 else []
    sides = [{seed: each[seed]["rows"]["MCRF-training"]["dev"]["f1"] for seed in seeds if each} for each in found]
    return [(TITLES[corpus], *(Mean.of(side) if side else None for side in sides), len(seeds))] if seeds else []


def no_setting_table(evidence: Evidence) -> Table:
    """A user who gives data and no setting, beside the best of the trial, on the same seeds."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in CORPORA:
        sides = no_setting(evidence, corpus)
        if sides:
            default, words, best = (Mean.of(side) if side else None for side in sides)
            gap = Number(_average(sides[0]) - _average(sides[-1]), "+.1f")
            rows.append((TITLES[corpus], words, default, best, gap, len(sides[0])))
    note = (
        f"Dev F1 of MCRF without any setting ({DEFAULTS.encoder.lstm_hidden} units each way, `head_rate` "
        f"{DEFAULTS.optim.head_rate:g}, `patience` {DEFAULTS.patience}, characters {DEFAULTS.encoder.characters}); the "
        f"same without characters; and as in the trial ({LSTM['lstm_hidden']} units, `head_rate` 0.002, characters in "
        "English) at the best of its rates. Difference: no setting less the trial."
    )
    columns = ("", "without characters", "no setting", "best of the trial", "difference", "n")
    return Table("default_all", "no setting", columns, tuple(rows), note)


def encoder_alone_table(evidence: Evidence) -> Table:
    """A user who gives data and a pretrained encoder, beside the best rate of the trial, on the same seeds."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in CORPORA:
        sides = encoder_alone(evidence, corpus)
        if sides:
            default, best = map(Mean.of, sides)
            rows.append((TITLES[corpus], default, best, Number(default.value - best.value, "+.1f"), len(sides[0])))
    note = "Dev F1 of MCRF given data and a small pretrained encoder; and as in the trial, at the best of its rates."
    columns = ("", "no other setting", "best of the trial", "difference", "n")
    return Table("default_encoder", "an encoder and no setting", columns, tuple(rows), note)


def encoder_alone(evidence: Evidence, corpus: str) -> list[dict[int, float]]:
    """Best dev F1 by seed with data and an encoder alone, and at the trial's best rate; empty if it was not run."""
    made = evidence.trial.rates(corpus, "mcrf", BARE_PRETRAINED).get(DEFAULTS.optim.crf_rate, {})
    seeds = sorted(set(made).intersection(evidence.trial.seeds(corpus, PRETRAINED)))
    if not seeds:
        return []
    bare = {seed: max(_scores(made[seed]["epochs"])) for seed in seeds}
    return [bare, _at_best_rate(evidence.of_encoder(PRETRAINED), corpus, seeds)]


def _at_best_rate(evidence: Evidence, corpus: str, seeds: Sequence[int]) -> dict[int, float]:
    by_rate = [evidence.trial.at_rate(corpus, "MCRF-training", rate, evidence.encoder) for rate in RATES]
    tuned = [{seed: each.values("dev", "f1")[seed] for seed in seeds} for each in by_rate]
    return max(tuned, key=_average)


def no_setting(evidence: Evidence, corpus: str) -> list[dict[int, float]]:
    """Best dev F1 by seed without any setting, without characters either, and at the best rate of the trial.

    Empty if no seed has the first and the last; the second has none unless it was trained with the same seeds.
    """
    rate = DEFAULTS.optim.crf_rate
    made, words = (evidence.trial.rates(corpus, "mcrf", encoder).get(rate, {}) for encoder in (BARE, BARE_WORDS))
    seeds = sorted(set(made).intersection(evidence.trial.seeds(corpus, evidence.encoder)))
    if not seeds:
        return []
    bare = [{seed: _stopped(each[seed]["epochs"]) for seed in seeds if seed in each} for each in (made, words)]
    tuned = _at_best_rate(evidence, corpus, seeds)
    return [bare[0], bare[1] if bare[1].keys() == bare[0].keys() else {}, tuned]


def _stopped(curve: Sequence[dict[str, Any]]) -> float:
    """Best dev F1 until training stops by default."""
    return max(_scores(curve[: stop(curve, DEFAULTS.patience or 0)]))


def _average(side: dict[int, float]) -> float:
    return float(np.mean([*side.values()]))


def default_sentence(evidence: Evidence) -> str:
    """How near users come to the best that was tried if they give data alone, or data and an encoder."""
    ways = {"data and no setting": no_setting, "data and a pretrained encoder": encoder_alone}
    return " ".join(_nearness(given, evidence, sides_of) for given, sides_of in ways.items())


def _nearness(given: str, evidence: Evidence, sides_of: Callable[[Evidence, str], list[dict[int, float]]]) -> str:
    found = {TITLES[corpus]: sides_of(evidence, corpus) for corpus in CORPORA}
    lacks = {name: _average(sides[-1]) - _average(sides[0]) for name, sides in found.items() if sides}
    if not lacks:
        return f"How far a user who gives {given} is below the best of the trial was not measured."
    far = [f"{name} is {value:.1f} below" for name, value in lacks.items() if value > ENOUGH]
    return (
        f"A user who gives {given} is at most {ENOUGH:g} dev F1 below the best of the trial "
        f"on {len(lacks) - len(far)} of {len(lacks)} corpora{': ' + ', '.join(far) if far else ''}."
    )
