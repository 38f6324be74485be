"""What a prediction carries: tokens, tags, entities with character offsets and exact probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import islice
from typing import Any, NamedTuple

from maskedcrf.data.sentence import Sentence
from maskedcrf.tags.segments import Segment


@dataclass(frozen=True, slots=True)
class Entity:
    """A segment of the text: text[start:end] carries this type."""

    type: str
    text: str
    start: int
    end: int
    tokens: tuple[int, int]
    """First token and the one after the last."""
    probability: float | None = None
    """Exact P(this very segment is in the path); None if not asked for."""

    def to_json(self) -> dict[str, Any]:
        """A dict of plain values."""
        found = {
            "type": self.type,
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "tokens": list(self.tokens),
        }
        return found if self.probability is None else {**found, "probability": self.probability}


class RankedPath(NamedTuple):
    """One of the n best paths."""

    tags: tuple[str, ...]
    probability: float


@dataclass(frozen=True)
class Prediction:
    """Tags for every token of one text, and the entities they spell."""

    sentence: Sentence
    """What was tagged."""
    tags: tuple[str, ...]
    segments: tuple[Segment, ...]
    """Token positions of the entities; legal ones only, unless the model's mask is off."""
    probabilities: tuple[float, ...] | None = None
    """Of each segment."""
    nbest: tuple[RankedPath, ...] = ()
    """The n best paths with their probabilities, best first, if asked for."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the sentence, each with its tag in `tags`."""
        return self.sentence.tokens

    @property
    def text(self) -> str:
        """The text given; for a list of tokens, the tokens joined by blanks."""
        return " ".join(self.tokens) if self.sentence.text is None else self.sentence.text

    @cached_property
    def offsets(self) -> Sequence[tuple[int, int]]:
        """Characters of each token in `text`, end exclusive."""
        if self.sentence.offsets is not None:
            return self.sentence.offsets
        offsets, start = [], 0
        for token in self.tokens:
            offsets.append((start, start + len(token)))
            start += len(token) + 1
        return offsets

    @cached_property
    def entities(self) -> list[Entity]:
        """The entities, in order of their start."""
        text, offsets = self.text, self.offsets
        shares = self.probabilities or [None] * len(self.segments)
        found = []
        for (first, after, kind, _), share in zip(self.segments, shares, strict=True):
            start, end = offsets[first][0], offsets[after - 1][1]
            found.append(Entity(kind, text[start:end], start, end, (first, after), share))
        return found

    def to_json(self) -> dict[str, Any]:
        """A dict of plain values, one line of `maskedcrf predict --format jsonl`."""
        result: dict[str, Any] = {
            "text": self.text,
            "tokens": list(self.tokens),
            "tags": list(self.tags),
            "entities": [entity.to_json() for entity in self.entities],
        }
        if self.nbest:
            result["nbest"] = [{"tags": list(tags), "probability": share} for tags, share in self.nbest]
        return result

    def to_pipeline(self) -> list[dict[str, Any]]:
        """The entities as a Hugging Face token-classification pipeline gives them; `score` is exact where computed."""
        return [
            {
                "entity_group": entity.type,
                "score": entity.probability,
                "word": entity.text,
                "start": entity.start,
                "end": entity.end,
            }
            for entity in self.entities
        ]


def join_by_text(texts: Iterable[Sentence], answers: Iterator[Prediction]) -> Iterator[Prediction]:
    """A prediction for each text, from those of its sentences as they come."""
    for text in texts:
        parts = list(islice(answers, len(text.breaks) + 1))
        yield _join(text, parts) if text.breaks else parts[0]


def _join(text: Sentence, parts: Sequence[Prediction]) -> Prediction:
    """Sentences do not depend on each other: the probability of a path of the text is the product of theirs."""
    firsts = (0, *text.breaks)
    segments = [
        segment._replace(start=segment.start + first, end=segment.end + first)
        for first, part in zip(firsts, parts, strict=True)
        for segment in part.segments
    ]
    shares = [share for part in parts for share in part.probabilities or ()]
    ranked = parts[0].nbest
    for part in parts[1:]:
        pairs = (
            RankedPath(one.tags + two.tags, one.probability * two.probability) for one in ranked for two in part.nbest
        )
        ranked = tuple(nlargest(max(len(ranked), len(part.nbest)), pairs, key=lambda path: path.probability))
    tags = tuple(tag for part in parts for tag in part.tags)
    return Prediction(text, tags, tuple(segments), None if parts[0].probabilities is None else tuple(shares), ranked)
