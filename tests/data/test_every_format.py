"""Every format: recognised, read as its twin in JSON lines is, written and read back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from format_examples import EXAMPLES, TOKENS, TWIN

from maskedcrf.data.annotation import ReadReport
from maskedcrf.data.formats import WRITABLE, find_format, read_sentences, to_bytes, to_files
from maskedcrf.data.sentence import Sentence
from maskedcrf.tags.segments import segments

Read = list[tuple[tuple[str, ...], list[tuple[int, int, str]]]]


def read(path: Path) -> Read:
    return spans(list(read_sentences(path)))


def spans(sentences: list[Sentence]) -> Read:
    return [(each.tokens, [segment[:3] for segment in segments(each.tags or (), "BIO")]) for each in sentences]


@pytest.fixture
def twin(tmp_path: Path) -> Read:
    (tmp_path / "twin.jsonl").write_text(TWIN)
    found = read(tmp_path / "twin.jsonl")
    assert [list(tokens) for tokens, _ in found] == TOKENS
    assert [len(own) for _, own in found] == [2, 2]
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_format_is_recognised_and_read_as_its_twin_in_json_lines(tmp_path: Path, twin: Read, name: str) -> None:
    format, file, write = EXAMPLES[name]
    path = write(tmp_path / file)
    assert find_format(path) == format
    assert read(path) == twin


@pytest.mark.parametrize("name", [name for name, (_, file, _) in EXAMPLES.items() if "." in file])
def test_the_content_decides_and_not_the_name(tmp_path: Path, twin: Read, name: str) -> None:
    format, _, write = EXAMPLES[name]
    path = write(tmp_path / "data.txt")
    assert find_format(path) == format
    assert read(path) == twin


@pytest.mark.parametrize("name", [name for name, (_, file, _) in EXAMPLES.items() if "." in file])
def test_a_packed_file_is_read_as_it_is_unpacked(tmp_path: Path, twin: Read, name: str) -> None:
    format, file, write = EXAMPLES[name]
    path = tmp_path / f"{file}.gz"
    path.write_bytes(gzip.compress(write(tmp_path / file).read_bytes()))
    assert find_format(path) == format
    assert read(path) == twin


@pytest.mark.parametrize("format", WRITABLE)
@pytest.mark.parametrize("name", ["JSON lines", "Label Studio", "CoNLL-U"])
def test_what_is_written_is_read_back_the_same(tmp_path: Path, twin: Read, format: str, name: str) -> None:
    _, file, write = EXAMPLES[name]
    sentences = list(read_sentences(write(tmp_path / file)))
    target = tmp_path / "written"
    if format == "brat":
        target.mkdir()
        for written, content in to_files(sentences, format):
            (target / written).write_bytes(content)
    else:
        target.write_bytes(b"".join(to_bytes(sentences, format)))
    if format == "labelstudio":  # the annotator accepts what is suggested
        tasks = json.loads(target.read_text())
        accepted = [{"data": task["data"], "annotations": task["predictions"]} for task in tasks]
        target.write_text(json.dumps(accepted))
    assert find_format(target) == format
    assert read(target) == twin


def test_what_annotators_rejected_or_cancelled_is_left_out_and_counted(tmp_path: Path) -> None:
    counted = {
        "Prodigy": {"rejected examples left out": 1, "ignored examples left out": 1},
        "Label Studio": {"tasks without a finished annotation left out": 1},
    }
    for name, counts in counted.items():
        report = ReadReport()
        _, file, write = EXAMPLES[name]
        assert len(list(read_sentences(write(tmp_path / file), report=report))) == 2
        assert report.counts == counts


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_tags_the_same_tokens_are_read(tmp_path: Path, name: str) -> None:
    _, file, write = EXAMPLES[name]
    found = list(read_sentences(write(tmp_path / file), tag_column=None))
    assert all(sentence.tags is None for sentence in found)
    assert next(list(sentence.tokens) for sentence in found) == TOKENS[0]
