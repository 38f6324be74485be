"""The segments of a batch that are probable, exactly, and the legal path over those that are worth most together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from maskedcrf.crf import functional, validation
from maskedcrf.crf.scores import LatticeScores
from maskedcrf.crf.segment_choice import UNITS, ProbableSegment, SegmentChoice
from maskedcrf.crf.span_search import SpanPruner
from maskedcrf.tags.constraints import Constraints, MaskMode

SPANS_AT_ONCE = 4096

Span = tuple[int, int, str]


class SegmentCandidates(SegmentChoice):
    """All segments of a batch that are at least this probable, to choose from at any higher threshold."""

    def __init__(
        self, scores: LatticeScores, constraints: Constraints, mode: MaskMode, *, backend: str, least: float
    ) -> None:
        self._scores, self._backend = scores, backend
        self._matrices = constraints.matrices
        self._pruner = SpanPruner(constraints, masked=mode != "off")
        self._marginals = functional.marginals(scores, backend=backend).double().cpu().numpy()
        allowed = (scores.emissions != -torch.inf).cpu().numpy()
        super().__init__(scores.mask.cpu().numpy(), allowed, constraints, least=least)

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
