"""Reading and writing column files."""

from __future__ import annotations

import gzip
import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.cli.streams import chunks
from maskedcrf.data.formats import conll
from maskedcrf.data.formats.conll import DocumentMark, read_conll, write_conll
from maskedcrf.data.sentence import Sentence, in_chunks
from maskedcrf.errors import DataError


@pytest.fixture
def file(tmp_path):
    def write(text, name="a.conll"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def tokens_and_tags(path, **options):
    return [(sentence.tokens, sentence.tags) for sentence in read_conll(path, **options)]


def test_sentences_come_with_file_and_line(file):
    path = file("EU NNP B-ORG\nrejects VBZ O\n\n\nPeter NNP B-PER\n\n")
    first, second = read_conll(path)
    assert first == Sentence(
        ("EU", "rejects"),
        ("B-ORG", "O"),
        str(path),
        1,
        (("EU", "rejects"), ("NNP", "VBZ"), ("B-ORG", "O")),
    )
    assert (second.where(0), first.where(1), len(first)) == (f"{path}:5", f"{path}:2", 2)
    assert Sentence(("a",)).where(0) == "<memory>:1"


def test_any_column_may_hold_the_tokens_and_the_tags(file):
    path = file("1 EU B-ORG NNP\n")
    assert tokens_and_tags(path, token_column=1, tag_column=2) == [(("EU",), ("B-ORG",))]
    assert tokens_and_tags(path, token_column=1, tag_column=None) == [(("EU",), None)]


def test_gzip_is_seen_by_its_bytes_and_standard_input_by_its_name(file, monkeypatch):
    text = b"a O\n\nb O\n"
    packed = gzip.compress(text)
    expected = [(("a",), ("O",)), (("b",), ("O",))]
    assert tokens_and_tags(file(packed, "a.gz")) == tokens_and_tags(file(packed, "b.txt")) == expected
    for given_bytes in (text, packed):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given_bytes)))
        assert tokens_and_tags("-") == expected


def test_several_files_are_read_in_order_each_with_its_own_columns(file):
    paths = [file("a O\n", "1"), file("b X\tO\n", "2")]
    assert [(each.tokens, each.file, each.line) for chunk in chunks(paths, comment=None) for each in chunk] == [
        (("a",), str(paths[0]), 1),
        (("b",), str(paths[1]), 1),
    ]


def test_document_marks_are_dropped_unless_asked_for(file):
    path = file("-DOCSTART- -X- O\n\na NN O\n\n-DOCSTART-\nb NN O\n")
    assert [(each.tokens, each.line) for each in read_conll(path)] == [(("a",), 3), (("b",), 6)]
    kept = file("-DOCSTART- -X- O\n\na NN O\n", "kept")
    assert [each.tokens for each in read_conll(kept, keep_docstart=True)] == [("-DOCSTART-",), ("a",)]
    assert [each.tokens for each in read_conll(file("-DOCSTART-x O\n", "token"))] == [("-DOCSTART-x",)]


@pytest.mark.parametrize("block", [5, 1 << 20])
def test_document_marks_come_as_they_are_where_they_are_asked_for_apart(file, monkeypatch, block):
    monkeypatch.setattr(conll, "BLOCK", block)
    path = file("-DOCSTART-  -X- O\n\na NN O\n\n-DOCSTART-\nb NN O\n\n-DOCSTART- x\n")
    found = list(read_conll(path, marks=True))
    assert [each.tokens for each in found] == [(), ("a",), (), ("b",), ()]
    assert [(each.line, each.document) for each in found] == [(1, 1), (3, 1), (5, 2), (6, 2), (8, 3)]
    marks = [(each.mark, each.alone) for each in found if isinstance(each, DocumentMark)]
    assert marks == [("-DOCSTART-  -X- O", True), ("-DOCSTART-", False), ("-DOCSTART- x", True)]
    [mark] = read_conll(file("-DOCSTART-\tO\n", "empty"), marks=True)
    assert (mark.mark, mark.separator, mark.document) == ("-DOCSTART-\tO", "\t", 1)


@pytest.mark.parametrize("block", [5, 1 << 20])
def test_comments_come_as_they_are_where_marks_are_asked_for(file, monkeypatch, block):
    monkeypatch.setattr(conll, "BLOCK", block)
    path = file("# x y\n\n# 1\n-DOCSTART-\n\n# 2\na NN O\n# NN O\n\n# 3\n")
    found = list(read_conll(path, comment="#", marks=True))
    assert [each.tokens for each in found if not isinstance(each, DocumentMark)] == [("a", "#")]
    marks = [(each.mark, each.line, each.alone, each.is_comment) for each in found if isinstance(each, DocumentMark)]
    assert marks == [
        ("# x y", 1, True, True),
        ("# 1", 3, False, True),
        ("-DOCSTART-", 4, True, False),
        ("# 2", 6, False, True),
        ("# 3", 10, True, True),
    ]
    assert [each.tokens for each in read_conll(path, comment="#")] == [("a", "#")]


def test_a_hash_is_a_token_unless_comments_are_asked_for(file):
    path = file("# id = 1\n# x\na NN DT O\n# NN DT O\n\n#\n\n")
    with pytest.raises(DataError, match="is it a comment"):
        list(read_conll(path))
    with pytest.raises(DataError, match=r":3: 2 columns .* is the first line a comment\? .*--set data.comment="):
        list(read_conll(file("# id = 1\n\na O\n", "first")))
    assert [(each.tokens, each.line) for each in read_conll(path, comment="#")] == [(("a", "#"), 3)]
    assert [each.tokens for each in read_conll(file("# # O\n", "hash"))] == [("#",)]


@pytest.mark.parametrize("blank", ["\n", "\r\n", " \t\n"])
def test_memory_does_not_grow_with_the_file(file, monkeypatch, blank):
    monkeypatch.setattr(conll, "BLOCK", 1 << 14)
    peaks = []
    for times in (2000, 8000):
        path = file(("some_word NN O O\n" * 9 + blank) * times)
        tracemalloc.start()
        assert sum(len(sentence) for sentence in read_conll(path)) == 9 * times
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_blocks_of_any_size_give_the_same_sentences(file, monkeypatch, block):
    text = "é O\r\nb O\r\n \r\n\r\n\r\nc\u2028d O\n\ne O\nf O"
    monkeypatch.setattr(conll, "BLOCK", block)
    found = [(each.tokens, each.line) for each in read_conll(file(text))]
    assert found == [(("é", "b"), 1), (("c\u2028d",), 6), (("e", "f"), 8)]


def test_chunks_hold_whole_sentences():
    sentences = [Sentence(tuple("ab")) for _ in range(5)]
    assert [len(chunk) for chunk in in_chunks(sentences, 3)] == [2, 2, 1]
    assert list(in_chunks([])) == []


CELL = st.text(st.characters(exclude_characters="\n\r\t\0 ", exclude_categories=["Cs"]), min_size=1, max_size=4)


@given(st.lists(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=4), max_size=4), st.sampled_from(" \t"))
def test_what_is_written_is_read_back_whatever_the_characters(tmp_path_factory, sentences, separator):
    if sentences and sentences[0][0][0].startswith("\ufeff"):
        return  # at the very start of a file this is a byte order mark
    given_sentences = [
        Sentence(*zip(*[(f"{token}", tag) for token, tag in each], strict=True), separator=separator)
        for each in sentences
    ]
    path = tmp_path_factory.mktemp("written") / "a.conll"
    with path.open("w", encoding="utf-8", newline="") as handle:
        assert write_conll(given_sentences, handle) == sum(map(len, sentences))
    expected = [(each.tokens, each.tags) for each in given_sentences]
    assert tokens_and_tags(path, keep_docstart=True) == expected


def test_all_columns_are_written_back_with_one_of_them_changed(file):
    text = "a\tNN\tO\nNew York\tNN\tO\n\n"
    (sentence,) = read_conll(file(text))
    out = io.StringIO()
    write_conll([sentence.with_column(-1, ["B-X", "O"])], out)
    assert out.getvalue() == "a\tNN\tB-X\nNew York\tNN\tO\n\n"


def test_an_empty_token_survives_reading_and_writing(file):
    text = "\tO\nb\tO\n\n"
    (sentence,) = read_conll(file(text))
    assert sentence.tokens == ("", "b")
    out = io.StringIO()
    write_conll([sentence], out)
    assert out.getvalue() == text


@pytest.mark.parametrize(
    "sentence",
    [
        Sentence(("a b",), ("O",)),
        Sentence(("a\nb",), ("O",), separator="\t"),
        Sentence(("a\tb",), ("O",)),
        Sentence(("a\0",), ("O",)),
        Sentence(("a",), ("",)),
        Sentence(("a", ""), None),
        Sentence(("",), None, separator="\t"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(sentence):
    out = io.StringIO()
    with pytest.raises(DataError, match="could not be read back"):
        write_conll([sentence], out)
    assert out.getvalue() == ""
