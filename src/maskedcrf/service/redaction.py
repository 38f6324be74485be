"""Redaction over HTTP: texts on their way through the queue, and what is promised of the answers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction.cover import Cover
from maskedcrf.redaction.marks import Marks
from maskedcrf.redaction.promise import Promise, promise_of
from maskedcrf.redaction.redactor import Piece, Redaction, Redactor
from maskedcrf.redaction.rules import Rules
from maskedcrf.service import limits, schemas
from maskedcrf.tagger import Tagger

REMEMBERED_TYPES = 16
"""Sets of types whose redactors are kept: one holds its dictionaries cut into words."""


@dataclass(frozen=True, slots=True)
class RedactQuestion:
    """What requests that are answered together have in common."""

    types: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class RedactJob:
    """One text to be redacted."""

    tokens: Sequence[str]
    """Of all its sentences."""
    piece: Piece[bytes]


class RedactionService:
    """Redacted texts as JSON."""

    def __init__(self, tagger: Tagger, rules: Rules | None = None) -> None:
        self._tagger, self._rules = tagger, rules
        self.promise: Promise | None = None
        self.reason: str | None = None
        """Why there is no promise."""
        try:
            self.promise = promise_of(tagger)
        except MaskedCRFError as error:
            self.reason = str(error)
        self._redactor_of = lru_cache(REMEMBERED_TYPES)(self._new_redactor)
        self._documents = count()

    def about(self) -> dict[str, Any]:
        """The promise, or why there is none."""
        return {"promise": self.promise and self.promise.model_dump(mode="json"), "reason": self.reason}

    def question(self, request: schemas.RedactRequest) -> RedactQuestion:
        """With the types of the promise unless others are given."""
        promised = None if self.promise is None else self.promise.types
        if request.types is None or set(request.types) == set(promised or ()):
            return RedactQuestion(promised)
        return RedactQuestion(tuple(sorted(set(request.types))))

    def job(self, request: schemas.RedactRequest) -> RedactJob:
        """The text cut into sentences, each a document of this request alone."""
        question = self.question(request)
        promise = self.promise if self.promise is not None and question.types == self.promise.types else None
        if request.threshold is None and promise is None:
            raise MaskedCRFError(self.reason or "the promise is about other types; give a threshold")
        threshold = request.threshold if request.threshold is not None or promise is None else promise.threshold
        assert threshold is not None
        redactor = self._redactor_of(question.types).at(threshold)
        piece = redactor.piece(request.text, Marks(request.replace), next(self._documents))
        tokens = _tokens_within_limits(piece)
        miss_rate = None if promise is None else promise.miss_rate_at(threshold)

        def finish(covers: list[Cover]) -> bytes:
            return _json(piece.finish(covers), threshold, miss_rate)

        return RedactJob(tokens, Piece(piece.sentences, finish))

    def answer(self, question: RedactQuestion, jobs: Iterable[RedactJob]) -> list[bytes]:
        """The answers of several requests, in order; runs on the model's thread."""
        return list(self._redactor_of(question.types).each(job.piece for job in jobs))

    def warm_up(self) -> None:
        """Compile what is compiled on first use."""
        request = schemas.RedactRequest(text="a b", threshold=0.5)
        self.answer(self.question(request), [self.job(request)])

    def _new_redactor(self, types: Collection[str] | None) -> Redactor:
        return Redactor(self._tagger, threshold=0.5, types=types, rules=self._rules)


def _tokens_within_limits(piece: Piece[Any]) -> list[str]:
    """All tokens of a text, or a refusal."""
    tokens: list[str] = []
    for sentence in piece.sentences:
        limits.at_most(len(sentence.tokens), limits.TOKENS, "tokens in one sentence")
        limits.at_most(max(map(len, sentence.tokens), default=0), limits.TOKEN_CHARACTERS, "characters in one token")
        tokens += sentence.tokens
    limits.at_most(len(tokens), limits.REDACT_TOKENS, "tokens in one text to redact")
    return tokens


def _json(redaction: Redaction, threshold: float, miss_rate: float | None) -> bytes:
    answer = {
        "text": redaction.text,
        "hidden": [each.to_json() for each in redaction.hidden],
        "threshold": threshold,
        "miss_rate": miss_rate,
    }
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
