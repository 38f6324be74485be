"""The choice among the probable segments of a batch; needs no torch, so that ONNX files are answered by it too."""

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
        """`mask` (B, T) and `allowed` (B, T, D) are arrays; the segments are those that `_probable` finds."""
        require_threshold(least)
        self._mask, self._allowed, self._constraints, self._least = mask, allowed, constraints, least
        self._rows = self._probable(range(len(mask)), least)

    @abstractmethod
    def _probable(self, rows: Sequence[int], least: float) -> list[list[ProbableSegment]]:
        """The segments of these rows, of all B, with at least this probability, sorted by end, then by type."""

    def choose(self, threshold: float) -> list[SegmentPath]:
        """The legal path of each row that maximises the sum of (P(segment) - threshold) over its segments.

        Segments below the threshold are on it only where every legal path has one.
        """
        return next(self.choose_each([threshold]))

    def choose_each(self, thresholds: Sequence[float]) -> Iterator[list[SegmentPath]]:
        """`choose` at each of the thresholds; near ones have most rows' answers in common."""
        reached: list[list[ProbableSegment] | None] = [None] * len(self._rows)
        chosen: list[SegmentPath] = [SegmentPath([], [])] * len(self._rows)
        for threshold in thresholds:
            self._require(threshold)
            least = round(threshold * UNITS)
            reaching = [[each for each in row if round(each.probability * UNITS) >= least] for row in self._rows]
            # All that could be gained is gained where all of them are chosen already.
            new = [
                row
                for row, found in enumerate(reaching)
                if found != reached[row] or len(chosen[row].segments) != len(found)
            ]
            for row, path in zip(new, self._choose(new, [reaching[row] for row in new], threshold), strict=True):
                reached[row], chosen[row] = reaching[row], path
            yield list(chosen)

    def _require(self, threshold: float) -> None:
        require_threshold(threshold)
        if threshold < self._least:
            raise MaskedCRFError(f"threshold {threshold} is below {self._least}, the least these candidates have")

    def _choose(
        self, rows: Sequence[int], segments: Sequence[Sequence[ProbableSegment]], threshold: float
    ) -> list[SegmentPath]:
        """The best path of each of these rows over these segments, or over all where each path needs another."""
        if not rows:
            return []
        chosen = self._best(rows, segments, threshold)
        forced = [place for place, path in enumerate(chosen) if path is None]
        if forced:  # some token must be in a segment, however improbable
            numbers = [rows[place] for place in forced]
            every = self._probable(numbers, 0.0)
            again = self._best(numbers, [every[row] for row in numbers], threshold)
            for place, path in zip(forced, again, strict=True):
                chosen[place] = path
        return [_require_path(path, row) for row, path in zip(rows, chosen, strict=True)]

    def _best(
        self, rows: Sequence[int], segments: Sequence[Sequence[ProbableSegment]], threshold: float
    ) -> list[SegmentPath | None]:
        """The best path over these segments, None where each path needs another."""
        from maskedcrf.crf.segment_paths import best_rows  # numba takes half a second to import

        mask, matrices = self._mask[rows], self._constraints.matrices
        kinds = {kind: number for number, kind in enumerate(matrices.types)}
        flat = [each for row in segments for each in row]
        spans = np.array([(each.start, each.end, kinds[each.type]) for each in flat], np.int64).reshape(-1, 3)
        # Of equal sums the one that covers more tokens: a second digit below the first.
        shares = np.array([round(each.probability * UNITS) for each in flat], np.int64)
        worth = (shares - round(threshold * UNITS)) * (mask.shape[1] + 1) + spans[:, 1] - spans[:, 0]
        bounds = np.cumsum([0, *map(len, segments)])
        rules = (
            self._constraints.start,
            self._constraints.legal,
            self._constraints.end,
            np.ascontiguousarray(matrices.continues[:-1, :-1]),
            matrices.type_index[:-1].copy(),
        )
        tags, kept = np.zeros(mask.shape, np.int64), np.zeros(len(flat), np.bool_)
        found = best_rows(mask, self._allowed[rows], rules, spans, worth, bounds, tags, kept)
        paths: list[SegmentPath | None] = []
        for row, own in enumerate(segments):
            on = kept[bounds[row] : bounds[row + 1]]
            path = SegmentPath(
                tags[row, mask[row]].tolist(), [each for each, is_on in zip(own, on, strict=True) if is_on]
            )
            paths.append(path if found[row] else None)
        return paths


def _require_path(path: SegmentPath | None, row: int) -> SegmentPath:
    if path is None:
        raise IllegalPathError(f"row {row}: no legal path uses allowed tags only; allow more")
    return path


def require_threshold(threshold: object) -> None:
    """A threshold is a probability."""
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool) and math.isfinite(threshold)
    if not number or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise MaskedCRFError(f"threshold is a probability from 0 to 1, got {threshold!r}")
