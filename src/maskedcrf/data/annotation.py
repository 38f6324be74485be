"""AnnotatedText: a text with marked spans, as annotation tools write it, before it is cut into tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from maskedcrf.errors import DataError


class Span(NamedTuple):
    """Characters of a text that carry a label, end exclusive."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class AnnotatedText:
    """A text and its spans, in code points."""

    text: str
    spans: tuple[Span, ...] | None
    """None if nobody has annotated it."""
    file: str = ""
    line: int = 1
    """Line of the text, or its number among the file's texts."""
    unit: str = ""
    """What `line` counts where it counts no lines: task, document, row."""
    document: int = 0
    """Number of its document in the file."""
    tokens: tuple[tuple[int, int], ...] | None = None
    """Characters of each token where the file gives tokens."""
    is_file: bool = False
    """Whether the text is a file of its own, whose lines are counted."""
    is_partial: bool = False
    """Whether only the spans are vouched for, and the tokens outside them are open."""

    @property
    def where(self) -> str:
        """`file:line`, as every message about it begins."""
        return f"{self.file}: {self.unit} {self.line}" if self.unit else f"{self.file}:{self.line}"


@dataclass(slots=True)
class ReadReport:
    """What a reader left out or changed, and every span that it could not take as it was."""

    counts: dict[str, int] = field(default_factory=dict)
    """How often something happened, by what it was."""
    places: list[str] = field(default_factory=list)
    """One line for each span: file, line, text, nearest boundaries, what was done."""

    def count(self, what: str, times: int = 1) -> None:
        """Add to one of the counts."""
        if times:
            self.counts[what] = self.counts.get(what, 0) + times

    def __str__(self) -> str:
        counted = ", ".join(f"{times} {what}" for what, times in self.counts.items())
        return "\n".join([counted or "nothing was left out or changed", *self.places])


def no_sentence(files: str, report: ReadReport | None = None) -> DataError:
    """The error of files in which there is nothing to read."""
    counted = ", ".join(f"{times} {what}" for what, times in report.counts.items()) if report else ""
    return DataError(f"{files}: no sentence in it; {counted or 'was it written to the end?'}")


def require_span(start: object, end: object, label: object, text: str, where: str) -> Span:
    """The span, if it lies in the text and has a label that can be shown."""
    if type(start) is not int or type(end) is not int:
        raise DataError(f"{where}: a span needs two whole numbers, got {start!r:.20} and {end!r:.20}")
    if not isinstance(label, str) or not label or not label.isprintable() or label != label.strip():
        raise DataError(f"{where}: span {start}:{end} needs a name as its label, got {label!r:.40}")
    if not 0 <= start <= end <= len(text):
        raise DataError(f"{where}: span {start}:{end} {label} leaves the text, which has {len(text)} code points")
    return Span(start, end, label)
