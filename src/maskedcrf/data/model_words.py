"""Raw text cut into words as a model's own tokenizer cuts it, so that a word meets the pieces it was trained on."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from maskedcrf.errors import DataError

_NOT_BLANK = re.compile(r"\S+")
Ranges = list[tuple[int, int]]


def model_words(tokenizer: Any) -> Callable[[str], Ranges]:
    """A function from a text to where its words begin and end, for a tokenizer of `tokenizers`.

    Where the tokenizer parts words at blanks alone, punctuation at a word's edges stands apart.
    """
    glues = _parts_at_blanks_alone(tokenizer)

    def cut(text: str) -> Ranges:
        with tokenizer_failures():
            encoded = tokenizer.encode(text, add_special_tokens=False)
        words: Ranges = []
        previous: int | None = None
        for word, (start, end) in zip(encoded.word_ids, encoded.offsets, strict=True):
            start, end = _without_blanks(text, start, end)
            if start < end:
                same = words and word is not None and word == previous
                if same:
                    words[-1] = words[-1][0], max(end, words[-1][1])
                elif not words or start >= words[-1][1]:
                    words.append((start, end))
                previous = word
        if not glues:
            return words
        solid = (found.span() for start, end in words for found in _NOT_BLANK.finditer(text, start, end))
        return [part for word in solid for part in _split_edges(text, *word)]

    return cut


@contextmanager
def tokenizer_failures() -> Iterator[None]:
    """Say in one line what a tokenizer of `tokenizers` fails of."""
    try:
        yield
    except BaseException as error:
        # The library raises Exception itself, and where it panics something that is not even that.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise DataError(f"tokenizer.json: the tokenizer fails on this text ({reason})") from error
        raise


def _parts_at_blanks_alone(tokenizer: Any) -> bool:
    """Whether punctuation stays in the word it stands at: sentence pieces."""
    cutter = json.loads(tokenizer.to_str()).get("pre_tokenizer") or {}
    steps = {step.get("type") for step in (cutter, *cutter.get("pretokenizers", ()))}
    return not steps & {"BertPreTokenizer", "ByteLevel", "Punctuation", "Whitespace", "UnicodeScripts", "Split"}


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _split_edges(text: str, start: int, end: int) -> Ranges:
    """The word with each mark of punctuation before and after it apart."""
    first, last = start, end
    while first < last and unicodedata.category(text[first])[0] in "PS":
        first += 1
    while last > first and unicodedata.category(text[last - 1])[0] in "PS":
        last -= 1
    marks = [(place, place + 1) for place in range(start, first)]
    inner = [(first, last)] if first < last else []
    return [*marks, *inner, *((place, place + 1) for place in range(last, end))]
