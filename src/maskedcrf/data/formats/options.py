"""ReadOptions: what a reader may be told about a file beside its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from maskedcrf.data.annotation import AnnotatedText, ReadReport
from maskedcrf.data.sentence import Sentence

Records = Iterator[Sentence | AnnotatedText]
"""What a reader gives: sentences where the file has tokens and tags, annotated texts where it has text and spans."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What no format says by itself; each reader takes from it what it needs."""

    token_column: int = 0
    """Column of the tokens in columns."""
    tag_column: int | None = -1
    """Column of the tags in columns; None reads tokens alone, in every format."""
    comment: str | None = None
    """Lines of a column file before a sentence that begin so are skipped."""
    first_character: bool = False
    """Tokens of columns are cut to their first character."""
    labels: Sequence[str] | None = None
    """Names of the tags where a file has numbers."""
    entity_column: str | None = None
    """Name of the column, layer or field of the tags where a file names its columns."""
    report: ReadReport = field(default_factory=ReadReport, compare=False)
    """Counts what is left out."""
