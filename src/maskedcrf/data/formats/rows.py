"""Rows of tables, Parquet or a Hugging Face dataset: which columns hold tokens and tags, or text and spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from maskedcrf.data.formats.jsonl import record_to_sentence
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.errors import DataError

NAMES = {"tokens": ("tokens", "words"), "text": ("text",)}
"""Names of the columns that hold the words; the first that is there counts."""
MARKS = {"tokens": ("ner_tags", "ner", "tags", "labels"), "text": ("spans", "entities")}
"""Names of the columns that hold their tags or spans."""
OURS = {"tokens": "tags", "text": "spans"}


def choose_columns(there: Sequence[str], options: ReadOptions, file: str) -> dict[str, str]:
    """Columns of a table by what they are to us: tokens and tags, or text and spans."""
    found = {key: name for key, names in NAMES.items() for name in reversed(names) if name in there}
    if not found:
        known = ", ".join(name for names in NAMES.values() for name in names)
        raise DataError(f"{file}: no column {known} (there are: {', '.join(there)[:80]}); rename yours")
    kind = next(iter(found))
    marks = (options.entity_column,) if options.entity_column else MARKS[kind]
    mark = next((name for name in marks if name in there), None)
    if options.entity_column and mark is None:
        raise DataError(f"{file}: no column {options.entity_column!r} (there are: {', '.join(there)[:80]})")
    return {kind: found[kind]} | ({OURS[kind]: mark} if mark else {})


def rows_to_sentences(
    rows: Iterable[dict[str, Any]], columns: dict[str, str], file: str, options: ReadOptions, *, unit: str = ""
) -> Records:
    """What each row says; rows are counted from 1."""
    options = replace(options, entity_column=None)
    for number, row in enumerate(rows, 1):
        record = {key: row[name] for key, name in columns.items() if row[name] is not None}
        if isinstance(spans := record.get("spans"), dict):
            record["spans"] = list(_transposed(spans))
        yield record_to_sentence(record, file, number, options, unit=unit)


def _transposed(spans: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A list of objects, which `datasets` keeps as an object of lists."""
    lists = [each if isinstance(each, list) else [] for each in spans.values()]
    return (dict(zip(spans, values, strict=True)) for values in zip(*lists, strict=False))
