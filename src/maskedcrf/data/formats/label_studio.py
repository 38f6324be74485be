"""Label Studio's exports, JSON and JSON-MIN: tasks with the annotations of one annotator or several.

A cancelled annotation is none. Of several, the one marked as ground truth counts; otherwise they must agree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from maskedcrf.data.annotation import AnnotatedText, Span, require_span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.values import parse_json, require_objects, require_text
from maskedcrf.data.formats.whole import read_whole
from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.errors import DataError
from maskedcrf.files import file_name

NO_TEXT = {"annotator", "annotation_id", "id", "created_at", "updated_at", "lead_time", "agreement"}
"""Fields that the tool adds to a task of JSON-MIN."""
OTHER_TEXTS = {"hypertextlabels", "paragraphlabels"}


def read_label_studio(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The texts of an export; tasks that nobody finished are left out and counted."""
    name = file_name(path)
    remedy = "export it again as JSON or JSON-MIN"
    tasks = parse_json(read_whole(path), name, remedy)
    if not isinstance(tasks, list):
        raise DataError(f"{name}: {type(tasks).__name__} where a list of tasks is needed; {remedy}")
    seen: dict[int, list[Span]] = {}
    for number, task in enumerate(tasks, 1):
        where = f"{name}: task {number}"
        if not isinstance(task, dict):
            raise DataError(f"{where}: an object is needed, got {json.dumps(task)[:40]}; {remedy}")
        text, spans = _full(task, where, options) if "data" in task else _minimal(task, where)
        if options.tag_column is None:
            spans = None
        elif spans is None:
            options.report.count("tasks without a finished annotation left out")
            continue
        if "data" in task or not _is_repeated(task, spans, seen, where):
            yield AnnotatedText(text, spans, name, number, "task", document=number)


def _is_repeated(task: dict[str, Any], spans: tuple[Span, ...] | None, seen: dict[int, list[Span]], where: str) -> bool:
    """Whether the same task stood before: JSON-MIN repeats it for each annotator, who must agree."""
    number, own = task.get("id"), sorted(spans or ())
    if not isinstance(number, int) or number not in seen:
        if isinstance(number, int):
            seen[number] = own
        return False
    if seen[number] != own:
        raise DataError(f"{where}: task {number} is annotated twice, and differently; keep one of them")
    return True


def _full(task: dict[str, Any], where: str, options: ReadOptions) -> tuple[str, tuple[Span, ...] | None]:
    data = task["data"]
    if not isinstance(data, dict):
        raise DataError(f"{where}: data must be an object with the text, got {json.dumps(data)[:40]}")
    text = _text(data, where)
    given = task.get("annotations", task.get("completions"))
    found = [each for each in require_objects(given, "annotations", where) if not each.get("was_cancelled")]
    found = [each for each in found if each.get("ground_truth") is True] or found
    if not found:
        return text, None
    spans = [_spans(require_objects(each.get("result"), "result", where), text, where) for each in found]
    if any(sorted(own) != sorted(spans[0]) for own in spans[1:]) and options.tag_column is not None:
        raise DataError(f"{where}: its {len(found)} annotations differ; mark one of them as ground truth")
    return text, spans[0]


def _minimal(task: dict[str, Any], where: str) -> tuple[str, tuple[Span, ...] | None]:
    text = _text(task, where)
    rows = [value for value in task.values() if isinstance(value, list) and all(map(_is_region, value)) and value]
    if len(rows) > 1:
        raise DataError(f"{where}: several fields hold labels; export it as JSON")
    if not rows:
        is_damaged = any(isinstance(value, list) and value for value in task.values())
        if is_damaged:
            raise DataError(f"{where}: a region needs start, end and labels; export it again as JSON or JSON-MIN")
        return text, () if "annotation_id" in task or "annotator" in task else None
    return text, tuple(span for region in rows[0] for span in _region_spans(region, text, where))


def _is_region(value: Any) -> bool:
    return isinstance(value, dict) and {"start", "end", "labels"} <= value.keys()


def _text(data: dict[str, Any], where: str) -> str:
    """The text of a task: the field `text`, or the only one that holds a string."""
    if "text" in data:
        return require_text(data["text"], where)
    texts = [value for key, value in data.items() if isinstance(value, str) and key not in NO_TEXT]
    if len(texts) != 1:
        keys = ", ".join(data)[:80]
        raise DataError(f"{where}: which of its fields is the text ({keys})? name it text")
    return require_text(texts[0], where)


def _spans(result: Sequence[dict[str, Any]], text: str, where: str) -> tuple[Span, ...]:
    """The labelled regions of a result; relations and choices are about no span of their own."""
    found: list[Span] = []
    for region in result:
        if region.get("type") in ("labels", *OTHER_TEXTS) or (region.get("value") or {}).get("labels"):
            value = region.get("value")
            if not isinstance(value, dict):
                raise DataError(f"{where}: a region needs a value with start, end and labels")
            if not OTHER_TEXTS.isdisjoint(value):
                raise DataError(f"{where}: labels of HTML or of a dialogue have no places in one text; label a <Text>")
            found += _region_spans(value, text, where)
    return tuple(found)


def _region_spans(value: dict[str, Any], text: str, where: str) -> Iterator[Span]:
    labels, start, end = value.get("labels"), value.get("start"), value.get("end")
    if not isinstance(labels, list) or not labels:
        raise DataError(f"{where}: a region needs a list of labels, got {json.dumps(labels)[:40]}")
    for label in labels:
        span = require_span(start, end, label, text, where)
        mention = value.get("text")
        if isinstance(mention, str) and text[span.start : span.end] != mention:
            span = _in_code_points(span, mention, text, where)
        yield span


def _in_code_points(span: Span, mention: str, text: str, where: str) -> Span:
    """A span whose numbers count UTF-16 units, as JavaScript does, so that an emoji before it counts twice."""
    units = text.encode("utf-16-le")
    before = units[: 2 * span.start].decode("utf-16-le", "replace")
    inside = units[2 * span.start : 2 * span.end].decode("utf-16-le", "replace")
    if inside != mention:
        found = text[span.start : span.end]
        raise DataError(
            f"{where}: span {span.start}:{span.end} {span.label} is {found!r:.40} in the text, but {mention!r:.40} by "
            "its own words; export it again"
        )
    return Span(len(before), len(before) + len(inside), span.label)


def write_label_studio(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """Tasks with predictions, which the tool imports as suggestions to accept or correct."""
    opening = "["
    for number, each in enumerate(texts, 1):
        result = [
            {
                "id": f"{number}-{place}",
                "from_name": "label",
                "to_name": "text",
                "type": "labels",
                "value": {"start": start, "end": end, "text": each.text[start:end], "labels": [label]},
            }
            for place, (start, end, label) in enumerate(each.spans or (), 1)
        ]
        task = {"data": {"text": each.text}, "predictions": [{"model_version": "maskedcrf", "result": result}]}
        yield (opening + json.dumps(task, ensure_ascii=False)).encode()
        opening = ",\n"
    yield b"[]\n" if opening == "[" else b"]\n"
