"""Labels from a file: one a line, or column and label, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from maskedcrf.errors import DataError
from maskedcrf.files import numbered_lines
from maskedcrf.tags.labels import MAX_LABELS, Labels, labels_of_config


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
