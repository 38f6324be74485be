"""Files with their entities hidden, in the shape they came in: texts, JSON lines, columns.

What is not hidden is kept to the byte, line ends and blanks among it. A text file is one document, and so is a line of
JSON; columns have documents where they mark them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from maskedcrf.data.formats.conll import read_conll
from maskedcrf.data.formats.values import json_record, tokens_or_text
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import MAX_CHARACTERS
from maskedcrf.errors import DataError
from maskedcrf.files import LONGEST_LINE, file_name, open_binary
from maskedcrf.redaction.cover import Cover
from maskedcrf.redaction.marks import Marks
from maskedcrf.redaction.redactor import Hidden, Piece, Redaction, Redactor

BYTE_ORDER_MARK = "\ufeff"
_BLANK = re.compile(r"[ \t\r\n]*")
_CELL = re.compile(r"[^ \t\r\n]+")


class Entry(NamedTuple):
    """A line of the ledger: what was hidden where."""

    document: str
    """The file; of a line of JSON or a sentence in columns, `file:line`."""
    hidden: Hidden
    """In characters of the document or, where it is given as tokens, in tokens."""
    text: str
    """What stood there."""

    def to_json(self, *, with_text: bool = False) -> dict[str, Any]:
        """Plain values; the text only if asked for."""
        entry: dict[str, Any] = {"document": self.document, **self.hidden.to_json()}
        return {**entry, "text": self.text} if with_text else entry


class Written(NamedTuple):
    """A part of the redacted file, and what was hidden in it."""

    text: str
    entries: list[Entry]


def redact_text(redactor: Redactor, path: str) -> Iterator[Written]:
    """The parts of a text file; all of them are one document."""
    marks, name = Marks(redactor.replace), file_name(path)

    def pieces() -> Iterator[Piece[Written]]:
        first = 0
        for line, part in _parts_of_text(path, redactor.tagger.tokenizer.sentences):
            mark = "" if first else _byte_order_mark(part)
            with _refused_at(f"{name}:{line}"):
                piece = redactor.piece(part[len(mark) :], marks)
            yield Piece(piece.sentences, partial(_finish_text, piece, part, len(mark), first, name))
            first += len(part)

    return redactor.each(pieces())


@contextmanager
def _refused_at(where: str) -> Iterator[None]:
    """An error about a text says where the text stands."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _parts_of_text(path: str, splitter: str) -> Iterator[tuple[int, str]]:
    """Parts in which sentences stand whole: lines, what ends with a blank line, or all where nothing is split.

    Each with the number of its first line.
    """
    part, size, first = [], 0, 1
    for number, line in raw_lines(path):
        part.append(line)
        size += len(line)
        if splitter == "line" or (splitter != "none" and not line.strip(" \t\r\n")):
            yield first, "".join(part)
            part, size, first = [], 0, number + 1
        elif size > MAX_CHARACTERS:
            raise DataError(
                f"{file_name(path)}:{number}: no end of a sentence in {size:,} characters, as the model's splitter "
                f"{splitter} has it; cut the text into several files, or put in blank lines"
            )
    if part:
        yield first, "".join(part)


def _byte_order_mark(text: str) -> str:
    """The mark, if the text begins with one."""
    return BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""


def _finish_text(piece: Piece[Redaction], part: str, skip: int, first: int, name: str, covers: list[Cover]) -> Written:
    redaction = piece.finish(covers)
    return Written(part[:skip] + redaction.text, _entries(name, part[skip:], redaction.hidden, first + skip))


def _entries(document: str, text: str, hidden: Iterable[Hidden], first: int = 0) -> list[Entry]:
    return [
        Entry(document, each._replace(start=first + each.start, end=first + each.end), text[each.start : each.end])
        for each in hidden
    ]


def redact_jsonl(redactor: Redactor, path: str) -> Iterator[Written]:
    """Lines of JSON, each a document: their `text`, or their `tokens`, is written anew, all else stays."""

    def pieces() -> Iterator[Piece[Written]]:
        for number, line in raw_lines(path):
            if line.strip():
                yield _json_piece(redactor, line, f"{file_name(path)}:{number}", number)
            else:
                yield Piece([], lambda _, line=line: Written(line, []))  # type: ignore[misc]

    return redactor.each(pieces())


def _json_piece(redactor: Redactor, line: str, where: str, number: int) -> Piece[Written]:
    record = json_record(line.removeprefix(BYTE_ORDER_MARK), where)
    words = tokens_or_text(record, where)
    if "text" in record and "tokens" in record:
        raise DataError(f"{where}: both text and tokens, and only one would be redacted; take one out")
    counted = next((key for key, value in record.items() if _counts_characters(value)), None)
    if counted and isinstance(words, str):
        raise DataError(f"{where}: {counted} counts characters of the text, which would no longer hold; take it out")
    piece = row_piece(redactor, words, where, number)

    def finish(covers: list[Cover]) -> Written:
        value, entries = piece.finish(covers)
        key = "text" if isinstance(words, str) else "tokens"
        return Written(_with_value(line, key, value) if entries else line, entries)

    return Piece(piece.sentences, finish)


Row = tuple[str | list[str], list[Entry]]


def row_piece(redactor: Redactor, words: str | list[str], where: str, number: int) -> Piece[Row]:
    """A text or tokens that are a document of their own, and what was hidden in it."""
    marks = Marks(redactor.replace)
    if not isinstance(words, str):
        sentence = Sentence(tuple(words), document=number, one_line=True)
        return Piece([sentence], lambda covers: hide_tokens(redactor, sentence.tokens, covers[0], marks, where))
    with _refused_at(where):
        piece = redactor.piece(words, marks, number)

    def finish(covers: list[Cover]) -> Row:
        redaction = piece.finish(covers)
        return redaction.text, _entries(where, words, redaction.hidden)

    return Piece(piece.sentences, finish)


def _counts_characters(value: Any) -> bool:
    """Whether a field holds spans: objects with start and end, or lists such as [0, 3, "PER"]."""
    rows = value if isinstance(value, list) else []
    as_lists = (isinstance(row, list) and [type(each) for each in row[:2]] == [int, int] for row in rows)
    return any(as_lists) or any(isinstance(row, dict) and {"start", "end"} <= row.keys() for row in rows)


def hide_tokens(
    redactor: Redactor, tokens: Iterable[str], cover: Cover, marks: Marks, where: str
) -> tuple[list[str], list[Entry]]:
    """As many tokens, each hidden one replaced by the mark of its entity."""
    written, entries = list(tokens), []
    for each in redactor.hidden(cover):
        name = " ".join(written[each.start : each.end])
        entries.append(Entry(where, each, name))
        if redactor.replace == "blank":
            marked = [" " * len(token) for token in written[each.start : each.end]]
        else:
            marked = [marks.mark(each.type, name)] * (each.end - each.start)
        written[each.start : each.end] = marked
    return written, entries


def redact_columns(
    redactor: Redactor, path: str, *, token_column: int = 0, comment: str | None = None
) -> Iterator[Written]:
    """Columns: the cell of each hidden token is replaced, every other character stays."""
    if redactor.replace == "blank":
        raise DataError(f"{file_name(path)}: columns cannot hold blank tokens; replace by type or name")
    with _readable_twice(path) as twice:
        lines = raw_lines(twice)
        next_line = 1
        for sentence, tokens, entries in redactor.each(_column_pieces(redactor, twice, token_column, comment)):
            if not entries:
                continue
            parts = []
            for number, line in islice(lines, sentence.line + len(tokens) - next_line):
                at, mark = number - sentence.line, _byte_order_mark(line) if number == 1 else ""
                cells = line[len(mark) :]
                parts.append(mark + (_with_cell(cells, sentence, token_column, at, tokens[at]) if at >= 0 else cells))
            next_line = sentence.line + len(tokens)
            where = f"{file_name(path)}:{sentence.line}"
            yield Written("".join(parts), [entry._replace(document=where) for entry in entries])
        for _, line in lines:
            yield Written(line, [])


@contextmanager
def _readable_twice(path: str) -> Iterator[str]:
    """The file itself, or a copy of standard input."""
    if path != "-":
        yield path
        return
    with NamedTemporaryFile() as copy:
        with open_binary(path, "<stdin>") as given:
            shutil.copyfileobj(given, copy)
        copy.flush()
        try:
            yield copy.name
        except DataError as error:
            raise DataError(str(error).replace(copy.name, "<stdin>")) from error


Tokens = tuple[Sentence, list[str], list[Entry]]


def _column_pieces(redactor: Redactor, path: str, token_column: int, comment: str | None) -> Iterator[Piece[Tokens]]:
    marks, document = Marks(redactor.replace), 0
    for sentence in read_conll(path, token_column=token_column, tag_column=None, comment=comment):
        if sentence.document != document:
            marks, document = Marks(redactor.replace), sentence.document
        read = sentence.with_first_characters() if redactor.tagger.first_character else sentence

        def finish(covers: list[Cover], sentence: Sentence = sentence, marks: Marks = marks) -> Tokens:
            where = sentence.where(0)
            return (sentence, *hide_tokens(redactor, sentence.columns[token_column], covers[0], marks, where))

        yield Piece([read], finish)


def _with_cell(line: str, sentence: Sentence, column: int, row: int, token: str) -> str:
    """The line with the cell of its token replaced, if it is another one."""
    own = sentence.columns[column][row]
    if token == own:
        return line
    by_tabs = line.rstrip("\r\n").split("\t")
    if len(by_tabs) == len(sentence.columns) and by_tabs[column] == own:
        start = sum(len(cell) + 1 for cell in by_tabs[: column % len(by_tabs)])
        return line[:start] + token + line[start + len(own) :]
    cells = list(_CELL.finditer(line))
    if len(cells) != len(sentence.columns) or cells[column].group() != own:
        raise DataError(f"{sentence.where(row)}: an empty or odd token; separate columns by tabs")
    start, end = cells[column].span()
    return line[:start] + token + line[end:]


def raw_lines(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, each with its line end and whatever else stands in it."""
    name = file_name(path)
    with open_binary(path, name) as handle:
        for number, line in enumerate(iter(lambda: handle.readline(LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                raise DataError(f"{name}:{number}: a line of more than {LONGEST_LINE >> 20} MiB; cut it into several")
            if b"\0" in line:
                raise DataError(f"{name}:{number}: a NUL character; is this a text file, in UTF-8?")
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x}"
                raise DataError(f"{name}:{number}: not UTF-8 ({byte}); convert it, for instance with iconv") from error


def _with_value(line: str, key: str, value: Any) -> str:
    """The line of JSON with the value of this field written anew, wherever it stands, all else kept."""
    decoder = json.JSONDecoder()
    parts: list[str] = []
    at = 0
    place = _skip(line, line.index("{") + 1)
    while line[place] != "}":
        name, place = decoder.raw_decode(line, place)
        place = start = _skip(line, _skip(line, place) + 1)
        _, place = decoder.raw_decode(line, place)
        if name == key:
            is_ascii = line[start:place].isascii()
            parts += [line[at:start], json.dumps(value, ensure_ascii=is_ascii)]
            at = place
        place = _skip(line, place)
        place = _skip(line, place + 1) if line[place] == "," else place
    return "".join([*parts, line[at:]])


def _skip(line: str, place: int) -> int:
    found = _BLANK.match(line, place)
    return found.end() if found else place
