"""Lists of tokens as the sentences that encoders take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maskedcrf.data.sentence import NO_CONTEXT, Context, Sentence


def sentences_of(tokens: Iterable[Sequence[str]], contexts: Sequence[Context] = ()) -> list[Sentence]:
    """A sentence of each list of tokens, with its context where some are given."""
    rows = list(tokens)
    pairs = zip(rows, contexts or [NO_CONTEXT] * len(rows), strict=True)
    return [Sentence(tuple(row), context=context) for row, context in pairs]
