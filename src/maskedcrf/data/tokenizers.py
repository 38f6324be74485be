"""Tokenizers: how a text is cut into words, by name, so that a model can say which one it was trained with.

>>> [text for text, *_ in get_tokenizer("unicode").tokens("Mr O'Neil left.")]
['Mr', "O'Neil", 'left', '.']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import regex

from maskedcrf.data.learned_tokenizer import Habits, cutter
from maskedcrf.data.model_words import model_words
from maskedcrf.data.sentence_splitters import SPLITTERS, get_splitter
from maskedcrf.errors import MaskedCRFError, MissingExtraError

MODEL = "model"
"""Names the tokenizer that cuts words as a transformer's own does."""
JOINER = "\u200d"
Ranges = list[tuple[int, int]]
_ASCII_TOKEN = re.compile(r"\w+|[^\w\s]")
_UNICODE_WORD = regex.compile(r"(?V1w)\S+?\b")
"""Between two word boundaries of Unicode's annex 29, from the first character that is no blank."""
_BLANKS_APART = re.compile(r"\S+")
_GRAPHEME = regex.compile(r"\X")


class Token(NamedTuple):
    """A token and where it stands in its text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A way of cutting text into words, and the name under which a model keeps it."""

    name: str
    cut: Callable[[str], Ranges] = field(compare=False)
    tables: Mapping[str, Any] = field(default_factory=dict)
    """What a learnt tokenizer knows beside its name."""
    sentences: str = "line"
    """What cuts a text into sentences before: `line`, `blank_line`, `spacy:LANGUAGE`, or `none`."""
    split: Callable[[str], Ranges] = field(default=SPLITTERS["line"], compare=False)
    """The same as a function."""

    def to_json(self) -> dict[str, Any]:
        """Name, tables and splitter, as a model folder keeps them."""
        return {"name": self.name, **self.tables, "sentences": self.sentences}

    def with_sentences(self, name: str) -> Tokenizer:
        """The same words, and sentences by the splitter of this name."""
        return replace(self, sentences=name, split=get_splitter(name))

    def by_sentence(self, text: str) -> list[Ranges]:
        """Where the tokens of each sentence begin and end in the text; sentences without tokens are left out."""
        ranges = self.split(text)
        if ranges == [(0, len(text))]:
            return [self.cut(text)]
        found = [[(start + a, start + b) for a, b in self.cut(text[start:end])] for start, end in ranges]
        return [tokens for tokens in found if tokens]

    def __call__(self, text: str) -> Ranges:
        """Where tokens begin and end, in order; blanks belong to none."""
        return self.cut(text)

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text, with their places in it."""
        return [Token(text[start:end], start, end) for start, end in self.cut(text)]


def get_tokenizer(given: str | Mapping[str, Any], *, trusted: bool = True, pieces: Any = None) -> Tokenizer:
    """The tokenizer of this name: one of `TOKENIZERS`, `spacy:LANGUAGE`, or `module:function` of your own.

    The one named `model` cuts as the tokenizer of a transformer's pieces does, which is given as `pieces`.

    A function of your own takes a text and returns (start, end) for each token, in order. Naming it imports its module,
    so that a model folder may not: `trusted=False` gives a tokenizer that refuses to cut until you name it yourself. A
    mapping is what `Tokenizer.to_json` gives.
    """
    if not isinstance(given, str):
        name, sentences = given.get("name"), given.get("sentences", "line")
        tables = {key: value for key, value in given.items() if key not in ("name", "sentences")}
        found = _tokenizer_of(name, tables, trusted=trusted, pieces=pieces)
        return found if sentences == "line" else found.with_sentences(sentences)
    return _tokenizer_of(given, {}, trusted=trusted, pieces=pieces)


def _tokenizer_of(name: Any, tables: Mapping[str, Any], *, trusted: bool, pieces: Any) -> Tokenizer:
    if not isinstance(name, str):
        raise MaskedCRFError(f"a tokenizer has a name, such as unicode; got {name!r:.40}")
    if name == MODEL:
        return Tokenizer(name, model_words(pieces) if pieces is not None else _without_pieces)
    if name == "learned":
        return Tokenizer(name, cutter(_habits(tables)), tables)
    if is_own(name) and not trusted:
        return Tokenizer(name, _refusing(name))
    if name in TOKENIZERS:
        return Tokenizer(name, TOKENIZERS[name])
    maker, colon, rest = name.partition(":")
    if maker == "spacy" and rest:
        return Tokenizer(name, _spacy(rest))
    if colon and maker and rest.isidentifier():
        return Tokenizer(name, _import_function(maker, rest))
    known = ", ".join(TOKENIZERS)
    raise MaskedCRFError(f"unknown tokenizer {name!r}; known are {known}, spacy:LANGUAGE and module:function")


class HasTokenizer(Protocol):
    """A tagger, of a model folder or an ONNX file."""

    tokenizer: Tokenizer


def change_tokenizer(tagger: HasTokenizer, tokenizer: str | None, sentences: str | None) -> None:
    """Cut raw text in another way than the model's own; None leaves it."""
    chosen = get_tokenizer(tokenizer) if tokenizer else tagger.tokenizer
    tagger.tokenizer = chosen.with_sentences(sentences or tagger.tokenizer.sentences)


def _without_pieces(text: str) -> Ranges:
    raise MaskedCRFError("the tokenizer model cuts as a transformer's own does, and this model has none: name another")


def _habits(tables: Mapping[str, Any]) -> Habits:
    """The habits of a learnt tokenizer, from JSON that anybody may have written."""
    texts = {key: tables.get(key, ()) for key in ("abbreviations", "clitics")}
    joiners, flags = tables.get("joiners", ""), [tables.get(key, False) for key in ("initials", "runs")]
    are_lists = all(
        isinstance(value, list | tuple) and all(isinstance(each, str) and 0 < len(each) < 100 for each in value)
        for value in texts.values()
    )
    if (
        not are_lists
        or not isinstance(joiners, str)
        or len(joiners) > 100
        or not all(isinstance(flag, bool) for flag in flags)
    ):
        raise MaskedCRFError("a learnt tokenizer holds joiners, abbreviations, clitics, initials, runs; save it again")
    return Habits(joiners, tuple(texts["abbreviations"]), tuple(texts["clitics"]), *flags)


def _refusing(name: str) -> Callable[[str], Ranges]:
    def cut(text: str) -> Ranges:
        raise MaskedCRFError(
            f"this model cuts text with {name}, which is code; if you trust it, name it yourself: "
            f"tagger.tokenizer = get_tokenizer({name!r}); or give tokens"
        )

    return cut


def is_own(name: str) -> bool:
    """Whether a tokenizer is a function of the user's own, which runs code that no model folder may choose."""
    return name not in TOKENIZERS and ":" in name and not name.startswith("spacy:")


def cut_simple(text: str) -> Ranges:
    """Words, and every other visible character alone.

    Accents, variation selectors and joiners stay with what they follow; Chinese and kana are cut by the character.
    """
    if text.isascii():  # the same, much faster
        return [found.span() for found in _ASCII_TOKEN.finditer(text)]
    starts: list[int] = []
    ends: list[int] = []
    before, previous = "space", ""
    for position, character in enumerate(text):
        kind = _character_class(character)
        if kind != "space":
            glued = kind == "mark" or previous == JOINER or (kind == "word" and before == "word")
            if glued and before != "space":
                ends[-1] = position + 1
            else:
                starts.append(position)
                ends.append(position + 1)
        if kind != "mark" or before == "space":
            before = kind
        previous = character
    return list(zip(starts, ends, strict=True))


@lru_cache(maxsize=1 << 16)
def _character_class(character: str) -> str:
    if character.isspace():
        return "space"
    if unicodedata.category(character)[0] == "M" or unicodedata.category(character) == "Cf":
        return "mark"
    if "\U0001f3fb" <= character <= "\U0001f3ff":  # skin tones
        return "mark"
    alone = unicodedata.name(character, "").startswith(("CJK ", "HIRAGANA ", "KATAKANA "))
    return "word" if (character.isalnum() or character == "_") and not alone else "other"


def parts_word(text: str, place: int) -> bool:
    """Whether a cut before this character would part a word, or a sign from its accents and joiners."""
    before, after = text[place - 1], _character_class(text[place])
    return after == "mark" or before == JOINER or (after == "word" and _character_class(before) in ("word", "mark"))


def cut_unicode(text: str) -> Ranges:
    """Words of Unicode's annex 29; punctuation and symbols alone."""
    return [found.span() for found in _UNICODE_WORD.finditer(text)]


def cut_whitespace(text: str) -> Ranges:
    """Whatever blanks part."""
    return [found.span() for found in _BLANKS_APART.finditer(text)]


def cut_characters(text: str) -> Ranges:
    """Every visible character, with its accents and joiners, as Unicode's grapheme clusters have it."""
    return [found.span() for found in _GRAPHEME.finditer(text) if not found.group().isspace()]


TOKENIZERS: dict[str, Callable[[str], Ranges]] = {
    "unicode": cut_unicode,
    "simple": cut_simple,
    "whitespace": cut_whitespace,
    "characters": cut_characters,
}


def _spacy(language: str) -> Callable[[str], Ranges]:
    try:
        import spacy
    except ImportError as error:
        raise MissingExtraError(
            f"the tokenizer spacy:{language} needs spaCy: pip install 'maskedcrf[spacy]'"
        ) from error
    try:
        nlp = spacy.blank(language)
    except (ImportError, ValueError) as error:
        reason = str(error).split(". ")[0].replace("\n", " ")[:80]
        raise MaskedCRFError(f"spacy:{language}: spaCy has no such language ({reason}); try spacy:en") from error

    def cut(text: str) -> Ranges:
        return [(token.idx, token.idx + len(token)) for token in nlp.tokenizer(text) if not token.is_space]

    return cut


def _import_function(module: str, function: str) -> Callable[[str], Ranges]:
    try:
        own = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise MaskedCRFError(f"tokenizer {module}:{function}: {error}; give the module's import path") from error

    def cut(text: str) -> Ranges:
        ranges = [(int(start), int(end)) for start, end in own(text)]
        edges = [0, *(edge for each in ranges for edge in each), len(text)]
        empty = any(start == end for start, end in ranges)
        if empty or any(before > after for before, after in pairwise(edges)):
            raise MaskedCRFError(f"tokenizer {module}:{function} must give (start, end) pairs in order, none empty")
        return ranges

    return cut
