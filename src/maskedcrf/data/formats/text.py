"""Plain text: a text a line, to be tagged."""

from __future__ import annotations

import os

from maskedcrf.data.annotation import AnnotatedText
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.files import file_name, numbered_lines


def read_text(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The lines of a file; a blank line is a text too, so that none is lost."""
    name = file_name(path)
    for number, line in numbered_lines(path):
        yield AnnotatedText(line, None, name, number)
