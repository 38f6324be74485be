"""Vocabularies: what each word becomes, seen or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.encoders.vocabulary import PAD, UNKNOWN, Characters, Words, word_shape

TRAINING = [["Peter", "saw", "Paul", "saw", "1996"], ["Mary", "saw", "1997", "Peter", "😀"]]
# Seen once: Paul, Mary (shape Xx), 1996, 1997 (shape 0), and 😀, whose shape is nobody else's.


def test_a_word_is_known_as_written_or_in_lower_case_if_that_counts():
    words = Words.from_sentences([["Oslo", "rain"]])
    assert [words.knows(word) for word in ("Oslo", "oslo", "rain", "Rain", "Xx")] == [True, False, True, False, False]
    lower = Words.from_sentences([["oslo"]], lower=True)
    assert lower.knows("OSLO")
    assert not lower.knows("Rome")


def test_every_training_word_has_a_number_of_its_own() -> None:
    words = Words.from_sentences(TRAINING)
    numbers = {word: words.number(word) for sentence in TRAINING for word in sentence}
    assert len(set(numbers.values())) == 7
    assert not {PAD, UNKNOWN} & set(numbers.values())
    assert len(words) == words.trained_rows == 2 + 2 + 7  # shapes Xx and 0 are shared by two words or more


@pytest.mark.parametrize(("unseen", "like"), [("Judas", "Xx"), ("2024", "0"), ("7", "0")])
def test_an_unseen_word_is_known_by_its_shape(unseen: str, like: str) -> None:
    words = Words.from_sentences(TRAINING)
    assert words.number(unseen) == 2 + words.shapes.index(like) == words.shape_number(unseen)


@pytest.mark.parametrize("unseen", ["", "lower", "McDonald", "北", "\u200d", "e\u0301"])
def test_a_word_of_unseen_shape_is_unknown(unseen: str) -> None:
    assert Words.from_sentences(TRAINING).number(unseen) == UNKNOWN


def test_the_rare_words_come_last() -> None:
    words = Words.from_sentences(TRAINING)
    assert words.words[:2] == ("saw", "Peter")
    assert set(words.words[len(words.words) - words.rare :]) == {"Paul", "1996", "Mary", "1997", "😀"}


def test_words_of_a_vector_file_are_known_and_never_rare() -> None:
    words = Words.from_sentences(TRAINING, vector_words=["the", "paul", "mary", "judas"], lower=True)
    assert words.vector_only_words == ("the", "paul", "mary", "judas")
    assert set(words.words[len(words.words) - words.rare :]) == {"1996", "1997", "😀"}
    assert words.number("Judas") == words.number("judas") == words.trained_rows + 3
    assert words.number("Paul") < words.trained_rows, "a training word keeps its own vector"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("McDonald", "XxXx"), ("1996-08-22", "0-0-0"), ("U.S.", "X.X."), ("北京", "c"), ("", ""), ("ßtraße", "x")],
)
def test_a_shape_keeps_case_digits_and_signs(word: str, expected: str) -> None:
    assert word_shape(word) == expected


@given(st.text(max_size=80))
def test_a_word_is_spelt_between_marks_and_never_longer_than_the_cap(word: str) -> None:
    letters = Characters(("a", "b"))
    numbers = letters.numbers(word)
    assert numbers[0] == Characters.BEGIN
    assert numbers[-1] == Characters.END
    assert len(numbers) == min(len(word), 32) + 2
    assert all(0 < number < len(letters) for number in numbers)


def test_a_long_word_keeps_its_head_and_its_tail() -> None:
    letters = Characters(("a", "b"))
    assert letters.numbers("a" * 50 + "b" * 50) == [2] + [4] * 16 + [5] * 16 + [3]


def test_characters_seen_once_teach_the_unknown_one() -> None:
    assert Characters.from_sentences([["aab", "b"], ["c"]]).characters == ("a", "b")
