"""Rules beside a model: patterns and dictionaries, and what they find in a sentence."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import Tokenizer, parts_word
from maskedcrf.errors import MaskedCRFError
from maskedcrf.files import file_name, numbered_lines
from maskedcrf.redaction.patterns import BUILTIN, Pattern, read_patterns, require_weight
from maskedcrf.tagger.fixed_tags import Gazetteer
from maskedcrf.tagger.prediction import Prediction

BUILTIN_NAME = "builtin"
"""Stands for the patterns that ship where files are named."""


class Finding(NamedTuple):
    """A run of tokens that a rule found; end exclusive."""

    start: int
    end: int
    type: str
    source: str
    """`pattern:NAME` or `dictionary:NAME`."""
    weight: float | None = None
    """Log-odds that it adds to its type; None makes it certain."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Names of one type; they are found as whole words, the longest first."""

    name: str
    type: str
    names: tuple[str, ...]
    weight: float | None = None

    def __post_init__(self) -> None:
        require_weight(self.weight, f"dictionary {self.name}")


@dataclass(frozen=True, slots=True)
class Rules:
    """Patterns and dictionaries, for `Tagger.redact(text, rules=...)`.

    >>> rules = Rules.read(["builtin"])
    >>> [pattern.name for pattern in rules.patterns][:3]
    ['email', 'url', 'ipv4']
    """

    patterns: tuple[Pattern, ...] = ()
    dictionaries: tuple[Dictionary, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.patterns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise MaskedCRFError(f"two patterns are called {twice!r}; the ledger needs different names")

    @classmethod
    def read(cls, patterns: Iterable[str | Path] = (), dictionaries: Iterable[tuple[str, str | Path]] = ()) -> Rules:
        """Rules from files.

        Args:
            patterns: "builtin" for those that ship, or files of your own (`read_patterns`).
            dictionaries: pairs of a type and a text file with a name on each line.
        """
        found: list[Pattern] = []
        for each in patterns:
            found += BUILTIN.values() if str(each) == BUILTIN_NAME else read_patterns(each)
        return cls(tuple(found), tuple(read_dictionary(path, kind) for kind, path in dictionaries))

    def __iter__(self) -> Iterator[Pattern | Dictionary]:
        yield from self.patterns
        yield from self.dictionaries

    def __bool__(self) -> bool:
        return bool(self.patterns or self.dictionaries)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of what they find."""
        return tuple(dict.fromkeys(each.type for each in self))


def read_dictionary(path: str | Path, kind: str) -> Dictionary:
    """The names of a text file, one on each line; empty lines are left out."""
    if not kind:
        raise MaskedCRFError(f"{file_name(path)}: names of which type? Write TYPE=FILE")
    names = tuple(dict.fromkeys(line.strip() for _, line in numbered_lines(path) if line.strip()))
    if not names:
        raise MaskedCRFError(f"{file_name(path)}: no names; write one on each line")
    return Dictionary(Path(path).name, kind, names)


class RuleFinder:
    """What rules find in sentences that a tokenizer has cut."""

    def __init__(self, rules: Rules, tokenizer: Tokenizer) -> None:
        self.rules = rules
        self._dictionaries = [(each, _gazetteer(each, tokenizer)) for each in rules.dictionaries]

    def find(self, sentence: Sentence) -> list[Finding]:
        """Findings without overlap, in order; widened to whole words, as `settle` says where they overlapped.

        A list of tokens is searched as the tokens joined by blanks.
        """
        if not sentence.tokens:
            return []
        prediction = Prediction(sentence, (), ())
        words = _Words(prediction.text, prediction.offsets)
        return settle([*self._matches(words), *self._names(sentence, words)])

    def _matches(self, words: _Words) -> Iterator[Finding]:
        for pattern in self.rules.patterns:
            for start, end, kind in pattern.find(words.text):
                first, after = words.range_of(start, end)
                if first < after:
                    yield Finding(first, after, kind, f"pattern:{pattern.name}", pattern.weight)

    def _names(self, sentence: Sentence, words: _Words) -> Iterator[Finding]:
        for dictionary, gazetteer in self._dictionaries:
            for start, end, kind, _ in gazetteer.segments(sentence.tokens):
                if not (words.continues(start) or words.continues(end)):
                    yield Finding(start, end, kind, f"dictionary:{dictionary.name}", dictionary.weight)


class _Words:
    """A text, its tokens, and which of them go on with the word of the token before."""

    def __init__(self, text: str, offsets: Sequence[tuple[int, int]]) -> None:
        self.text, self._offsets = text, offsets
        self._starts = [start for start, _ in offsets]
        self._ends = [end for _, end in offsets]

    def continues(self, token: int) -> bool:
        """Whether a token belongs to the word of the one before it; the first and what follows the last do not."""
        if not 0 < token < len(self._starts) or self._starts[token] > self._ends[token - 1]:
            return False
        return parts_word(self.text, self._starts[token])

    def range_of(self, start: int, end: int) -> tuple[int, int]:
        """The tokens with any of these characters, and the rest of their words."""
        first, after = bisect_right(self._ends, start), bisect_left(self._starts, end)
        while first < after and self.continues(first):
            first -= 1
        while first < after and self.continues(after):
            after += 1
        return first, after


def settle(found: Iterable[Finding]) -> list[Finding]:
    """The same findings without overlap, in order.

    What is certain keeps its tokens before what has a weight, then the longer before the shorter, then the one that
    begins first, then the rule that comes first. The other keeps the rest of its tokens, so that all stay covered.
    """
    ranked = sorted(found, key=lambda each: (each.weight is not None, each.start - each.end, each.start))
    owner: dict[int, int] = {}
    for rank, each in enumerate(ranked):
        for token in range(each.start, each.end):
            owner.setdefault(token, rank)
    runs = groupby(enumerate(sorted(owner)), key=lambda each: (owner[each[1]], each[1] - each[0]))
    settled = []
    for (rank, _), members in runs:
        tokens = [token for _, token in members]
        settled.append(ranked[rank]._replace(start=tokens[0], end=tokens[-1] + 1))
    return settled


def _gazetteer(dictionary: Dictionary, tokenizer: Tokenizer) -> Gazetteer:
    """Names as the tokenizer cuts them, and cut by blanks as columns are."""
    forms = [tuple(token.text for token in tokenizer.tokens(name)) for name in dictionary.names]
    forms += [tuple(name.split()) for name in dictionary.names]
    return Gazetteer({form: dictionary.type for form in forms if form})
