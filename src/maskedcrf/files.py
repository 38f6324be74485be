"""A file as bytes and as text: plain or gzip, a path or standard input, UTF-8 or refused with file and line.

And how files are written: whole or not at all (`folders` does the same for folders).
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from maskedcrf.errors import DataError, MaskedCRFError

BLOCK = 1 << 20
"""Bytes read at a time."""
LONGEST_LINE = 64 << 20
"""Bytes of a line of text or JSON."""
SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "conll": (".conll", ".bio", ".bioes", ".bmes", ".iob", ".tsv", ".col"),
}
"""How the names of files of each form end, in small letters and without .gz."""


def file_name(path: str | os.PathLike[str]) -> str:
    """The file's name as messages say it."""
    return "<stdin>" if os.fspath(path) == "-" else os.fspath(path)


def format_from_suffix(path: str | os.PathLike[str]) -> str | None:
    """The form that a file's name shows, in large letters or small, packed with gzip or not."""
    suffix = Path(os.fspath(path).lower().removesuffix(".gz")).suffix
    return next((form for form, suffixes in SUFFIXES.items() if suffix in suffixes), None)


@contextmanager
def open_binary(path: str | os.PathLike[str], name: str) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked; whatever goes wrong with the file itself is said in one line."""
    try:
        if name == "<stdin>":
            yield _unpack(sys.stdin.buffer)
        else:
            with Path(path).open("rb") as handle:
                yield _unpack(handle)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: damaged gzip data ({error}); unpack it by hand or fetch it again") from error
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}; give a readable file, or - for standard input") from error


def _unpack(handle: BinaryIO) -> BinaryIO:
    """The stream itself, or what is packed in it, whatever the file is called."""
    buffered = handle if isinstance(handle, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", handle))
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=buffered)), BLOCK)
    return buffered


def decode_block(block: bytes, name: str, line: int) -> str:
    """The block as text with plain line ends and no trailing blanks; the same lines as before."""
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        hint = "it looks like UTF-16" if block[:2] in (b"\xff\xfe", b"\xfe\xff") else f"byte 0x{block[error.start]:02x}"
        raise DataError(f"{name}:{at}: not UTF-8 ({hint}); convert it, for instance with iconv") from error
    if "\0" in text:
        raise DataError(f"{name}:{_line_of(text, chr(0), line)}: a NUL character; is this a text file, in UTF-8?")
    if line == 1:
        text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
        if "\r" in text:
            at = _line_of(text, "\r", line)
            raise DataError(f"{name}:{at}: a carriage return inside a line; end lines with \\n or \\r\\n")
    if " \n" in text or "\t\n" in text or text[-1:] in " \t":
        return "\n".join(each.rstrip(" \t") for each in text.split("\n"))
    return text


def _line_of(text: str, character: str, line: int) -> int:
    return line + text.count("\n", 0, text.index(character))


def numbered_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers, without line ends and trailing blanks."""
    name = file_name(path)
    with open_binary(path, name) as handle:
        for number, line in enumerate(iter(lambda: handle.readline(LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                raise DataError(f"{name}:{number}: a line of more than {LONGEST_LINE >> 20} MiB; cut it into several")
            yield number, decode_block(line, name, number).removesuffix("\n")


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Bytes to write, which become the file at the end, on the disk by then; if anything fails it stays as it was."""
    target = Path(path).resolve()  # a link stays a link
    if not target.parent.is_dir():
        raise MaskedCRFError(f"{path}: there is no folder {target.parent}; make it, or give another file to write")
    aside = None
    try:
        number, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(number, "wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        Path(aside).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~current_umask())
        Path(aside).replace(target)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        if aside:
            Path(aside).unlink(missing_ok=True)


def write_error(path: str | os.PathLike[str], error: OSError) -> MaskedCRFError:
    """What is said of a file that could not be written."""
    return MaskedCRFError(f"{path}: could not be written ({error.strerror}); give another place")


def current_umask() -> int:
    """The permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
