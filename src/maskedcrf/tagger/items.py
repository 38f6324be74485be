"""Texts on their way through a model, read a buffer at a time; needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from maskedcrf.data.jsonl import places
from maskedcrf.data.sentence import ALONE, Around, Sentence
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Bools

Text = str | Sequence[str] | Sentence
"""Raw text, a list of tokens, or a sentence that may have others around it."""


def refuse_one_text(texts: object) -> None:
    """Of a mapping the keys would be tagged, and of a sentence its parts."""
    if isinstance(texts, Sentence | Mapping) or not isinstance(texts, Iterable):
        raise DataError(
            f"texts are strings, lists of tokens or Sentences in a list: write [text]; got a {type(texts).__name__}"
        )


class Item(NamedTuple):
    """One text on its way through the model."""

    tokens: tuple[str, ...]
    source: str | None
    offsets: tuple[tuple[int, int], ...] | None
    allowed: Bools | None = None
    """(T, D), or None where every tag may stand."""
    around: Around = ALONE

    @staticmethod
    def of(text: Text) -> Item:
        """Raw text is tokenised; tokens are taken as they are."""
        if isinstance(text, Sentence):
            return Item(text.tokens, None, None, around=text.around)
        if not isinstance(text, str):
            tokens = tuple(text) if isinstance(text, Iterable) else (None,)
            if not all(isinstance(token, str) for token in tokens):
                raise DataError(f"a text is a string, or a list of tokens that are strings; got {text!r:.60}")
            return Item(tokens, None, None)
        offsets = tuple(places(text))
        return Item(tuple([text[start:end] for start, end in offsets]), text, offsets)


def take(numbered: Iterator[tuple[int, Item]], tokens: int) -> list[tuple[int, Item]]:
    """The next items, of about so many tokens together; none at the end."""
    taken: list[tuple[int, Item]] = []
    for number, item in numbered:
        taken.append((number, item))
        tokens -= len(item.tokens) + 1
        if tokens <= 0:
            break
    return taken
