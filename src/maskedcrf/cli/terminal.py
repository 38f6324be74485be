"""Text of strangers on its way to a terminal: control characters are shown, never obeyed. Files keep their bytes."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

_CONTROL = re.compile("[\0-\b\v-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""All but line ends and tabs; also what turns the direction of a line round."""


def printable(text: str) -> str:
    """The text with its control characters written out, as \\x1b."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def echo(text: object = "") -> None:
    """Print a line of the answer."""
    print(printable(str(text)) if sys.stdout.isatty() else text)


class PrintableOutput:
    """A stream to a terminal that shows control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, made printable."""
        return self._stream.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write these texts, made printable."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Pass on what is kept back."""
        self._stream.flush()


def write_bytes(content: bytes) -> None:
    """Write a part of a file to standard output: as it is, or shown on a terminal."""
    if sys.stdout.isatty():
        standard_output().write(content.decode("utf-8", "backslashreplace"))
    else:
        sys.stdout.buffer.write(content)


class PrintableFormatter(logging.Formatter):
    """Log lines, which may name a tag or a file, made printable."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with its control characters written out."""
        return printable(super().format(record))


@contextmanager
def printable_messages() -> Iterator[None]:
    """Warnings, and log lines for which nobody set up a handler, made printable like all else."""
    plain, fallback = warnings.formatwarning, logging.lastResort or logging.NullHandler()
    before = fallback.formatter
    warnings.formatwarning = lambda *given, **named: printable(plain(*given, **named))
    fallback.setFormatter(PrintableFormatter())
    try:
        yield
    finally:
        warnings.formatwarning = plain
        fallback.setFormatter(before)


def standard_output() -> TextIO:
    """Standard output, for text of strangers."""
    return PrintableOutput(sys.stdout) if sys.stdout.isatty() else sys.stdout  # type: ignore[return-value]
