"""Texts with entities hidden: nothing else changes, and the ledger points at what was."""

from __future__ import annotations

import unicodedata
from itertools import cycle, islice, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.redaction.marks import Marks
from maskedcrf.redaction.redactor import Redaction, Redactor

PIECES = [
    *("ann", "bob lee", "new york", "oslo", "acme", "flew to", ".", "O'Neil", "[PER]", " ", "\t", "\0"),
    *("e\u0301", "Zoe\u0308", "\u0130", "\ufb01", "\U0001f469\u200d\U0001f467", "\U0001f3f4", "\u4e2d\u56fd"),
    *("\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\u202eabc\u202c"),
    *("\r\n", "\n", "\r", "\u00a0", "\u2028", "\u200b", "\ufeff"),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)
THRESHOLDS = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5, 0.9])


def check(text: str, redaction: Redaction, marks: list[str]) -> None:
    """The redacted text is the text with each hidden place replaced by its mark, and nothing else."""
    spans = [(each.start, each.end) for each in redaction.hidden]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    outside = [text[a:b] for a, b in zip([0, *(b for _, b in spans)], [*(a for a, _ in spans), len(text)], strict=True)]
    pieces = [outside[0]]
    for mark, rest in zip(marks, outside[1:], strict=True):
        pieces += [mark, rest]
    assert redaction.text.encode() == "".join(pieces).encode()


@pytest.mark.parametrize("texts", [300, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_texts_of_every_kind_are_kept_outside_what_is_hidden(trained, texts) -> None:
    redactors = {threshold: Redactor(trained, threshold=threshold, replace="blank") for threshold in (0.0, 0.1, 0.3)}

    @settings(max_examples=texts // 10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(TEXTS, min_size=10, max_size=10), st.sampled_from(sorted(redactors)))
    def holds(texts: list[str], threshold: float) -> None:
        for text, redaction in zip(texts, redactors[threshold].texts(texts), strict=True):
            check(text, redaction, [" " * (each.end - each.start) for each in redaction.hidden])
            assert len(redaction.text) == len(text)
            for each in redaction.hidden:
                assert not redaction.text[each.start : each.end].strip()
                assert not set(text[each.start : each.end]) <= set(" \t\r\n")
                assert each.probability >= threshold
                after = text[each.end : each.end + 1] or " "
                assert unicodedata.category(after)[0] != "M"  # no accent without its letter

    holds()


@settings(max_examples=60, deadline=None)
@given(TEXTS, THRESHOLDS)
def test_marks_stand_where_names_stood(trained, text, threshold) -> None:
    redaction = Redactor(trained, threshold=threshold, replace="name").text(text)
    marks = Marks("name")
    check(text, redaction, [marks.mark(each.type, text[each.start : each.end]) for each in redaction.hidden])
    own = Redactor(trained, threshold=threshold, replace=lambda kind, hidden: f"<{kind}{len(hidden)}>").text(text)
    check(text, own, [f"<{each.type}{each.end - each.start}>" for each in own.hidden])


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), THRESHOLDS)
def test_a_document_is_redacted_alike_alone_and_among_others(trained, texts, threshold) -> None:
    redactor = Redactor(trained, threshold=threshold, replace="name")
    alone = [redactor.text(text) for text in texts]
    together = list(redactor.texts(texts))
    assert [each.text for each in together] == [each.text for each in alone]
    for one, other in zip(alone, together, strict=True):
        assert [each[:3] for each in one.hidden] == [each[:3] for each in other.hidden]


def test_lines_joined_into_a_document_are_hidden_alike_and_share_their_marks(trained) -> None:
    lines = ["ann flew to new york .", "acme hired bob lee .", "Ann  left ACME for oslo ."]
    redactor = Redactor(trained, threshold=0.2, replace="name")
    for end in ("\n", "\r\n", "\n\n"):
        whole = end.join(lines)
        places = [
            (each.start + start, each.end + start)
            for line, start in zip(lines, (0, len(lines[0] + end), len(end.join(lines[:2]) + end)), strict=True)
            for each in redactor.text(line).hidden
        ]
        redaction = redactor.text(whole)
        assert [(each.start, each.end) for each in redaction.hidden] == places
        marks = Marks("name")
        check(whole, redaction, [marks.mark(each.type, whole[each.start : each.end]) for each in redaction.hidden])


def test_the_same_name_gets_the_same_mark_whatever_its_case_blanks_and_accents() -> None:
    marks = Marks("name")
    assert marks.mark("PER", "Ann Lee") == "[PER-1]"
    assert marks.mark("PER", "Zoë") == "[PER-2]"
    assert marks.mark("PER", "ann\n LEE") == "[PER-1]"
    assert marks.mark("PER", "ZOE\u0308") == "[PER-2]"
    assert marks.mark("LOC", "Ann Lee") == "[LOC-1]"
    assert marks.mark("", "x") == "[HIDDEN-1]"
    assert Marks("name").mark("PER", "Zoë") == "[PER-1]"  # another document


def test_only_the_types_that_were_asked_for_are_hidden(trained) -> None:
    text = "ann flew to oslo ."
    every = trained.redact(text, threshold=0.2)
    people = trained.redact(text, threshold=0.2, types=["PER"])
    assert {each.type for each in people.hidden} == {"PER"}
    probability = {each.start: each.probability for each in every.hidden}
    assert all(each.probability < probability[each.start] for each in people.hidden)


def test_everything_is_hidden_at_no_threshold_and_texts_may_be_empty(trained) -> None:
    assert trained.redact("a b\nc", threshold=0, replace="blank").text.split() == []
    assert trained.redact("", threshold=0.5) == Redaction("", ())
    assert trained.redact([" \n", ""], threshold=0.0) == [Redaction(" \n", ()), Redaction("", ())]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a"], {"threshold": 1.5}, "threshold is a probability from 0 to 1"),
        (["a"], {"threshold": float("nan")}, "threshold is a probability from 0 to 1"),
        (["a"], {"threshold": "0.5"}, "threshold is a probability from 0 to 1, got '0.5'"),
        (["a"], {"threshold": 0.5, "replace": "stars"}, "replace must be one of type, name, blank or a function"),
        (["a"], {"threshold": 0.5, "types": "PER"}, "types are a list of names"),
        (["a"], {}, "this model has no promised miss rate"),
        ([b"a"], {"threshold": 0.5}, "a text to be redacted is a string"),
    ],
)
def test_what_cannot_be_done_is_refused(tagger, texts, options, message) -> None:
    with pytest.raises(MaskedCRFError, match=message):
        tagger.redact(texts, **options)


def test_texts_without_end_are_redacted_as_they_come(trained) -> None:
    redactor = Redactor(trained, threshold=0.2, replace="name")
    few = list(islice(redactor.texts(cycle(["ann left", "", "bob lee hired acme"])), 7))
    assert [each.text for each in few[:3]] == [each.text for each in few[3:6]]


def test_a_function_must_give_text_and_texts_must_be_a_list(trained) -> None:
    with pytest.raises(MaskedCRFError, match="a replace function must return a string, got int"):
        trained.redact("ann flew", threshold=0, replace=lambda kind, text: 3)
    with pytest.raises(DataError, match="write \\[text\\]"):
        list(Redactor(trained, threshold=0.5).texts("ann"))
