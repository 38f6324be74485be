"""doccano's JSON lines: a text and its labels, as every version of the tool exports them.

{"id": 1, "text": "fly to Lima.", "label": [[7, 11, "LOC"]]}
{"id": 1, "text": "fly to Lima.", "entities": [{"id": 3, "label": "LOC", "start_offset": 7, "end_offset": 11}]}

Other versions wrote `data` in place of `text`, `annotations` in place of `entities`, or triples in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from maskedcrf.data.annotation import AnnotatedText, Span, require_span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.values import DOCCANO_LABELS, json_lines, text_of
from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.errors import DataError
from maskedcrf.files import file_name


def read_doccano(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The texts of an export, one by one."""
    name = file_name(path)
    for number, where, record in json_lines(path):
        text = text_of(with_text(record), where, "export with the text")
        spans = None if options.tag_column is None else _spans(record, text, where)
        yield AnnotatedText(text, spans, name, number, document=number)


def with_text(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its text under `text`: for a while doccano called it `data`."""
    return {"text": record["data"], **record} if "data" in record else record


def _spans(record: dict[str, Any], text: str, where: str) -> tuple[Span, ...] | None:
    key = next((key for key in reversed(DOCCANO_LABELS) if key in record), None)
    if key is None:
        return None
    if not isinstance(record[key], list):
        got = type(record[key]).__name__
        raise DataError(f"{where}: {key} must be a list of [start, end, label], got {got}")
    rows = [_triple(row, where) for row in record[key]]
    return tuple(require_span(start, end, label, text, where) for start, end, label in rows)


def _triple(row: Any, where: str) -> Sequence[Any]:
    """Start, end and label, of a list or an object."""
    if isinstance(row, dict):
        if isinstance(row.get("label"), int):
            raise DataError(f"{where}: a label is a number of doccano's database; export as JSONL with text labels")
        suffix = "" if "start" in row else "_offset"
        return row.get(f"start{suffix}"), row.get(f"end{suffix}"), row.get("label")
    if not isinstance(row, list) or len(row) != 3:
        raise DataError(f"{where}: a label is [start, end, label], got {json.dumps(row)[:60]}")
    return row


def write_doccano(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """One line a text, as doccano imports it."""
    for number, each in enumerate(texts, 1):
        record = {"id": number, "text": each.text, "label": [list(span) for span in each.spans or ()]}
        yield (json.dumps(record, ensure_ascii=False) + "\n").encode()
