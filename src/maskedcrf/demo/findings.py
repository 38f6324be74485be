"""What the demo's trials show: the differences that matter, each with its interval, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maskedcrf.demo.trials import Demo, Trial
from maskedcrf.evaluation.compare import Interval, bootstrap, signature

HEADER = ("row", "crf_rate", "epoch", "dev F1", "test F1", "precision", "recall", "illegal %")
DIFFERENCES = (
    ("CRF, retain", "MCRF-training"),
    ("MCRF-decoding", "MCRF-training"),
    ("softmax, retain", "softmax, masked decoding"),
)
"""From which row to which."""


def table_rows(demo: Demo) -> list[list[str]]:
    """The table, formatted: every row at its own best rate and epoch on dev."""
    return [
        [
            name,
            rate_name(trial),
            str(trial.epoch),
            f"{trial.best_dev_f1:.2f}",
            *(f"{value:.2f}" for value in (trial.test.f1, trial.test.precision, trial.test.recall, trial.illegal)),
        ]
        for name, trial in demo.chosen.items()
    ]


def rate_name(trial: Trial) -> str:
    """The rate as text; a softmax has none."""
    return "-" if trial.crf_rate is None else f"{trial.crf_rate:g}"


def differences(demo: Demo) -> dict[tuple[str, str], Interval]:
    """Test F1 gained from one row to another, each at its own best rate, resampling the test sentences."""
    chosen = demo.chosen
    return {
        (before, after): bootstrap(chosen[before].counts, chosen[after].counts, trials=2000)
        for before, after in DIFFERENCES
    }


def conclusion(demo: Demo) -> list[str]:
    """What was found, in sentences, whichever way it turned out."""
    found = differences(demo)
    return [
        _legality(demo),
        f"Each row at its own best rate, MCRF-training scores {_gain(found['CRF, retain', 'MCRF-training'])} against "
        f"the plain CRF, and {_gain(found['MCRF-decoding', 'MCRF-training'])} against MCRF-decoding.",
        _rates(demo),
        f"Masked decoding, with no training, brings the softmax tagger "
        f"{_gain(found['softmax, retain', 'softmax, masked decoding'])}.",
        "This is one seed of one small invented corpus.",
    ]


def _legality(demo: Demo) -> str:
    plain = demo.of_row("CRF, retain")
    at_best, at_worst = demo.chosen["CRF, retain"], max(plain, key=lambda trial: trial.illegal)
    if at_worst.illegal == 0:
        return "No masked row has an illegal segment; here, neither has the plain CRF at any rate."
    if at_worst is at_best:
        return f"No masked row has an illegal segment; the plain CRF has {at_best.illegal:.1f} % at its best rate."
    return (
        f"No masked row has an illegal segment; the plain CRF has {at_best.illegal:.1f} % at its best rate and "
        f"{at_worst.illegal:.1f} % at crf_rate {rate_name(at_worst)}."
    )


def _gain(found: Interval) -> str:
    span = f"{found.value:+z.1f} F1 (95 % interval {found.low:+z.1f} to {found.high:+z.1f}"
    return f"{span}: no difference shown)" if found.low <= 0 <= found.high else f"{span})"


def _rates(demo: Demo) -> str:
    def spread(name: str) -> str:
        scores = [trial.test.f1 for trial in demo.of_row(name)]
        return f"{max(scores) - min(scores):.1f}"

    rates = [rate_name(trial) for trial in demo.of_row("CRF, retain")]
    return (
        f"Over crf_rate {', '.join(rates)} the test F1 of MCRF-training moves by {spread('MCRF-training')}, of "
        f"MCRF-decoding by {spread('MCRF-decoding')}, of the plain CRF by {spread('CRF, retain')}."
    )


def to_dict(demo: Demo) -> dict[str, Any]:
    """Everything as plain values, for JSON."""
    chosen = demo.chosen
    return {
        "rows": [_trial(trial) for trial in chosen.values()],
        "trials": [{**_trial(trial), "chosen": trial is chosen[trial.row.name]} for trial in demo.trials],
        "differences": [
            {"from": before, "to": after, "f1": found.value, "low": found.low, "high": found.high, "level": found.level}
            for (before, after), found in differences(demo).items()
        ],
        "conclusion": conclusion(demo),
        "sentences": demo.sentences,
        "settings": demo.settings,
        "seconds": demo.seconds,
        "signature": signature(corpus="demo/test", scheme="BIO", seeds=1, device="cpu"),
    }


def _trial(trial: Trial) -> Mapping[str, Any]:
    return {
        **trial.row._asdict(),
        "crf_rate": trial.crf_rate,
        "epoch": trial.epoch,
        "dev_f1": trial.best_dev_f1,
        "dev_f1_by_epoch": list(trial.dev_f1),
        "f1": trial.test.f1,
        "precision": trial.test.precision,
        "recall": trial.test.recall,
        "illegal": trial.illegal,
    }
