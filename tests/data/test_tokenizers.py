"""Tokenizers: what each cuts, and that no character is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data.tokenizers import get_tokenizer

tokenise = get_tokenizer("simple").tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It's $3.50, isn't it?", ["It", "'", "s", "$", "3", ".", "50", ",", "isn", "'", "t", "it", "?"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),  # an accent of its own
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs
        ("ok 👩\u200d🚀👍🏽!", ["ok", "👩\u200d🚀", "👍🏽", "!"]),  # a joiner, a skin tone
        ("北京 Beijing大学", ["北", "京", "Beijing", "大", "学"]),
        ("a\u00a0b\u2028c\td", ["a", "b", "c", "d"]),
        ("\ufe0f", ["\ufe0f"]),
        ("", []),
        (" \t ", []),
    ],
)
def test_text_is_cut_into_words_and_signs(text: str, tokens: list[str]) -> None:
    assert [token.text for token in tokenise(text)] == tokens


@given(st.text())
def test_tokenising_loses_nothing_but_white_space(text: str) -> None:
    tokens = tokenise(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert "".join(token.text for token in tokens) == "".join(text.split())
    assert all(before.end <= after.start for before, after in pairwise(tokens))


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_cut_as_any_text_is(text: str) -> None:
    assert tokenise(text) == tokenise(f"{text} é")[:-1]
