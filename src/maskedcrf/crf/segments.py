"""The segments of a batch that are probable, exactly, and the legal path over those that are worth most together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from maskedcrf.crf.scores import LatticeScores
from maskedcrf.segmentation.choice import SegmentChoice
from maskedcrf.tags.constraints import Constraints


class SegmentCandidates(SegmentChoice):
    """All segments of a batch that are at least this probable, to choose from at any higher threshold.

    The CPU finds them, whatever the backend, because paths over them are chosen there.
    """

    def __init__(self, scores: LatticeScores, constraints: Constraints, *, least: float) -> None:
        matrices = constraints.matrices
        members = np.equal.outer(np.arange(len(matrices.types)), matrices.type_index[:-1])
        self._rules_of_segments = torch.from_numpy(members), torch.from_numpy(matrices.continues[:-1, :-1])
        self._lattice = [one.detach().cpu() for one in scores.exclude()]
        emissions, mask = (one.numpy() for one in self._lattice[:2])
        super().__init__(mask, emissions != -np.inf, constraints, least=least)

    def _find(self, rows: slice, least: float) -> tuple[Any, Any]:
        from maskedcrf.crf import cpu  # numba takes half a second to import

        emissions, mask, *parameters = self._lattice
        return cpu.likely_spans(emissions[rows], mask[rows], *parameters, *self._rules_of_segments, threshold=least)
