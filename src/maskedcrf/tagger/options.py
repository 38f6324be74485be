"""Keyword arguments of prediction, so that an editor completes them and a type checker refuses a typo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from maskedcrf.tagger.decoding import Decoding


class PredictOptions(TypedDict, total=False):
    """What `Tagger.predict` and `Tagger.stream` take besides texts and fixed tags; see `Tagger.stream`."""

    probabilities: bool
    nbest: int
    threshold: float | None
    decoding: Decoding | None
    segment_threshold: float | None
    gazetteer: Mapping[str, str] | None
    forward_tokens: int | None
