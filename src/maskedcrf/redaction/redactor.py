"""Redactor: texts and sentences with their entities hidden, and the list of what was hidden."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from dataclasses import replace as with_fields
from itertools import islice, tee
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, TypeVar

from maskedcrf.data.sentence import Sentence, with_context
from maskedcrf.data.texts import to_sentence
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.redaction.cover import Cover, TypeTags, stream_covers
from maskedcrf.redaction.marks import Marks, Replace, require_replace
from maskedcrf.redaction.promise import Promise, promise_of, require_valid
from maskedcrf.redaction.rule_lattice import RuleCover
from maskedcrf.redaction.rules import Rules
from maskedcrf.segmentation.choice import require_threshold

if TYPE_CHECKING:
    from maskedcrf.tagger.tagger import Tagger


Answer = TypeVar("Answer")


class RedactOptions(TypedDict, total=False):
    """What `Tagger.redact` takes besides texts."""

    threshold: float | None
    """Hide what is at least this probable, without a promise; the promised threshold if left out."""
    promise: Promise | None
    """The one kept with the model if left out."""
    types: Collection[str] | None
    """Types to hide; those of the promise, or all the model's, if left out."""
    rules: Rules | None
    """Patterns and dictionaries beside the model; what they find is hidden too."""
    replace: Replace
    """"type" writes [PER], "name" [PER-1], "blank" as many blanks; or a function of type and text."""


class Hidden(NamedTuple):
    """An entity that was hidden: its place in the text as it was, and how probably it was one."""

    start: int
    end: int
    type: str
    probability: float
    source: str = "model"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Redaction:
    """A text with its entities hidden; their places are those in the text as it was, in code points."""

    text: str
    hidden: tuple[Hidden, ...]


class Piece(NamedTuple, Generic[Answer]):
    """Sentences that are tagged with others, and what is made of their covers."""

    sentences: list[Sentence]
    finish: Callable[[list[Cover]], Answer]


class Redactor:
    """A tagger with its threshold; the promise is checked once, here, so make it anew if the model changes."""

    def __init__(
        self,
        tagger: Tagger,
        *,
        threshold: float | None = None,
        promise: Promise | None = None,
        types: Collection[str] | None = None,
        rules: Rules | None = None,
        replace: Replace = "type",
    ) -> None:
        if threshold is not None and promise is not None:
            raise MaskedCRFError("give a threshold or a promise, not both; a promise brings its own threshold")
        if threshold is not None:
            require_threshold(threshold)
        require_replace(replace)
        self.promise = promise
        """What is promised of the answers; None with a threshold of one's own."""
        if threshold is None and promise is None:
            self.promise = promise_of(tagger, types)
        elif promise is not None:
            require_valid(promise, tagger, types)
        self.threshold = self.promise.threshold if self.promise is not None else float(threshold or 0)
        self.tagger = tagger
        self.replace = replace
        self.tags = TypeTags(tagger.model.crf.constraints, self.promise.types if self.promise is not None else types)
        self._rules = RuleCover(rules, tagger.model, self.tags) if rules else None
        self._names = self._rules.names if self._rules is not None else self.tags.names
        self._split, self._words = tagger.tokenizer.split, tagger.tokenizer.with_sentences("none")

    def at(self, threshold: float) -> Redactor:
        """The same with another threshold, which promises nothing."""
        other = copy(self)
        other.threshold, other.promise = threshold, None
        return other

    def text(self, text: str) -> Redaction:
        """One text, a document of its own."""
        (redaction,) = self.texts([text])
        return redaction

    def texts(self, texts: Iterable[str]) -> Iterator[Redaction]:
        """Each text, a document of its own, in order; read a buffer at a time."""
        if isinstance(texts, str):
            raise DataError("texts are strings in a list: write [text]")
        return self.each(self.piece(text, Marks(self.replace), number) for number, text in enumerate(texts))

    def piece(self, text: str, marks: Marks, document: int = 0) -> Piece[Redaction]:
        """A text to be redacted; what has the same number as the text before it continues its document."""
        if not isinstance(text, str):
            raise DataError(f"a text to be redacted is a string; got a {type(text).__name__}")
        ranges = self._split(text)
        cut = (to_sentence(text[start:end], self._words) for start, end in ranges)
        sentences = [with_fields(sentence, document=document, one_line=True) for sentence in cut]
        starts = [start for start, _ in ranges]
        return Piece(sentences, lambda covers: self._redact(text, starts, sentences, covers, marks))

    def each(self, pieces: Iterable[Piece[Answer]]) -> Iterator[Answer]:
        """What each piece becomes, in order, their sentences tagged together, a buffer at a time.

        An encoder with a context reads a sentence with its neighbours in the document.
        """
        given, kept = tee(pieces)
        in_context = with_context(
            (sentence for piece in given for sentence in piece.sentences), self.tagger.model.encoder.config.context
        )
        covers = self.covers(in_context)
        for piece in kept:
            yield piece.finish(list(islice(covers, len(piece.sentences))))

    def covers(self, sentences: Iterable[Sentence]) -> Iterator[Cover]:
        """The cover of each sentence, with what rules find; words around a sentence are those it came with."""
        return stream_covers(self.tagger.model, sentences, self.tags, rules=self._rules)

    def hidden(self, cover: Cover) -> Iterator[Hidden]:
        """What is hidden of a sentence, by its tokens."""
        for start, end in cover.hidden(self.threshold):
            kind, probability = cover.type_of(start, end)
            yield Hidden(start, end, self._names[kind], probability, cover.source_of(start, end))

    def _redact(
        self, text: str, starts: Sequence[int], sentences: Sequence[Sentence], covers: Sequence[Cover], marks: Marks
    ) -> Redaction:
        pieces: list[str] = []
        found: list[Hidden] = []
        at = 0
        for first, sentence, cover in zip(starts, sentences, covers, strict=True):
            offsets = sentence.offsets or ()
            for each in self.hidden(cover):
                # A tokenizer may give the same characters to two tokens: what is hidden once is not looked at again.
                start = max(at, first + offsets[each.start][0])
                end = first + max(after for _, after in offsets[each.start : each.end])
                if start < end:
                    pieces += [text[at:start], marks.mark(each.type, text[start:end])]
                    found.append(each._replace(start=start, end=end))
                    at = end
        return Redaction("".join([*pieces, text[at:]]), tuple(found))
