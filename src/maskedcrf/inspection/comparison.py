"""Two models on the same sentences: who is better, by more than chance, and where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import tee

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.evaluation.compare import Difference, approximate_randomisation
from maskedcrf.inspection.collect import LISTED, Collector, GroupCounts
from maskedcrf.inspection.reading import Reading, in_context, read_sentences
from maskedcrf.inspection.top import Top
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.scheme import Scheme

TRIALS = 2000


@dataclass
class Comparison:
    """What the second model does otherwise than the first, so far."""

    counts: GroupCounts = field(default_factory=GroupCounts)
    """Of the second model."""
    found: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Gold segments by whether the first model finds them, and the second."""
    better: Top[tuple[Reading, Reading]] = field(default_factory=lambda: Top(LISTED))
    """Sentences in which the second model has fewer errors; first reading, second reading."""
    worse: Top[tuple[Reading, Reading]] = field(default_factory=lambda: Top(LISTED))

    def add(self, first: Reading, second: Reading) -> None:
        """Look at one sentence as both have read it."""
        gold = first.gold or ()
        self.counts.add(gold, second.predicted)
        for span in gold:
            self.found[span in first.predicted, span in second.predicted] += 1
        gain = _wrong(first) - _wrong(second)
        if gain:
            (self.better if gain > 0 else self.worse).add(abs(gain), (first, second))

    def test(self, first: GroupCounts) -> Difference:
        """What the second model gains in F1 over the first, and how likely chance gains as much."""
        return approximate_randomisation(first.array()[:, 0], self.counts.array()[:, 0], trials=TRIALS)


def _wrong(reading: Reading) -> int:
    """Segments missed and invented."""
    return len(set(reading.gold or ()).symmetric_difference(reading.predicted))


def inspect_pair(
    first: Tagger, second: Tagger, sentences: Iterable[Sentence], *, gold_scheme: Scheme
) -> tuple[Collector, Comparison]:
    """The first model's inspection and the comparison with the second, in one pass over the sentences."""
    collector, comparison = Collector(), Comparison()
    for one, other in _side_by_side(first, second, sentences, gold_scheme):
        collector.add(one)
        comparison.add(one, other)
    return collector, comparison


def _side_by_side(
    first: Tagger, second: Tagger, sentences: Iterable[Sentence], gold_scheme: Scheme
) -> Iterator[tuple[Reading, Reading]]:
    mine, theirs = tee(sentences)
    pairs = zip(
        read_sentences(first, in_context(first, mine), gold_scheme=gold_scheme),
        read_sentences(second, in_context(second, theirs), gold_scheme=gold_scheme),
        strict=True,
    )
    for one, other in pairs:
        if one.sentence.tokens != other.sentence.tokens:
            raise DataError(f"{one.sentence.where(0)}: the two models read different words here")
        yield one, other
