"""doccano's JSON lines: a text and its labels, as every version of the tool exports them.

{"id": 1, "text": "fly to Lima.", "label": [[7, 11, "LOC"]]}
{"id": 1, "text": "fly to Lima.", "entities": [{"id": 3, "label": "LOC", "start_offset": 7, "end_offset": 11}]}

Its first versions wrote `annotations` in place of `entities`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from maskedcrf.data.annotation import AnnotatedText, Span, require_span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.values import json_lines, require_objects, text_of
from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.errors import DataError
from maskedcrf.files import file_name

LABELS = ("label", "labels")
OBJECTS = ("entities", "annotations")


def read_doccano(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The texts of an export, one by one."""
    name = file_name(path)
    for number, where, record in json_lines(path):
        text = text_of(record, where, "export with the text")
        spans = None if options.tag_column is None else _spans(record, text, where)
        yield AnnotatedText(text, spans, name, number, document=number)


def _spans(record: dict[str, Any], text: str, where: str) -> tuple[Span, ...] | None:
    rows: list[Any]
    objects = next((key for key in OBJECTS if key in record), None)
    if objects is not None:
        found = require_objects(record[objects], objects, where)
        rows = [(row.get("start_offset"), row.get("end_offset"), row.get("label")) for row in found]
        if any(isinstance(label, int) for *_, label in rows):
            raise DataError(f"{where}: a label is a number of doccano's database; export as JSONL with text labels")
    else:
        key = next((key for key in LABELS if key in record), None)
        if key is None:
            return None
        if not isinstance(record[key], list):
            got = type(record[key]).__name__
            raise DataError(f"{where}: {key} must be a list of [start, end, label], got {got}")
        for row in record[key]:
            if not isinstance(row, list) or len(row) != 3:
                raise DataError(f"{where}: a label is [start, end, label], got {json.dumps(row)[:60]}")
        rows = record[key]
    return tuple(require_span(start, end, label, text, where) for start, end, label in rows)


def write_doccano(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """One line a text, as doccano imports it."""
    for number, each in enumerate(texts, 1):
        record = {"id": number, "text": each.text, "label": [list(span) for span in each.spans or ()]}
        yield (json.dumps(record, ensure_ascii=False) + "\n").encode()
