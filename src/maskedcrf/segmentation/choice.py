"""The choice among the probable segments of a batch, for the layer and for ONNX files alike."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from maskedcrf.errors import IllegalPathError, MaskedCRFError
from maskedcrf.tags.constraints import Constraints

UNITS = 1 << 20
"""Probabilities are compared in millionths: two that differ by less are equal, so rounding decides nothing."""


class ProbableSegment(NamedTuple):
    """Labelled positions start to end (exclusive) carry this type with this probability."""

    start: int
    end: int
    type: str
    probability: float


class SegmentPath(NamedTuple):
    """A legal path by its tag ids, and the segments it spells."""

    tags: list[int]
    segments: list[ProbableSegment]


class SegmentChoice(ABC):
    """All segments of a batch that are at least this probable, to choose from at any higher threshold."""

    def __init__(self, mask: Any, allowed: Any, constraints: Constraints, *, least: float) -> None:
        """`mask` (B, T) and `allowed` (B, T, D) are arrays; the segments are those that `_find` finds."""
        require_threshold(least)
        matrices, legal = constraints.matrices, constraints.legal
        continues = matrices.continues[:-1, :-1]
        steps = np.ascontiguousarray(legal & ~continues), np.ascontiguousarray(legal & continues)
        self._rules = constraints.start, *steps, constraints.end, matrices.type_index[:-1].copy()
        self._mask, self._allowed = np.ascontiguousarray(mask), np.ascontiguousarray(allowed)
        self._types, self._least = matrices.types, least
        self._spans, self.shares = self._find(slice(0, len(mask)), least - 1 / UNITS)  # rounded in `choose`

    @abstractmethod
    def _find(self, rows: slice, least: float) -> tuple[Any, Any]:
        """All segments of these rows that are possible and have at least this probability.

        (M, 4): number among these rows, start, end and number of the type, sorted by row, end, type and start; and
        the probabilities (M,).
        """

    def by_row(self) -> list[list[ProbableSegment]]:
        """The segments of each row, overlapping or not."""
        return self._rows(self._spans, self.shares, len(self._mask))

    def choose(self, threshold: float) -> list[SegmentPath]:
        """The legal path of each row that maximises the sum of (P(segment) - threshold) over its segments.

        Segments below the threshold are on it only where every legal path has one.
        """
        require_threshold(threshold)
        if threshold < self._least:
            raise MaskedCRFError(f"threshold {threshold} is below {self._least}, the least these candidates have")
        on = np.rint(self.shares * UNITS) >= round(threshold * UNITS)
        paths = self._best(slice(0, len(self._mask)), self._spans[on], self.shares[on], threshold)
        for row, path in enumerate(paths):
            if path is None:  # some token must be in a segment, however improbable
                here = slice(row, row + 1)
                (paths[row],) = self._best(here, *self._find_all(here), threshold)
        return [_require_path(path, row) for row, path in enumerate(paths)]

    def choose_each(self, thresholds: Sequence[float]) -> Iterator[list[SegmentPath]]:
        """`choose` at each of the thresholds."""
        return map(self.choose, thresholds)

    def _find_all(self, row: slice) -> tuple[Any, Any]:
        """As `_find` of one row, with those that have no probability."""
        count, kinds = int(self._mask[row].sum()), range(len(self._types))
        spans = [(0, start, end, kind) for end in range(1, count + 1) for kind in kinds for start in range(end)]
        found, shares = self._find(row, 0.0)
        known = dict(zip(map(tuple, found.tolist()), shares.tolist(), strict=True))
        return np.array(spans, np.int64).reshape(-1, 4), np.array([known.get(span, 0.0) for span in spans])

    def _best(self, rows: slice, spans: Any, shares: Any, threshold: float) -> list[SegmentPath | None]:
        """The best path of each row over these segments, None where each path needs another."""
        from maskedcrf.segmentation.paths import best_rows  # numba takes half a second to import

        mask = self._mask[rows]
        gains = np.rint(shares * UNITS).astype(np.int64) - round(threshold * UNITS)
        # Of equal sums the one that covers more tokens: a second digit below the first.
        worth = gains * (mask.shape[1] + 1) + spans[:, 2] - spans[:, 1]
        bounds = np.searchsorted(spans[:, 0], np.arange(len(mask) + 1))
        tags, kept = np.zeros(mask.shape, np.int64), np.zeros(len(spans), np.bool_)
        found = best_rows(mask, self._allowed[rows], self._rules, spans, worth, bounds, tags, kept)
        segments = self._rows(spans[kept], shares[kept], len(mask))
        ids, ends = tags[mask].tolist(), mask.sum(1).cumsum().tolist()
        lists = [ids[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        return [SegmentPath(*row) if is_path else None for *row, is_path in zip(lists, segments, found, strict=True)]

    def _rows(self, spans: Any, shares: Any, count: int) -> list[list[ProbableSegment]]:
        segments: list[list[ProbableSegment]] = [[] for _ in range(count)]
        for (row, start, end, kind), share in zip(spans.tolist(), shares.tolist(), strict=True):
            segments[row].append(ProbableSegment(start, end, self._types[kind], share))
        return segments


def _require_path(path: SegmentPath | None, row: int) -> SegmentPath:
    if path is None:
        raise IllegalPathError(f"row {row}: no legal path uses allowed tags only; allow more")
    return path


def require_threshold(threshold: object) -> None:
    """A threshold is a probability."""
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool) and math.isfinite(threshold)
    if not number or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise MaskedCRFError(f"threshold is a probability from 0 to 1, got {threshold!r}")
