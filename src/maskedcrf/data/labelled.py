"""Labelled data as users give it: a file, several, a dataset, sentences, or pairs of tokens and tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from maskedcrf.data.annotation import AnnotatedText, ReadReport
from maskedcrf.data.formats import Format, ReadOptions, fit_records, read_records
from maskedcrf.data.formats.huggingface import read_dataset, read_rows
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.sentence_splitters import get_splitter
from maskedcrf.data.span_fit import Misfits, Overlaps, SpanFitter
from maskedcrf.data.tokenizers import Tokenizer
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme

LabelledPair = tuple[Sequence[str], Sequence[str]]
LabelledData = str | Path | Iterable[str | Path | Sentence | LabelledPair]
"""A path, several paths, a `datasets.Dataset`, `Sentence`s, or (tokens, tags) pairs."""


class DataDict(TypedDict, total=False):
    """The fields of the settings `data`: keywords of `read_sentences`."""

    format: Format
    token_column: int
    tag_column: int
    comment: str | None
    first_character: bool
    labels: tuple[str, ...] | None
    entity_column: str | None
    tokenizer: str
    sentences: str
    misfits: Misfits
    overlaps: Overlaps


def read_labelled(
    data: LabelledData, scheme: Scheme, *, cut: Tokenizer, report: ReadReport | None = None, **reading: Unpack[DataDict]
) -> list[Sentence]:
    """All sentences of the data, each with every tag; spans of text become tags of this scheme.

    `report` is told what did not fit.
    """
    report = ReadReport() if report is None else report
    records = read_labelled_records(data, report, **reading)
    sentences = fit_labelled(records, scheme, cut=cut, report=report, **reading)
    for sentence in sentences:
        sentence.require_every_tag("scoring or fitting")
    return sentences


def read_labelled_records(
    data: LabelledData, report: ReadReport, **reading: Unpack[DataDict]
) -> list[Sentence | AnnotatedText]:
    """What the data hold before texts are cut: sentences where they have tokens, annotated texts where they do not."""
    if isinstance(data, Sentence | Mapping) or not isinstance(data, str | Path | Iterable):
        raise DataError(f"labelled data are a path, or sentences in a list; got a {type(data).__name__}")
    given = {key: value for key, value in reading.items() if key in ReadOptions.__dataclass_fields__}
    options = ReadOptions(**given, report=report)  # type: ignore[arg-type]
    if hasattr(data, "features"):  # an IterableDataset may not know its own
        return list(read_rows(data, options) if data.features else read_dataset(data, labels=options.labels))
    records: list[Sentence | AnnotatedText] = []
    for part in [data] if isinstance(data, str | Path) else data:
        if isinstance(part, Sentence):
            records.append(part)
        elif isinstance(part, str | Path):
            records += read_records(part, format=reading.get("format", "auto"), options=options)
        else:
            records.append(_pair(part))
    return records


def fit_labelled(
    records: Iterable[Sentence | AnnotatedText],
    scheme: Scheme,
    *,
    cut: Tokenizer,
    report: ReadReport,
    **reading: Unpack[DataDict],
) -> list[Sentence]:
    """The sentences of records; texts are cut into words by `cut`."""
    splitter = get_splitter(reading.get("sentences", "line"))
    misfits, overlaps = reading.get("misfits", "error"), reading.get("overlaps", "error")
    return list(fit_records(records, SpanFitter(cut, splitter, scheme, misfits, overlaps, report)))


def _pair(part: Any) -> Sentence:
    """The sentence of a list of tokens and one of tags."""
    is_pair = isinstance(part, Sequence) and not isinstance(part, str) and len(part) == 2
    if not is_pair or any(isinstance(side, str | Mapping) for side in part):
        raise DataError(f"a sentence is a Sentence or a pair (tokens, tags), each a list of strings; got {part!r:.60}")
    tokens, tags = part
    return Sentence(tuple(tokens), tuple(tags))
