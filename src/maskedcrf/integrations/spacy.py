"""A spaCy component: the tagger's entities as `doc.ents`.

Importing this file makes the component known to spaCy: `nlp.add_pipe("maskedcrf", config={"model": "model-folder"})`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import tee
from typing import Any

from maskedcrf.errors import MissingExtraError
from maskedcrf.tagger.prediction import Prediction
from maskedcrf.tagger.tagger import Tagger

try:
    spacy: Any = import_module("spacy")
except ImportError as missing:
    raise MissingExtraError("this component needs spaCy: pip install spacy") from missing


class Component:
    """Tags the text of a document; entities that were there before are replaced.

    The model cuts the text into its own words. An entity that ends inside one of spaCy's tokens takes all of it.
    """

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def __call__(self, doc: Any) -> Any:
        """The document with its entities."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int | None = None) -> Iterator[Any]:
        """The documents with their entities, tagged by the batch."""
        docs, kept = tee(stream)
        answers = self.tagger.stream(doc.text for doc in docs)
        for doc, answer in zip(kept, answers, strict=True):
            yield _with_entities(doc, answer)


def _with_entities(doc: Any, answer: Prediction) -> Any:
    found = [
        doc.char_span(entity.start, entity.end, label=entity.type, alignment_mode="expand")
        for entity in answer.entities
    ]
    doc.set_ents(spacy.util.filter_spans(found))
    return doc


def _create(nlp: Any, name: str, model: str) -> Component:
    return Component(Tagger.load(model))


spacy.Language.factory("maskedcrf", assigns=["doc.ents"], func=_create)
