"""Labelled files as a tagger reads them: by the settings it was trained with, one sentence after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from maskedcrf.data.annotation import ReadReport
from maskedcrf.data.formats import find_format, read_sentences
from maskedcrf.data.formats.conll import DocumentMark, read_conll
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import Tokenizer
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme


class TextTagger(Protocol):
    """What reading needs to know of a tagger, of a model folder or an ONNX file."""

    @property
    def first_character(self) -> bool:
        """Whether tokens of columns are cut to their first character."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts raw text into words."""


def stream_gold(
    tagger: TextTagger, files: Iterable[str], *, scheme: Scheme, report: ReadReport | None = None, **reading: Any
) -> Iterator[Sentence]:
    """The sentences of files of any format, spans of text written in `scheme`; document marks of columns as well.

    `reading` goes over the settings of the training, which are of columns, comments and spans. Sentences without
    tokens are left out, comments too.
    """
    trained: dict[str, Any] = getattr(getattr(tagger, "record", None), "settings", {}).get("data", {})
    options = {**trained, **{name: value for name, value in reading.items() if value is not None}}
    cut = tagger.tokenizer
    options |= {"first_character": tagger.first_character, "tokenizer": cut, "sentences": cut.sentences}
    options |= {"scheme": scheme, "report": report}
    for name in files:
        found = reading.get("format") or find_format(name)
        if found == "conll":
            columns = {key: options[key] for key in ("token_column", "tag_column", "comment") if key in options}
            sentences = read_conll(name, marks=True, **columns)
            if tagger.first_character:
                sentences = (sentence.with_first_characters() for sentence in sentences)
        else:
            sentences = read_sentences(name, **{**options, "format": found})
        yield from (sentence for sentence in sentences if sentence.tokens or is_document_mark(sentence))


def is_document_mark(sentence: Sentence) -> bool:
    """Whether this is a -DOCSTART- line, which conlleval counts as a token."""
    return isinstance(sentence, DocumentMark) and not sentence.is_comment


def require_gold(sentence: Sentence) -> tuple[str, ...]:
    """The tags of a sentence, or an error that says where they are missing."""
    sentence.require_every_tag("scoring")
    if sentence.tags is None:
        raise DataError(f"{sentence.where(0)}: no gold tags here; give labelled data, or name their column")
    if len(sentence.tags) != len(sentence.tokens):
        raise DataError(f"{sentence.where(0)}: {len(sentence.tokens)} tokens but {len(sentence.tags)} tags")
    return sentence.tags
