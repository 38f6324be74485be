"""Path or segments: how a tagger decodes, and the choice between the two on labelled sentences."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tagger.predict import MAX_BATCH_SENTENCES, default_forward_tokens
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import read_batch, read_paths

logger = logging.getLogger(__name__)

Decoding = Literal["path", "segments"]
"""The best path, or the segments that maximise the sum of (probability - threshold)."""
DEFAULT_THRESHOLD = 0.4
"""Where none was chosen: the best threshold of calibrated probabilities is half the F1, here 80."""
THRESHOLDS = tuple(number / 50 for number in range(5, 46))
"""From 0.1 to 0.9, to choose from."""

Tallies = NDArray[np.int64]
"""(sentences, decodings, 3): segments correct, predicted and gold; the first decoding is the path."""
Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class DecodingChoice:
    """What was chosen on labelled sentences, and the scores behind it; F1 in percent."""

    decoding: Decoding
    threshold: float
    """With the best F1 on all sentences, whichever decoding was chosen."""
    path_f1: float
    segments_f1: float
    """Each half of the sentences at the best threshold of the other half."""
    curve: tuple[tuple[float, float], ...]
    """F1 on all sentences at each threshold."""
    sentences: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "decoding": self.decoding,
            "threshold": self.threshold,
            "path_f1": self.path_f1,
            "segments_f1": self.segments_f1,
            "curve": [list(point) for point in self.curve],
            "sentences": self.sentences,
        }

    def __str__(self) -> str:
        return (
            f"F1 {self.path_f1:.2f} by path, {self.segments_f1:.2f} by segments, best threshold {self.threshold:.2f}: "
            f"decoding by {self.decoding}"
        )


def warn_best_path(decoding: Decoding, what: str) -> None:
    """Say that what is written answers otherwise than the tagger: it cannot compute probabilities of segments."""
    if decoding == "segments":
        logger.warning("%s decodes by the best path, not by segments as this tagger does", what)


def choose_decoding(model: TaggerModel, sentences: Sequence[Sentence], *, gold_scheme: Scheme) -> DecodingChoice:
    """The decoding with the higher F1 on these sentences, a threshold never being scored where it was chosen."""
    chosen = [sentence for sentence in sentences if sentence.tokens]
    missing = next((sentence for sentence in chosen if sentence.tags is None), None)
    if missing is not None:
        raise DataError(f"{missing.where(0)}: no gold tags; choosing a decoding needs them")
    if len(chosen) < 2:
        raise DataError(f"choosing a decoding needs 2 labelled sentences or more, got {len(chosen)}")
    tallies = _tally(model, chosen, gold_scheme)
    halves = tallies[0::2].sum(axis=0), tallies[1::2].sum(axis=0)
    crossed = sum(scored[1 + _best_threshold(other)] for scored, other in (halves, halves[::-1]))
    total = tallies.sum(axis=0)
    path_f1, segments_f1 = float(_f1(total[0])), float(_f1(crossed))
    return DecodingChoice(
        "segments" if segments_f1 > path_f1 else "path",
        THRESHOLDS[_best_threshold(total)],
        path_f1,
        segments_f1,
        tuple(zip(THRESHOLDS, _f1(total[1:]).tolist(), strict=True)),
        len(chosen),
    )


@torch.inference_mode()
def _tally(model: TaggerModel, sentences: Sequence[Sentence], gold_scheme: Scheme) -> Tallies:
    gold = [_spans(row) for row in read_batch([sentence.tags or () for sentence in sentences], gold_scheme)]
    tallies = np.zeros((len(sentences), 1 + len(THRESHOLDS), 3), np.int64)
    with compute_emissions(model, sentences, size=MAX_BATCH_SENTENCES, tokens=default_forward_tokens(model)) as batches:
        for places, emissions, mask in batches:
            candidates = model.crf.segment_candidates(emissions, mask, least=THRESHOLDS[0])
            decoded = [model.crf.decode(emissions, mask)]
            decoded += [[each.tags for each in candidates.choose(threshold)] for threshold in THRESHOLDS]
            for number, paths in enumerate(decoded):
                for place, row in zip(places, read_paths(paths, model.crf.tags, model.scheme), strict=True):
                    found = _spans(row)
                    tallies[place, number] = len(found & gold[place]), len(found), len(gold[place])
    return tallies


def _spans(segments: Sequence[Any]) -> set[Span]:
    """Legal or not: illegal segments count as conlleval counts them."""
    return {(start, end, kind) for start, end, kind, _ in segments}


def _f1(tallies: Any) -> Any:
    """F1 in percent along the last axis; 0 where nothing is predicted or gold."""
    correct, predicted, gold = np.moveaxis(np.asarray(tallies), -1, 0)
    return 200 * correct / np.maximum(predicted + gold, 1)


def _best_threshold(total: Any) -> int:
    """The number of the threshold with the best F1; of equals the one nearest half of it, where theory has it."""
    scores = _f1(total[1:])
    best = scores.max()
    equals = np.flatnonzero(scores == best)
    return int(equals[np.abs(np.array(THRESHOLDS)[equals] - best / 200).argmin()])
