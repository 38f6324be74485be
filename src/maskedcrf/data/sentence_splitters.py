"""Sentence splitters: where a raw text is cut into sentences, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from maskedcrf.errors import MaskedCRFError, MissingExtraError

Ranges = list[tuple[int, int]]
_LINE_END = re.compile(r"\r\n|[\n\r\u2029]")
_PARAGRAPH_END = re.compile(r"(?:[ \t]*(?:\r\n|[\n\r])){2,}|\u2029")


def get_splitter(name: str) -> Callable[[str], Ranges]:
    """The splitter of this name; a blank line ends a sentence for all of them but `none`."""
    if not isinstance(name, str):
        raise MaskedCRFError(f"a sentence splitter has a name, such as line; got {name!r:.40}")
    if name in SPLITTERS:
        return SPLITTERS[name]
    maker, _, language = name.partition(":")
    if maker == "spacy" and language:
        return _spacy(language)
    raise MaskedCRFError(f"unknown sentence splitter {name!r}; known are {', '.join(SPLITTERS)}, spacy:LANGUAGE")


def _split(ends: re.Pattern[str], text: str) -> Ranges:
    """The ranges between ends, without those that hold blanks alone."""
    if len(text) and not ends.search(text):
        return [(0, len(text))]
    ranges, start = [], 0
    for found in ends.finditer(text):
        ranges.append((start, found.start()))
        start = found.end()
    return [(first, last) for first, last in [*ranges, (start, len(text))] if text[first:last].strip()]


SPLITTERS: dict[str, Callable[[str], Ranges]] = {
    "line": partial(_split, _LINE_END),
    "blank_line": partial(_split, _PARAGRAPH_END),
    "none": lambda text: [(0, len(text))],
}


def _spacy(language: str) -> Callable[[str], Ranges]:
    """spaCy's sentencizer, which goes by punctuation, inside each paragraph."""
    try:
        import spacy
    except ImportError as error:
        raise MissingExtraError(f"splitting by spacy:{language} needs spaCy: pip install 'maskedcrf[spacy]'") from error
    try:
        nlp = spacy.blank(language)
    except (ImportError, ValueError) as error:
        raise MaskedCRFError(f"spacy:{language}: spaCy has no such language; try spacy:en") from error
    nlp.add_pipe("sentencizer")

    def split(text: str) -> Ranges:
        ranges = []
        for start, end in _split(_PARAGRAPH_END, text):
            piece = text[start:end]
            for sentence in nlp(piece).sents:
                ranges.append((start + sentence.start_char, start + sentence.end_char))
        return [(first, last) for first, last in ranges if text[first:last].strip()]

    return split
