"""One door for every format that people come with: found by content, read as sentences, written again.

for sentence in read_sentences("train.jsonl.gz"): ...
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from maskedcrf.data.annotation import AnnotatedText, ReadReport
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.table import FORMATS, WRITABLE, FormatName, find_format, require_columns
from maskedcrf.data.formats.writing import tagged_texts
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.sentence_splitters import get_splitter
from maskedcrf.data.span_fit import Misfits, Overlaps, SpanFitter
from maskedcrf.data.tokenizers import Tokenizer, get_tokenizer
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme

__all__ = [
    "FORMATS",
    "WRITABLE",
    "Format",
    "ReadOptions",
    "find_format",
    "fit_records",
    "read_records",
    "read_sentences",
    "require_columns",
    "to_bytes",
    "to_files",
]

Format = Literal["auto"] | FormatName


def read_sentences(
    path: str | os.PathLike[str],
    *,
    format: Format = "auto",
    token_column: int = 0,
    tag_column: int | None = -1,
    comment: str | None = None,
    first_character: bool = False,
    labels: Sequence[str] | None = None,
    entity_column: str | None = None,
    scheme: str | Scheme = "BIO",
    tokenizer: str | Tokenizer = "simple",
    sentences: str = "line",
    misfits: Misfits = "error",
    overlaps: Overlaps = "error",
    report: ReadReport | None = None,
) -> Iterator[Sentence]:
    """The sentences of a file, a folder or standard input (`-`), gzipped or not.

    Args:
        path: what to read.
        format: one of `FORMATS`; `auto` looks at what is in the file.
        token_column: of columns.
        tag_column: of columns; None reads no tags, in every format.
        comment: how lines of columns begin that are skipped, before a sentence.
        first_character: cut the tokens of columns to their first character.
        labels: names of the tags where a file has numbers.
        entity_column: the column, layer or MISC key of the tags where a file names its columns.
        scheme: what spans are written in.
        tokenizer: cuts texts into words where the file gives no tokens.
        sentences: cuts texts into sentences.
        misfits: what to do with spans that fit no tokens: error, snap or drop.
        overlaps: which of two spans to keep: error, longest or first.
        report: counts what is left out or changed, and lists the spans.
    """
    report = ReadReport() if report is None else report
    options = ReadOptions(token_column, tag_column, comment, first_character, labels, entity_column, report)
    cut = get_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    fitter = SpanFitter(cut, get_splitter(sentences), Scheme.get(scheme), misfits, overlaps, report)
    return fit_records(read_records(path, format=format, options=options), fitter)


def read_records(
    path: str | os.PathLike[str], *, format: Format = "auto", options: ReadOptions | None = None
) -> Records:
    """What the file holds, before texts are cut: sentences where it has tokens, annotated texts where it has text."""
    if format not in get_args(FormatName) and format != "auto":
        raise DataError(f"unknown format {format!r}; known are auto, {', '.join(FORMATS)}")
    found = find_format(path) if format == "auto" else format
    return FORMATS[found].read(path, options or ReadOptions())


def fit_records(records: Iterable[Sentence | AnnotatedText], fitter: SpanFitter) -> Iterator[Sentence]:
    """The sentences of records: texts are cut and their spans become tags."""
    for record in records:
        if isinstance(record, AnnotatedText):
            yield from fitter.sentences(record)
        else:
            yield record


def to_bytes(sentences: Iterable[Sentence], format: FormatName, *, scheme: str | Scheme = "BIO") -> Iterator[bytes]:
    """The sentences as a file of this format, piece by piece; `scheme` is that of their tags."""
    write = FORMATS[format].write if format in FORMATS else None
    if write is None:
        raise DataError(f"{format} cannot be written as a file; known are {', '.join(WRITABLE)}")
    closed = sentences if format == "jsonl" else _without_open_tokens(sentences, format)
    return write(tagged_texts(closed, Scheme.get(scheme)))


def _without_open_tokens(sentences: Iterable[Sentence], format: FormatName) -> Iterator[Sentence]:
    for sentence in sentences:
        sentence.require_every_tag(f"{format}, unlike jsonl,")
        yield sentence


def to_files(
    sentences: Iterable[Sentence], format: FormatName, *, scheme: str | Scheme = "BIO"
) -> Iterator[tuple[str, bytes]]:
    """The sentences as the files of a folder, by name."""
    write = FORMATS[format].write_files if format in FORMATS else None
    if write is None:
        raise DataError(f"{format} is no format of folders")
    return write(tagged_texts(_without_open_tokens(sentences, format), Scheme.get(scheme)))
