"""Labelled data as users give it: a file, several, a dataset, sentences, or pairs of tokens and tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from maskedcrf.data.annotation import ReadReport
from maskedcrf.data.formats import Format, read_sentences
from maskedcrf.data.formats.huggingface import read_dataset
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.span_fit import Misfits, Overlaps
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
    sentences: str
    misfits: Misfits
    overlaps: Overlaps


def read_labelled(
    data: LabelledData, scheme: Scheme, report: ReadReport | None = None, **reading: Unpack[DataDict]
) -> list[Sentence]:
    """All sentences of the data; spans of text become tags of this scheme, and `report` is told what did not fit."""
    if isinstance(data, Sentence | Mapping) or not isinstance(data, str | Path | Iterable):
        raise DataError(f"labelled data are a path, or sentences in a list; got a {type(data).__name__}")
    if hasattr(data, "features"):
        return list(read_dataset(data, labels=reading.get("labels")))
    sentences: list[Sentence] = []
    for part in [data] if isinstance(data, str | Path) else data:
        if isinstance(part, Sentence):
            sentences.append(part)
        elif isinstance(part, str | Path):
            sentences += read_sentences(part, scheme=scheme, report=report, **reading)
        else:
            sentences.append(_pair(part))
    return sentences


def _pair(part: Any) -> Sentence:
    """The sentence of a list of tokens and one of tags."""
    is_pair = isinstance(part, Sequence) and not isinstance(part, str) and len(part) == 2
    if not is_pair or any(isinstance(side, str | Mapping) for side in part):
        raise DataError(f"a sentence is a Sentence or a pair (tokens, tags), each a list of strings; got {part!r:.60}")
    tokens, tags = part
    return Sentence(tuple(tokens), tuple(tags))
