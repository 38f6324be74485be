"""Labels from a file, in each form people keep them."""

from __future__ import annotations

import json

import pytest

from maskedcrf.errors import DataError
from maskedcrf.tags.label_file import read_label_file


@pytest.mark.parametrize(
    ("name", "text", "labels"),
    [
        ("labels.txt", "O\nB-X\n\nI-X\n", ["O", "B-X", "I-X"]),
        ("labels.txt", "1\tB-X\n0\tO\n", {"1": "B-X", "0": "O"}),
        ("labels.json", '["O", "B-X"]', ["O", "B-X"]),
        ("labels.json", '{"0": "O", "1": "B-X"}', {"0": "O", "1": "B-X"}),
        ("config.json", json.dumps({"id2label": {"0": "O"}, "hidden_size": 8}), {"0": "O"}),
    ],
)
def test_a_file_of_labels_is_read(tmp_path, name, text, labels):
    (tmp_path / name).write_text(text)
    assert read_label_file(tmp_path / name) == labels


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("labels.txt", "", ":1: 0 labels"),
        ("labels.txt", "O\n" * 5000, ":1: 5000 labels"),
        ("labels.txt", "0\tO\nB-X\n", ":2: no column number"),
        ("labels.txt", "0\tO\n0\tB-X\n", ":2: a second label for its column"),
        ("labels.json", "{", ":1: not readable as JSON"),
        ("labels.json", "7", ":1: labels are a list"),
    ],
)
def test_what_is_no_list_of_labels_is_refused_with_its_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_label_file(tmp_path / name)
