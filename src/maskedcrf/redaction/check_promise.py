"""A promise checked on labelled sentences of one's own: the miss rate found, and whether it agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.evaluation.risk import interval
from maskedcrf.redaction.measure import Loss, Measurement, Unit, choose_unit, measure
from maskedcrf.redaction.promise import digest_sentences
from maskedcrf.redaction.redactor import Redactor
from maskedcrf.tags.scheme import Scheme

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Check:
    """What was missed of labelled sentences at a threshold."""

    threshold: float
    miss_rate: float
    """The mean over units with entities; of several types by themselves, the worst."""
    low: float
    high: float
    """Miss rates that this many units do not rule out, with 95 % confidence, whatever their distribution."""
    promised: float | None
    at_most: float | None
    """What the promise's own sample may miss, where only the average over samples was promised."""
    agrees: bool | None
    """Whether the promise is not ruled out, the luck of its own sample allowed for; None without a promise."""
    unit: Unit
    loss: Loss
    units: int
    entities: int
    missed: int
    types: dict[str, dict[str, int]]
    """Entities and missed ones, by type."""
    hidden: float
    """The share of all other words that is hidden."""
    is_own_sample: bool
    """Whether these are the very sentences the promise was made on, which prove nothing."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def __str__(self) -> str:
        found = (
            f"missed {self.miss_rate:.2%} on average over {self.units:,} {self.unit}s with entities, "
            f"95 % interval {self.low:.2%} to {self.high:.2%}; {self.missed:,} of {self.entities:,} entities; "
            f"{self.hidden:.2%} of all other words hidden"
        )
        if self.promised is None:
            return found
        verdict = "agrees with" if self.agrees else "breaks"
        luck = ""
        if self.at_most is not None and self.agrees and self.low > self.promised:
            luck = f", an average over samples: the one it was made on may miss up to {self.at_most:.2%}"
        return f"{found}: this {verdict} the promise of at most {self.promised:.2%}{luck}"


def check_promise(
    redactor: Redactor, gold: Sequence[Sentence], *, scheme: Scheme, unit: Unit | Literal["auto"] = "auto"
) -> Check:
    """The miss rate on these sentences, in the units and by the loss of the promise; rules count as they hide."""
    promise = redactor.promise
    chosen = choose_unit(gold, unit) if promise is None else promise.unit
    measured = measure(gold, redactor.covers(gold), scheme=scheme, types=redactor.tags.names, unit=chosen)
    loss: Loss = "entities" if promise is None else promise.loss
    samples = measured.samples(loss).values()
    if not samples:
        raise DataError("no entity of the chosen types in the gold, so no miss rate can be found; give other gold")
    rates = [(sample.mean_loss(redactor.threshold), sample.size) for sample in samples]
    rate, size = max(rates)
    # Of several types each gets its share of the doubt.
    low, high = interval(rate, size, 1 - (1 - LEVEL) / len(rates))
    types = _count(measured, redactor.threshold)
    return Check(
        threshold=redactor.threshold,
        miss_rate=rate,
        low=low,
        high=high,
        promised=None if promise is None else promise.miss_rate,
        at_most=None if promise is None else promise.at_most,
        agrees=None if promise is None else low <= max(promise.miss_rate, promise.at_most or 0.0),
        unit=chosen,
        loss=loss,
        units=size,
        entities=len(measured.entities),
        missed=sum(each["missed"] for each in types.values()),
        types=types,
        hidden=measured.hidden(redactor.threshold),
        is_own_sample=promise is not None and digest_sentences(gold) == promise.data,
    )


def _count(measured: Measurement, threshold: float) -> dict[str, dict[str, int]]:
    entities = Counter(each.type for each in measured.entities)
    missed = Counter(each.type for each in measured.entities if min(each.scores) < threshold)
    return {kind: {"entities": entities[kind], "missed": missed[kind]} for kind in sorted(entities)}
