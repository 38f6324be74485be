"""The segments that are worth most together: disjoint, on a legal path, by exact probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from maskedcrf.crf import functional, validation
from maskedcrf.crf.scores import LatticeScores
from maskedcrf.crf.span_search import SpanPruner
from maskedcrf.errors import IllegalPathError, MaskedCRFError
from maskedcrf.tags.constraints import Constraints, MaskMode

UNITS = 1 << 20
"""Probabilities are compared in millionths: two that differ by less are equal, so rounding decides nothing."""
SPANS_AT_ONCE = 4096

Span = tuple[int, int, str]


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


class SegmentCandidates:
    """All segments of a batch that are at least this probable, to choose from at any higher threshold."""

    def __init__(
        self, scores: LatticeScores, constraints: Constraints, mode: MaskMode, *, backend: str, least: float
    ) -> None:
        require_threshold(least)
        self._scores, self._constraints, self._backend = scores, constraints, backend
        self._matrices = constraints.matrices
        self._pruner = SpanPruner(constraints, masked=mode != "off")
        self._mask = scores.mask.cpu().numpy()
        self._allowed = (scores.emissions != -torch.inf).cpu().numpy()
        self._marginals = functional.marginals(scores, backend=backend).double().cpu().numpy()
        self._least = least
        self._rows = self._probable(range(len(self._mask)), least)

    def choose(self, threshold: float) -> list[SegmentPath]:
        """The legal path of each row that maximises the sum of (P(segment) - threshold) over its segments.

        Segments below the threshold are on it only where every legal path has one.
        """
        require_threshold(threshold)
        if threshold < self._least:
            raise MaskedCRFError(f"threshold {threshold} is below {self._least}, the least these candidates have")
        least = round(threshold * UNITS)
        reaching = [[each for each in row if round(each.probability * UNITS) >= least] for row in self._rows]
        chosen = _choose(reaching, self._mask, self._allowed, self._constraints, threshold)
        forced = [row for row, path in enumerate(chosen) if path is None]
        if forced:  # some token must be in a segment, however improbable
            every = self._probable(forced, 0.0)
            for row in forced:
                on = slice(row, row + 1)
                chosen[row] = _choose([every[row]], self._mask[on], self._allowed[on], self._constraints, threshold)[0]
        return [_require_path(path, row) for row, path in enumerate(chosen)]

    def _probable(self, rows: Sequence[int], least: float) -> list[list[ProbableSegment]]:
        """The segments of these rows with at least this probability, sorted by end, then by type."""
        bound = least - 1 / UNITS  # rounded in `_choose`
        found: list[tuple[int, Span]] = []
        for row in rows:
            marginals = self._marginals[row, self._mask[row]]
            found += [(row, span) for span in self._pruner.candidates(marginals, bound, longest=len(marginals))]
        kept: list[list[ProbableSegment]] = [[] for _ in self._mask]
        for first in range(0, len(found), SPANS_AT_ONCE):
            chunk = found[first : first + SPANS_AT_ONCE]
            for (row, span), probability in zip(chunk, self._probabilities(chunk), strict=True):
                if probability >= bound:
                    kept[row].append(ProbableSegment(*span, probability))
        types = self._matrices.types
        for row in rows:
            kept[row].sort(key=lambda each: (each.end, types.index(each.type), each.start))
        return kept

    @torch.no_grad()
    def _probabilities(self, spans: Sequence[tuple[int, Span]]) -> list[float]:
        rows: list[list[Span]] = [[] for _ in self._mask]
        for row, span in spans:
            rows[row].append(span)
        index, member = validation.spans(rows, self._scores.mask, self._matrices)
        continues = torch.from_numpy(self._matrices.continues[:-1, :-1]).to(index.device)
        exact: Tensor = functional.span_probability(self._scores, index, member, continues, backend=self._backend)
        return exact.tolist()


def _choose(
    rows: Sequence[Sequence[ProbableSegment]], mask: Any, allowed: Any, constraints: Constraints, threshold: float
) -> list[SegmentPath | None]:
    """The best path over these candidates, None where each path needs another."""
    from maskedcrf.crf.segment_paths import best_rows  # numba takes half a second to import

    matrices = constraints.matrices
    kinds = {kind: number for number, kind in enumerate(matrices.types)}
    flat = [each for row in rows for each in row]
    spans = np.array([(each.start, each.end, kinds[each.type]) for each in flat], np.int64).reshape(-1, 3)
    # Of equal sums the one that covers more tokens: a second digit below the first.
    shares = np.array([round(each.probability * UNITS) for each in flat], np.int64)
    worth = (shares - round(threshold * UNITS)) * (mask.shape[1] + 1) + spans[:, 1] - spans[:, 0]
    bounds = np.cumsum([0, *map(len, rows)])
    rules = (
        constraints.start,
        constraints.legal,
        constraints.end,
        np.ascontiguousarray(matrices.continues[:-1, :-1]),
        matrices.type_index[:-1].copy(),
    )
    tags, kept = np.zeros(mask.shape, np.int64), np.zeros(len(flat), np.bool_)
    found = best_rows(mask, allowed, rules, spans, worth, bounds, tags, kept)
    paths: list[SegmentPath | None] = []
    for row, segments in enumerate(rows):
        own = kept[bounds[row] : bounds[row + 1]]
        path = SegmentPath(tags[row, mask[row]].tolist(), [each for each, on in zip(segments, own, strict=True) if on])
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
