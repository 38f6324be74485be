"""How probably a model finds the entities of labelled sentences: what promises are made from and checked against."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.evaluation.risk import Sample, sample_of
from maskedcrf.redaction.cover import Cover, Floats
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, read_batch

Unit = Literal["sentence", "document", "file"]
"""What the sample is drawn by: only whole units are exchangeable."""
Loss = Literal["entities", "tokens", "types"]
"""What is missed of a unit: a share of its entities, of their tokens, or of the entities of each type by itself."""


class Found(NamedTuple):
    """A gold entity: it is missed at thresholds above its lowest score."""

    unit: int
    type: str
    scores: tuple[float, ...]
    """Of its tokens."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The scores of all entities and of all other tokens of a sample."""

    unit: Unit
    units: int
    """With or without entities."""
    sentences: int
    entities: tuple[Found, ...]
    innocent: Floats
    """Scores of the tokens outside the entities, lowest first."""

    def samples(self, loss: Loss) -> dict[str, Sample]:
        """What thresholds are chosen on: one sample, or one for each type."""
        groups: dict[str, dict[int, list[float]]] = {}
        for each in self.entities:
            own = groups.setdefault(each.type if loss == "types" else "", {}).setdefault(each.unit, [])
            own += each.scores if loss == "tokens" else [min(each.scores)]
        return {name: sample_of(list(units.values())) for name, units in sorted(groups.items())}

    def hidden(self, threshold: float) -> float:
        """The share of the tokens outside entities that are hidden all the same."""
        if not len(self.innocent):
            return 0.0
        return float(1 - np.searchsorted(self.innocent, threshold, side="left") / len(self.innocent))


def measure(
    sentences: Sequence[Sentence], covers: Iterable[Cover], *, scheme: Scheme, types: Collection[str], unit: Unit
) -> Measurement:
    """The scores of labelled sentences with these covers; their gold is read as conlleval reads it."""
    gold = _gold(sentences, scheme)
    units = numbers_of_units(sentences, unit)
    found: list[Found] = []
    innocent: list[Floats] = []
    for number, row, cover in zip(units, gold, covers, strict=True):
        chosen = [each for each in row if each.type in types]
        found += [Found(number, each.type, _scores(cover, each)) for each in chosen]
        outside = np.ones(len(cover.scores), dtype=bool)
        for each in chosen:
            outside[each.start : each.end] = False
        innocent.append(cover.scores[outside])
    together = np.sort(np.concatenate([np.zeros(0), *innocent]))
    return Measurement(unit, len(set(units)), len(sentences), tuple(found), together)


def require_known_types(sentences: Sequence[Sentence], scheme: Scheme, model: TaggerModel) -> None:
    """Refuse gold with types the model cannot find, unless the types of the promise are named."""
    known = set(model.crf.constraints.matrices.types)
    foreign = sorted({each.type for row in _gold(sentences, scheme) for each in row} - known)
    if foreign:
        raise DataError(
            f"gold has entities of type {', '.join(foreign[:5])}, which the model does not know and would miss; "
            f"say which types the promise is about: types={sorted(known)[:5]}"
        )


def choose_unit(sentences: Sequence[Sentence], unit: Unit | Literal["auto"]) -> Unit:
    """Documents where the data have more of them than files, or number them; else sentences."""
    if unit != "auto":
        if unit not in get_args(Unit):
            raise MaskedCRFError(f"unit must be one of auto, {', '.join(get_args(Unit))}, got {unit!r:.40}")
        return unit
    documents = len(set(_units(sentences, "document")))
    files = len({sentence.file for sentence in sentences})
    numbered = len({sentence.document for sentence in sentences}) > 1
    return "document" if documents < len(sentences) and (numbered or documents > files) else "sentence"


def numbers_of_units(sentences: Sequence[Sentence], unit: Unit) -> list[int]:
    """The number of each sentence's unit, from 0."""
    keys = _units(sentences, unit)
    index = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return [index[key] for key in keys]


def _units(sentences: Iterable[Sentence], unit: Unit) -> list[Hashable]:
    """To which unit each sentence belongs; a record of text, such as a line of JSON, is a document of its own."""
    keys: list[Hashable] = []
    for number, sentence in enumerate(sentences):
        record = sentence.line if sentence.one_line and sentence.text is not None and not sentence.document else 0
        whole: dict[Unit, Hashable] = {
            "sentence": number,
            "document": (sentence.file, sentence.document, record),
            "file": sentence.file,
        }
        keys.append(whole[unit])
    return keys


def _gold(sentences: Sequence[Sentence], scheme: Scheme) -> list[list[Segment]]:
    missing = next((sentence for sentence in sentences if sentence.tags is None and sentence.tokens), None)
    if missing is not None:
        raise DataError(f"{missing.where(0)}: no gold tags; a miss rate needs them")
    return read_batch([sentence.tags or () for sentence in sentences], scheme)


def _scores(cover: Cover, entity: Segment) -> tuple[float, ...]:
    return tuple(cover.scores[entity.start : entity.end].tolist())
