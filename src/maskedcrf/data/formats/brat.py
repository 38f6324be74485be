"""BRAT's standoff folders: for each document a text (.txt) and its annotations (.ann), whose T lines are spans."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path

from maskedcrf.data.annotation import AnnotatedText, Span, require_span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.whole import read_whole
from maskedcrf.data.formats.writing import TaggedText, require_types
from maskedcrf.errors import DataError

_TEXT_BOUND = re.compile(r"T\S+\t(\S+) ([0-9]{1,15} [0-9]{1,15}(?:;[0-9]{1,15} [0-9]{1,15})*)\t([^\t]*)")
_LINE_END = re.compile(r"[ \t]*\r?\n[ \t]*")
_OTHER = re.compile(r"[REAMN]\S+\t|\*\t|#\S*\t")
"""Relations, events, attributes, modifications, normalisations, equivalences and notes are about spans."""


def read_brat(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The documents of a folder, by name, or the one of an .ann file."""
    given = Path(path)
    files = sorted(given.glob("*.ann")) if given.is_dir() else [given]
    texts = {file.with_suffix("") for file in given.glob("*.txt")} if given.is_dir() else set()
    for alone in sorted(texts - {file.with_suffix("") for file in files}):
        raise DataError(f"{alone}.txt: no {alone.name}.ann beside it; make an empty one if it has no entities")
    for number, file in enumerate(files):
        source = file.with_suffix(".txt")
        if not source.is_file():
            raise DataError(f"{file}: no {source.name} beside it; BRAT keeps the text there")
        text = read_whole(source)
        spans = None if options.tag_column is None else tuple(_spans(file, text))
        yield AnnotatedText(text, spans, str(source), 1, document=number, is_file=True)


def _spans(file: Path, text: str) -> Iterator[Span]:
    for number, line in enumerate(read_whole(file).split("\n"), 1):
        where = f"{file}:{number}"
        line = line.rstrip("\r")
        found = _TEXT_BOUND.fullmatch(line)
        if found:
            label, places, mention = found.groups()
            edges = (part.split() for part in places.split(";"))
            parts = [require_span(int(start), int(end), label, text, where) for start, end in edges]
            if not all(_LINE_END.fullmatch(text, one.end, other.start) for one, other in pairwise(parts)):
                raise DataError(
                    f"{where}: a discontinuous entity, which tags cannot write; join its parts, or remove it"
                )
            span = Span(parts[0].start, parts[-1].end, label)  # BRAT parts an entity at each line end within it
            inside = text[span.start : span.end]
            if " ".join(inside.split()) != " ".join(mention.split()):
                raise DataError(
                    f"{where}: {mention!r:.60} is not what stands at {span.start}:{span.end}, {inside!r:.60}"
                )
            yield span
        elif line and not _OTHER.match(line):
            raise DataError(f"{where}: {line!r:.60} is no annotation; a span is T1, a tab, TYPE START END, a tab, TEXT")


def write_brat(texts: Iterator[TaggedText]) -> Iterator[tuple[str, bytes]]:
    """Files of a folder: for each document a text, a sentence a line, and its annotations."""
    documents = groupby(
        require_types(texts, " \t\n;", "BRAT"), key=lambda each: (each.sentence.file, each.sentence.document)
    )
    for number, (_, sentences) in enumerate(documents, 1):
        lines: list[str] = []
        rows: list[str] = []
        start = 0
        for each in sentences:
            if "\n" in each.text or "\r" in each.text:
                raise DataError(f"{each.sentence.where(0)}: a line break in a sentence; BRAT needs one sentence a line")
            for span in each.spans or ():
                mention = each.text[span.start : span.end]
                rows.append(f"T{len(rows) + 1}\t{span.label} {start + span.start} {start + span.end}\t{mention}\n")
            lines.append(each.text + "\n")
            start += len(lines[-1])
        yield f"{number:04}.txt", "".join(lines).encode()
        yield f"{number:04}.ann", "".join(rows).encode()
