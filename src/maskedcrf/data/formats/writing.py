"""TaggedText: a sentence as a writer wants it: tokens with tags, and the text with the spans they mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from maskedcrf.data.annotation import Span
from maskedcrf.data.sentence import Sentence, in_chunks
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import UnknownTagError, read_batch


class TaggedText(NamedTuple):
    """A sentence, its text, and its entities as characters of that text."""

    sentence: Sentence
    text: str
    offsets: Sequence[tuple[int, int]]
    spans: list[Span] | None
    """None if it has no tags."""


def tagged_texts(sentences: Iterable[Sentence], scheme: Scheme) -> Iterator[TaggedText]:
    """Each sentence with its text and spans; without a text of its own it gets its tokens, joined by blanks."""
    for chunk in in_chunks(sentences):
        try:
            found = read_batch([sentence.tags or () for sentence in chunk], scheme)
        except UnknownTagError as error:
            where = chunk[error.sentence].where(error.position)
            raise DataError(f"{where}: {error.reason}; name the file's scheme") from error
        for sentence, segments in zip(chunk, found, strict=True):
            text, offsets = _text_of(sentence)
            spans = [Span(offsets[start][0], offsets[end - 1][1], kind) for start, end, kind, *_ in segments]
            yield TaggedText(sentence, text, offsets, None if sentence.tags is None else spans)


def _text_of(sentence: Sentence) -> tuple[str, Sequence[tuple[int, int]]]:
    if sentence.text is not None and sentence.offsets is not None:
        return sentence.text, sentence.offsets
    ends = [0]
    for token in sentence.tokens:
        ends.append(ends[-1] + len(token) + 1)
    return " ".join(sentence.tokens), [(start, after - 1) for start, after in pairwise(ends)]


def require_types(texts: Iterable[TaggedText], foreign: str, what: str) -> Iterator[TaggedText]:
    """Refuse types that a format could not give back."""
    for each in texts:
        for span in each.spans or ():
            if not span.label or not set(foreign).isdisjoint(span.label):
                raise DataError(f"{each.sentence.where(0)}: {what} cannot hold the type {span.label!r}; rename it")
        yield each


def spaces_after(each: TaggedText) -> list[bool]:
    """Whether a blank follows each token."""
    after = [start for start, _ in each.offsets[1:]] + [len(each.text)]
    return [end < start for (_, end), start in zip(each.offsets, after, strict=True)]
