"""One door for every format: columns, JSON lines, triples, saved datasets, plain text.

for sentence in read_sentences("train.jsonl.gz"): ...
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from maskedcrf.data.conll import is_docstart, read_conll, runs
from maskedcrf.data.huggingface import read_saved
from maskedcrf.data.jsonl import read_jsonl, read_text
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.triples import read_triples
from maskedcrf.errors import DataError
from maskedcrf.files import file_name
from maskedcrf.tags.scheme import Scheme

Format = Literal["auto", "conll", "jsonl", "triples", "huggingface", "text"]
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*["}]')
_TAG = re.compile(r"O|[BIESLUM]-\S+")
_BEGINNING = 4096
_LINES = 50
"""Of a file's beginning that are looked at to tell columns from text."""


def read_sentences(
    path: str | os.PathLike[str],
    *,
    format: Format = "auto",
    token_column: int = 0,
    tag_column: int | None = -1,
    comment: str | None = None,
    first_character: bool = False,
    labels: Sequence[str] | None = None,
    scheme: str | Scheme = "BIO",
) -> Iterator[Sentence]:
    """The sentences of a file, a folder or standard input (`-`), gzipped or not.

    Columns, `comment` and `first_character` (what follows it in the token's column is no part of it) are for `conll`,
    `labels` and `scheme` for `jsonl` (see there). `auto` looks at what is in the file: JSON lines or columns; a folder
    holds triples or a saved dataset. Plain text has to be asked for.
    """
    if format not in get_args(Format):
        raise DataError(f"unknown format {format!r}; known are {', '.join(get_args(Format))}")
    found = guess_format(path) if format == "auto" else format
    if found == "conll":
        columns = read_conll(path, token_column=token_column, tag_column=tag_column, comment=comment)
        return map(Sentence.with_first_characters, columns) if first_character else columns
    if found == "jsonl":
        return read_jsonl(path, labels=labels, scheme=scheme)
    if found == "huggingface":
        return read_saved(path, tags=None if tag_column is None else "ner_tags")
    return read_triples(path) if found == "triples" else read_text(path)


def guess_format(path: str | os.PathLike[str]) -> Format:
    """What this file or folder seems to be; a file is columns unless it begins like a JSON object."""
    if os.fspath(path) != "-" and Path(path).is_dir():
        names = {entry.name.removesuffix(".gz") for entry in Path(path).iterdir()}
        if "seq.in" in names:
            return "triples"
        if {"state.json", "dataset_info.json"} <= names:
            return "huggingface"
        raise DataError(f"{os.fspath(path)}: a folder without seq.in and without a saved dataset; give a file")
    return "jsonl" if _JSON.match(_beginning(path)) else "conll"


def require_columns(path: str | os.PathLike[str]) -> None:
    """Refuse what is plainly no column file: JSON lines, and a folder of another format."""
    if os.fspath(path) != "-" and Path(path).is_dir():
        kinds = {"triples": "a folder of parallel files (seq.in)", "huggingface": "a saved dataset"}
        kind = kinds[guess_format(path)]
    elif looks_like_json_lines(path):
        kind = "JSON lines"
    else:
        return
    raise DataError(
        f"{file_name(path)}: {kind}; this command reads columns: maskedcrf train checks such gold itself and names the "
        "lines, maskedcrf predict writes columns"
    )


def looks_like_json_lines(path: str | os.PathLike[str]) -> bool:
    """Whether the first line is a JSON object, as far as it is seen."""
    return _is_json_lines(_beginning(path))


def looks_like_columns(path: str | os.PathLike[str]) -> bool:
    """Whether the first lines all have as many cells, two at least, of which the last is a tag such as O or B-LOC."""
    whole, _, cut = _beginning(path).decode("utf-8", "replace").removeprefix("\ufeff").rpartition("\n")
    stripped = (line.strip() for line in (whole or cut).split("\n"))
    lines = [line for line in stripped if line and not is_docstart(line) and line[0] != "#"][:_LINES]
    by_runs, by_tabs = [runs(line) for line in lines], [line.split("\t") for line in lines]
    return any(
        len({len(cells) for cells in rows}) == 1
        and len(rows[0]) > 1
        and all(_TAG.fullmatch(cells[-1]) for cells in rows)
        for rows in (by_runs, by_tabs)
    )


def _is_json_lines(beginning: bytes) -> bool:
    """Whether the first line is a JSON object, as far as it is seen: a token may be a brace too."""
    if not _JSON.match(beginning):
        return False
    line, end, _ = beginning.decode("utf-8", "replace").lstrip("\ufeff \t\r\n").partition("\n")
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return not end and len(beginning) >= _BEGINNING


def _beginning(path: str | os.PathLike[str]) -> bytes:
    """The first unpacked bytes; empty where they cannot be read, or not without taking them from who reads next."""
    try:
        if os.fspath(path) == "-":
            packed = _peeked(sys.stdin.buffer)
        elif Path(path).is_file():
            with Path(path).open("rb") as handle:
                packed = handle.read(_BEGINNING)
        else:  # a pipe gives its bytes once
            return b""
        return zlib.decompressobj(31).decompress(packed, _BEGINNING) if packed[:2] == b"\x1f\x8b" else packed
    except (OSError, zlib.error):
        return b""  # the reader meets the same trouble and says so


def _peeked(handle: BinaryIO) -> bytes:
    if isinstance(handle, io.BufferedReader):
        return handle.peek(_BEGINNING)
    if not handle.seekable():
        return b""
    packed = handle.read(_BEGINNING)
    handle.seek(-len(packed), io.SEEK_CUR)
    return packed
