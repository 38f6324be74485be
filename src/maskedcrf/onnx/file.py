"""A model.onnx as it is read: checked as bytes before anything is built from it; needs neither torch nor onnx.

A file from elsewhere is read as if its author meant harm: it must be ours, whole, of a version we know, and hold
all its weights itself. (A tensor of an ONNX file may name another file to be read in its place, with `..` and all.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from maskedcrf.errors import MaskedCRFError
from maskedcrf.onnx.protobuf import DamagedError, fields
from maskedcrf.tagger.options import DEFAULT_THRESHOLD, Decoding
from maskedcrf.tags.constraints import MAX_TAGS
from maskedcrf.tags.scheme import Scheme

KEY = "maskedcrf"
"""Under this key the description stands among the file's metadata."""
FORMAT = 1
LARGEST = 1 << 31
"""ONNX files end at 2 GiB; larger models keep their weights beside them, which we never do."""
MOST_FIELDS = 5_000_000
DEEPEST = 16

# Field numbers of onnx.proto that lead to tensors, and the message each holds.
_INNER: dict[str, dict[int, str]] = {
    "model": {7: "graph", 14: "entry", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_BYTES = {"node": {1, 4, 7}, "tensor": {8, 9, 13}}
"""Fields, beside those that lead on, that are read as bytes; libraries skip what has their number in another form."""
_NUMBERS = {"tensor": {2, 14}}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


_KINDS: dict[str, Any] = {
    "tags": tuple,
    "files": dict,
    "prefix_last": bool,
    "int8": bool,
    "signature": str | None,
    "digest": str | None,
    "first_character": bool,
    "tokenizer": dict,
    "segment_threshold": float,
}


class OnnxFileError(MaskedCRFError):
    """An ONNX file that is damaged, foreign or hostile; the message says what is wrong with it."""


@dataclass(frozen=True)
class Description:
    """What a model.onnx says of itself; the files are those that `Encoder.save` writes."""

    version: str
    tags: tuple[str, ...]
    scheme: str
    output_scheme: str
    delimiter: str
    prefix_last: bool
    head: str
    mask: str
    int8: bool
    files: dict[str, str]
    signature: str | None = None
    first_character: bool = False
    digest: str | None = None
    """Of the tags and the rules in the graph; files of older versions have none."""
    tokenizer: dict[str, Any] = field(default_factory=lambda: {"name": "simple"})
    """What cuts raw text into words; files of older versions used the one named `simple`."""
    decoding: str = "path"
    segment_threshold: float = DEFAULT_THRESHOLD

    def to_json(self) -> str:
        """The text that goes into the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False)

    def schemes(self) -> tuple[Scheme, Scheme]:
        """The scheme of the model's tags, and of those given out."""
        names = (self.scheme, self.output_scheme)
        ours, out = (Scheme.get(name, delimiter=self.delimiter, prefix_last=self.prefix_last) for name in names)
        return ours, out


def read(path: Path) -> tuple[bytes, Description]:
    """The bytes of a model.onnx, checked, and its description."""
    if not path.is_file():
        raise OnnxFileError(f"{path}: no such file; a model.onnx is what `maskedcrf export` writes")
    if path.stat().st_size > LARGEST:
        raise OnnxFileError(f"{path}: larger than 2 GiB, which no ONNX file is")
    content = path.read_bytes()
    try:
        entries = dict(_entries(content))
    except DamagedError as error:
        raise OnnxFileError(f"{path}: {error}") from error
    if KEY not in entries:
        raise OnnxFileError(f"{path}: not an ONNX file of maskedcrf (no description in it); make one with export")
    return content, _description(entries[KEY], path)


def _entries(content: bytes) -> Iterator[tuple[str, str]]:
    """The metadata of the model, after a walk over all of it that meets every tensor."""
    waiting = [("model", memoryview(content), 0)]
    count = 0
    while waiting:
        kind, message, depth = waiting.pop()
        if depth > DEEPEST:
            raise DamagedError("graphs within graphs within graphs; refused")
        if kind == "entry":
            yield _entry(message)
            continue
        for number, value in fields(message):
            count += 1
            if count > MOST_FIELDS:
                raise DamagedError("more parts than any model has; refused")
            _check_field(kind, number, value)
            inner = _INNER.get(kind, {}).get(number)
            if inner and isinstance(value, memoryview):
                waiting.append((inner, value, depth + (inner == "graph")))


def _check_field(kind: str, number: int, value: int | memoryview | None) -> None:
    """Refuse weights elsewhere, and what is read here, or by a library, but not written as its number says."""
    if kind == "tensor" and (number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value)):
        raise DamagedError("weights lie in another file, which is never read; export writes one file")
    is_read = number in _INNER.get(kind, ()) or number in _BYTES.get(kind, ())
    if (is_read and not isinstance(value, memoryview)) or (
        number in _NUMBERS.get(kind, ()) and not isinstance(value, int)
    ):
        raise DamagedError("not an ONNX file")


def _entry(message: memoryview) -> tuple[str, str]:
    found = {number: bytes(value) for number, value in fields(message) if isinstance(value, memoryview)}
    try:
        return found.get(1, b"").decode(), found.get(2, b"").decode()
    except UnicodeDecodeError as error:
        raise DamagedError("metadata that are no text") from error


def _description(text: str, path: Path) -> Description:
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OnnxFileError(f"{path}: its description is not JSON; export the model again") from error
    found = values.pop("format", None) if isinstance(values, dict) else None
    if found != FORMAT:
        raise OnnxFileError(f"{path}: format {found!r}, this maskedcrf reads format {FORMAT}; export the model again")
    try:
        values["tags"] = tuple(values["tags"])
        description = Description(**values)
    except (KeyError, TypeError) as error:
        raise OnnxFileError(f"{path}: its description lacks something or has something foreign ({error})") from error
    if not _has_right_types(description):
        raise OnnxFileError(f"{path}: its description has values of a wrong kind; export the model again")
    return description


def _has_right_types(description: Description) -> bool:
    """Every value is of its kind; all but those of the table are texts."""
    values = vars(description)
    if not all(isinstance(value, _KINDS.get(name, str)) for name, value in values.items()):
        return False
    if description.decoding not in get_args(Decoding) or not 0 <= description.segment_threshold <= 1:
        return False
    texts = (*description.tags, *description.files, *description.files.values())
    return 0 < len(description.tags) <= MAX_TAGS and all(isinstance(text, str) for text in texts)
