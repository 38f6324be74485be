"""Everything the page tells, summed up from readings as they come: running sums, and the best few of each list.

Memory does not grow with the text. Counts of sentences go into GROUPS groups, by turns; intervals and tests draw
groups, which are single sentences as long as there are no more of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maskedcrf.evaluation.counts import Tally
from maskedcrf.evaluation.reliability import BINS, Bin, Reliability
from maskedcrf.inspection.errors import Error, compare
from maskedcrf.inspection.reading import Reading, Span
from maskedcrf.inspection.suspects import SuspectList
from maskedcrf.inspection.top import Top
from maskedcrf.tags.scheme import Ints

GROUPS = 4096
LISTED = 50
"""Sentences in each list."""
SENTENCE_LENGTHS = (5, 10, 20, 40)
"""Upper ends of the classes of sentences by their tokens."""
SEGMENT_LENGTHS = (1, 2, 3)
SEEN, UNSEEN = "all words known", "a word that training lacked"


@dataclass
class GroupCounts:
    """Right, predicted and gold segments of each type, for intervals and paired tests."""

    types: dict[str, Ints] = field(default_factory=dict)
    """Of each type (GROUPS, 3)."""
    sentences: int = 0

    def add(self, gold: Sequence[Span], predicted: Sequence[Span]) -> None:
        """Count one sentence."""
        group = self.sentences % GROUPS
        self.sentences += 1
        for column, spans in enumerate((set(gold).intersection(predicted), predicted, gold)):
            for _, _, kind in spans:
                if kind not in self.types:
                    self.types[kind] = np.zeros((GROUPS, 3), np.int64)
                self.types[kind][group, column] += 1

    @property
    def names(self) -> list[str]:
        """The types, sorted."""
        return sorted(self.types)

    def array(self) -> Ints:
        """(N, 1 + K, 3): of all types together, then of each in the order of `names`; groups in use only."""
        used = max(1, min(self.sentences, GROUPS))
        each = [self.types[kind][:used] for kind in self.names]
        total = np.sum(each, axis=0) if each else np.zeros((used, 3), np.int64)
        return np.stack([total, *each], axis=1)


@dataclass
class Calibration:
    """Promised and observed share of right segments, in bins of equal width."""

    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros((BINS, 3)))
    """(BINS, 3): predicted segments, sum of their probabilities, right ones."""

    def add(self, probability: float, *, right: bool) -> None:
        """Count one predicted segment."""
        self.sums[min(int(probability * BINS), BINS - 1)] += (1, probability, right)

    def result(self) -> Reliability:
        """The bins that hold a segment."""
        return Reliability(tuple(Bin(int(n), p / n, right / n) for n, p, right in self.sums.tolist() if n))


@dataclass
class Collector:
    """What is known of a model on labelled sentences, so far."""

    listed: int = LISTED
    tokens: int = 0
    wrong_sentences: int = 0
    unseen_tokens: int | None = 0
    """None if the model keeps no list of words."""
    counts: GroupCounts = field(default_factory=GroupCounts)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind and type: that of the gold segment, of what is invented its own."""
    confusion: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    """Gold type and predicted type; None for no segment."""
    by_sentence: dict[str, Tally] = field(default_factory=dict)
    by_segment: dict[str, Tally] = field(default_factory=dict)
    by_words: dict[str, Tally] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)
    suspects: SuspectList = field(default_factory=SuspectList)

    def __post_init__(self) -> None:
        self.wrong: Top[tuple[Reading, list[Error]]] = Top(self.listed)
        self.uncertain: Top[Reading] = Top(self.listed)

    @property
    def sentences(self) -> int:
        """Sentences seen."""
        return self.counts.sentences

    def add_all(self, readings: Iterable[Reading]) -> Collector:
        """Look at all of these; returns the collector."""
        for reading in readings:
            self.add(reading)
        return self

    def add(self, reading: Reading) -> None:
        """Look at one sentence."""
        gold = reading.gold or ()
        self.tokens += len(reading.sentence.tokens)
        self.counts.add(gold, reading.predicted)
        self._count_by_property(reading)
        found = set(gold)
        for span in reading.predicted:
            self.calibration.add(min(reading.probabilities[span], 1.0), right=span in found)
        for span in found.intersection(reading.predicted):
            self.confusion[span[2], span[2]] += 1
        errors = compare(gold, reading.predicted)
        for kind, mine, theirs in errors:
            self.confusion[mine and mine[2], theirs and theirs[2]] += 1
            self.errors[kind, (mine or theirs or (0, 0, ""))[2]] += 1
        if errors:
            self.wrong_sentences += 1
            self.wrong.add(max(_surety(reading, error) for error in errors), (reading, errors))
        self.uncertain.add(reading.entropy, reading)
        self.suspects.add(reading)

    def _count_by_property(self, reading: Reading) -> None:
        length = class_of(len(reading.sentence.tokens), SENTENCE_LENGTHS)
        for column, spans in enumerate(
            (set(reading.gold or ()).intersection(reading.predicted), reading.predicted, reading.gold or ())
        ):
            for span in spans:
                one = Tally(*(int(place == column) for place in range(3)))
                _tally(self.by_sentence, length, one)
                _tally(self.by_segment, class_of(span[1] - span[0], SEGMENT_LENGTHS), one)
                if reading.unseen is not None:
                    is_new = not reading.unseen.isdisjoint(range(span[0], span[1]))
                    _tally(self.by_words, UNSEEN if is_new else SEEN, one)
        if reading.unseen is None or self.unseen_tokens is None:
            self.unseen_tokens = None
        else:
            self.unseen_tokens += len(reading.unseen)


def class_of(number: int, ends: Sequence[int]) -> str:
    """The class of a number: `1`, `2`, `4 or more`, or `6 to 10` where ends lie apart."""
    first = 1
    for end in ends:
        if number <= end:
            return str(end) if first == end else f"{first} to {end}"
        first = end + 1
    return f"{first} or more"


def _tally(tallies: dict[str, Tally], name: str, one: Tally) -> None:
    tallies[name] = tallies.get(name, Tally()) + one


def _surety(reading: Reading, error: Error) -> float:
    """How much more probable the model finds its own reading than the gold's."""
    return probability_of(reading, error.predicted, error.gold) - probability_of(reading, error.gold, error.predicted)


def probability_of(reading: Reading, span: Span | None, other: Span | None) -> float:
    """Of a segment; where there is none, that nothing stands at the other reading's tokens."""
    if span is not None:
        return reading.probabilities.get(span, 0.0)
    return 0.0 if other is None else min(reading.outside[other[0] : other[1]])
