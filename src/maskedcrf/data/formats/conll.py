r"""CoNLL columns: one token a line, a blank line between sentences, any number of columns.

A stream: memory holds about a megabyte of the file, whatever its size. Lines end at \n (or \r\n) only, so that
U+2028, form feed and the like stay inside their token. Columns are separated by spaces or tabs; a file whose
tabs alone give every line the same columns, and whose blanks do not, is read by its tabs, so that a token may hold
a blank or be empty. Nothing is skipped to make a file fit: what does not fit is refused with file:line.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import BinaryIO, TextIO

from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.files import BLOCK, decode_block, file_name, open_binary

LONGEST_LINE = 1 << 24
DOCSTART = "-DOCSTART-"
_RUN = re.compile(r"[ \t]+")
_BARE_ENDS = ("\n\n", " \n", "\t\n")
_ODD_BLANKS = ("  ", "\t", "\n ")


@dataclass(frozen=True, slots=True)
class DocumentMark(Sentence):
    """A `-DOCSTART-` line, or a comment: no tokens, and the line as it came, whatever its columns."""

    mark: str = DOCSTART
    alone: bool = True
    """Whether a blank line, or the file's end, follows it."""
    missing: int = 0
    """Columns that the lines of the file have more."""
    is_comment: bool = False

    def with_column(self, number: int, cells: Iterable[str]) -> Sentence:
        """The mark itself, which has no columns."""
        return self


def read_conll(
    path: str | os.PathLike[str],
    *,
    token_column: int = 0,
    tag_column: int | None = -1,
    comment: str | None = None,
    keep_docstart: bool = False,
    marks: bool = False,
) -> Iterator[Sentence]:
    """The sentences of a file, one by one; `-` is standard input, gzip is seen by its first bytes.

    `comment`: lines that begin so *before a sentence* are skipped (a token may begin with # too: nothing is
    skipped unless asked for). `-DOCSTART-` lines are document marks, not tokens; `keep_docstart` keeps them as if they
    were, `marks` gives each, and each comment, as a `DocumentMark`.
    """
    name = file_name(path)
    with open_binary(path, name) as handle:
        layout: ColumnLayout | None = None
        line, document = 1, 0
        for block in _blocks(handle, name):
            text = decode_block(block, name, line)
            lines = text.split("\n")
            layout = layout or ColumnLayout.of(name, enumerate(lines, line), token_column, tag_column, comment)
            if layout:
                document = yield from layout.sentences(
                    text, lines, line, keep_docstart=keep_docstart, marks=marks, document=document
                )
            else:
                if marks:
                    yield from _marks(lines, name, line, document)
                document += sum(map(is_docstart, lines))
            line += len(lines) - 1


def write_conll(sentences: Iterable[Sentence], handle: TextIO) -> int:
    """Write sentences as columns, a blank line after each; returns how many tokens were written.

    A sentence that was read is written with all its columns; one made in memory as token and tag. Marks and comments
    are written as they are.
    """
    written = 0
    for sentence in sentences:
        if isinstance(sentence, DocumentMark):
            handle.write(sentence.mark + "\n" * (1 + sentence.alone))
            continue
        columns = sentence.columns or (sentence.tokens, *([sentence.tags] if sentence.tags is not None else []))
        lines = [sentence.separator.join(row) for row in zip(*columns, strict=True)]
        text = "\n".join(lines)
        if not _round_trips(text, len(lines), len(columns), sentence.separator):
            raise DataError(
                f"{sentence.where(0)}: a token or tag here is empty or holds a blank, tab or line end "
                "and could not be read back; take it out, or use a tab as separator"
            )
        handle.write(text + "\n\n")
        written += len(lines)
    return written


def write_columns(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """Token and tag, separated by a tab."""
    for each in texts:
        sentence = replace(each.sentence, columns=(), separator="\t")
        if sentence.tokens:
            text = io.StringIO()
            write_conll([sentence], text)
            yield text.getvalue().encode()


def _round_trips(text: str, rows: int, columns: int, separator: str) -> bool:
    """Would this text, one sentence, be cut into the same cells again?"""
    foreign = "\0\r\t" if separator == " " else "\0\r"
    return (
        text.count("\n") == rows - 1
        and text.count(separator) == rows * (columns - 1)
        and not any(character in text for character in foreign)
        and not any(end in f"\n{text}\n" for end in _BARE_ENDS)
    )


def _blocks(handle: BinaryIO, name: str) -> Iterator[bytes]:
    """Blocks of whole sentences, about a megabyte each."""
    while block := handle.read(BLOCK):
        if len(block) < BLOCK:  # the end; on a terminal each further question would want a Ctrl-D of its own
            yield block
            return
        parts = [block, handle.readline(LONGEST_LINE)]
        while more := handle.readline(LONGEST_LINE):
            if len(more) == LONGEST_LINE:
                raise DataError(f"{name}: a line of more than {LONGEST_LINE} bytes; is this a column file?")
            parts.append(more)
            if not more.strip(b" \t\r\n"):
                break
        yield b"".join(parts)


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """How one file parts its columns, found from its first block, and how many there are."""

    name: str
    width: int
    by_tab: bool
    separator: str
    """What to write between columns: a tab where the file has any."""
    token_column: int
    tag_column: int | None
    comment: str | None
    begins_with_hash: bool = False
    """Whether the first line, which says how many columns there are, looks like a comment that was not named."""

    @staticmethod
    def of(
        name: str, lines: Iterable[tuple[int, str]], token_column: int, tag_column: int | None, comment: str | None
    ) -> ColumnLayout | None:
        """The layout that these numbered lines of tokens show, or None while no token has been seen."""
        numbers_and_texts = [(number, line) for number, line in lines if line and not _is_skipped(line, comment)]
        if not numbers_and_texts:
            return None
        first, texts = numbers_and_texts[0][0], [line for _, line in numbers_and_texts]
        tabs = {line.count("\t") + 1 for line in texts}
        even_tabs = len(tabs) == 1 and tabs != {1}
        blanks = any(" " in line for line in texts)
        by_tab = even_tabs and (not blanks or len({len(runs(line)) for line in texts}) > 1)
        width = tabs.pop() if by_tab else len(runs(texts[0]))
        for column in (token_column, tag_column):
            if column is not None and not -width <= column < width:
                counted = f"columns 0 to {width - 1}, or -{width} to -1" if width > 1 else "one column only"
                raise DataError(f"{name}:{first}: there is no column {column}; this line has {counted}")
        separator = "\t" if any("\t" in line for line in texts) else " "
        hash_first = texts[0].startswith("#")
        return ColumnLayout(name, width, by_tab, separator, token_column, tag_column, comment, hash_first)

    def sentences(
        self,
        text: str,
        lines: list[str],
        first: int,
        *,
        keep_docstart: bool,
        marks: bool = False,
        document: int = 0,
    ) -> Generator[Sentence, None, int]:
        """The sentences of one block, whose first line has this number in the file; returns its last one's document."""
        # The quick split is right only where no run, no leading blank and no other separator can occur.
        quick = self.by_tab or not (text[0] == " " or any(odd in text for odd in _ODD_BLANKS))
        is_even, has_marks = quick and self._is_even(filter(None, lines)), DOCSTART in text
        begin, total = 0, len(lines)
        while begin < total:
            try:
                end = lines.index("", begin)
            except ValueError:
                end = total
            while self.comment and begin < end and lines[begin].startswith(self.comment):
                if marks:
                    mark = self._mark(lines[begin], first + begin, document, alone=begin + 1 == end)
                    yield replace(mark, is_comment=True)
                begin += 1
            if has_marks and begin < end and is_docstart(lines[begin]):
                document += 1
                if marks:
                    yield self._mark(lines[begin], first + begin, document, alone=begin + 1 == end)
                begin += marks or not keep_docstart
            if begin < end:
                own = lines[begin:end]
                yield self._sentence(own, first + begin, document, is_even=is_even or (quick and self._is_even(own)))
            begin = end + 1
        return document

    def _mark(self, line: str, number: int, document: int, *, alone: bool) -> DocumentMark:
        here = line.count("\t") + 1 if self.by_tab else len(runs(line))
        mark = DocumentMark((), None, self.name, number, separator=self.separator, document=document, mark=line)
        return replace(mark, alone=alone, missing=max(self.width - here, 0))

    def _is_even(self, lines: Iterable[str]) -> bool:
        """Whether each line has as many separators as the file has columns, less one."""
        return set(map(str.count, lines, repeat("\t" if self.by_tab else " "))) == {self.width - 1}

    def _sentence(self, lines: list[str], first: int, document: int, *, is_even: bool) -> Sentence:
        if is_even:
            # All cells in one go; every line has as many, so that each column is every width-th of them.
            separator = "\t" if self.by_tab else " "
            cells = tuple(separator.join(lines).split(separator))
            columns = tuple([cells[number :: self.width] for number in range(self.width)])
        else:
            columns = tuple(zip(*(self._cells(line, first + n) for n, line in enumerate(lines)), strict=True))
        tags = None if self.tag_column is None else columns[self.tag_column]
        return Sentence(columns[self.token_column], tags, self.name, first, columns, self.separator, document)

    def _cells(self, line: str, number: int) -> list[str]:
        """The columns of an odd line: the first way of parting them that gives as many as the file has.

        A single leading separator is an empty token (some copies of MSRA have them): kept, never dropped.
        """
        ways = (line.split("\t"), runs(line)) if self.by_tab else (runs(line), line.split("\t"))
        for cells in (*ways, line.split(" ")):
            if len(cells) == self.width:
                return cells
        found = len(ways[0])
        which = "it" if line.startswith("#") else "the first line" if self.begins_with_hash else None
        train = "(train: --set data.comment='#')"
        comment = f"; is {which} a comment? say so with --comment '#' {train}" if which and not self.comment else ""
        raise DataError(
            f"{self.name}:{number}: {found} column{'s' * (found != 1)} where the file has {self.width}; "
            f"give every token the same columns, separated by tabs if a token contains a space{comment}"
        )


def _marks(lines: list[str], name: str, first: int, document: int) -> Iterator[DocumentMark]:
    """The marks and comments of lines without tokens; the file has not yet shown what parts its columns."""
    for number, line in enumerate(lines):
        if line:
            document += is_docstart(line)
            separator, alone = "\t" if "\t" in line else " ", not "".join(lines[number + 1 : number + 2])
            mark = DocumentMark((), None, name, first + number, separator=separator, document=document, mark=line)
            yield replace(mark, alone=alone, is_comment=not is_docstart(line))


def _is_skipped(line: str, comment: str | None) -> bool:
    return is_docstart(line) or bool(comment and line.startswith(comment))


def runs(line: str) -> list[str]:
    """The cells of a line, which are separated by spaces or tabs."""
    return _RUN.split(line.strip(" \t"))


def is_docstart(line: str) -> bool:
    """Whether the line marks a document, as CoNLL2003 does, and holds no token."""
    return line.startswith(DOCSTART) and line[len(DOCSTART) : len(DOCSTART) + 1] in ("", " ", "\t")
