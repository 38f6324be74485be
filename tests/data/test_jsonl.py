"""JSON lines and plain text: what is read, what is refused, and that no character is lost."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data.formats import read_sentences
from maskedcrf.errors import DataError

read_jsonl = partial(read_sentences, format="jsonl")
read_text = partial(read_sentences, format="text")


def write(folder: Path, *records: object, name: str = "data.jsonl") -> Path:
    path = folder / name
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def span(start: int, end: int, label: str = "LOC") -> dict[str, object]:
    return {"start": start, "end": end, "label": label}


def test_tokens_and_tags_are_read_with_their_line(tmp_path: Path) -> None:
    path = write(tmp_path, {"tokens": ["in", "Lima"], "tags": ["O", "B-LOC"]}, "", {"tokens": ["now"], "tags": ["O"]})
    first, second = read_jsonl(path)
    assert (first.tokens, first.tags) == (("in", "Lima"), ("O", "B-LOC"))
    assert first.where(1) == f"{path}:1"
    assert second.where(0) == f"{path}:3"


def test_numbers_are_looked_up_in_the_labels(tmp_path: Path) -> None:
    path = write(tmp_path, {"tokens": ["in", "Lima"], "ner_tags": [0, 1]})
    assert next(read_jsonl(path, labels=["O", "B-LOC"])).tags == ("O", "B-LOC")


def test_a_line_without_tags_is_a_sentence_to_be_tagged(tmp_path: Path) -> None:
    path = write(tmp_path, {"tokens": ["in", "Lima"]}, {"text": "in Lima"})
    assert [(s.tokens, s.tags) for s in read_jsonl(path)] == [(("in", "Lima"), None)] * 2


def test_spans_become_tags_of_the_scheme_asked_for(tmp_path: Path) -> None:
    text = "Fly to North America, Lima."
    path = write(tmp_path, {"text": text, "spans": [span(22, 26), span(7, 20)]})
    assert next(read_jsonl(path)).tags == ("O", "O", "B-LOC", "I-LOC", "O", "B-LOC", "O")
    assert next(read_jsonl(path, scheme="BIOES")).tags == ("O", "O", "B-LOC", "E-LOC", "O", "S-LOC", "O")


def test_a_span_may_hold_blanks_at_its_ends(tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "to Lima now", "spans": [span(2, 8)]})
    assert next(read_jsonl(path)).tags == ("O", "B-LOC", "O")


def test_offsets_count_code_points(tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "🚀 Lima", "spans": [span(2, 6)]})
    assert next(read_jsonl(path)).tags == ("O", "B-LOC")


def test_gzip_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"tokens": ["a"], "tags": ["O"]}'))
    assert next(read_jsonl(path)).tokens == ("a",)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{nonsense", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ([1, 2], "list where an object"),
        ({"words": ["a"]}, 'neither tokens nor text (keys: ["words"])'),
        ({"tokens": "a b"}, "tokens must be a list of strings, got str"),
        ({"tokens": ["a", None]}, "tokens[1] must be a string, got null"),
        ({"tokens": ["a"], "tags": ["O", "O"]}, "1 tokens but 2 tags"),
        ({"tokens": ["a"], "tags": "O"}, "tags must be a list of strings, got str"),
        ({"tokens": ["a"], "tags": [0]}, "the tags are numbers"),
        ({"tokens": ["a"], "tags": [""]}, "a tag is empty"),
        ({"tokens": ["a"], "tags": ["B-X\n"]}, "cannot be shown"),
        ({"to\nkens": []}, "neither tokens nor text"),
        ({"text": "ab", "spans": [span(0, 1, "X\n")]}, "span 0:1 needs a name as its label"),
        ({"tokens": ["\ud83d"], "tags": ["O"]}, "half a character"),
        ({"text": "\udc00"}, "half a character"),
        ({"text": "a", "spans": {}}, "spans must be a list of objects, got dict"),
        ({"text": "a", "spans": [{"start": 0, "end": 1}]}, "needs start, end and label"),
        ({"text": "a", "spans": [{"start": 0.0, "end": 1, "label": "X"}]}, "two whole numbers"),
        (
            {"text": "in Lima", "spans": [span(3, 6)]},
            "LOC 'Lim' cuts the token 'Lima'; the nearest boundaries are 3:7 'Lima'; correct it",
        ),
        (
            {"text": "in Lima", "spans": [span(4, 7)]},
            "LOC 'ima' cuts the token 'Lima'; the nearest boundaries are 3:7 'Lima'; correct it",
        ),
        ({"text": "in Lima", "spans": [span(2, 3)]}, "span 2:3 LOC ' ' covers no token"),
        ({"text": "in Lima", "spans": [span(9, 12)]}, "span 9:12 LOC leaves the text, which has 7 code points"),
        ({"text": "in Lima", "spans": [span(3, 99)]}, "span 3:99 LOC leaves the text"),
        ({"text": "in Lima", "spans": [span(-4, 7)]}, "span -4:7 LOC leaves the text"),
        ({"text": "", "spans": [span(0, 0)]}, "covers no token"),
        ({"text": "in Lima", "spans": [span(0, 7), span(3, 7, "PER")]}, "LOC and PER both cover 'Lima'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path: Path, record: object, message: str) -> None:
    path = write(tmp_path, {"tokens": ["a"], "tags": ["O"]}, record)
    with pytest.raises(DataError) as caught:
        list(read_jsonl(path))
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tag", [2, -1, True, "O"])
def test_a_number_beyond_the_labels_is_refused(tmp_path: Path, tag: object) -> None:
    path = write(tmp_path, {"tokens": ["a", "b"], "tags": [0, tag]})
    with pytest.raises(DataError, match="is none of the 2 labels"):
        list(read_jsonl(path, labels=["O", "B-LOC"]))


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"tokens": []}\n{"tokens": ["\xff"]}\n')
    with pytest.raises(DataError, match=r"data\.jsonl:2: not UTF-8"):
        list(read_jsonl(path))


word = st.text(st.characters(codec="utf-8"), max_size=5)


@given(st.lists(st.lists(st.tuples(word, st.sampled_from(["O", "B-X", "I-X"])))))
def test_any_tokens_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[tuple[str, str]]]
) -> None:
    pairs = [(tuple(token for token, _ in row), tuple(tag for _, tag in row)) for row in rows]
    lines = [json.dumps({"tokens": tokens, "tags": tags}, ensure_ascii=False) + "\n" for tokens, tags in pairs]
    path = tmp_path_factory.mktemp("jsonl") / "data.jsonl"
    path.write_bytes("".join(lines).encode())
    assert [(sentence.tokens, sentence.tags) for sentence in read_jsonl(path)] == pairs


def test_plain_text_keeps_every_line(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("Hello, Lima.\n\nbye\n", encoding="utf-8")
    assert [sentence.tokens for sentence in read_text(path)] == [("Hello", ",", "Lima", "."), (), ("bye",)]


def test_spans_may_stand_next_to_each_other(tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "Lima Peru now", "spans": [span(0, 4), span(5, 9)]})
    assert next(read_jsonl(path)).tags == ("B-LOC", "B-LOC", "O")
    path = write(tmp_path, {"text": "Lima,Peru", "spans": [span(0, 4), span(4, 5, "SIGN"), span(5, 9)]})
    assert next(read_jsonl(path)).tags == ("B-LOC", "B-SIGN", "B-LOC")


def test_tags_win_over_ner_tags(tmp_path: Path) -> None:
    path = write(tmp_path, {"tokens": ["Lima"], "ner_tags": [0], "tags": ["B-LOC"]})
    assert next(read_jsonl(path)).tags == ("B-LOC",)


def test_a_byte_order_mark_is_one_at_the_beginning_only(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("\ufeffLima\n\ufeffnow\n", encoding="utf-8")
    assert [sentence.tokens for sentence in read_text(path)] == [("Lima",), ("\ufeff", "now")]
