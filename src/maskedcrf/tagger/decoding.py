"""Path or segments: how a tagger decodes, and the choice between the two on labelled sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.options import DEFAULT_THRESHOLD, Decoding, NamedThreshold, resolve_threshold
from maskedcrf.tagger.parallel import Batch, compute_emissions
from maskedcrf.tagger.predict import MAX_BATCH_SENTENCES, allowed_of_batch, default_forward_tokens
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, read_batch, read_paths

if TYPE_CHECKING:
    from maskedcrf.tagger.tagger import Tagger

THRESHOLDS = tuple(number / 50 for number in range(5, 46))
"""From 0.1 to 0.9, to choose from."""
FOLDS = 10
LEAST_EXPECTED = 0.02
"""Segments less probable than this are not counted among those there are expected to be."""

Counts = NDArray[np.int64]
"""(sentences, decodings, 3): segments correct, predicted and gold; the first decoding is the path."""


@dataclass(frozen=True, slots=True)
class DecodingChoice:
    """What was chosen on labelled sentences, and the scores behind it; F1, or F-beta, in percent."""

    decoding: Decoding
    threshold: float
    """With the best F1, whichever decoding was chosen."""
    path_f1: float
    segments_f1: float
    """At the threshold, on the sentences it was chosen on."""
    held_out_f1: float
    """By segments, each tenth of the sentences at the best threshold of the others: what new text may expect."""
    curve: tuple[tuple[float, float], ...]
    """F1 at each threshold."""
    sentences: int
    beta: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "curve": [list(point) for point in self.curve]}

    def __str__(self) -> str:
        name = "F1" if self.beta == 1 else f"F{self.beta:g}"
        return (
            f"{name} {self.path_f1:.2f} by path, {self.segments_f1:.2f} by segments at threshold {self.threshold:.2f} "
            f"({self.held_out_f1:.2f} held out): decoding by {self.decoding}"
        )


def choose_decoding(
    model: TaggerModel, sentences: Sequence[Sentence], *, gold_scheme: Scheme, beta: float = 1.0
) -> DecodingChoice:
    """The better decoding on these sentences, and the best threshold."""
    chosen = [sentence for sentence in sentences if sentence.tokens]
    missing = next((sentence for sentence in chosen if sentence.tags is None), None)
    if missing is not None:
        raise DataError(f"{missing.where(0)}: no gold tags; choosing a decoding needs them")
    gold = read_batch([sentence.tags or () for sentence in chosen], gold_scheme)
    with compute_emissions(model, chosen, size=MAX_BATCH_SENTENCES, tokens=default_forward_tokens(model)) as batches:
        return choose_by_counts(count_at_thresholds(model.crf, batches, gold), beta=beta)


def choose_by_counts(counts: Counts, *, beta: float = 1.0) -> DecodingChoice:
    """Segments where they score higher than the path at their best threshold, which is chosen on the same sentences.

    That favours segments a little. It is meant to: a threshold held out of so few sentences says less than what nearly
    all models measured had in common, which gained from segments on text that the threshold was not chosen on.
    """
    require_beta(beta)
    if len(counts) < 2:
        raise DataError(f"choosing a decoding needs 2 labelled sentences or more, got {len(counts)}")
    total = counts.sum(axis=0)
    scores = f_scores(total, beta)
    best = _best_threshold(scores[1:])
    folds = min(FOLDS, len(counts))
    held_out = np.zeros(3, np.int64)
    for fold in range(folds):
        own = counts[fold::folds].sum(axis=0)
        held_out += own[1 + _best_threshold(f_scores(total - own, beta)[1:])]
    return DecodingChoice(
        "segments" if scores[1 + best] > scores[0] else "path",
        THRESHOLDS[best],
        float(scores[0]),
        float(scores[1 + best]),
        float(f_scores(held_out, beta)),
        tuple(zip(THRESHOLDS, scores[1:].tolist(), strict=True)),
        len(counts),
        beta,
    )


@torch.inference_mode()
def count_at_thresholds(crf: MaskedCRF, batches: Iterable[Batch], gold: Sequence[Sequence[Segment]]) -> Counts:
    """Counts of each sentence by the path and by segments at each of `THRESHOLDS`; gold as conlleval reads it."""
    gold_spans = [{(start, end, kind) for start, end, kind, _ in row} for row in gold]
    counts = np.zeros((len(gold), 1 + len(THRESHOLDS), 3), np.int64)
    scheme = crf.constraints.scheme
    assert scheme is not None, "a tagger is built from a scheme"
    for places, emissions, mask in batches:
        by_path = read_paths(crf.decode(emissions, mask), crf.tags, scheme)
        answers = [[[(start, end, kind) for start, end, kind, _ in row] for row in by_path]]
        candidates = crf.segment_candidates(emissions, mask, least=THRESHOLDS[0])
        for rows in candidates.choose_each(THRESHOLDS):
            answers.append([[(start, end, kind) for start, end, kind, _ in row.segments] for row in rows])
        for number, found in enumerate(answers):
            for place, row in zip(places, found, strict=True):
                counts[place, number] = len(gold_spans[place].intersection(row)), len(row), len(gold_spans[place])
    return counts


def keep_choice(tagger: Tagger, choice: DecodingChoice) -> None:
    """Decode as was chosen from now on, and put the choice on record."""
    tagger.decoding, tagger.segment_threshold = choice.decoding, choice.threshold
    settings = {**tagger.record.settings, "decoding_choice": choice.to_json()}
    tagger.record = tagger.record.model_copy(update={"settings": settings})


def find_threshold(
    tagger: Tagger,
    sentences: Iterable[Sentence],
    decoding: Decoding | None,
    threshold: float | NamedThreshold | None,
    beta: float = 1.0,
) -> float | None:
    """The threshold of decoding by segments, None for the best path; what is left out is the tagger's own.

    Without a mask the tagger's own is the best path, legal or not.
    """
    usual: Decoding = "path" if tagger.mask == "off" else tagger.decoding
    found = resolve_threshold(decoding, threshold, own=(usual, tagger.segment_threshold))
    if found == "expected":
        return expected_threshold(tagger.model, list(sentences), beta=beta)
    if found != "f1":
        return found
    if "decoding_choice" not in tagger.record.settings:
        raise MaskedCRFError("no threshold was chosen for the best F1; call choose_decoding with labelled sentences")
    return tagger.segment_threshold


def change_decoding(tagger: Tagger, decoding: Decoding | None, segment_threshold: float | None) -> None:
    """Decode in another way than the tagger's own; None leaves it."""
    found = tagger.threshold_for(decoding, segment_threshold)
    if found is not None:
        tagger.decoding, tagger.segment_threshold = "segments", found
    elif decoding is not None:
        tagger.decoding = "path"


@torch.inference_mode()
def expected_threshold(model: TaggerModel, sentences: Sequence[Sentence], *, beta: float = 1.0) -> float:
    """The threshold with the best F1 that the model itself expects on these sentences; no gold needed.

    The expected number of right segments is the sum of their probabilities, that of gold ones the sum over all.
    """
    require_beta(beta)
    sums = np.zeros((len(THRESHOLDS), 3))
    chosen = [sentence for sentence in sentences if sentence.tokens]
    with compute_emissions(model, chosen, size=MAX_BATCH_SENTENCES, tokens=default_forward_tokens(model)) as batches:
        for places, emissions, mask in batches:
            allowed = allowed_of_batch([chosen[place] for place in places], mask, len(model.crf.tags))
            sums += _expected_counts(model.crf, emissions, mask, allowed)
    return THRESHOLDS[_best_threshold(f_scores(sums, beta))]


def _expected_counts(crf: MaskedCRF, emissions: Tensor, mask: Tensor, allowed: Tensor | None) -> NDArray[np.float64]:
    """(K, 3): expected correct, predicted and expected gold segments at each threshold."""
    candidates = crf.segment_candidates(emissions, mask, least=LEAST_EXPECTED, allowed=allowed)
    gold = float(candidates.shares.sum())
    found = []
    for rows in candidates.choose_each(THRESHOLDS):
        shares = [each.probability for row in rows for each in row.segments]
        found.append((sum(shares), len(shares), gold))
    return np.array(found, np.float64)


def f_scores(counts: Any, beta: float = 1.0) -> Any:
    """F-beta in percent along the last axis of counts; 0 where nothing is predicted or gold."""
    correct, predicted, gold = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    there = predicted + beta**2 * gold
    return 100 * (1 + beta**2) * correct / np.where(there > 0, there, 1)


def require_beta(beta: object) -> None:
    """How many times as much recall counts as precision."""
    if not isinstance(beta, int | float) or isinstance(beta, bool) or not 0 < beta <= 100:
        raise MaskedCRFError(f"beta says how many times as much recall counts as precision, above 0; got {beta!r}")


def _best_threshold(scores: Any) -> int:
    """The number of the threshold with the best score; of equals the one nearest one half."""
    equals = np.flatnonzero(scores == scores.max())
    return int(equals[np.abs(np.array(THRESHOLDS)[equals] - DEFAULT_THRESHOLD).argmin()])
