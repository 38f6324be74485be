"""Keyword arguments of prediction, so that an editor completes them and a type checker refuses a typo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict, get_args

from maskedcrf.errors import MaskedCRFError

Decoding = Literal["path", "segments"]
"""The best path, or the segments that maximise the sum of (probability - threshold)."""
NamedThreshold = Literal["f1", "expected"]
"""The threshold chosen on labelled sentences, or that of the best F1 by the model's own account of these texts."""
DEFAULT_THRESHOLD = 0.5
"""Where none was chosen: an entity is given out if it is more likely right than wrong."""


class PredictOptions(TypedDict, total=False):
    """What `Tagger.predict` and `Tagger.stream` take besides texts and fixed tags; see `Tagger.stream`."""

    probabilities: bool
    nbest: int
    threshold: float | None
    decoding: Decoding | None
    segment_threshold: float | NamedThreshold | None
    beta: float
    gazetteer: Mapping[str, str] | None
    forward_tokens: int | None


def resolve_threshold(
    decoding: Decoding | None, threshold: float | NamedThreshold | None, *, own: tuple[Decoding, float]
) -> float | NamedThreshold | None:
    """The threshold of decoding by segments, None for the best path; what is left out is the tagger's `own`."""
    decoding = decoding or own[0]
    if decoding not in get_args(Decoding):
        raise MaskedCRFError(f"decoding must be one of {', '.join(get_args(Decoding))}; got {decoding!r}")
    if decoding == "path":
        if threshold is not None:
            raise MaskedCRFError("segment_threshold belongs to decoding='segments'; the best path has none")
        return None
    if isinstance(threshold, str) and threshold not in get_args(NamedThreshold):
        raise MaskedCRFError(f"segment_threshold is a probability, 'f1' or 'expected'; got {threshold!r}")
    return own[1] if threshold is None else threshold
