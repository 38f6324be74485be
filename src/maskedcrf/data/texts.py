"""Texts as users give them, made sentences and read a buffer at a time; needs neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from typing import NamedTuple, TypeVar

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import Tokenizer
from maskedcrf.errors import DataError

TextInput = str | Sequence[str] | Sentence
"""Raw text, a list of tokens, or a sentence."""
MAX_TOKENS = 100_000
"""In one text, about as many as a novel has: the search for the best path keeps something for each of them."""
MAX_CHARACTERS = 1 << 21
"""In one raw text, before it is cut into tokens."""


def to_sentence(text: TextInput, tokenizer: Tokenizer) -> Sentence:
    """Raw text is cut into sentences and tokens by the model's tokenizer; tokens, or a sentence, are taken as given."""
    if isinstance(text, Sentence):
        _require_at_most(len(text.tokens))
        return text
    if isinstance(text, str):
        if len(text) > MAX_CHARACTERS:
            raise DataError(
                f"a text of more than {MAX_CHARACTERS:,} characters; cut it into several, at its paragraphs say"
            )
        sentences = tokenizer.by_sentence(text)
        offsets = tuple(chain.from_iterable(sentences))
        _require_at_most(len(offsets))
        breaks = tuple(accumulate(map(len, sentences[:-1])))
        return Sentence(tuple([text[start:end] for start, end in offsets]), text=text, offsets=offsets, breaks=breaks)
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


class Place(NamedTuple):
    """A sentence's place in the stream: the number of its text, and its number in the text."""

    text: int
    part: int


Numbered = tuple[Place, Sentence]
Key = TypeVar("Key")


def number_parts(texts: Iterable[Sentence], context: int) -> Iterator[Numbered]:
    """The sentences of texts, each with the words around it in its text."""
    for number, text in enumerate(texts):
        for part, sentence in enumerate(text.parts(context)):
            yield Place(number, part), sentence


def next_buffer(placed: Iterator[tuple[Key, Sentence]], tokens: int) -> list[tuple[Key, Sentence]]:
    """The next sentences, of about so many tokens together, each with its place; none at the end."""
    taken: list[tuple[Key, Sentence]] = []
    for place, sentence in placed:
        taken.append((place, sentence))
        tokens -= len(sentence.tokens) + 1
        if tokens <= 0:
            break
    return taken
