"""Every segment that could be more probable than a threshold, on the best path or not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maskedcrf.tags.constraints import Constraints

MAX_SPAN_TOKENS = 100
"""Overlapping segments longer than this many tokens are not looked for."""


class SpanPruner:
    """Which tags a segment of each type can open with, go on with and close with, under these rules."""

    def __init__(self, constraints: Constraints, *, masked: bool) -> None:
        matrices = constraints.matrices
        self.types = matrices.types
        legal = constraints.legal if masked else np.ones_like(constraints.legal)
        continues = matrices.continues[:-1, :-1]
        opens = constraints.start | np.any(legal & ~continues, axis=0) | (not masked)
        closes = constraints.end | np.any(legal & ~continues, axis=1) | (not masked)
        member = np.equal.outer(matrices.type_index[:-1], np.arange(len(self.types)))  # (D, K)
        self._open = member & opens[:, None]
        self._inner = member & np.asarray(continues.any(axis=0))[:, None]
        self._close = member & closes[:, None]

    def candidates(
        self, marginals: NDArray[np.float64], threshold: float, *, longest: int | None = None
    ) -> list[tuple[int, int, str]]:
        """Segments (start, end, type) of up to `longest` tokens whose probability may reach the threshold.

        `marginals` (T, D). A segment is no more probable than its first token's opening tags, than each further
        token's continuing tags, and than its last token's closing tags: whoever fails one of these is left out
        without loss.
        """
        bound = threshold * (1 - 1e-4) - 1e-6  # marginals are rounded; the exact probability decides
        opens, inner, closes = (marginals @ group >= bound for group in (self._open, self._inner, self._close))
        longest = MAX_SPAN_TOKENS if longest is None else longest
        found = []
        for start, kind in np.argwhere(opens).tolist():
            end = start + 1
            while True:
                if closes[end - 1, kind]:
                    found.append((start, end, self.types[kind]))
                if end - start == longest or end == len(marginals) or not inner[end, kind]:
                    break
                end += 1
        return found
