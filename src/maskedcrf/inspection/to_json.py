"""The inspection as plain values."""

from __future__ import annotations

from typing import Any

from maskedcrf.evaluation.compare import Interval, bootstrap_each
from maskedcrf.evaluation.counts import Tally
from maskedcrf.inspection.collect import Collector
from maskedcrf.inspection.comparison import Comparison
from maskedcrf.inspection.errors import ERROR_KINDS
from maskedcrf.inspection.reading import Reading, Span
from maskedcrf.inspection.suspects import span_to_json, suspect_to_json

LISTED_SUSPECTS = 100


def to_json(found: Collector, *, comparison: Comparison | None = None, signature: str) -> dict[str, Any]:
    """What the page tells; scores in percent, probabilities from 0 to 1."""
    total, *each = (
        {**_figures(Tally(*counts)), "interval": _interval(interval)}
        for counts, interval in zip(
            found.counts.array().sum(0).tolist(), bootstrap_each(found.counts.array()), strict=True
        )
    )
    answer: dict[str, Any] = {
        "sentences": found.sentences,
        "tokens": found.tokens,
        **total,
        "types": dict(zip(found.counts.names, each, strict=True)),
        "wrong_sentences": found.wrong_sentences,
        "unseen_tokens": found.unseen_tokens,
        "errors": {
            kind: {name: n for (one, name), n in sorted(found.errors.items()) if one == kind} for kind in ERROR_KINDS
        },
        "confusion": [
            {"gold": gold, "predicted": predicted, "segments": number}
            for (gold, predicted), number in found.confusion.most_common()
        ],
        "calibration": found.calibration.result().to_json(),
        "by_sentence_length": {name: _figures(tally) for name, tally in found.by_sentence.items()},
        "by_segment_length": {name: _figures(tally) for name, tally in found.by_segment.items()},
        "by_words": {name: _figures(tally) for name, tally in found.by_words.items()},
        "suspects": [suspect_to_json(place) for place in found.suspects.ranked()[:LISTED_SUSPECTS]],
        "unjudged": found.suspects.unjudged,
        "wrong": [
            {**_reading(reading), "errors": [error.kind for error in errors]}
            for reading, errors in found.wrong.best_first()
        ],
        "uncertain": [_reading(reading) for reading in found.uncertain.best_first()],
    }
    if comparison is not None:
        answer["comparison"] = _comparison(found, comparison)
    return {**answer, "signature": signature}


def _figures(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in ("gold", "predicted", "correct", "precision", "recall", "f1")}


def _interval(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high, "level": interval.level}


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "file": reading.sentence.file,
        "line": reading.sentence.line,
        "entropy": reading.entropy,
        "tokens": list(reading.sentence.tokens),
        "gold": None if reading.gold is None else [span_to_json(span) for span in reading.gold],
        "predicted": [_predicted(reading, span) for span in reading.predicted],
    }


def _predicted(reading: Reading, span: Span) -> dict[str, Any]:
    return {**(span_to_json(span) or {}), "probability": reading.probabilities[span]}


def _comparison(found: Collector, comparison: Comparison) -> dict[str, Any]:
    test, counts = comparison.test(found.counts), comparison.counts
    both = comparison.found
    return {
        "second": _figures(Tally(*counts.array()[:, 0].sum(0).tolist())),
        "difference": test.difference,
        "p_value": test.p_value,
        "trials": test.trials,
        "gold_segments": {
            "both": both[True, True],
            "first": both[True, False],
            "second": both[False, True],
            "neither": both[False, False],
        },
        "second_better": [_pair(*pair) for pair in comparison.better.best_first()],
        "second_worse": [_pair(*pair) for pair in comparison.worse.best_first()],
    }


def _pair(first: Reading, second: Reading) -> dict[str, Any]:
    return {**_reading(first), "second": [_predicted(second, span) for span in second.predicted]}
