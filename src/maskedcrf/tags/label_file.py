"""Labels from a file, one a line, or column and label, or JSON; and from a Hugging Face configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maskedcrf.errors import ConstraintError, DataError
from maskedcrf.files import numbered_lines
from maskedcrf.tags.labels import MAX_LABELS, Labels, nameless_labels

_NAMES_ELSEWHERE = ("labels", "label_list", "label_names", "tags", "classes", "id2tag", "ner_tags", "id2labels")
"""Keys of a configuration under which names have been found while `id2label` had none."""


def read_label_file(path: str | Path) -> Labels:
    """The labels of a text file, a line each in the order of their columns or `column<TAB>label`, or of a JSON file.

    The JSON is a list, a table from column to label, or a configuration with `id2label`.
    """
    if str(path).endswith(".json"):
        return _from_json(path)
    lines = [(number, line) for number, line in numbered_lines(path) if line]
    if not 0 < len(lines) <= MAX_LABELS:
        raise DataError(f"{path}:1: {len(lines)} labels; give one a line, {MAX_LABELS} at most")
    if not any("\t" in line for _, line in lines):
        return [line for _, line in lines]
    columns: dict[str, str] = {}
    for number, line in lines:
        column, tab, label = line.partition("\t")
        if not tab or column in columns:
            reason = (
                "a second label for its column" if tab else "no column number before the label, as other lines have"
            )
            raise DataError(f"{path}:{number}: {reason}; write column<TAB>label once for each column")
        columns[column] = label
    return columns


def _from_json(path: str | Path) -> Labels:
    text = "\n".join(line for _, line in numbered_lines(path))
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}:1: not readable as JSON ({str(error).splitlines()[0]})") from error
    if isinstance(given, Mapping) and "id2label" in given:
        return labels_of_config(given)
    if not isinstance(given, Mapping | list):
        raise DataError(f"{path}:1: labels are a list, or a table from column to label")
    return given


def labels_of_config(config: Mapping[str, Any]) -> Labels:
    """The labels of a Hugging Face configuration; names are looked for elsewhere in it where `id2label` has none."""
    given = config.get("id2label") or {}
    if not isinstance(given, Mapping | list | tuple):
        raise ConstraintError(f"id2label is a table from column to label, got {type(given).__name__}; give labels=")
    labels: Labels = given
    names = list(labels.values()) if isinstance(labels, Mapping) else list(labels)
    numbers = config.get("label2id")
    if names and not (all(isinstance(name, str) for name in names) and nameless_labels(names)):
        if isinstance(numbers, Mapping):
            _require_agreement(labels, numbers)
        return labels
    candidates: list[Any] = [config.get(key) for key in _NAMES_ELSEWHERE]
    if isinstance(numbers, Mapping) and all(isinstance(number, int) for number in numbers.values()):
        candidates.insert(0, {number: name for name, number in numbers.items()})
    for found in candidates:
        own = list(found.values()) if isinstance(found, Mapping) else found
        if not isinstance(own, list) or len(own) != max(1, len(names)) or not all(isinstance(n, str) for n in own):
            continue
        if not nameless_labels(own):
            return found  # type: ignore[no-any-return]
    return labels


def _require_agreement(labels: Labels, numbers: Mapping[Any, Any]) -> None:
    """Refuse an `id2label` and a `label2id` that give one label two columns."""
    for column, label in labels.items() if isinstance(labels, Mapping) else enumerate(labels):
        other = numbers.get(label) if isinstance(label, str) else None
        if isinstance(other, int) and str(other) != str(column):
            raise ConstraintError(
                f"label {label!r} is column {column} by id2label and {other} by label2id; give labels= with a name for "
                "each column"
            )
