"""JSON lines: a sentence a line, as tokens with tags or as text with character spans.

    {"tokens": ["fly", "to", "Lima"], "tags": ["O", "O", "B-LOC"]}
    {"tokens": ["fly", "to", "Lima"], "ner_tags": [0, 0, 1]}                          with labels=["O", "B-LOC"]
    {"text": "fly to Lima.", "spans": [{"start": 7, "end": 11, "label": "LOC"}]}
    {"tokens": ["fly", "to", "Lima"], "tags": ["O", "O", "B-LOC"], "open": [0, 1]}    only Lima's tag is vouched for

Without `tags`, `ner_tags` and `spans` a line is a sentence to be tagged. Spans count code points, `end` is exclusive.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from maskedcrf.data.annotation import AnnotatedText, Span, require_span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.values import (
    is_doccano_record,
    is_prodigy_record,
    json_lines,
    tag_names,
    tokens_or_text,
)
from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.files import file_name


def read_jsonl(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of a file, one by one; `-` is standard input, gzip is seen by its first bytes."""
    name = file_name(path)
    for number, _, record in json_lines(path):
        yield record_to_sentence(record, name, number, options)


def record_to_sentence(
    record: dict[str, Any], file: str, line: int, options: ReadOptions, *, unit: str = ""
) -> Sentence | AnnotatedText:
    """What one record says: tokens and tags, or a text and its spans."""
    where = f"{file}: {unit} {line}" if unit else f"{file}:{line}"
    words = tokens_or_text(record, where)
    if options.tag_column is not None:
        _refuse_other_tools(record, where)
    if isinstance(words, str):
        spans = None if options.tag_column is None else record.get("spans")
        return AnnotatedText(words, None if spans is None else spans_of(spans, words, where), file, line, unit)
    key = options.entity_column or ("tags" if record.get("tags") is not None else "ner_tags")
    tags = None if options.tag_column is None else record.get(key)
    names = None if tags is None else tuple(tag_names(tags, len(words), where, options.labels))
    open_ = () if names is None else _open_tokens(record.get("open"), len(words), where)
    return Sentence(tuple(words), names, file, line, open=open_, one_line=True, unit=unit)


def _refuse_other_tools(record: dict[str, Any], where: str) -> None:
    """Refuse labels and answers that this format does not know, where the file's beginning did not show the tool."""
    tool = "prodigy" if is_prodigy_record(record) else "doccano" if is_doccano_record(record) else None
    if tool is not None:
        raise DataError(f"{where}: a line of {tool}'s, and the first lines are not; say --input-format {tool}")


def _open_tokens(numbers: Any, size: int, where: str) -> tuple[int, ...]:
    """Positions of the tokens that are left open, in order, each once."""
    if numbers is None:
        return ()
    if not isinstance(numbers, list) or not all(type(each) is int and 0 <= each < size for each in numbers):
        raise DataError(
            f"{where}: open must be a list of token numbers from 0 to {size - 1}, got {json.dumps(numbers)[:40]}"
        )
    return tuple(sorted(set(numbers)))


def spans_of(spans: Any, text: str, where: str) -> tuple[Span, ...]:
    """A list of objects with start, end and label."""
    if not isinstance(spans, list):
        raise DataError(f"{where}: spans must be a list of objects, got {type(spans).__name__}")
    for span in spans:
        if not isinstance(span, dict) or not {"start", "end", "label"} <= span.keys():
            raise DataError(f"{where}: a span needs start, end and label, got {json.dumps(span)[:60]}")
    return tuple(require_span(span["start"], span["end"], span["label"], text, where) for span in spans)


def write_jsonl(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """Text and spans where the text is known, else tokens and tags."""
    for each in texts:
        if each.sentence.text is None or each.sentence.open:
            record: dict[str, Any] = {"tokens": list(each.sentence.tokens)}
            if each.sentence.tags is not None:
                record["tags"] = list(each.sentence.tags)
            if each.sentence.open:
                record["open"] = list(each.sentence.open)
        else:
            record = {"text": each.text}
            if each.spans is not None:
                record["spans"] = [span._asdict() for span in each.spans]
        yield (json.dumps(record, ensure_ascii=False) + "\n").encode()
