"""Sentence: tokens, their tags, the text and the file they come from, and the words around them.

It is the one carrier on the whole way: readers make it, encoders take it, predictions keep it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise, takewhile, tee
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from maskedcrf.errors import DataError

if TYPE_CHECKING:
    from maskedcrf.tags.scheme import Bools

Text = TypeVar("Text")


class Context(NamedTuple):
    """The words before and after a sentence in its document."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


NO_CONTEXT = Context()


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and perhaps tags; as many of the one as of the other."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    file: str = ""
    line: int = 1
    """Line of the first token; each further token stands on the next line, unless `one_line`."""
    columns: tuple[tuple[str, ...], ...] = ()
    """Every column of the file, tokens and tags among them, so that it can be written back whole."""
    separator: str = " "
    """What stands between the columns when they are written."""
    document: int = 0
    """Which document of the file it is in: the number of document marks above it."""
    text: str | None = None
    """The raw text that was cut into the tokens; None where tokens were given."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """Characters of each token in `text`, end exclusive."""
    context: Context = NO_CONTEXT
    """The words around it, once `with_context` has found them."""
    open: tuple[int, ...] = ()
    """Tokens whose tag nobody vouches for: it is part of a legal path, and training leaves it open."""
    breaks: tuple[int, ...] = ()
    """Tokens at which a text's second sentence begins, its third and so on: each is tagged for itself."""
    one_line: bool = False
    """True if all tokens stand on one line, as in JSON lines and plain text."""
    unit: str = ""
    """What `line` counts where it counts no lines: task, document, row."""
    allowed: Bools | None = field(default=None, compare=False, repr=False)
    """(T, D): the model's tags that may stand at each token; None for all of them."""

    def line_of(self, position: int) -> int:
        """The line that a token stands on."""
        return self.line if self.one_line else self.line + position

    def where(self, position: int) -> str:
        """`file:line` of a token, or `file: task 3`, as every message about it begins."""
        return f"{self.file or '<memory>'}:{f' {self.unit} ' if self.unit else ''}{self.line_of(position)}"

    def with_column(self, number: int, cells: Iterable[str]) -> Sentence:
        """The same sentence with one of its columns written anew."""
        columns = list(self.columns)
        columns[number] = tuple(cells)
        return replace(self, columns=tuple(columns))

    def with_first_characters(self) -> Sentence:
        """The same sentence, each token cut to its first character: Weibo's files write 口0 腔1 for 口腔."""
        return replace(self, tokens=tuple(token[:1] for token in self.tokens))

    def require_every_tag(self, what: str) -> None:
        """Refuse a sentence with open tokens where each must have a tag."""
        if self.open:
            count = f"{len(self.open)} token{'s are' if len(self.open) > 1 else ' is'} left open"
            raise DataError(f"{self.where(0)}: {count}, and {what} needs a tag for each; give sentences without `open`")

    def parts(self, context: int = 0) -> Iterator[Sentence]:
        """The sentences of a text, each with up to so many words of its neighbours; itself where it is one."""
        if not self.breaks:
            yield self
            return
        edges = pairwise((0, *self.breaks, len(self.tokens)))
        pieces = (
            replace(
                self,
                tokens=self.tokens[start:end],
                tags=None if self.tags is None else self.tags[start:end],
                columns=tuple([column[start:end] for column in self.columns]),
                offsets=None if self.offsets is None else self.offsets[start:end],
                open=tuple([at - start for at in self.open if start <= at < end]),
                allowed=None if self.allowed is None else self.allowed[start:end],
                breaks=(),
            )
            for start, end in edges
        )
        yield from with_context(pieces, context)

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


def with_context(texts: Iterable[Text], words: int) -> Iterator[Text]:
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
            yield replace(text, context=Context(before, _following_words(ahead, document, words)))
            before = tuple(deque(chain(before, text.tokens), maxlen=words))
        else:
            yield text


def _following_words(ahead: Iterator[object], document: tuple[str, int] | None, words: int) -> tuple[str, ...]:
    """The first words of the document in what is yet to come; a look, nothing is taken."""
    rest = takewhile(lambda text: _document(text) == document, tee(ahead)[1])
    return tuple(islice(chain.from_iterable(text.tokens for text in rest if isinstance(text, Sentence)), words))


def _document(text: object) -> tuple[str, int] | None:
    return (text.file, text.document) if isinstance(text, Sentence) else None
