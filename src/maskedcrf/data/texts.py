"""Texts as users give them, made sentences and read a buffer at a time; needs neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import cut_simple
from maskedcrf.errors import DataError

TextInput = str | Sequence[str] | Sentence
"""Raw text, a list of tokens, or a sentence."""


def to_sentence(text: TextInput) -> Sentence:
    """Raw text is cut into tokens; tokens are taken as they are, and so is a sentence."""
    if isinstance(text, Sentence):
        return text
    if isinstance(text, str):
        offsets = tuple(cut_simple(text))
        return Sentence(tuple([text[start:end] for start, end in offsets]), text=text, offsets=offsets)
    tokens = tuple(text) if isinstance(text, Iterable) else (None,)
    if not all(isinstance(token, str) for token in tokens):
        raise DataError(f"a text is a string, or a list of tokens that are strings; got {text!r:.60}")
    return Sentence(tokens)


def require_list_of_texts(texts: object) -> None:
    """Refuse a single sentence, whose parts would be tagged one by one, and a mapping, whose keys would be."""
    if isinstance(texts, Sentence | Mapping) or not isinstance(texts, Iterable):
        raise DataError(
            f"texts are strings, lists of tokens or Sentences in a list: write [text]; got a {type(texts).__name__}"
        )


def next_buffer(numbered: Iterator[tuple[int, Sentence]], tokens: int) -> list[tuple[int, Sentence]]:
    """The next sentences, of about so many tokens together; none at the end."""
    taken: list[tuple[int, Sentence]] = []
    for number, sentence in numbered:
        taken.append((number, sentence))
        tokens -= len(sentence.tokens) + 1
        if tokens <= 0:
            break
    return taken
