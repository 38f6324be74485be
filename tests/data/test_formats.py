"""One door: each format is recognised by what is in it, also on standard input."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data.formats import find_format, read_sentences, require_columns
from maskedcrf.errors import DataError
from maskedcrf.files import format_from_suffix

CONLL = b"to O\nLima B-LOC\n\n"
JSONL = b'{"tokens": ["to", "Lima"], "tags": ["O", "B-LOC"]}\n'


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("text", [CONLL, JSONL, b"\xef\xbb\xbf" + JSONL, b"\n \n" + JSONL])
def test_files_are_recognised_by_what_is_in_them(tmp_path: Path, text: bytes, pack: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(pack(text))
    assert [(s.tokens, s.tags) for s in read_sentences(path)] == [(("to", "Lima"), ("O", "B-LOC"))]


@pytest.mark.parametrize("wrap", [io.BufferedReader, io.BytesIO], ids=["a pipe", "bytes"])
@pytest.mark.parametrize("text", [CONLL, JSONL, gzip.compress(JSONL)], ids=["conll", "jsonl", "gzip"])
def test_standard_input_is_recognised_too(monkeypatch: pytest.MonkeyPatch, text: bytes, wrap: Any) -> None:
    stream = io.BytesIO(text) if wrap is io.BytesIO else wrap(io.BytesIO(text))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    sentences = list(read_sentences("-"))
    assert [(s.tokens, s.tags) for s in sentences] == [(("to", "Lima"), ("O", "B-LOC"))]
    assert sentences[0].where(0) == "<stdin>:1"


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", "jsonl"),
        ("a.b/A.NDJSON", "jsonl"),
        ("a.Json.GZ", "jsonl"),
        ("train.bioes.conll.gz", "conll"),
        ("a.COL", "conll"),
        ("a.pq", "parquet"),
        ("a.txt", None),
        ("a.gz", None),
        ("jsonl", None),
        ("a.jsonl/b", None),
        ("-", None),
    ],
)
def test_a_name_shows_what_a_file_holds(name: str, form: str | None) -> None:
    assert format_from_suffix(name) == format_from_suffix(Path(name)) == form


def test_a_folder_of_parallel_files_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "seq.in").write_text("to lima\n")
    assert find_format(tmp_path) == "triples"
    assert next(read_sentences(tmp_path)).tokens == ("to", "lima")


def test_plain_text_is_read_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("Off to Lima.\n")
    assert next(read_sentences(path, format="text")).tokens == ("Off", "to", "Lima", ".")


def test_columns_and_labels_reach_their_reader(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path = tmp_path / "data.col"
    path.write_text("1 to O x\n2 Lima B-LOC x\n")
    assert next(read_sentences(path, token_column=1, tag_column=2)).tags == ("O", "B-LOC")
    path.write_text('{"tokens": ["to"], "tags": [1]}')
    assert next(read_sentences(path, labels=["O", "B-X"])).tags == ("B-X",)


def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown format 'xml'; known are auto, parquet, .* conll, text"):
        read_sentences(tmp_path, format="xml")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="a folder of no known format"):
        read_sentences(tmp_path)
    with pytest.raises(DataError, match="No such file"):
        list(read_sentences(tmp_path / "absent"))
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(JSONL * 100)[:-20])
    with pytest.raises(DataError, match="damaged gzip"):
        list(read_sentences(damaged))


def test_of_a_character_with_its_place_in_the_word_the_character_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("口0\tB-LOC\n腔11\tI-LOC\n0\tO\n", encoding="utf-8")
    [sentence] = read_sentences(tmp_path / "a.conll", first_character=True)
    assert (sentence.tokens, sentence.tags) == (("口", "腔", "0"), ("B-LOC", "I-LOC", "O"))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (b"-DOCSTART-\n\nto TO O\n\nLima NNP B-LOC\n", True),
        (b"to\tO\r\nNew York\tB-LOC\r\n", True),
        (gzip.compress(b"to O\nLima B-LOC\n", mtime=0), True),
        (b"to O\nLima B-LOC\n" * 1000, True),
        (b"to O", True),
        (b"to TO O\nLima B-LOC\n", False),
        (b"to TO\nLima NNP\n", False),
        (b"Ann flew to Lima .\nBob flew to Oslo .\n", False),
        (b"O\nO\n", False),
        (b"\xff\xfe O\n O\n", False),
        (b"", False),
    ],
)
def test_columns_are_told_from_text_by_their_tags(tmp_path: Path, text: bytes, columns: bool) -> None:
    (tmp_path / "a.txt").write_bytes(text)
    assert (find_format(tmp_path / "a.txt") == "conll") is columns


def test_what_is_plainly_no_columns_is_refused_by_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for text in (JSONL, gzip.compress(b"\xef\xbb\xbf\n" + JSONL), b'{"tokens": ["' + b"a" * 5000):
        path.write_bytes(text)
        with pytest.raises(DataError, match=f"^{path}: JSON lines; this command reads columns: maskedcrf convert"):
            require_columns(path)
    for text in (CONLL, b'{"} O\n', b"{} O\n"):
        path.write_bytes(text)
        require_columns(path)
    path.write_bytes(b"Ann person\n")
    require_columns(path, "conll")
    require_columns(tmp_path / "none")  # its reader says so
    with pytest.raises(DataError, match="a folder of no known format"):
        require_columns(tmp_path)
    (tmp_path / "seq.in.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"a folder of parallel files \(seq.in\); this command reads columns"):
        require_columns(tmp_path)


def test_a_pipe_with_a_name_is_not_read_twice(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, CONLL)
    os.close(writing)
    [sentence] = read_sentences(f"/dev/fd/{reading}")
    os.close(reading)
    assert sentence.tokens == ("to", "Lima")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def refuses_or_reads_whole(path: Path, format: Any) -> None:
    message = None
    try:
        sentences = list(read_sentences(path, format=format))
    except DataError as error:
        sentences, message = [], str(error)
    assert all(sentence.tags is None or len(sentence.tags) == len(sentence.tokens) for sentence in sentences)
    assert message is None or (message.startswith(str(path)) and "\n" not in message)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["start", "end", "label"]), inner),
)
keys = st.sampled_from(["tokens", "tags", "ner_tags", "text", "spans"])
span = st.fixed_dictionaries({"start": st.integers(-2, 9), "end": st.integers(-2, 9), "label": st.text(max_size=2)})


@given(st.dictionaries(keys, values | st.text() | st.lists(st.text()) | st.lists(span), max_size=3))
def test_no_json_makes_anything_but_sentences_or_one_line(scratch: Path, record: dict[str, Any]) -> None:
    path = scratch / "data.jsonl"
    path.write_text(json.dumps(record), encoding="utf-8")
    refuses_or_reads_whole(path, "jsonl")


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_make_anything_but_sentences_or_one_line(scratch: Path, one: bytes, other: bytes) -> None:
    (scratch / "seq.in").write_bytes(one)
    (scratch / "seq.out").write_bytes(other)
    refuses_or_reads_whole(scratch, "triples")
    for format in ("auto", "jsonl", "text"):
        refuses_or_reads_whole(scratch / "seq.in", format)
