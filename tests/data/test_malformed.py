"""Odd and broken files: read rightly, or refused with file:line. No token is ever lost."""

from __future__ import annotations

import gzip

import pytest

from maskedcrf.data.formats import conll
from maskedcrf.data.formats.conll import read_conll
from maskedcrf.errors import DataError
from maskedcrf.files import decode_block

ACCEPTED = {
    "CRLF": (b"a O\r\nb O\r\n\r\nc O\r\n", ["a", "b", "c"]),
    "CRLF without a final newline": (b"a O\r\nb O\r", ["a", "b"]),
    "byte order mark": (b"\xef\xbb\xbfa O\n", ["a"]),
    "no final newline": (b"a O\nb O", ["a", "b"]),
    "tabs and blanks mixed between lines": (b"a\tO\nb O\n", ["a", "b"]),
    "tabs and blanks mixed in each line": (b"a \t N O\nb\tN O\n", ["a", "b"]),
    "runs of blanks": (b"a   O\nbb  O\n", ["a", "bb"]),
    "leading and trailing blanks": (b"  a O \nb O\t\n", ["a", "b"]),
    "lines of blanks between sentences": (b"a O\n \t \nb O\n", ["a", "b"]),
    "many blank lines": (b"\n\n\na O\n\n\n\nb O\n\n\n", ["a", "b"]),
    "no-break space in a token": ("a\u00a0b O\n".encode(), ["a\u00a0b"]),
    "a token that is a no-break space": ("\u00a0 O\nb O\n".encode(), ["\u00a0", "b"]),
    "U+2028 in a token": ("a\u2028b O\nc O\n".encode(), ["a\u2028b", "c"]),
    "form feed, vertical tab, U+0085": ("a\x0cb O\nc\x0bd O\ne\x85f O\n".encode(), ["a\x0cb", "c\x0bd", "e\x85f"]),
    "a blank in a token of a tabbed file": (b"New York\tO\nc\tO\n", ["New York", "c"]),
    "a blank in a token of a mixed file": (b"a O\nNew York\tO\nc\tO\n", ["a", "New York", "c"]),
    "a line of blanks' columns in a tabbed file": (b"a\tO\nb O\n", ["a", "b"]),
    "an empty token, tabbed": (b"a\tO\n\tO\n", ["a", ""]),
    "an empty token, blanks": (b"a O\n O\n", ["a", ""]),
    "a blank for a token, tabbed": (b"a\tO\n \tO\n", ["a", " "]),
    "an empty file": (b"", []),
    "blank lines only": (b"\n \n\r\n", []),
    "a byte order mark only": (b"\xef\xbb\xbf", []),
    "one column only": (b"a\nb\n", ["a", "b"]),
}


# Columns are found from the first block, so that a mixed file needs one that shows the mixture.
@pytest.mark.parametrize(
    ("case", "block"), [(case, size) for case in ACCEPTED for size in (1, 64) if size > 1 or "mixed" not in case]
)
def test_odd_files_are_read_whole(tmp_path, monkeypatch, case, block):
    monkeypatch.setattr(conll, "BLOCK", block)
    content, tokens = ACCEPTED[case]
    path = tmp_path / "a"
    path.write_bytes(content)
    sentences = list(read_conll(path))
    assert [token for sentence in sentences for token in sentence.tokens] == tokens
    assert all(len(sentence.tags) == len(sentence.tokens) for sentence in sentences)
    if "one column" not in case:
        assert {tag for sentence in sentences for tag in sentence.tags} <= {"O"}


REFUSED = {
    "too few columns": (b"a N O\nb N O\nc O\n", r":3: 2 columns where the file has 3; give every token"),
    "too many columns": (b"a O\n\nb N O\n", r":3: 3 columns where the file has 2"),
    "one column among more": (b"a O\nb\n", r":2: 1 column where the file has 2"),
    "invalid UTF-8": (b"a O\n\nb\xff O\n", r":3: not UTF-8 \(byte 0xff\); convert it"),
    "half a surrogate pair": (b"a O\n\xed\xa0\xbd O\n", r":2: not UTF-8 \(byte 0xed\)"),
    "cut inside a character": (b"a O\n\xe7\xbb", r":2: not UTF-8"),
    "UTF-16": ("a O\n".encode("utf-16"), r":1: not UTF-8 \(it looks like UTF-16\)"),
    "NUL": (b"a O\nb\0c O\n", r":2: a NUL character; is this a text file"),
    "carriage returns alone": (b"a O\rb O\r", r":1: a carriage return inside a line"),
    "a carriage return in a token": (b"a O\n\nb\rc O\n", r":3: a carriage return"),
    "damaged gzip": (gzip.compress(b"a O\n" * 99)[:-9], r": damaged gzip data"),
    "not gzip inside": (b"\x1f\x8bxxxxxxxxxxxxxxxxxxx", r": damaged gzip data"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_broken_files_are_refused_with_their_line(tmp_path, case):
    content, message = REFUSED[case]
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        list(read_conll(path))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("column", "width"), [(5, 2), (-3, 2), (1, 1)])
def test_a_missing_column_is_named(tmp_path, column, width):
    path = tmp_path / "a"
    path.write_text("\n" + " ".join("x" * width) + "\n")
    with pytest.raises(DataError, match=rf":2: there is no column {column}; this line has"):
        list(read_conll(path, tag_column=column))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        (" \t ", ""),
        ("a", "a"),
        ("a \n", "a\n"),
        ("a\t \n\n b\t", "a\n\n b"),
        ("a  b \n \nc", "a  b\n\nc"),
        ("a\u00a0\nb\x0c \n", "a\u00a0\nb\x0c\n"),
        ("a \r\nb\t\r\n", "a\nb\n"),
    ],
)
def test_trailing_blanks_go_and_no_other_character(given, kept):
    assert decode_block(given.encode(), "a", 1) == kept


@pytest.mark.timeout(60)
def test_a_long_run_of_blanks_inside_a_line_takes_no_time(tmp_path):
    path = tmp_path / "a"
    path.write_text("a" + " " * 500_000 + "O\nb O \n")
    assert [sentence.tokens for sentence in read_conll(path)] == [("a", "b")]


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(DataError, match=f"{path}: {reason}.*give a readable file"):
            list(read_conll(path))


def test_a_line_without_end_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(conll, "LONGEST_LINE", 100)
    monkeypatch.setattr(conll, "BLOCK", 10)
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1000)
    with pytest.raises(DataError, match="a line of more than 100 bytes"):
        list(read_conll(path))
