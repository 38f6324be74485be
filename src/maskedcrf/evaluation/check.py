"""check: every illegal step of labelled sentences, with its file and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.evaluation.counts import Tags, UnknownTagError, require_known
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Reading, TagIds, read


class IllegalStep(NamedTuple):
    """A step the scheme forbids, at the line of the tag it leads to; None is the sentence's edge."""

    file: str
    line: int
    previous: str | None
    tag: str | None

    def to_dict(self) -> dict[str, object]:
        """The same under the names of the JSON report."""
        return {"file": self.file, "line": self.line, "from": self.previous, "to": self.tag}


@dataclass(frozen=True)
class Checked:
    """What a check found; add two to get that of both."""

    sentences: int = 0
    tokens: int = 0
    types: Counter[str] = field(default_factory=Counter)
    """Segments per type, read leniently."""
    illegal: tuple[IllegalStep, ...] = ()

    def __add__(self, other: Checked) -> Checked:
        return Checked(
            self.sentences + other.sentences,
            self.tokens + other.tokens,
            self.types + other.types,
            self.illegal + other.illegal,
        )


def check(sentences: Iterable[Sentence], scheme: str | Scheme) -> Checked:
    """Counts and illegal steps of tagged sentences under a scheme."""
    scheme, sentences = Scheme.get(scheme), list(sentences)
    tags = [sentence.tags or () for sentence in sentences]
    with located(sentences):
        found = read_known(tags, scheme)
    numbers = np.bincount(found.type_index, minlength=len(found.types)).tolist()
    illegal = []
    for owner, position in places(tags, found):
        sentence, own = sentences[owner], tags[owner]
        line = sentence.line + min(position, len(own) - 1)
        before = own[position - 1] if position else None
        after = own[position] if position < len(own) else None
        illegal.append(IllegalStep(sentence.file, line, before, after))
    counted = Counter({kind: n for kind, n in zip(found.types, numbers, strict=True) if n})
    return Checked(len(sentences), sum(map(len, tags)), counted, tuple(illegal))


def read_known(tags: Sequence[Tags], scheme: Scheme) -> Reading:
    """The segments of these sentences; a tag the scheme does not know is reported with its place."""
    corpus = TagIds.of(tags)
    require_known(tags, scheme, tags=corpus.tags)
    return read(corpus, scheme)


def places(tags: Sequence[Tags], found: Reading) -> list[tuple[int, int]]:
    """Sentence and position that each illegal step leads to; the position after the last is the sentence's end."""
    # The cell of a sentence's first tag in the id array, where one cell stands between sentences.
    firsts = np.cumsum([1, *(len(each) + 1 for each in tags)])
    owners = np.searchsorted(firsts, found.violations + 1, side="right") - 1
    return list(zip(owners.tolist(), (found.violations + 1 - firsts[owners]).tolist(), strict=True))


@contextmanager
def located(sentences: Sequence[Sentence]) -> Iterator[None]:
    """Within it, a tag that the scheme does not know is reported with the file:line of its sentence."""
    try:
        yield
    except UnknownTagError as error:
        where = sentences[error.sentence].where(error.position)
        raise DataError(f"{where}: {error.reason}; maskedcrf check names schemes that fit") from error
