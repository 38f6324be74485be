"""Counts of right, predicted and gold segments: they add up, and every ratio is derived last.

>>> count([["B-LOC", "O"]], [["B-LOC", "I-LOC"]], scheme="BIO").total
Tally(correct=0, predicted=1, gold=1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from maskedcrf.errors import MaskedCRFError, ShapeError
from maskedcrf.evaluation.seqeval import read_default, read_strict
from maskedcrf.tags.scheme import Bools, Ints, Scheme
from maskedcrf.tags.segments import Reading, TagIds, read, require_known

Strategy = Literal["retain", "discard", "seqeval", "strict"]
Tags = Sequence[str]


@dataclass(frozen=True, slots=True)
class Tally:
    """Segments found right, predicted, and in the gold; ratios in percent, 0 where nothing is to be divided."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.correct + other.correct, self.predicted + other.predicted, self.gold + other.gold)

    @property
    def precision(self) -> float:
        """Share of the predicted segments that are right."""
        return 100 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold segments that were found."""
        return 100 * self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two, in conlleval's order of operations so that its decimals are met."""
        precision, recall = self.precision, self.recall
        return 2 * precision * recall / (precision + recall) if self.correct else 0.0


@dataclass(frozen=True)
class Counts:
    """What a scorer needs to know of any amount of text; add two to get that of both."""

    tokens: int = 0
    correct_tags: int = 0
    types: Mapping[str, Tally] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        types = dict(self.types)
        for kind, tally in other.types.items():
            types[kind] = types.get(kind, Tally()) + tally
        return Counts(self.tokens + other.tokens, self.correct_tags + other.correct_tags, types)

    @property
    def total(self) -> Tally:
        """All types together."""
        return sum(self.types.values(), Tally())


class _Rule(NamedTuple):
    read: Callable[[TagIds, Scheme], Reading]
    keeps_illegal: bool


STRATEGIES: dict[str, _Rule] = {
    "retain": _Rule(read, True),
    "discard": _Rule(read, False),
    "seqeval": _Rule(read_default, True),
    "strict": _Rule(read_strict, True),
}


def count(
    gold: Iterable[Tags], predicted: Iterable[Tags], *, scheme: str | Scheme = "BIO", strategy: str = "retain"
) -> Counts:
    """The counts of predicted against gold tags, sentence by sentence of the same lengths."""
    scheme = Scheme.get(scheme)
    pair = Pair.of(gold, predicted, scheme)
    match = pair.match(scheme, strategy)
    size = len(match.types)
    tallies = zip(
        np.bincount(match.predicted.type_index[match.correct], minlength=size).tolist(),
        np.bincount(match.predicted.type_index, minlength=size).tolist(),
        np.bincount(match.gold.type_index, minlength=size).tolist(),
        strict=True,
    )
    types = {kind: Tally(*tally) for kind, tally in zip(match.types, tallies, strict=True) if any(tally)}
    return Counts(pair.tokens, int(pair.correct_tags(scheme, match.dropped).sum()), types)


def count_sentences(
    gold: Iterable[Tags], predicted: Iterable[Tags], *, scheme: str | Scheme = "BIO", strategy: str = "retain"
) -> Ints:
    """(N, 3): correct, predicted and gold segments of each of the N sentences, for paired tests."""
    scheme = Scheme.get(scheme)
    pair = Pair.of(gold, predicted, scheme)
    match = pair.match(scheme, strategy)
    starts = (match.predicted.start[match.correct], match.predicted.start, match.gold.start)
    sentences = [np.searchsorted(pair.sentence_ends, start, side="right") for start in starts]
    return np.stack([np.bincount(each, minlength=len(pair.sentence_ends)) for each in sentences], axis=1)


class Match(NamedTuple):
    """Gold and predicted segments, and which of the predicted are right."""

    gold: Reading
    predicted: Reading
    correct: Bools
    dropped: Reading | None
    """Illegal predicted segments that the strategy takes away."""

    @property
    def types(self) -> tuple[str, ...]:
        """Types that occur in any tag, by `type_index`."""
        return self.gold.types


@dataclass(frozen=True, slots=True)
class Pair:
    """Gold and predicted tags of the same tokens, numbered alike."""

    gold: TagIds
    predicted: TagIds
    sentence_ends: Ints
    """(N,): number of tokens up to the end of each sentence."""

    @staticmethod
    def of(gold: Iterable[Tags], predicted: Iterable[Tags], scheme: Scheme) -> Pair:
        """Check that both sides have the same tokens and only known tags, and number the tags."""
        sides = {"gold": list(gold), "predicted": list(predicted)}
        lengths, others = (_lengths(name, sentences) for name, sentences in sides.items())
        if len(lengths) != len(others):
            raise ShapeError(f"{len(lengths)} gold sentences but {len(others)} predicted: give as many of each")
        for number in np.flatnonzero(lengths != others)[:1].tolist():
            both = f"{lengths[number]} gold tags but {others[number]} predicted"
            raise ShapeError(f"sentence {number} has {both}: give one tag per token")
        half = int(lengths.sum()) + len(lengths)
        corpus = TagIds.of(sides["gold"] + sides["predicted"])
        for name, sentences in sides.items():
            require_known(sentences, scheme, tags=corpus.tags, name=name)
        gold_ids, predicted_ids = corpus.ids[: half + 1], corpus.ids[half:]
        return Pair(TagIds(gold_ids, corpus.tags), TagIds(predicted_ids, corpus.tags), np.cumsum(lengths))

    @property
    def tokens(self) -> int:
        """Tokens of one side."""
        return int(self.sentence_ends[-1]) if len(self.sentence_ends) else 0

    def match(self, scheme: Scheme, strategy: str) -> Match:
        """Segments of both sides under a strategy; the gold is always read leniently, except by seqeval's rules."""
        if strategy not in STRATEGIES:
            raise MaskedCRFError(f"unknown strategy {strategy!r}: choose one of {', '.join(STRATEGIES)}")
        rule = STRATEGIES[strategy]
        gold, predicted = rule.read(self.gold, scheme), rule.read(self.predicted, scheme)
        dropped = None
        if not rule.keeps_illegal:
            dropped, predicted = _only(predicted, ~predicted.legal), _only(predicted, predicted.legal)
        gold_keys, keys = (
            (side.end - side.start) * max(len(gold.types), 1) + side.type_index for side in (gold, predicted)
        )
        # By every rule at most one segment ends at a token (two may begin at one), so that its end finds it.
        there = np.full(self.tokens + 1, -1)
        there[gold.end] = gold_keys
        return Match(gold, predicted, there[predicted.end] == keys, dropped)

    def correct_tags(self, scheme: Scheme, dropped: Reading | None = None) -> Bools:
        """(tokens,): which predicted tags are right; those of dropped segments count as outside."""
        edge = len(self.gold.tags)
        inner = self.gold.ids != edge
        gold = self.gold.ids[inner]
        right: Bools = gold == self.predicted.ids[inner]
        if dropped is None or not len(dropped.start):
            return right
        depth = np.zeros(len(gold) + 1, dtype=np.int64)
        depth[dropped.start] += 1
        depth[dropped.end] -= 1
        outside = np.array([tag == scheme.outside for tag in self.gold.tags])
        gone = np.cumsum(depth)[:-1] > 0
        right[gone] = outside[gold[gone]]
        return right


def _lengths(name: str, sentences: Sequence[Tags]) -> Ints:
    for number, sentence in enumerate(sentences if str in set(map(type, sentences)) else ()):
        if isinstance(sentence, str):
            raise ShapeError(f"{name}[{number}] is the string {sentence!r}: give a list of tags per sentence")
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


def _only(reading: Reading, keep: Bools) -> Reading:
    return Reading(
        reading.start[keep],
        reading.end[keep],
        reading.type_index[keep],
        reading.legal[keep],
        reading.types,
        reading.violations,
    )
