"""A trained tagger fitted and calibrated on labelled sentences, its encoder frozen; and what that changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError, SchemeError
from maskedcrf.evaluation.reliability import Reliability, reliability
from maskedcrf.tagger.decoding import choose_by_counts, count_at_thresholds, keep_choice
from maskedcrf.tagger.fitting import FOLDS, Fit, Interval, fit_lattice, interval_of
from maskedcrf.tagger.lattice import Example, Lattice, LatticeScorer, make_batches
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.parallel import Batch as EmissionBatch
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tagger.predict import MAX_BATCH_SENTENCES, default_forward_tokens
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, encode, read_batch, read_paths

if TYPE_CHECKING:
    from maskedcrf.tagger.tagger import Tagger

Progress = Callable[[int], None]
"""Told how many sentences have been encoded since it was last told."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """One temperature over the lattice, and how probabilities hold without and with it."""

    temperature: float
    before: Reliability
    after: Reliability
    """Each half of the sentences under the temperature of the other half."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"temperature": self.temperature, "before": self.before.to_json(), "after": self.after.to_json()}

    def __str__(self) -> str:
        errors = ["-" if each.error is None else f"{each.error:.1f}" for each in (self.before, self.after)]
        return f"temperature {self.temperature:.2f}; calibration error {errors[0]} % -> {errors[1]} %"


@dataclass(frozen=True, slots=True)
class BestTagAudit:
    """What taking each word's best tag by itself gives, as a softmax tagger is used without a mask."""

    retain: Interval
    discard: Interval
    illegal: float
    """Illegal segments in percent of the predicted ones."""
    mean_softmax: Reliability
    """Of the mean over an entity's words of their best tag's probability."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "retain": self.retain.to_json(),
            "discard": self.discard.to_json(),
            "illegal": self.illegal,
            "calibration": self.mean_softmax.to_json(),
        }


def fit_transitions(
    tagger: Tagger,
    gold: Sequence[Sentence],
    *,
    scheme: Scheme,
    folds: int = FOLDS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """Fit bias, transitions and temperature to these sentences by the recipe that cross-validates best; in place."""
    examples = gold_examples(tagger.model, gold, scheme=scheme, progress=progress)
    return fit_examples(tagger, examples, folds=folds, seed=seed)


def fit_examples(tagger: Tagger, examples: Sequence[Example], *, folds: int = FOLDS, seed: int = 0) -> Fit:
    """The same for sentences whose emissions are known."""
    lattice, fit = fit_lattice(tagger.model.crf, examples, folds=folds, seed=seed)
    apply_lattice(tagger.model, lattice)
    _record(tagger, "fit", fit.to_json(), fit.temperature)
    _choose_decoding(tagger, examples, lattice)
    return fit


def calibrate(
    tagger: Tagger, gold: Sequence[Sentence], *, scheme: Scheme, progress: Progress | None = None
) -> Calibration:
    """Divide the lattice by the temperature that makes these sentences' gold likeliest, and choose the decoding anew.

    In place. Best paths stay as they are.
    """
    examples = gold_examples(tagger.model, gold, scheme=scheme, progress=progress)
    if len(examples) < 2:
        raise DataError(f"calibration needs 2 labelled sentences or more, got {len(examples)}")
    scorer = LatticeScorer(tagger.model.crf)
    halves = [examples[0::2], examples[1::2]]
    batches = [make_batches(half) for half in halves]
    by_half = [[each.gold for each in half] for half in halves]
    first, second = (scorer.temperature([(scorer.base, half)]) for half in batches)
    whole = scorer.temperature([(scorer.base, half) for half in batches])
    crossed = [(scorer.base.divided_by(each), half) for each, half in zip((second, first), batches, strict=True)]
    found = Calibration(
        whole,
        scorer.reliability([(scorer.base, half) for half in batches], by_half),
        scorer.reliability(crossed, by_half),
    )
    lattice = scorer.base.divided_by(whole)
    apply_lattice(tagger.model, lattice)
    _record(tagger, "calibration", found.to_json(), whole)
    _choose_decoding(tagger, examples, lattice)
    return found


def _choose_decoding(tagger: Tagger, examples: Sequence[Example], lattice: Lattice) -> None:
    """By path or by segments, with the probabilities that the model has now."""
    if len(examples) < 2:
        return
    crf = tagger.model.crf
    kind, device = crf.transitions.dtype, crf.transitions.device
    batches = (
        EmissionBatch(
            each.indices, (each.emissions * lattice.scale + lattice.bias).to(device, kind), each.mask.to(device)
        )
        for each in make_batches(examples)
    )
    counts = count_at_thresholds(crf, batches, [tuple(each.gold) for each in examples])
    keep_choice(tagger, choose_by_counts(counts))


def gold_examples(
    model: TaggerModel, sentences: Sequence[Sentence], *, scheme: Scheme, progress: Progress | None = None
) -> list[Example]:
    """The frozen model's emissions and the gold of each sentence with words; illegal gold is read as conlleval does."""
    chosen = [sentence for sentence in sentences if sentence.tokens]
    if not chosen:
        raise DataError("no labelled sentence; give a file or sentences with gold tags")
    missing = next((sentence for sentence in chosen if sentence.tags is None), None)
    if missing is not None:
        raise DataError(f"{missing.where(0)}: no gold tags; fitting needs them")
    try:
        rows = read_batch([sentence.tags or () for sentence in chosen], scheme)
    except SchemeError as error:
        raise DataError(f"{error}; if the gold has another scheme, name it (scheme=, or --gold-scheme)") from error
    gold = [[Segment(start, end, kind) for start, end, kind, _ in row] for row in rows]
    _require_shared_type(model, gold)
    index = {tag: number for number, tag in enumerate(model.crf.tags)}
    found: dict[int, Example] = {}
    with compute_emissions(model, chosen, size=MAX_BATCH_SENTENCES, tokens=default_forward_tokens(model)) as batches:
        for batch in batches:
            emissions, mask = batch.emissions.cpu(), batch.mask.cpu()
            for row, place in enumerate(batch.indices):
                tags = encode(gold[place], len(chosen[place]), model.scheme)
                known = all(tag in index for tag in tags)
                ids = torch.tensor([index[tag] for tag in tags]) if known else None
                found[place] = Example(emissions[row, mask[row]].clone(), ids, frozenset(gold[place]))
            if progress is not None:
                progress(len(batch.indices))
    return [found[place] for place in range(len(chosen))]


def _require_shared_type(model: TaggerModel, gold: Sequence[Sequence[Segment]]) -> None:
    """Refuse gold of which the model knows no type: nothing could be right."""
    types = {each.type for row in gold for each in row}
    known = set(model.crf.constraints.matrices.types)
    if types and not types & known:
        raise DataError(
            f"gold has types {', '.join(sorted(types)[:5])}, the model {', '.join(sorted(known)[:5])}, none in common: "
            "rename the gold's types, or give labels="
        )


def apply_lattice(model: TaggerModel, lattice: Lattice) -> None:
    """Make the lattice the model's own: what scales and shifts its emissions goes into the last layer."""
    crf = model.crf
    with torch.no_grad():
        for own in (model.linear.weight, model.linear.bias):
            own.mul_(lattice.scale)
        model.linear.bias.add_(lattice.bias)
        pairs = (
            (crf.transitions, lattice.transitions),
            (crf.start_transitions, lattice.start),
            (crf.end_transitions, lattice.end),
        )
        for target, scores in pairs:
            target.copy_(scores)
        fitted = any(bool(scores.any()) for _, scores in pairs)
    if fitted:
        model.head = "crf"
        crf.requires_grad_(True)
    crf.mask_mode = "train" if model.head == "crf" else "decode"


def _record(tagger: Tagger, name: str, entry: dict[str, Any], temperature: float) -> None:
    """Keep what was done with the model; temperatures multiply."""
    settings = tagger.record.settings
    whole = settings.get("temperature", 1.0) * temperature
    tagger.record = tagger.record.model_copy(update={"settings": {**settings, name: entry, "temperature": whole}})


def audit_best_tags(examples: Sequence[Example], tags: Sequence[str], scheme: Scheme) -> BestTagAudit:
    """F1 and calibration of each word's best tag by itself, illegal segments retained and discarded."""
    paths = [each.emissions.argmax(dim=1).tolist() for each in examples]
    found = read_paths(paths, tags, scheme)
    counts = {rule: np.zeros((len(examples), 3), dtype=np.int64) for rule in ("retain", "discard")}
    shares: list[float] = []
    right: list[bool] = []
    for place, (example, row) in enumerate(zip(examples, found, strict=True)):
        best = example.emissions.double().softmax(dim=1).amax(dim=1)
        named = [_as_legal(each) for each in row]
        shares += [float(best[each.start : each.end].mean()) for each in row]
        right += [each in example.gold for each in named]
        for rule, kept in (("retain", named), ("discard", [each for each in row if each.legal])):
            counts[rule][place] = len(example.gold.intersection(kept)), len(kept), len(example.gold)
    predicted = counts["retain"][:, 1].sum()
    illegal = predicted - counts["discard"][:, 1].sum()
    return BestTagAudit(
        interval_of(counts["retain"]),
        interval_of(counts["discard"]),
        float(100 * illegal / predicted) if predicted else 0.0,
        reliability(shares, right),
    )


def _as_legal(segment: Segment) -> Segment:
    """The segment as conlleval counts it."""
    return segment._replace(legal=True)
