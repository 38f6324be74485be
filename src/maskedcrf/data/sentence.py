"""Sentence: tokens, their tags, where in which file they stood, and the words around them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile, tee
from typing import NamedTuple, TypeVar

Text = TypeVar("Text")


class Around(NamedTuple):
    """The words before and after a sentence in its document."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


ALONE = Around()


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and perhaps tags; as many of the one as of the other."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    file: str = ""
    line: int = 1
    """Line of the first token; each further token stands on the next line."""
    columns: tuple[tuple[str, ...], ...] = ()
    """Every column of the file, tokens and tags among them, so that it can be written back whole."""
    separator: str = " "
    """What stands between the columns when they are written."""
    document: int = 0
    """Which document of the file it is in: the number of document marks above it."""
    around: Around = ALONE
    """What `in_context` found; nothing until it is asked."""

    def line_of(self, position: int) -> int:
        """The line that a token stands on."""
        return self.line + position

    def where(self, position: int) -> str:
        """`file:line` of a token, as every message about it begins."""
        return f"{self.file or '<memory>'}:{self.line_of(position)}"

    def with_column(self, number: int, cells: Iterable[str]) -> Sentence:
        """The same sentence with one of its columns written anew."""
        columns = list(self.columns)
        columns[number] = tuple(cells)
        return replace(self, columns=tuple(columns))

    def with_first_characters(self) -> Sentence:
        """The same sentence, each token cut to its first character: Weibo's files write 口0 腔1 for 口腔."""
        return replace(self, tokens=tuple(token[:1] for token in self.tokens))

    def __len__(self) -> int:
        return len(self.tokens)


def in_chunks(sentences: Iterable[Sentence], tokens: int = 1 << 16) -> Iterator[list[Sentence]]:
    """Lists of whole sentences of about this many tokens each, for work that goes by the array."""
    chunk: list[Sentence] = []
    size = 0
    for sentence in sentences:
        chunk.append(sentence)
        size += len(sentence.tokens)
        if size >= tokens:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def in_context(texts: Iterable[Text], words: int) -> Iterator[Text]:
    """The same, each `Sentence` with up to so many words before and after it, taken from others of its document.

    These are the sentences given next to it that come from the same file without a document mark in between. What is
    no `Sentence` has no document. A stream: it is read ahead as far as the words after a sentence reach.
    """
    if not words:
        yield from texts
        return
    (ahead,) = tee(texts, 1)
    document: tuple[str, int] | None = None
    before: tuple[str, ...] = ()
    for text in ahead:
        if _document(text) != document:
            document, before = _document(text), ()
        if isinstance(text, Sentence):
            yield replace(text, around=Around(before, _after(ahead, document, words)))
            before = tuple(deque(chain(before, text.tokens), maxlen=words))
        else:
            yield text


def _after(ahead: Iterator[object], document: tuple[str, int] | None, words: int) -> tuple[str, ...]:
    """The first words of the document in what is yet to come; a look, nothing is taken."""
    rest = takewhile(lambda text: _document(text) == document, tee(ahead)[1])
    return tuple(islice(chain.from_iterable(text.tokens for text in rest if isinstance(text, Sentence)), words))


def _document(text: object) -> tuple[str, int] | None:
    return (text.file, text.document) if isinstance(text, Sentence) else None
