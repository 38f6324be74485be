"""What all formats share: options, pieces, rows, and the reasons why a row is set aside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from maskedcrf.data.formats.values import require_strings
from maskedcrf.errors import DataError

if TYPE_CHECKING:
    from maskedcrf.tagger.options import Decoding
    from maskedcrf.tagger.prediction import Prediction

Text = str | Sequence[str]
FIELDS = ("tokens", "text")
"""Where a row's words are looked for, in this order, unless a field is named."""
_PLACE = re.compile(r"(\d+): ")


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked of every file."""

    field: str | None = None
    """The field or column of tokens or text; None looks for `tokens`, then `text`."""
    prefix: str = ""
    """Put before the name of every field that is added."""
    probabilities: bool = False
    """The exact probability of each entity."""
    token_column: int = 0
    """Of column files."""
    comment: str | None = None
    """Lines of a column file before a sentence that begin so are kept as they are."""
    longest: int = 50_000
    """Tokens of the longest sentence that is tagged; a longer one could take a worker's memory."""
    piece: int = 1 << 17
    """Bytes of input that are tagged at a time."""
    tokenizer: str | None = None
    """Cuts texts into words in place of the model's own."""
    sentences: str | None = None
    """Cuts texts into sentences in place of the model's own splitter."""
    decoding: Decoding | None = None
    """The model's own if left out."""
    segment_threshold: float | None = None
    """Of decoding by segments."""
    trusted: bool = False
    """Take any ONNX file, whatever its operators and its need of memory."""

    @property
    def question(self) -> dict[str, Any]:
        """What the tagger is asked."""
        asked = {"decoding": self.decoding, "segment_threshold": self.segment_threshold}
        asked |= {"probabilities": True if self.probabilities else None}
        return {name: value for name, value in asked.items() if value is not None}

    def added_fields(self, *, text: bool) -> list[str]:
        """Names of the fields added to a row; raw text also gets `tokens`, because tags are per token."""
        return [self.prefix + name for name in (("tokens",) if text else ()) + ("tags", "entities")]


class Piece(NamedTuple):
    """Some rows of a file, as they stand in it."""

    first: int
    """Number of the first line or row, from 1."""
    content: bytes
    layout: str = ""
    """Of a column file: how it parts its columns, as JSON."""


@dataclass(slots=True)
class TaggedPiece:
    """The rows of a piece with something added, and those set aside."""

    content: bytes = b""
    rejects: list[dict[str, Any]] = field(default_factory=list)
    sentences: int = 0
    tokens: int = 0


class Row(NamedTuple):
    """A row that can be tagged: what the tagger sees, where it stands, and what it is written with."""

    text: Text
    place: int
    content: Any


def require_taggable(value: Any, name: str, options: Options) -> Text:
    """A text or a list of tokens that can be tagged, or a DataError."""
    if not isinstance(value, str | list):
        raise DataError(f"row: {name} must be a list of strings or one string, got {type(value).__name__}")
    text = require_strings([value], name, "row")[0] if isinstance(value, str) else require_strings(value, name, "row")
    return text


def reject(error: DataError, path: str, place: int, content: str) -> dict[str, Any]:
    """The line of the reject file; an error inside a sentence knows its line better."""
    reason = str(error).removeprefix(f"{path}:").removeprefix("row: ")
    if found := _PLACE.match(reason):
        place, reason = int(found.group(1)), reason[found.end() :]
    return {"file": path, "place": place, "reason": reason.strip(), "content": content}


def field_of(names: Any, options: Options) -> str:
    """The name under which a row has its words."""
    wanted = (options.field,) if options.field else FIELDS
    for name in wanted:
        if name in names:
            return name
    raise DataError(f"row: no {' and no '.join(wanted)}; name the field of the words with --field")


def require_free_names(names: Any, options: Options, *, text: bool) -> None:
    """Refuse to write over what a row holds already."""
    for name in options.added_fields(text=text):
        if name in names:
            raise DataError(f"row: there is a field {name} already; give the new ones a --prefix")


def added_fields(text: Text, answer: Prediction, options: Options) -> dict[str, Any]:
    """The fields added to a row, by name."""
    is_text = isinstance(text, str)
    found: dict[str, Any] = {"tokens": list(answer.tokens)} if is_text else {}
    found |= {"tags": list(answer.tags), "entities": [entity.to_json() for entity in answer.entities]}
    return dict(zip(options.added_fields(text=is_text), found.values(), strict=True))
