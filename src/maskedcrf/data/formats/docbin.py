"""spaCy's DocBin (.spacy): documents with tokens, entities and perhaps sentences."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any

from maskedcrf.data.annotation import AnnotatedText, Span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.whole import LARGEST, read_bytes
from maskedcrf.data.formats.writing import TaggedText, spaces_after
from maskedcrf.errors import DataError, MissingExtraError
from maskedcrf.files import file_name

HINT = "write it again with spacy.tokens.DocBin"


def read_docbin(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of each document, or the document where nothing cuts it; blanks are no tokens."""
    spacy = _spacy()
    name = file_name(path)
    packed = read_bytes(path)
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(packed, LARGEST)
    except zlib.error as error:
        raise DataError(f"{name}: no DocBin ({error}); {HINT}") from error
    if unpacker.unconsumed_tail or not unpacker.eof:
        reason = f"more than {LARGEST >> 20} MiB" if unpacker.unconsumed_tail else "it ends too early"
        raise DataError(f"{name}: no DocBin that can be read ({reason}); {HINT}")
    try:
        docs = list(spacy.tokens.DocBin().from_bytes(zlib.compress(content, 0)).get_docs(spacy.blank("xx").vocab))
    except Exception as error:  # whatever damaged bytes make the library raise, the user hears one line
        reason = f"{type(error).__name__} {error!s:.60}".replace("\n", " ")
        raise DataError(f"{name}: a damaged DocBin ({reason}); {HINT}") from error
    for number, doc in enumerate(docs, 1):
        pieces = list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]
        entities = {entity.start: entity for entity in doc.ents}
        for piece in pieces:
            yield _text(piece, doc, entities, name, number, options)


def _text(
    piece: Any, doc: Any, entities: dict[int, Any], file: str, number: int, options: ReadOptions
) -> AnnotatedText:
    """A sentence with the entities that begin in it; one that goes on in the next leaves the text, and is reported."""
    start = piece.start_char
    tokens = tuple((token.idx - start, token.idx - start + len(token)) for token in piece if not token.is_space)
    spans: tuple[Span, ...] | None = None
    if options.tag_column is not None and doc.has_annotation("ENT_IOB"):
        if not all(token.ent_iob for token in piece):
            raise DataError(
                f"{file}: document {number}: some tokens have no entity annotation; set doc.ents with default='outside'"
            )
        own = [entities[token.i] for token in piece if token.i in entities]
        spans = tuple(Span(ent.start_char - start, ent.end_char - start, ent.label_) for ent in own)
        if not all(span.label for span in spans):
            raise DataError(f"{file}: document {number}: an entity without a label; give each one its type")
    return AnnotatedText(doc.text[start : piece.end_char], spans, file, number, "document", number - 1, tokens)


def write_docbin(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """One document a sentence."""
    spacy = _spacy()
    vocab = spacy.blank("xx").vocab
    found = spacy.tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SENT_START"])
    for each in texts:
        doc = spacy.tokens.Doc(vocab, words=list(each.sentence.tokens), spaces=spaces_after(each))
        places = [
            spacy.tokens.Span(doc, *_tokens_of(each, span.start, span.end), label=span.label)
            for span in each.spans or ()
        ]
        if each.spans is not None:
            doc.set_ents(places, default="outside")
        for token in doc:
            token.is_sent_start = token.i == 0
        found.add(doc)
    yield found.to_bytes()


def _tokens_of(each: TaggedText, start: int, end: int) -> tuple[int, int]:
    inside = [number for number, (first, last) in enumerate(each.offsets) if start <= first and last <= end]
    return inside[0], inside[-1] + 1


def _spacy() -> Any:
    try:
        import spacy
        import spacy.tokens
    except ImportError as error:
        raise MissingExtraError("reading or writing a DocBin needs spaCy: pip install 'maskedcrf[spacy]'") from error
    return spacy
