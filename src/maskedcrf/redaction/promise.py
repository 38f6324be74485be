"""A promised miss rate: a threshold chosen on labelled sentences, bound to one model, and checked on others."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field

from maskedcrf import __version__
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError, MaskedCRFError, ModelFolderError, VoidPromiseError
from maskedcrf.evaluation.risk import (
    Sample,
    confident_threshold,
    expected_loss_at_most,
    expected_threshold,
    require_share,
)
from maskedcrf.redaction.cover import TypeTags, stream_covers
from maskedcrf.redaction.measure import Loss, Measurement, Unit, choose_unit, measure, require_known_types
from maskedcrf.tagger.folder import digest_model
from maskedcrf.tags.scheme import Scheme

if TYPE_CHECKING:
    from maskedcrf.tagger.tagger import Tagger

LEVELS = tuple(round(level, 4) for level in (10 ** (-3 + number / 10) for number in range(28)))
"""Miss rates of the curve, from 0.1 % to about 50 %."""
MAX_THRESHOLD = 0.5
"""What is more probably part of an entity than not is hidden, however much a promise would let through."""
_WHOLE = {
    "entities": "the entities of a {unit}",
    "tokens": "the words of entities in a {unit}",
    "types": "the entities of each type in a {unit}",
}


class PromiseOptions(TypedDict, total=False):
    """What `Tagger.promise` takes besides the gold, its scheme and the miss rate."""

    confidence: float | None
    """Hold for this share of samples, 0.95 say, not just on the mean over samples; that takes three times as many."""
    types: Collection[str] | None
    """Types that are hidden; all the model's if left out."""
    unit: Unit | Literal["auto"]
    """What the sample was drawn by: sentence, document or file; documents where the data have them."""
    loss: Loss
    """What is missed of a unit: a share of its entities, of their tokens, or of the entities of each type by itself."""


class CurvePoint(NamedTuple):
    """What another promise on the same sample would have been."""

    miss_rate: float
    threshold: float
    hidden: float


class Promise(BaseModel):
    """A threshold at which at most a share `miss_rate` is missed on average, and what that was learnt from."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # what is written has the sentence too

    threshold: float = Field(ge=0, le=1)
    """Words whose probability of lying in an entity reaches it are hidden."""
    miss_rate: float = Field(gt=0, lt=1)
    confidence: float | None = Field(None, gt=0, lt=1)
    """The share of samples for which the promise holds; None promises the mean over samples."""
    at_most: float | None = Field(None, ge=0, le=1)
    """What the threshold of this one sample may miss, with 97.5 % confidence, where the promise is an average."""
    types: tuple[str, ...]
    unit: Unit
    loss: Loss
    units: int
    """Of the sample, those that have entities."""
    sentences: int
    entities: int
    hidden: float
    """The share of the sample's other words that are hidden too."""
    model: str
    """Digest of the model the promise was made for."""
    data: str
    """Digest of the sample."""
    curve: tuple[CurvePoint, ...] = ()
    """Thresholds for other miss rates, from the same sample."""
    version: str = __version__

    def miss_rate_at(self, threshold: float) -> float | None:
        """The lowest miss rate that another threshold keeps; None if it keeps none of the curve."""
        known = [(self.miss_rate, self.threshold, self.hidden), *self.curve]
        return min((rate for rate, highest, _ in known if threshold <= highest), default=None)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The promise as one reads it out."""
        whole = _WHOLE[self.loss].format(unit=self.unit)
        sure = "" if self.confidence is None else f" with {100 * self.confidence:.6g}% confidence"
        return (
            f"On average at most {self.miss_rate:.2%} of {whole} ({', '.join(filter(None, self.types)) or 'any'}) stay "
            f"readable{sure}, for {self.unit}s drawn like the {self.units:,} that it was measured on; "
            f"there {self.hidden:.2%} of all other words were hidden too."
        )

    def __str__(self) -> str:
        return f"threshold {self.threshold:.3g}: {self.sentence}"


def make_promise(
    tagger: Tagger,
    gold: Sequence[Sentence],
    *,
    scheme: Scheme,
    miss_rate: float,
    confidence: float | None = None,
    types: Collection[str] | None = None,
    unit: Unit | Literal["auto"] = "auto",
    loss: Loss = "entities",
) -> Promise:
    """The highest threshold that keeps the promise on these sentences, kept in the tagger's record."""
    require_share(miss_rate, "miss_rate")
    if confidence is not None:
        require_share(confidence, "confidence")
    if loss not in get_args(Loss):
        raise MaskedCRFError(f"loss must be one of {', '.join(get_args(Loss))}, got {loss!r:.40}")
    if types is None:
        require_known_types(gold, scheme, tagger.model)
    tags = TypeTags(tagger.model.crf.constraints, types)
    covers = stream_covers(tagger.model, gold, tags)
    measured = measure(gold, covers, scheme=scheme, types=tags.names, unit=choose_unit(gold, unit))
    samples = measured.samples(loss)
    threshold = choose_threshold(samples, miss_rate, confidence)
    promise = Promise(
        threshold=threshold,
        miss_rate=miss_rate,
        confidence=confidence,
        at_most=_at_most(samples, miss_rate) if confidence is None else None,
        types=tags.names,
        unit=measured.unit,
        loss=loss,
        units=len({each.unit for each in measured.entities}),
        sentences=measured.sentences,
        entities=len(measured.entities),
        hidden=measured.hidden(threshold),
        model=digest_model(tagger.model),
        data=digest_sentences(gold),
        curve=_curve(measured, samples, confidence),
    )
    settings = {**tagger.record.settings, "promise": promise.model_dump(mode="json")}
    tagger.record = tagger.record.model_copy(update={"settings": settings})
    return promise


def choose_threshold(samples: Mapping[str, Sample], miss_rate: float, confidence: float | None) -> float:
    """The highest threshold whose loss is small enough; of several samples, the lowest of theirs."""
    if not samples:
        raise DataError("no entity of the chosen types in the gold, so nothing can be promised; give other gold")
    thresholds = []
    for name, sample in samples.items():
        try:
            thresholds.append(_threshold(sample, miss_rate, confidence, groups=len(samples)))
        except DataError as error:
            raise DataError(f"{name}: {error}" if name else str(error)) from error
    return _round_down(min(MAX_THRESHOLD, *thresholds))


def _threshold(sample: Sample, miss_rate: float, confidence: float | None, *, groups: int) -> float:
    """Of several groups each takes its share of the doubt, so that the promise holds for all of them at once."""
    if confidence is None:
        return expected_threshold(sample, miss_rate)
    return confident_threshold(sample, miss_rate, (1 - confidence) / groups)


def _at_most(samples: Mapping[str, Sample], miss_rate: float) -> float:
    """Of several groups each takes its share of the doubt."""
    level = 1 - 0.05 / len(samples)
    return max(expected_loss_at_most(sample, miss_rate, level) for sample in samples.values())


def _round_down(threshold: float) -> float:
    """To four digits below, so that rounding in another batch, or on another machine, loses no entity of the sample."""
    if threshold < 1e-12:
        return 0.0
    digits = 3 - math.floor(math.log10(threshold))
    return float(max(0.0, round(math.floor(threshold * 10**digits - 1e-3) / 10**digits, digits)))


def _curve(measured: Measurement, samples: Mapping[str, Sample], confidence: float | None) -> tuple[CurvePoint, ...]:
    points: list[CurvePoint] = []
    for level in LEVELS:
        try:
            threshold = choose_threshold(samples, level, confidence)
        except DataError:  # too small a sample for this one
            continue
        if not points or threshold > points[-1].threshold:
            points.append(CurvePoint(level, threshold, measured.hidden(threshold)))
    return tuple(points)


def digest_sentences(sentences: Sequence[Sentence]) -> str:
    """Of the tokens and tags, in their order."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(json.dumps([sentence.tokens, sentence.tags]).encode())
    return digest.hexdigest()


def promise_of(tagger: Tagger, types: Collection[str] | None = None) -> Promise:
    """The promise in the tagger's record; an error if there is none, or if it was made for something else."""
    kept = tagger.record.settings.get("promise")
    if kept is None:
        raise MaskedCRFError(
            "this model has no promised miss rate; make one from labelled sentences (Tagger.promise, "
            "maskedcrf redact --calibrate), or give a threshold, which promises nothing"
        )
    try:
        promise = Promise.model_validate(kept)
    except ValidationError as error:
        raise ModelFolderError(
            f"the model's promise cannot be read ({error.errors()[0]['msg']}); make it anew"
        ) from error
    require_valid(promise, tagger, types)
    return promise


def require_valid(promise: Promise, tagger: Tagger, types: Collection[str] | None = None) -> None:
    """Refuse a promise that was made for another model, or is about other types."""
    if types is not None and set(types) != set(promise.types):
        raise VoidPromiseError(
            f"the promise is about {', '.join(promise.types)}, not about {', '.join(types)}; promise anew for these"
        )
    if digest_model(tagger.model) != promise.model:
        raise VoidPromiseError(
            "the promise was made for another model: weights, transitions, temperature, mask, tags or tokenizer have "
            "changed since; promise anew on labelled sentences"
        )
