"""OpenNLP's name finder format: one sentence per line, split by spaces, `<START:person> Ann Lee <END> left .`"""

from __future__ import annotations

import os
import re
from itertools import pairwise

from maskedcrf.data.annotation import AnnotatedText, Span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.errors import DataError
from maskedcrf.files import file_name, numbered_lines

_START = re.compile(r"<START(?::([^\s:<>]+))?>")
_MARK = re.compile(r"<START\b|<END\b|<END>")


def read_opennlp(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of a file; an empty line ends a document. A name without a type is of the type `default`."""
    name = file_name(path)
    document = 0
    for number, line in numbered_lines(path):
        if not line.strip():
            document += 1
            continue
        tokens, names = _cells(line, f"{name}:{number}")
        ends = [0]
        for token in tokens:
            ends.append(ends[-1] + len(token) + 1)
        places = tuple((start, after - 1) for start, after in pairwise(ends))
        spans = tuple(Span(places[start][0], places[end - 1][1], kind) for start, end, kind in names)
        kept = None if options.tag_column is None else spans
        yield AnnotatedText(" ".join(tokens), kept, name, number, document=document, tokens=places)


def _cells(line: str, where: str) -> tuple[list[str], list[Span]]:
    """The tokens of a line, and the names in it by their tokens."""
    tokens: list[str] = []
    names: list[Span] = []
    opened: Span | None = None
    for cell in line.split():
        start = _START.fullmatch(cell)
        if start and opened is None:
            opened = Span(len(tokens), 0, start.group(1) or "default")
        elif start:
            raise DataError(f"{where}: {cell} inside a name; end the one before it with <END>")
        elif cell == "<END>":
            if opened is None or opened.start == len(tokens):
                raise DataError(f"{where}: <END> of no name; put <START:type> and the name's tokens before it")
            names.append(opened._replace(end=len(tokens)))
            opened = None
        elif _MARK.search(cell):
            raise DataError(f"{where}: {cell[:60]!r} is no token; part <START:type> and <END> by blanks")
        else:
            tokens.append(cell)
    if opened is not None:
        raise DataError(f"{where}: a name of type {opened.label} that never ends; write <END> after it")
    return tokens, names
