"""Vocabularies: words and characters to numbers, with an answer for those never seen; words inside sentences."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

PAD, UNKNOWN = 0, 1
"""Numbers that every vocabulary keeps free: padding, and what nothing else fits."""


@dataclass(frozen=True)
class Words:
    """Words of the training data, shapes for words never seen, and words that only a vector file knows.

    Numbers run: padding, unknown, `shapes`, `words`, `vector_only_words`. A word is looked up as written, then in
    lower case if `lower`, then by its shape (`Xx`, `0-0-0`), so that an unseen name is still a name and an
    unseen number a number. The last `rare` of the words were seen once; training hides them now and then
    behind their shape, which is how the shapes learn.
    """

    words: tuple[str, ...]
    shapes: tuple[str, ...] = ()
    vector_only_words: tuple[str, ...] = ()
    rare: int = 0
    lower: bool = False
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)
    _shape_numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = 2 + len(self.shapes)
        numbers = {word: first + n for n, word in enumerate(self.words + self.vector_only_words)}
        object.__setattr__(self, "_numbers", numbers)
        object.__setattr__(self, "_shape_numbers", {shape: 2 + n for n, shape in enumerate(self.shapes)})

    @classmethod
    def from_sentences(
        cls, sentences: Iterable[Sequence[str]], *, vector_words: Sequence[str] = (), lower: bool = False
    ) -> Words:
        """The vocabulary of training sentences; `vector_words` are those of a vector file, frequent ones first."""
        counts = Counter(token for sentence in sentences for token in sentence)
        in_file = frozenset(vector_words)
        # A word seen once whose vector is known needs no shape to stand in for it.
        single = {w for w, n in counts.items() if n == 1 and not _has_vector(w, in_file, lower=lower)}
        words = sorted(counts, key=lambda word: (word in single, -counts[word], word))
        shapes = Counter(word_shape(word) for word in words)
        return cls(
            words=tuple(words),
            shapes=tuple(sorted((s for s, n in shapes.items() if n > 1), key=lambda s: (-shapes[s], s))),
            vector_only_words=tuple(word for word in vector_words if word not in counts),
            rare=len(single),
            lower=lower,
        )

    @property
    def trained_rows(self) -> int:
        """How many numbers have a vector of their own to train: all but `vector_only_words`."""
        return 2 + len(self.shapes) + len(self.words)

    def __len__(self) -> int:
        return self.trained_rows + len(self.vector_only_words)

    def knows(self, word: str) -> bool:
        """Whether a word, or its lower case if `lower`, has a number of its own."""
        return _has_vector(word, self._numbers, lower=self.lower)

    def number(self, word: str) -> int:
        """The number of a word: its own, else that of its lower case, else that of its shape."""
        found = self._numbers.get(word)
        if found is None and self.lower:
            found = self._numbers.get(word.lower())
        return self.shape_number(word) if found is None else found

    def shape_number(self, word: str) -> int:
        """The number a word would have, had neither training nor vectors ever seen it."""
        return self._shape_numbers.get(word_shape(word), UNKNOWN)


def _has_vector(word: str, known: Container[str], *, lower: bool) -> bool:
    return word in known or (lower and word.lower() in known)


@lru_cache(maxsize=1 << 16)
def word_shape(word: str) -> str:
    """The shape of a word, runs written once: McDonald `XxXx`, 1996-08-22 `0-0-0`, U.S. `X.X.`, 北 `c`."""
    return "".join(kind for kind, _ in groupby(map(_kind, word[:64])))


def _kind(character: str) -> str:
    kinds = ((str.isdigit, "0"), (str.isupper, "X"), (str.islower, "x"), (str.isalpha, "c"))
    return next((letter for test, letter in kinds if test(character)), character)


@dataclass(frozen=True)
class Characters:
    """Characters of the training data; words are written between a begin and an end mark, so none is empty."""

    characters: tuple[str, ...]
    longest: int = 32
    """A longer word keeps its head and its tail, half of this each."""
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    BEGIN = 2
    END = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", {c: 4 + n for n, c in enumerate(self.characters)})

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[str]]) -> Characters:
        """The characters of training sentences seen more than once, so that `unknown` is learnt from the others."""
        counts = Counter(character for sentence in sentences for token in sentence for character in token)
        return cls(tuple(sorted(character for character, n in counts.items() if n > 1)))

    def __len__(self) -> int:
        return 4 + len(self.characters)

    def numbers(self, word: str) -> list[int]:
        """The numbers of a word's characters between the two marks: 2 to `longest` + 2 of them."""
        if len(word) > self.longest:
            half = self.longest // 2
            word = word[:half] + word[-half:]
        return [self.BEGIN, *(self._numbers.get(character, UNKNOWN) for character in word), self.END]


@dataclass(frozen=True)
class Lexicon:
    """Words to be found in a sentence of shorter tokens, such as characters: lower case, without blanks."""

    words: tuple[str, ...]
    _sorted: list[str] = field(init=False, repr=False, compare=False)
    """A table of all beginnings would take memory as the square of a word's length."""
    _numbers: list[int] = field(init=False, repr=False, compare=False)
    """Of the sorted words."""

    def __post_init__(self) -> None:
        numbers = sorted(range(len(self.words)), key=self.words.__getitem__)
        object.__setattr__(self, "_numbers", numbers)
        object.__setattr__(self, "_sorted", [self.words[number] for number in numbers])

    def __len__(self) -> int:
        return len(self.words)

    def find_words(self, tokens: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """Every word made up of whole tokens, one inside another too: its first and last token, and its number."""
        lower, end = [token.lower() for token in tokens], len(self._sorted)
        for first in range(len(lower)):
            text, place = "", 0
            for last in range(first, len(lower)):
                text += lower[last]
                place = bisect_left(self._sorted, text, place)
                if not text or place == end or not self._sorted[place].startswith(text):
                    break
                if self._sorted[place] == text:
                    yield first, last, self._numbers[place]
