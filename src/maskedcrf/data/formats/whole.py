"""A file read in one go, for formats that are no lines."""

from __future__ import annotations

import os

from maskedcrf.errors import DataError
from maskedcrf.files import file_name, open_binary

LARGEST = 1 << 30
"""Bytes of a file that is no stream of lines: it has to fit into memory several times over."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The unpacked bytes of a file."""
    name = file_name(path)
    with open_binary(path, name) as handle:
        content = handle.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise DataError(f"{name}: more than {LARGEST >> 20} MiB; split it, or convert it to JSON lines or columns")
    return content


def read_whole(path: str | os.PathLike[str]) -> str:
    """A text as it stands, line ends and all, so that offsets into it stay true."""
    name, content = file_name(path), read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        hint = f"byte 0x{content[error.start]:02x}"
        raise DataError(f"{name}:{line}: not UTF-8 ({hint}); convert it, for instance with iconv") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{name}:{line}: a NUL character; is this a text file, in UTF-8?")
    return text
