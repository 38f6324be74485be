"""Texts as users give them, made sentences and read a buffer at a time; needs neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError

TextInput = str | Sequence[str] | Sentence
"""Raw text, a list of tokens, or a sentence."""
MAX_TOKENS = 100_000
"""In one text, about as many as a novel has: the search for the best path keeps something for each of them."""
MAX_CHARACTERS = 1 << 21
"""In one raw text, before it is cut into tokens."""


def to_sentence(text: TextInput, tokenizer: Callable[[str], Sequence[tuple[int, int]]]) -> Sentence:
    """Raw text is cut into tokens by the model's tokenizer; tokens are taken as they are, and so is a sentence."""
    if isinstance(text, Sentence):
        _require_at_most(len(text.tokens))
        return text
    if isinstance(text, str):
        if len(text) > MAX_CHARACTERS:
            raise DataError(
                f"a text of more than {MAX_CHARACTERS:,} characters; cut it into several, at its paragraphs say"
            )
        offsets = tuple(tokenizer(text))
        _require_at_most(len(offsets))
        return Sentence(tuple([text[start:end] for start, end in offsets]), text=text, offsets=offsets)
    tokens = tuple(islice(text, MAX_TOKENS + 1)) if isinstance(text, Iterable) else (None,)
    _require_at_most(len(tokens))
    if not all(isinstance(token, str) for token in tokens):
        raise DataError(f"a text is a string, or a list of tokens that are strings; got {text!r:.60}")
    return Sentence(tokens)


def _require_at_most(tokens: int) -> None:
    if tokens > MAX_TOKENS:
        raise DataError(f"a text of more than {MAX_TOKENS:,} tokens; cut it into several, at its paragraphs say")


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
