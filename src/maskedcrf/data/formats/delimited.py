"""Tables with a header, CSV or TSV: a token a row, with its sentence in a column of its own, as the GMB corpus comes.

Sentence #,Word,POS,Tag
Sentence: 1,Thousands,NNS,O
,of,IN,O
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.files import file_name, numbered_lines

WORDS = ("word", "token", "words", "tokens", "form")
TAGS = ("ner_tag", "ner_tags", "ner", "entity", "iob", "bio", "tag", "tags", "label", "labels")
"""The first that is there counts: where `ner` stands beside `tag`, that one holds parts of speech."""
SENTENCES = ("sentence #", "sentence_id", "sentence", "sent_id", "sentence id", "sentence_idx", "sent")


class Columns(NamedTuple):
    """Which columns of the header hold what."""

    delimiter: str
    width: int
    word: int
    tag: int | None
    sentence: int


def header_of(line: str, entity_column: str | None = None) -> Columns | None:
    """The columns that a first line names, if it is the header of a table of tokens."""
    for delimiter in ",\t;":
        try:
            names = [cell.strip().lower() for cell in next(csv.reader([line], delimiter=delimiter), [])]
        except csv.Error:
            continue
        wanted = (entity_column.strip().lower(),) if entity_column else TAGS
        word, tag, sentence = (_first(names, known) for known in (WORDS, wanted, SENTENCES))
        if word is not None and sentence is not None:
            return Columns(delimiter, len(names), word, tag, sentence)
    return None


def is_header(line: str) -> bool:
    """Whether a first line names a column of words, and one of sentences or of tags; no sentence reads so."""
    if header_of(line) is not None:
        return True
    names = [cell.strip().lower() for cell in re.split(r"[,;\t]", line)]
    return len(names) > 1 and names[0] in WORDS and names[-1] in TAGS


def _first(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def read_delimited(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of a table: rows with one sentence, or with none where the cell before counts on."""
    name = file_name(path)
    rows = _rows(path, name, options)
    columns = next(rows)[1]
    assert isinstance(columns, Columns)
    if options.tag_column is not None and columns.tag is None:
        which = repr(options.entity_column) if options.entity_column else f"such as {', '.join(TAGS[:4])}"
        raise DataError(f"{name}:1: no column of tags ({which}) in the header; name it with entity_column")
    for _, group in groupby(_number_sentences(rows, columns, name), key=lambda row: row[0]):
        own = list(group)
        tags = None if options.tag_column is None or columns.tag is None else tuple(row[3] for row in own)
        yield Sentence(tuple(row[2] for row in own), tags, name, own[0][1])


def _rows(path: str | os.PathLike[str], name: str, options: ReadOptions) -> Iterator[tuple[int, Columns | list[str]]]:
    """First the columns that the header names, then the cells of each row, with its line."""
    lines = numbered_lines(path)
    number, first = next(lines, (1, ""))
    columns = header_of(first, options.entity_column)
    if columns is None:
        raise DataError(
            f"{name}:1: the header must name a word and a sentence column, such as Sentence #,Word,POS,Tag; "
            "of columns with empty lines between sentences take it out; an annotation tool's CSV: export JSON"
        )
    yield number, columns
    reader = csv.reader((line + "\n" for _, line in lines), delimiter=columns.delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num + 1, row
    except csv.Error as error:
        raise DataError(f"{name}:{reader.line_num + 1}: {error}; write a quote inside a quoted cell twice") from error


def _number_sentences(
    rows: Iterator[tuple[int, Columns | list[str]]], columns: Columns, name: str
) -> Iterator[tuple[int, int, str, str]]:
    """The number of its sentence, its line, its word and its tag, for each row."""
    sentence, before = 0, ""
    for line, row in rows:
        cells = list(row)
        if not any(str(cell).strip() for cell in cells):
            sentence += 1
            continue
        if len(cells) != columns.width:
            raise DataError(
                f"{name}:{line}: {len(cells)} cells where the header has {columns.width}; give every row the same"
            )
        own = str(cells[columns.sentence]).strip()
        if own and own != before:
            sentence, before = sentence + 1, own
        word, tag = str(cells[columns.word]).strip(), "" if columns.tag is None else str(cells[columns.tag]).strip()
        if not word or (columns.tag is not None and not tag):
            raise DataError(f"{name}:{line}: {'no word' if not word else 'no tag'} here; give every row both")
        yield sentence, line, word, tag


def write_csv(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """A token a row, under the header `Sentence #,Word,Tag`."""
    yield b"Sentence #,Word,Tag\n"
    for number, each in enumerate(texts, 1):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for word, tag in zip(each.sentence.tokens, each.sentence.tags or ("",) * len(each.sentence), strict=True):
            if word != word.strip() or "\n" in word or "\r" in word or not word:
                raise DataError(f"{each.sentence.where(0)}: {word!r} is empty or has blanks at its ends; take them out")
            writer.writerow([f"Sentence: {number}", word, tag])
        yield text.getvalue().encode()
