"""What else there is to learn from: a newspaper's words, parts of speech, reviews, and a lexicon of words."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import extra, lexicon, run
from experiments.candidates import CHINESE_TEXTS, ENGLISH_TEXTS
from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.vectors import Vectors, read_vectors
from maskedcrf.errors import DataError

PAPER = """迈向/v  新/a  世纪/n  １９９８年/t
江/nr  泽民/nr  和/c  李/nr  鹏/nr  在/p  北京/ns  。/w

这/r  一/m  段/q  早已/d  在/p  测试/vn  之中/f  了/u  ，/w  不能/v  学/v
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, text in {"people/199801.txt": PAPER, "reviews/a.txt": "很 好\n", "reviews/b.txt": "不好\n\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    seen = [Sentence(tuple("他说这一段早已在测试之中了,不能学"))]
    columns = (("He", "left"), ("PRP", "VBD"), ("I-NP", "I-VP"))
    english = [Sentence(("He", "left"), columns[2], columns=columns)]
    corpora = {name: SimpleNamespace(train=english, dev=english[:1], test=[]) for name in ENGLISH_TEXTS}
    corpora |= {name: SimpleNamespace(train=[], dev=[], test=seen) for name in CHINESE_TEXTS}
    monkeypatch.setattr(run, "corpus_of", lambda name, folder: corpora[name])
    return str(tmp_path)


def test_the_newspapers_words_are_tagged_character_by_character_without_what_test_holds(folder: str) -> None:
    corpus = extra.people(folder)
    sentences = {"".join(each.tokens): each.tags for each in (*corpus.train, *corpus.dev)}
    assert sentences.keys() == {"迈向新世纪1998年", "江泽民和李鹏在北京。"}
    assert sentences["迈向新世纪1998年"] == ("B-v", "I-v", "B-a", "B-n", "I-n", "B-t", *["I-t"] * 4)
    name = ("B-nr", "I-nr", "I-nr", "B-c", "B-nr", "I-nr", "B-p", "B-ns", "I-ns", "B-w")
    assert sentences["江泽民和李鹏在北京。"] == name, "surname and given name are one word"


def test_long_paragraphs_are_cut_behind_a_full_stop_and_never_inside_a_word() -> None:
    words = [("四个字符", "n"), ("。", "w")] * 100
    parts = list(extra.cut(words))
    assert [word for part in parts for word in part] == words
    assert {part[-1] for part in parts} == {("。", "w")}
    assert max(sum(len(word) for word, _ in part) for part in parts) <= extra.LONGEST
    [*_, last] = extra.cut([("很" * 7, "n")] * 50)
    assert 0 < sum(len(word) for word, _ in last) < extra.LONGEST + 7


def test_a_paragraph_is_known_by_any_run_of_twelve_whatever_their_width() -> None:
    assert set(extra.runs(["１２３４５６ ７８９０ＡＢ"])) == {"1234567890AB"}
    assert not set(extra.runs(["短"]))


def test_parts_of_speech_stand_in_the_second_column(folder: str) -> None:
    corpus = extra.corpus_of("pos", folder)
    assert [each.tags for each in corpus.train] == [("B-PRP", "B-VBD")] * 2
    assert len(corpus.dev) == 2


def test_chunks_of_the_third_column_are_read_as_iob1(folder: str) -> None:
    corpus = extra.corpus_of("chunks", folder)
    assert [each.tags for each in (*corpus.train, *corpus.dev)] == [("B-NP", "B-VP")] * 2


def test_reviews_are_read_without_blanks_and_a_missing_file_is_named(folder: str, tmp_path: Path) -> None:
    assert [each.tokens for each in extra.reviews(folder).train] == [("很", "好"), ("不", "好")]
    with pytest.raises(DataError, match=r"nowhere/people: no 199801\.txt here; .*experiments\.extra"):
        extra.people(str(tmp_path / "nowhere"))
    assert extra.NAMES.keys() == extra.EXTRA.keys()


def test_english_sentences_are_read_but_for_those_that_test_holds(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held_out = [Sentence(("Prices", "rose", "sharply", "again", ",", "traders", "said"))]
    corpora = dict.fromkeys(ENGLISH_TEXTS, SimpleNamespace(train=[], dev=[], test=held_out))
    monkeypatch.setattr(run, "corpus_of", lambda name, folder: corpora[name])
    path = Path(folder, "sentences", "a.json")
    path.parent.mkdir()
    path.write_text(
        json.dumps(["He left.", " ", "Yes, prices ROSE sharply again: traders ran.", "Prices rose sharply."])
    )
    assert [each.tokens for each in extra.sentences(folder).train] == [("He", "left."), ("Prices", "rose", "sharply.")]
    for wrong, said in {"[1]": "not a list of strings", "{": "not JSON"}.items():
        path.write_text(wrong)
        with pytest.raises(DataError, match=rf"a\.json: {said}"):
            extra.sentences(folder)


def test_a_lexicon_has_all_words_of_both_with_what_is_known_of_each() -> None:
    vectors = Vectors(["北京", "跑", "x" * 20], np.array([[2, 0], [0, 2], [1, 1]], dtype=np.float16))
    dictionary = lexicon.entries(["北京 99 ns", "张三 9 nr", "跑 0 zz"], "dict.txt")
    words, table = lexicon.together(vectors, dictionary)
    assert words == ["北京", "跑", "张三"]
    places = {kind: vectors.width + lexicon.COLUMNS[kind] for kind in ("ns", "nr")}
    assert table[0, places["ns"]] == table[2, places["nr"]] == lexicon.MARK
    assert np.count_nonzero(table[:, 2:-2]) == 2, "no column for a part of speech nobody knows"
    assert table[:, -2].tolist() == [2.0, 0.0, 1.0]
    assert table[:, -1].tolist() == [lexicon.KNOWN, lexicon.KNOWN, 0.0]
    assert not table[2, :2].any()
    np.testing.assert_allclose(table[:2, :2], 2 * np.eye(2) / vectors.array.astype(float).std(), rtol=1e-3)


def test_the_command_writes_a_file_that_an_encoder_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v.txt").write_text("北京 1.0 2.0\n", encoding="utf-8")
    (tmp_path / "dict.txt").write_text("张三 9 nr\n", encoding="utf-8")
    given = ["--vectors", str(tmp_path / "v.txt"), "--dictionary", str(tmp_path / "dict.txt")]
    assert lexicon.main([*given, "--encoders", str(tmp_path)]) == 0
    read = read_vectors(tmp_path / lexicon.NAME)
    assert read.words == ["北京", "张三"]
    assert lexicon.main([*given, "--encoders", str(tmp_path)]) == 0
    assert "is there already" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"d:2: expected word, frequency and part of speech, got 'b x'"):
        lexicon.entries(["a 1 n", "b x"], "d")
