"""One door for every format: columns, JSON lines, triples, saved datasets, plain text.

for sentence in read_sentences("train.jsonl.gz"): ...
"""

from __future__ import annotations

import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from maskedcrf.data.conll import read_conll
from maskedcrf.data.huggingface import read_saved
from maskedcrf.data.jsonl import read_jsonl, read_text
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.triples import read_triples
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme

Format = Literal["auto", "conll", "jsonl", "triples", "huggingface", "text"]
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*["}]')


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


def _beginning(path: str | os.PathLike[str]) -> bytes:
    """The first unpacked bytes, without taking them from standard input; empty where they cannot be read."""
    try:
        if os.fspath(path) == "-":
            packed = _peeked(sys.stdin.buffer)
        else:
            with Path(path).open("rb") as handle:
                packed = handle.read(4096)
        return zlib.decompressobj(31).decompress(packed, 4096) if packed[:2] == b"\x1f\x8b" else packed
    except (OSError, zlib.error):
        return b""  # the reader meets the same trouble and says so


def _peeked(handle: BinaryIO) -> bytes:
    if isinstance(handle, io.BufferedReader):
        return handle.peek(4096)
    if not handle.seekable():
        return b""
    packed = handle.read(4096)
    handle.seek(-len(packed), io.SEEK_CUR)
    return packed
