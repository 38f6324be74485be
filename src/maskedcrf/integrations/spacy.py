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
    """Tags the tokens of spaCy's own tokeniser; entities that were there before are replaced."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def __call__(self, doc: Any) -> Any:
        """The document with its entities."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int | None = None) -> Iterator[Any]:
        """The documents with their entities, tagged by the batch."""
        docs, kept = tee(stream)
        answers = self.tagger.stream([token.text for token in _words(doc)] for doc in docs)
        for doc, answer in zip(kept, answers, strict=True):
            yield _with_entities(doc, answer)


def _words(doc: Any) -> list[Any]:
    """The tokens but for those that are white space, with which no entity begins or ends."""
    return [token for token in doc if not token.is_space]


def _with_entities(doc: Any, answer: Prediction) -> Any:
    places = [token.i for token in _words(doc)]
    found = [(places[start], places[end - 1] + 1, kind) for start, end, kind, _ in answer.segments]
    doc.set_ents([spacy.tokens.Span(doc, start, end, label=kind) for start, end, kind in found])
    return doc


def _create(nlp: Any, name: str, model: str) -> Component:
    return Component(Tagger.load(model))


spacy.Language.factory("maskedcrf", assigns=["doc.ents"], func=_create)
