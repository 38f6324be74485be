"""Labels that may be wrong: places where a model that has not seen them is sure of another reading.

Gold segments, and segments that gold lacks, stand on one scale: the exact probability of the best other reading of
these words less the square root of the gold's, which tells 0.01 from 0.1. From it the mean of all gold segments of
that type is taken, so that a type of which the model is never sure is not suspected as a whole. Exact P(segment) says
"these tokens, no more, and this type"; that nothing stands at some tokens is as probable as the least certain of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple

from maskedcrf.data.sentence import Sentence
from maskedcrf.inspection.errors import kind_of, overlaps
from maskedcrf.inspection.reading import Reading, Span
from maskedcrf.inspection.top import Top

PRIOR = 10
"""The mean of a type counts as so many segments of the mean of all, since a rare type has hardly one of its own."""
MOST_KEPT = 20_000
"""Suspects at most, by far more than anybody looks at."""


class Suspect(NamedTuple):
    """A gold segment, a reading in its place, and how probable the model finds each; None is no segment."""

    gold: Span | None
    reading: Span | None
    gold_probability: float
    reading_probability: float

    @property
    def is_likelier(self) -> bool:
        """Whether the other reading is the more probable one."""
        return self.reading_probability > self.gold_probability

    @property
    def margin(self) -> float:
        """How sure the model is of the other reading, and how little it thinks of the gold's; from -1 to 1."""
        return self.reading_probability - sqrt(self.gold_probability)

    @property
    def tokens(self) -> tuple[int, int]:
        """First token of either reading, and the one after the last."""
        spans = [span for span in (self.gold, self.reading) if span is not None]
        return min(span[0] for span in spans), max(span[1] for span in spans)

    @property
    def kind(self) -> str:
        """What would be wrong with the label."""
        if self.gold is None:
            return "missing"
        return "superfluous" if self.reading is None else kind_of(self.gold, self.reading)


def gold_suspects(reading: Reading) -> Iterator[Suspect]:
    """Each gold segment whose type the model knows against the best other reading of its words."""
    for span in reading.gold or ():
        if span in reading.probabilities:
            others = [each for each in reading.probabilities if each != span and overlaps(each, span)]
            best = max(others, key=reading.probabilities.__getitem__, default=None)
            nothing = min(reading.outside[span[0] : span[1]])
            share = 0.0 if best is None else reading.probabilities[best]
            if share < nothing:
                best, share = None, nothing
            yield Suspect(span, best, reading.probabilities[span], share)


def missing_suspects(reading: Reading) -> Iterator[Suspect]:
    """Each segment that overlaps no gold and is more probable than nothing, and than what overlaps it."""
    shares = reading.probabilities
    for span, share in shares.items():
        nothing = min(reading.outside[span[0] : span[1]])
        is_beaten = any(other > share and overlaps(span, each) for each, other in shares.items())
        if share > nothing and not is_beaten and not any(overlaps(span, each) for each in reading.gold or ()):
            yield Suspect(None, span, nothing, share)


class Place(NamedTuple):
    """A suspect, the sentence it stands in, and how much it is to be suspected."""

    score: float
    suspect: Suspect
    sentence: Sentence


@dataclass
class SuspectList:
    """The most suspect labels of any number of readings."""

    _kept: Top[tuple[Suspect, Sentence]] = field(default_factory=lambda: Top(MOST_KEPT))
    _sums: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of each type: gold segments, and the sum of their margins."""
    unjudged: int = 0
    """Gold segments of types that the model does not know."""

    def add(self, reading: Reading) -> None:
        """Look at one sentence."""
        self.unjudged += sum(span not in reading.probabilities for span in reading.gold or ())
        for suspect in gold_suspects(reading):
            assert suspect.gold is not None
            number, total = self._sums.get(suspect.gold[2], (0, 0.0))
            self._sums[suspect.gold[2]] = number + 1, total + suspect.margin
            if suspect.is_likelier:
                self._kept.add(suspect.margin, (suspect, reading.sentence))
        for suspect in missing_suspects(reading):
            self._kept.add(suspect.margin, (suspect, reading.sentence))

    def ranked(self) -> list[Place]:
        """All suspects, the most suspect first; of several that share a token, the first."""
        means = self._type_means()
        scored = [
            Place(suspect.margin - (means[suspect.gold[2]] if suspect.gold else 0.0), suspect, sentence)
            for suspect, sentence in self._kept.best_first()
        ]
        chosen: list[Place] = []
        taken: dict[int, list[Span]] = {}
        for place in sorted(scored, key=lambda each: -each.score):
            own = taken.setdefault(id(place.sentence), [])
            span = (*place.suspect.tokens, "")
            if not any(overlaps(span, each) for each in own):
                own.append(span)
                chosen.append(place)
        return chosen

    def _type_means(self) -> dict[str, float]:
        """How far the mean margin of each type is above that of all gold segments."""
        number, total = sum(n for n, _ in self._sums.values()), sum(s for _, s in self._sums.values())
        overall = total / number if number else 0.0
        return {kind: (s + PRIOR * overall) / (n + PRIOR) - overall for kind, (n, s) in self._sums.items()}


def suspect_to_json(place: Place) -> dict[str, Any]:
    """One line for re-annotation: the sentence as gold has it, where it stands, and what is doubted."""
    sentence, suspect = place.sentence, place.suspect
    start, end = suspect.tokens
    return {
        "file": sentence.file,
        "line": sentence.line_of(start),
        "suspected": suspect.kind,
        "words": " ".join(sentence.tokens[start:end]),
        "gold": span_to_json(suspect.gold),
        "reading": span_to_json(suspect.reading),
        "gold_probability": suspect.gold_probability,
        "reading_probability": suspect.reading_probability,
        "score": place.score,
        "tokens": list(sentence.tokens),
        "tags": list(sentence.tags or ()),
    }


def span_to_json(span: Span | None) -> dict[str, Any] | None:
    """Plain values; token positions."""
    return None if span is None else {"start": span[0], "end": span[1], "type": span[2]}
