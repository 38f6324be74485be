"""Label Studio's exports, JSON and JSON-MIN: tasks with the annotations of one annotator or several.

A cancelled annotation is none. Of several, the one marked as ground truth counts; otherwise they must agree.
Where the interface has several groups of labels, `entity_column` names the one that counts.
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
ABOUT_REGIONS = {"choices", "taxonomy", "rating", "number", "datetime"}
"""What an annotator may say of a region beside its labels."""
OTHER_TEXTS = {"hypertextlabels", "paragraphlabels"}


def read_label_studio(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The texts of an export; tasks that nobody finished are left out and counted."""
    name = file_name(path)
    remedy = "export it again as JSON or JSON-MIN"
    tasks = parse_json(read_whole(path), name, remedy)
    if not isinstance(tasks, list):
        raise DataError(f"{name}: {type(tasks).__name__} where a list of tasks is needed; {remedy}")
    seen: dict[int, list[Span]] = {}
    has_spans = False
    for number, task in enumerate(tasks, 1):
        where = f"{name}: task {number}"
        if not isinstance(task, dict):
            raise DataError(f"{where}: an object is needed, got {json.dumps(task)[:40]}; {remedy}")
        text, spans = _full(task, where, options) if "data" in task else _minimal(task, where, options.entity_column)
        if options.tag_column is None:
            spans = None
        elif spans is None:
            options.report.count("tasks without a finished annotation left out")
            continue
        has_spans |= bool(spans)
        if "data" in task or not _is_repeated(task, spans, seen, where):
            yield AnnotatedText(text, spans, name, number, "task", document=number)
    if options.entity_column and options.tag_column is not None and not has_spans:
        raise DataError(f"{name}: no labels of {options.entity_column!r} in it; entity_column names a <Labels>")


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
    given = require_objects(given, "annotations", where)
    found = [each for each in given if not each.get("was_cancelled") and not each.get("skipped")]
    found = [each for each in found if each.get("ground_truth") is True] or found
    if not found:
        return text, None
    results = [require_objects(each.get("result"), "result", where) for each in found]
    spans = [_spans(result, text, where, options.entity_column) for result in results]
    if any(sorted(own) != sorted(spans[0]) for own in spans[1:]) and options.tag_column is not None:
        raise DataError(f"{where}: its {len(found)} annotations differ; mark one of them as ground truth")
    return text, spans[0]


def _minimal(task: dict[str, Any], where: str, group: str | None) -> tuple[str, tuple[Span, ...] | None]:
    text = _text(task, where)
    rows = {key: value for key, value in task.items() if isinstance(value, list) and any(map(_is_region, value))}
    if group:
        rows = {key: value for key, value in rows.items() if key == group}
    if len(rows) > 1:
        raise DataError(f"{where}: several fields hold labels ({', '.join(rows)}); name one with entity_column")
    if not rows:
        return text, () if "annotation_id" in task or "annotator" in task else None
    [regions] = rows.values()
    if not all(isinstance(region, dict) and "labels" in region for region in regions):
        raise DataError(f"{where}: a region needs start, end and labels; export it again as JSON or JSON-MIN")
    return text, tuple(span for region in regions for span in _region_spans(region, text, where))


def _is_region(value: Any) -> bool:
    """Whether it is a region, damaged perhaps; what is said about one has a place too, but no labels."""
    if not isinstance(value, dict):
        return isinstance(value, list)
    has_place = "start" in value and isinstance(value.get("text", ""), str) and ABOUT_REGIONS.isdisjoint(value)
    return has_place or "labels" in value


def _text(data: dict[str, Any], where: str) -> str:
    """The text of a task: the field `text`, or the only one that holds a string."""
    if "text" in data:
        return require_text(data["text"], where)
    texts = [value for key, value in data.items() if isinstance(value, str) and key not in NO_TEXT]
    if len(texts) != 1:
        keys = ", ".join(data)[:80]
        raise DataError(f"{where}: which of its fields is the text ({keys})? name it text")
    return require_text(texts[0], where)


def _spans(result: Sequence[dict[str, Any]], text: str, where: str, group: str | None = None) -> tuple[Span, ...]:
    """The labelled regions of a result; relations and choices are about no span of their own."""
    found: list[Span] = []
    for region in result:
        if group and region.get("from_name") != group:
            continue
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
    mention = value.get("text")
    if isinstance(mention, str) and type(start) is int and type(end) is int:
        start, end = _code_points(text, start, end, mention)
    for label in labels:
        span = require_span(start, end, label, text, where)
        if isinstance(mention, str) and not _is_same(text[span.start : span.end], mention):
            found = text[span.start : span.end]
            raise DataError(
                f"{where}: span {span.start}:{span.end} {span.label} is {found!r:.40} in the text, but {mention!r:.40} "
                "by its own words; export it again"
            )
        yield span


def _code_points(text: str, start: int, end: int, mention: str) -> tuple[int, int]:
    """The places of a mention, whose numbers may count UTF-16 units, as JavaScript does, and \\r\\n as one.

    Returns the numbers as they are where they fit as code points, or where they fit in no way.
    """
    if _is_same(text[start:end], mention) or start < 0:
        return start, end
    for units_of_emoji, units_of_return in ((2, 1), (1, 0), (2, 0)):
        places, unit = {}, 0
        for number, character in enumerate(text):
            places[unit] = number
            is_line_end = text.startswith("\r\n", number)
            unit += units_of_return if is_line_end else units_of_emoji if character > "\uffff" else 1
        places[unit] = len(text)
        first, after = places.get(start, -1), places.get(end, -1)
        if 0 <= first < after and _is_same(text[first:after], mention):
            return first, after
    return start, end


def _is_same(inside: str, mention: str) -> bool:
    """Whether these are the words of a mention, in which the tool writes a line end as a backslash and an n."""
    return inside == mention or inside.split() == mention.replace("\\n", "\n").split()


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
