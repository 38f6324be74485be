"""Documents and the words around a sentence in its own."""

from __future__ import annotations

import gzip
from itertools import groupby
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data.formats import conll
from maskedcrf.data.formats.conll import read_conll
from maskedcrf.data.sentence import NO_CONTEXT, Context, Sentence, with_context

MARKED = "-DOCSTART- O\n\na O\nb O\n\nc O\n\n-DOCSTART- O\n\n-DOCSTART-\nd O\n\ne O\n"


def contexts(sentences, words):
    return [sentence.context for sentence in with_context(sentences, words)]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("packed", [False, True])
def test_a_sentence_knows_how_many_document_marks_stand_above_it(tmp_path, monkeypatch, block, packed):
    path = tmp_path / "a.conll"
    path.write_bytes(gzip.compress(MARKED.encode()) if packed else MARKED.encode())
    monkeypatch.setattr(conll, "BLOCK", block)
    found = [(sentence.tokens, sentence.document) for sentence in read_conll(path)]
    assert found == [(("a", "b"), 1), (("c",), 1), (("d",), 3), (("e",), 3)]


def test_a_mark_that_is_kept_belongs_to_the_document_it_begins(tmp_path):
    (tmp_path / "a.conll").write_text("x O\n\n-DOCSTART- O\n\na O\n")
    found = [(sentence.tokens, sentence.document) for sentence in read_conll(tmp_path / "a.conll", keep_docstart=True)]
    assert found == [(("x",), 0), (("-DOCSTART-",), 1), (("a",), 1)]


def test_a_sentence_stays_in_its_document_when_its_cells_are_written_anew():
    sentence = Sentence(("a1",), ("O",), "f", 3, (("a1",), ("O",)), "\t", 7)
    assert sentence.with_column(-1, ["B-X"]) == Sentence(("a1",), ("O",), "f", 3, (("a1",), ("B-X",)), "\t", document=7)
    assert sentence.with_first_characters().document == 7


def test_words_around_come_from_the_same_document_and_no_further_than_asked(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\na O\nb O\n\nc O\n\nd O\ne O\nf O\n\n-DOCSTART- O\n\ng O\n\nh O\n")
    (tmp_path / "b.conll").write_text("i O\n")
    sentences = [*read_conll(path), *read_conll(tmp_path / "b.conll")]
    assert contexts(sentences, 2) == [
        Context((), ("c", "d")),
        Context(("a", "b"), ("d", "e")),
        Context(("b", "c"), ()),
        Context((), ("h",)),
        Context(("g",), ()),
        NO_CONTEXT,
    ]
    assert contexts(sentences, 100)[1] == Context(("a", "b"), ("d", "e", "f"))
    assert contexts(sentences, 1)[1] == Context(("b",), ("d",))


WORDS = st.lists(st.sampled_from("abcdef"), max_size=5).map(tuple)
SENTENCES = st.lists(st.builds(Sentence, WORDS, file=st.sampled_from("fg"), document=st.integers(0, 1)), max_size=12)


@given(SENTENCES, st.integers(1, 9))
def test_words_around_are_those_of_the_documents_text(sentences, words):
    expected = []
    for _, document in groupby(sentences, key=lambda sentence: (sentence.file, sentence.document)):
        own = list(document)
        for number, sentence in enumerate(own):
            before = [word for other in own[:number] for word in other.tokens]
            after = [word for other in own[number + 1 :] for word in other.tokens]
            context = Context(tuple(before[max(0, len(before) - words) :]), tuple(after[:words]))
            expected.append(Sentence(sentence.tokens, file=sentence.file, document=sentence.document, context=context))
    assert list(with_context(iter(sentences), words)) == expected


def test_without_words_to_show_everything_is_passed_on_as_it_is():
    given_texts = [Sentence(("a",)), "b", ["c"], Sentence(("d",))]
    found = list(with_context(given_texts, 0))
    assert all(one is other for one, other in zip(found, given_texts, strict=True))


def test_what_is_no_sentence_stands_alone_and_between_documents():
    first, last = Sentence(("a",)), Sentence(("d",), one_line=True)
    found = list(with_context([first, "b", ["c"], last, Sentence(("e",))], 5))
    assert found[1:3] == ["b", ["c"]]
    assert [found[n].context for n in (0, 3, 4)] == [NO_CONTEXT, Context((), ("e",)), Context(("d",), ())]
    assert found[3].one_line


def test_a_stream_is_read_ahead_only_as_far_as_the_words_reach():
    read = 0

    def stream():
        nonlocal read
        while True:
            read += 1
            yield Sentence((f"{read}",))

    for number, sentence in zip(range(1, 200), with_context(stream(), 3), strict=False):
        assert sentence.context.after == tuple(str(number + n) for n in (1, 2, 3))
        assert read == number + 3


def test_what_was_read_and_given_is_let_go():
    class Watched(Sentence):
        """One that can be watched from outside."""

    seen: list[ref[Watched]] = []

    def stream():
        for number in range(3000):
            sentence = Watched(("a",))
            seen.append(ref(sentence))
            yield sentence if number % 500 else "a text in between"

    for _ in with_context(stream(), 4):
        assert sum(one() is not None for one in seen[-1000:]) < 300
    assert len(seen) == 3000
