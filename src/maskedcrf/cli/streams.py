"""Reading in chunks with progress, and writing so that a failed run leaves nothing behind."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from maskedcrf.cli.terminal import echo, printable, standard_output
from maskedcrf.data.annotation import ReadReport, no_sentence
from maskedcrf.data.formats import find_format, read_sentences, require_columns
from maskedcrf.data.formats.conll import DocumentMark, read_conll
from maskedcrf.data.sentence import Sentence, in_chunks
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.files import atomic_file, write_error

if TYPE_CHECKING:
    from rich.table import Table

PROGRESS_AFTER_SECONDS = 1.0
"""Seconds before progress is shown."""


def chunks(
    files: Sequence[str],
    *,
    comment: str | None,
    keep_docstart: bool = False,
    marks: bool = False,
    input_format: str = "auto",
) -> Iterator[list[Sentence]]:
    """The sentences of column files, some ten thousand tokens at a time; on a terminal, a line that counts them.

    With `marks`, for commands that rewrite files, also yield the lines between sentences; files may then be empty.
    """
    for name in files:
        require_columns(name, input_format)
    read = partial(read_conll, comment=comment, keep_docstart=keep_docstart, marks=marks)
    found = in_chunks(chain.from_iterable(map(read, files)))
    start, tokens, has_progress = time.monotonic(), 0, False
    for chunk in found:
        yield chunk
        tokens += sum(map(len, chunk))
        if sys.stderr.isatty() and time.monotonic() - start > PROGRESS_AFTER_SECONDS:
            has_progress = True
            print(f"\r{printable(chunk[-1].file)}: {tokens:,} tokens", end="\033[K", file=sys.stderr, flush=True)
    if has_progress:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if not tokens and not marks:
        raise no_sentence(",".join(files))


def labelled_chunks(
    files: Sequence[str],
    *,
    comment: str | None,
    number: int,
    entity_column: str | None = None,
    input_format: str = "auto",
    tokenizer: str = "simple",
    splitter: str = "line",
    report: ReadReport,
) -> Iterator[list[Sentence]]:
    """The sentences of files of any format with their tags, some ten thousand tokens at a time.

    Of columns, `number` is that of the tags. Spans that fit no tokens, or overlap, are in the report.
    """
    for name in files:
        found = find_format(name) if input_format == "auto" else input_format
        if found == "conll":
            for chunk in chunks([name], comment=comment, input_format=found):
                tags = column(chunk, number)
                yield [replace(each, tags=own) for each, own in zip(chunk, tags, strict=True)]
            continue
        reading: dict[str, Any] = {"format": found, "entity_column": entity_column, "report": report}
        reading |= {"tokenizer": tokenizer, "sentences": splitter, "misfits": "drop", "overlaps": "longest"}
        sentences = read_sentences(name, **reading)
        tagged = 0
        for chunk in in_chunks(sentence for sentence in sentences if sentence.tokens):
            for sentence in chunk:
                if sentence.tags is None:
                    raise DataError(f"{sentence.where(0)}: no tags here; give labelled data, or name their column")
            tagged += len(chunk)
            yield chunk
        if not tagged:
            raise no_sentence(name, report)


def column(sentences: Sequence[Sentence], number: int) -> list[tuple[str, ...]]:
    """One column of each sentence, or an error that says where it is missing; of a mark, nothing."""
    for sentence in sentences:
        width = len(sentence.columns)
        if not (-width <= number < width or isinstance(sentence, DocumentMark)):
            has = f"{width} column{'s' * (width != 1)}"
            raise DataError(f"{sentence.where(0)}: there is no column {number}, the file has {has}; choose another")
    return [() if isinstance(each, DocumentMark) else each.columns[number] for each in sentences]


def columns_hint(gold: int, predicted: int) -> str:
    """Where gold and predicted tags were read, for users whose columns differ."""
    return f"gold is read from column {gold} (--gold-column), predictions from {predicted} (--predicted-column)"


def note(message: str) -> None:
    """Tell the user something that is not part of the answer."""
    print(f"maskedcrf: {printable(message)}", file=sys.stderr)


def print_json(answer: object) -> None:
    """Print an answer as JSON."""
    echo(json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False))


def warn_wrong_scheme(illegal: int, total: int, scheme: str) -> None:
    """Ask whether the scheme is right where most segments break it."""
    if 2 * illegal > total:
        note(f"{illegal} of {total} predicted segments are illegal in {scheme}: is --scheme right? try maskedcrf check")


def print_table(table: Table) -> None:
    """Print a table on the terminal; cells stand as they are, and are folded where it is narrow, never cut."""
    from rich.console import Console

    for column in table.columns:
        column.overflow = "fold"
    Console(markup=False, emoji=False).print(table)


@contextmanager
def output_text(output: str) -> Iterator[TextIO]:
    """A text to write to, which becomes the output only when all went well."""
    path = Path(output)
    if output != "-" and path.is_dir():
        raise MaskedCRFError(f"{output}: a folder; give a file to write")
    direct = output == "-" or (path.exists() and not path.is_file())  # never replace a device or a pipe
    if direct:
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as text:
            yield text
            text.seek(0)
            if output == "-":
                shutil.copyfileobj(text, standard_output())
            else:
                _copy(text, path, output)
        return
    with atomic_file(output) as raw, _text(raw, packed=path.suffix == ".gz") as text:
        yield text


def _copy(text: IO[str], path: Path, output: str) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as target:
            shutil.copyfileobj(text, target)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error(output, error) from error


@contextmanager
def _text(raw: IO[bytes], *, packed: bool) -> Iterator[TextIO]:
    import io

    stream: IO[bytes] = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if packed else raw  # type: ignore[assignment]
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    yield text
    text.flush()
    text.detach()
    if packed:
        stream.close()
