"""Tokens as the text they came from: joined as people write, for files that give tokens alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex

_NO_BLANK_BEFORE = frozenset(".,;:!?%)]}…»”’''，。！？；：、）】》」』")
_NO_BLANK_AFTER = frozenset("([{«“‘``$£€#（【《「『")
_OPENING = frozenset({"(", "[", "{", "-LRB-", "``", "«", "“", "$", "£", "€", "#"})
_CLOSING_WORDS = frozenset({"n't", "''", "...", "n’t"})
_CLITIC = regex.compile(r"['’]\p{L}{1,2}")
_QUOTES = ('"', "'")


def join_tokens(tokens: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """A text with these tokens, and where each stands: no blank before a comma, or between Chinese characters."""
    text = ""
    offsets: list[tuple[int, int]] = []
    opened: set[str] = set()
    glue = True
    for number, token in enumerate(tokens):
        before = tokens[number - 1] if number else ""
        closes = token in _QUOTES and token in opened
        if not (glue or closes or _belongs_to(token, before)):
            text += " "
        offsets.append((len(text), len(text) + len(token)))
        text += token
        opens = token in _QUOTES and not closes
        if token in _QUOTES:
            opened ^= {token}
        glue = opens or token in _OPENING or (len(token) == 1 and token in _NO_BLANK_AFTER)
    return text, offsets


def _belongs_to(token: str, before: str) -> bool:
    """Whether a token is written close to the one before it."""
    if token in _CLOSING_WORDS or (len(token) == 1 and token in _NO_BLANK_BEFORE):
        return True
    if _CLITIC.fullmatch(token) and before[-1:].isalpha():
        return True
    return _is_wide(token[:1]) and _is_wide(before[-1:])


def _is_wide(character: str) -> bool:
    return bool(character) and unicodedata.east_asian_width(character) in "WF"
