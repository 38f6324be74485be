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
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import UnknownTagError, all_violations, read_known


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
    for owner, (position, before, after) in all_violations(tags, found):
        line = sentences[owner].line_of(min(position, len(tags[owner]) - 1))
        illegal.append(IllegalStep(sentences[owner].file, line, before, after))
    counted = Counter({kind: n for kind, n in zip(found.types, numbers, strict=True) if n})
    return Checked(len(sentences), sum(map(len, tags)), counted, tuple(illegal))


@contextmanager
def located(sentences: Sequence[Sentence], remedy: str = "") -> Iterator[None]:
    """Within it, a tag that the scheme does not know is reported with the file:line of its sentence, and a remedy."""
    try:
        yield
    except UnknownTagError as error:
        where = sentences[error.sentence].where(error.position)
        messages = (f"{where}: {error.reason}", remedy, "maskedcrf check names schemes that fit")
        raise DataError("; ".join(filter(None, messages))) from error
