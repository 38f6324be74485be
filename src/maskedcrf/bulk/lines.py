"""Lines: JSON lines and columns, cut into pieces of whole rows and written back with something added."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from maskedcrf.bulk.rows import (
    Options,
    Piece,
    Row,
    Text,
    added_fields,
    field_of,
    reject,
    require_free_names,
    require_taggable,
)
from maskedcrf.data.formats.conll import LONGEST_LINE, ColumnLayout, is_docstart, runs
from maskedcrf.data.formats.values import json_record
from maskedcrf.errors import DataError
from maskedcrf.files import BLOCK, decode_block, open_binary

if TYPE_CHECKING:
    from maskedcrf.tagger.prediction import Prediction

LONGEST_ROW = 1 << 26
"""Bytes after which a file that does not end its row is no file of rows."""


def _cut_lines(path: str, options: Options, *, ends: Callable[[bytes], bool]) -> Iterator[Piece]:
    """Pieces of whole lines, the last of which `ends` a row."""
    with open_binary(path, path) as handle:
        lines: list[bytes] = []
        first, size = 1, 0
        while line := handle.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise DataError(f"{path}:{first + len(lines)}: a line of more than {LONGEST_LINE} bytes")
            lines.append(line)
            size += len(line)
            if size > LONGEST_ROW + options.piece:
                raise DataError(f"{path}:{first}: no blank line in {size} bytes from here; is this a column file?")
            if size >= options.piece and ends(line):
                yield Piece(first, b"".join(lines))
                first, size, lines = first + len(lines), 0, []
        if lines:
            yield Piece(first, b"".join(lines))


def _is_blank(line: bytes) -> bool:
    return not line.strip(b" \t\r\n")


def cut_jsonl(path: str, options: Options) -> Iterator[Piece]:
    """Pieces of whole lines."""
    return _cut_lines(path, options, ends=lambda line: True)


def jsonl_rows(piece: Piece, path: str, options: Options, rejects: list[dict[str, Any]]) -> Iterator[Row]:
    """The lines that hold a text or tokens; blank ones are no rows."""
    for number, raw in enumerate(io.BytesIO(piece.content), piece.first):
        if _is_blank(raw):
            continue
        try:
            line = decode_block(raw, path, number).strip()
            record = json_record(line, f"{path}:{number}")
            name = field_of(record, options)
            text = require_taggable(record[name], name, options)
            require_free_names(record, options, text=isinstance(text, str))
            yield Row(text, number, line)
        except DataError as error:
            rejects.append(reject(error, path, number, _visible(raw)))


def format_jsonl(piece: Piece, answered: Sequence[tuple[Row, Prediction]], options: Options) -> bytes:
    """The lines with their tags and entities at the end."""
    # The line itself goes on, so that numbers, keys that stand twice and the like stay as they are.
    lines = [row.content[:-1].rstrip() + ", " + _members(row.text, answer, options) for row, answer in answered]
    return "".join(line + "\n" for line in lines).encode()


def _members(text: Text, answer: Prediction, options: Options) -> str:
    """The added fields as the end of a JSON object."""
    return json.dumps(added_fields(text, answer, options), ensure_ascii=False)[1:]


def _visible(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace").rstrip("\r\n")


def cut_conll(path: str, options: Options) -> Iterator[Piece]:
    """Pieces of whole sentences; how the file parts its columns is found from its first megabyte."""
    pieces = _cut_lines(path, options, ends=_is_blank)
    head: list[Piece] = []
    size = 0
    for piece in pieces:
        head.append(piece)
        size += len(piece.content)
        if size >= BLOCK:
            break
    layout = _layout(path, b"".join(piece.content for piece in head), options)
    yield from (piece._replace(layout=layout) for piece in head)
    yield from (piece._replace(layout=layout) for piece in pieces)


def _layout(path: str, head: bytes, options: Options) -> str:
    """The layout that most lines show: a damaged line, were it the first, must not speak for the others."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [(number, line.rstrip(" \t\r")) for number, line in enumerate(text.split("\n"), 1)]
    token_lines = [(n, line) for n, line in lines if line and not is_docstart(line) and not _is_comment(line, options)]
    if token_lines:
        tabs = Counter(line.count("\t") for _, line in token_lines).most_common(1)[0][0]
        token_lines = [(n, line) for n, line in token_lines if line.count("\t") == tabs]
        width = Counter(len(runs(line)) for _, line in token_lines).most_common(1)[0][0]
        token_lines.sort(key=lambda entry: len(runs(entry[1])) != width)
    found = ColumnLayout.of(path, token_lines, options.token_column, None, options.comment)
    return json.dumps(asdict(found)) if found else ""


def _is_comment(line: str, options: Options) -> bool:
    return bool(options.comment and line.startswith(options.comment))


def conll_rows(piece: Piece, path: str, options: Options, rejects: list[dict[str, Any]]) -> Iterator[Row]:
    """The sentences; lines between them go along as rows without words, to be written as they are."""
    layout = ColumnLayout(**json.loads(piece.layout)) if piece.layout else None
    for number, raw in _groups(piece):
        try:
            lines = decode_block(raw, path, number).removesuffix("\n").split("\n")
            text = "\n".join(lines)
            found = list(layout.sentences(text, lines, number, keep_docstart=False)) if layout and text else []
            at = found[0].line - number if found else len(lines)
            separator = layout.separator if layout else " "
            before = [line + separator + "O" if is_docstart(line) else line for line in lines[:at]]
            words = require_taggable(list(found[0].tokens), "tokens", options) if found else []
            if before:
                yield Row([], 0, (before, ""))
            if found:
                yield Row(words, number + at, (lines[at:], separator))
        except DataError as error:
            rejects.append(reject(error, path, number, _visible(raw)))


def _groups(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Runs of lines that are blank, and of lines that are not, with the number of their first."""
    group: list[bytes] = []
    first = piece.first
    for number, line in enumerate(io.BytesIO(piece.content), piece.first):
        if group and _is_blank(line) != _is_blank(group[0]):
            yield first, b"".join(group)
            group, first = [], number
        group.append(line)
    if group:
        yield first, b"".join(group)


def format_conll(piece: Piece, answered: Sequence[tuple[Row, Prediction]], options: Options) -> bytes:
    """The lines with their tags as a last column."""
    out: list[str] = []
    for row, answer in answered:
        lines, separator = row.content
        tags = answer.tags or ("",) * len(lines)
        out += [f"{line}{separator}{tag}\n" for line, tag in zip(lines, tags, strict=True)]
    return "".join(out).encode()
