"""What a file is, told by its beginning: no reader is asked to try."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from maskedcrf.data.formats.conll import is_docstart, runs
from maskedcrf.data.formats.delimited import is_header
from maskedcrf.data.formats.values import is_doccano_record, is_prodigy_record
from maskedcrf.errors import DataError

BEGINNING = 1 << 18
SHORT = 1 << 12
"""Characters up to which the last line is taken for whole though nothing ends it."""
LINES = 50
"""Of a beginning that are looked at."""
MOSTLY = 0.8
"""Share of the lines that must look alike: a damaged line is for the reader to name."""
_TYPED_TAG = re.compile(r"[BIESLUMW][-_]\S+|\S+[-_][BIESLUMW]")
_UD_ROW = re.compile(r"[0-9]+([-.][0-9]+)?(\t[^\t]*){9}")
_TAG = re.compile(rf"[OBIESLUMW]|{_TYPED_TAG.pattern}")
_JSON_OBJECT = re.compile(r'\s*\{\s*["}]')
_JSON_ARRAY = re.compile(r"\s*\[\s*[{\]]")
_LABEL_STUDIO = re.compile(
    r'"(annotations|completions|predictions|annotation_id|annotator|labels)"\s*:|"data"\s*:\s*\{'
)
_STANDOFF = re.compile(r"T[0-9]+\t\S+ [0-9]+ [0-9]+")


class Beginning(NamedTuple):
    """The first unpacked bytes of a file, or the names in a folder."""

    path: Path
    raw: bytes
    text: str
    """The same as text, up to the last whole line."""
    names: frozenset[str] | None
    """Names in a folder, without .gz; None for a file."""
    is_readable: bool = True
    """False where nothing can be looked at without taking it from the reader: a pipe with a name."""

    @property
    def suffix(self) -> str:
        """How the name ends, in small letters and without .gz."""
        return Path(str(self.path).lower().removesuffix(".gz")).suffix

    @property
    def lines(self) -> list[str]:
        """The first lines that are not empty."""
        return [line for line in self.text.split("\n", 2 * LINES)[: 2 * LINES] if line.strip()][:LINES]


def beginning_of(path: str | os.PathLike[str]) -> Beginning:
    """What can be seen of a file, a folder or standard input."""
    place = Path(path)
    if os.fspath(path) != "-" and place.is_dir():
        try:
            names = frozenset(entry.name.removesuffix(".gz") for entry in place.iterdir())
        except OSError as error:
            raise DataError(f"{place}: {error.strerror}; give a folder that can be read") from error
        return Beginning(place, b"", "", names)
    raw = _first_bytes(path)
    text = (raw or b"").decode("utf-8", "replace").removeprefix("\ufeff")
    whole, _, cut = text.rpartition("\n")
    return Beginning(place, raw or b"", (whole if len(text) > SHORT else text) or cut, None, raw is not None)


def _first_bytes(path: str | os.PathLike[str]) -> bytes | None:
    try:
        if os.fspath(path) == "-":
            packed = _peek_stream(sys.stdin.buffer)
        elif Path(path).is_file():
            with Path(path).open("rb") as handle:
                packed = handle.read(BEGINNING)
        else:
            return None
        return zlib.decompressobj(31).decompress(packed, BEGINNING) if packed[:2] == b"\x1f\x8b" else packed
    except (OSError, zlib.error):
        return None  # the reader meets the same trouble and says so


def _peek_stream(handle: BinaryIO) -> bytes:
    if isinstance(handle, io.BufferedReader):
        return handle.peek(BEGINNING)[:BEGINNING]
    if not handle.seekable():
        return b""
    packed = handle.read(BEGINNING)
    handle.seek(-len(packed), io.SEEK_CUR)
    return packed


def is_triples(start: Beginning) -> bool:
    """A folder with seq.in."""
    return start.names is not None and "seq.in" in start.names


def is_huggingface(start: Beginning) -> bool:
    """A folder of `save_to_disk`."""
    names = start.names or frozenset()
    return {"state.json", "dataset_info.json"} <= names or "dataset_dict.json" in names


def is_brat(start: Beginning) -> bool:
    """A folder with .ann files, or one of them."""
    if start.names is not None:
        return any(name.endswith(".ann") for name in start.names)
    return start.suffix == ".ann" or any(_STANDOFF.match(line) for line in start.lines[:1])


def is_parquet(start: Beginning) -> bool:
    """The first four bytes say so."""
    return start.raw.startswith(b"PAR1")


def is_docbin(start: Beginning) -> bool:
    """Packed with zlib, and what is packed names its attributes."""
    if start.raw[:1] != b"\x78":
        return False
    try:
        return b"attrs" in zlib.decompressobj().decompress(start.raw, 4096)
    except zlib.error:
        return False


def is_webanno(start: Beginning) -> bool:
    """The first line says so."""
    return start.text.startswith("#FORMAT=WebAnno TSV")


def is_conllu(start: Beginning) -> bool:
    """A line names the columns, or rows have ten cells of which the first is a number."""
    if any(line.startswith("# global.columns") for line in start.lines[:5]):
        return True
    rows = [line for line in start.lines if not line.startswith("#")]
    return _mostly(sum(bool(_UD_ROW.fullmatch(row)) for row in rows), len(rows))


def is_opennlp(start: Beginning) -> bool:
    """Names are marked with <START:type> and <END>."""
    return "<START" in start.text and "<END>" in start.text and start.text.lstrip()[:1] not in ("{", "[")


def is_label_studio(start: Beginning) -> bool:
    """A list of objects with the tool's own keys, or of which not even the first can be seen whole."""
    is_long = len(start.raw) >= BEGINNING
    return bool(_JSON_ARRAY.match(start.text)) and (is_long or bool(_LABEL_STUDIO.search(start.text)))


def is_json_object(start: Beginning) -> bool:
    """The first line is a JSON object, or begins like one and is no row of columns."""
    if not _JSON_OBJECT.match(start.text):
        return False
    try:
        return isinstance(json.loads(start.lines[0]), dict)
    except (ValueError, RecursionError):
        return not is_columns(start)


def is_prodigy(start: Beginning) -> bool:
    """JSON lines with hashes or an answer."""
    return is_json_object(start) and any(map(is_prodigy_record, _json_records(start)))


def is_doccano(start: Beginning) -> bool:
    """JSON lines of texts whose labels are lists, or have offsets."""
    return is_json_object(start) and any(map(is_doccano_record, _json_records(start)))


def _json_records(start: Beginning) -> Iterator[dict[str, Any]]:
    """The objects on the first lines; a damaged line is for the reader to name."""
    for line in start.lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def is_delimited(start: Beginning) -> bool:
    """The first line names a column of words, and one of sentences or of tags."""
    return bool(start.lines) and is_header(start.lines[0].rstrip("\r"))


def is_columns(start: Beginning) -> bool:
    """Most lines have as many cells, two at least, of which one is a tag such as O or B-LOC."""
    stripped = [line.strip() for line in start.lines]
    lines = [line for line in stripped if not is_docstart(line) and line[0] != "#"]
    return any(_have_tags(rows) for rows in ([runs(line) for line in lines], [line.split("\t") for line in lines]))


def _have_tags(rows: list[list[str]]) -> bool:
    if not rows:
        return False
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if width < 2 or not _mostly(count, len(rows)):
        return False
    *others, last = zip(*(cells for cells in rows if len(cells) == width), strict=True)
    # A column of parts of speech has no prefixes: few different names, none in small letters, and not full stops alone.
    is_few = len(rows) >= 20 and len(set(last)) * 3 <= len(last) and all(cell == cell.upper() for cell in last)
    is_few = is_few and _mostly(sum(cell[0].isalpha() for cell in last), len(last))
    return (
        is_few or _are_tags(last) or any(_are_tags(cells) and any(map(_TYPED_TAG.fullmatch, cells)) for cells in others)
    )


def _are_tags(cells: Sequence[str]) -> bool:
    return _mostly(sum(bool(_TAG.fullmatch(cell)) for cell in cells), len(cells))


def _mostly(count: int, total: int) -> bool:
    return total > 0 and count >= MOSTLY * total
