"""Values out of JSON, checked: every refusal names its file and line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from maskedcrf.errors import DataError
from maskedcrf.files import file_name, numbered_lines

PRODIGY_KEYS = {"_input_hash", "_task_hash", "_view_id"}
ANSWERS = ("accept", "reject", "ignore")
DOCCANO_LABELS = ("label", "labels", "entities", "annotations")


def is_prodigy_record(record: dict[str, Any]) -> bool:
    """Whether Prodigy wrote it: it has hashes or an answer."""
    return not PRODIGY_KEYS.isdisjoint(record) or record.get("answer") in ANSWERS


def is_doccano_record(record: dict[str, Any]) -> bool:
    """Whether doccano wrote it: a text whose labels are a list, and neither tokens nor spans."""
    has_text = isinstance(record.get("text", record.get("data")), str) and {"tokens", "spans"}.isdisjoint(record)
    return has_text and any(isinstance(record.get(key), list) for key in DOCCANO_LABELS)


def json_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The object on each line that is not blank, with the line's number and `file:line`."""
    name = file_name(path)
    for number, line in numbered_lines(path):
        if line.strip():
            where = f"{name}:{number}"
            yield number, where, json_record(line, where)


def json_record(line: str, where: str) -> dict[str, Any]:
    """The object on one line; whatever else stands there is refused."""
    record = parse_json(line, where, 'write one object a line, such as {"tokens": []}')
    if not isinstance(record, dict):
        hint = "; of a JSON array, jq -c '.[]' writes one object a line" if isinstance(record, list) else ""
        raise DataError(f"{where}: {type(record).__name__} where an object with tokens or text is needed{hint}")
    return record


def parse_json(text: str, where: str, remedy: str) -> Any:
    """What the text says in JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) and error.lineno > 1 else ""
        raise DataError(f"{where}: not JSON ({reason}{line}); {remedy}") from error


def tokens_or_text(record: dict[str, Any], where: str) -> list[str] | str:
    """The tokens of a record or, where it has none, its text as it stands."""
    if "tokens" in record:
        return require_strings(record["tokens"], "tokens", where)
    if "text" not in record:
        keys = json.dumps(list(record))[:80]
        raise DataError(f"{where}: neither tokens nor text (keys: {keys}); name the columns as `tokens`, `tags`")
    return require_text(record["text"], where)


def text_of(record: dict[str, Any], where: str, remedy: str) -> str:
    """The text of a record that must have one."""
    if "text" not in record:
        raise DataError(f"{where}: no text (keys: {json.dumps(list(record))[:80]}); {remedy}")
    return require_text(record["text"], where)


def require_text(text: Any, where: str) -> str:
    """The text, if it is one that can be written as UTF-8."""
    if not isinstance(text, str):
        raise DataError(f"{where}: text must be a string, got {json.dumps(text)[:40]}")
    return require_strings([text], "text", where)[0]


def require_strings(values: Any, key: str, where: str) -> list[str]:
    """The values, if they are a list of strings that can be written as UTF-8."""
    if not isinstance(values, list):
        raise DataError(f"{where}: {key} must be a list of strings, got {type(values).__name__}")
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"{where}: {key}[{number}] must be a string, got {json.dumps(value)[:40]}")
    try:
        "".join(values).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {key} hold half a character ({error.reason}); write the text as UTF-8") from error
    return values


def require_objects(values: Any, key: str, where: str) -> list[dict[str, Any]]:
    """The values, if they are a list of objects; nothing at all counts as none."""
    if values is None:
        return []
    if not isinstance(values, list):
        raise DataError(f"{where}: {key} must be a list of objects, got {type(values).__name__}")
    for number, value in enumerate(values):
        if not isinstance(value, dict):
            raise DataError(f"{where}: {key}[{number}] must be an object, got {json.dumps(value)[:40]}")
    return values


def tag_names(tags: Any, size: int, where: str, labels: Sequence[str] | None) -> list[str]:
    """Tags as strings, one for each of `size` tokens; numbers are looked up in `labels`."""
    numbers = isinstance(tags, list) and any(isinstance(tag, int) for tag in tags)
    if numbers and labels is None:
        raise DataError(f"{where}: the tags are numbers; say what they mean with labels=[...]")
    if numbers and labels is not None:
        for tag in tags:
            if type(tag) is not int or not 0 <= tag < len(labels):
                raise DataError(
                    f"{where}: {tag!r} is none of the {len(labels)} labels; read without tags if unlabelled"
                )
        tags = [labels[tag] for tag in tags]
    tags = require_strings(tags, "tags", where)
    if not all(tag and tag.isprintable() for tag in set(tags)):
        raise DataError(f"{where}: a tag is empty or holds a character that cannot be shown; write tags such as B-LOC")
    if len(tags) != size:
        raise DataError(f"{where}: {size} tokens but {len(tags)} tags; give every token one tag")
    return list(tags)
