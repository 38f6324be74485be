"""Exact probabilities of segments from the emissions that an ONNX file gives: numpy alone.

The sums are those of `crf.cpu`: a segment opens by a boundary step, goes on by continuing ones and closes by a
boundary. Given the tags so far each of these has a probability, and the segment's is their product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedcrf.onnx.graph_check import Scores
from maskedcrf.segmentation.choice import SegmentChoice
from maskedcrf.tags.constraints import Constraints

Floats = NDArray[np.float64]
Found = tuple[int, int, int, int, float]
"""Row, last position + 1, number of the type, first position, probability."""


class Steps(NamedTuple):
    """Probabilities at each position of a batch."""

    opens: Floats
    """(B, T, D): the tag is there, by a step that is a boundary."""
    goes_on: Floats
    """(B, T, L): given the first tag of a continuing pair, the next step is that pair."""
    closes: Floats
    """(B, T, D): given the tag, the next step is a boundary."""


class EmissionSegments(SegmentChoice):
    """All segments of a batch that are at least this probable, by emissions (B, T, D) and the scores of the steps."""

    def __init__(
        self,
        emissions: NDArray[Any],
        mask: NDArray[np.bool_],
        scores: Scores,
        constraints: Constraints,
        *,
        least: float,
    ) -> None:
        """`mask` (B, T) is on from the first position of each row to its last."""
        matrices = constraints.matrices
        continues = matrices.continues[:-1, :-1]
        self._pairs = np.argwhere(continues)  # (L, 2)
        self._member = np.equal.outer(np.arange(len(matrices.types)), matrices.type_index[:-1])  # (K, D)
        self._lengths = mask.sum(1)
        read = np.where(mask[:, :, None], emissions, 0.0).astype(np.float64)
        self._steps = _step_probabilities(read, self._lengths, scores, self._pairs, ~continues)
        super().__init__(mask, np.ones(emissions.shape, np.bool_), constraints, least=least)

    def _find(self, rows: slice, least: float) -> tuple[Any, Any]:
        numbers = list(range(*rows.indices(len(self._lengths))))
        found = sorted(self._follow(numbers, least))
        spans = np.array([(row - rows.start, start, end, kind) for row, end, kind, start, _ in found], np.int64)
        return spans.reshape(-1, 4), np.array([probability for *_, probability in found])

    def _follow(self, rows: Sequence[int], least: float) -> Iterator[Found]:
        """Every segment that is probable enough, all those of one length at a time."""
        opens, goes_on, closes = self._steps
        arrives = np.equal.outer(self._pairs[:, 1], np.arange(opens.shape[2])).astype(np.float64)  # (L, D)
        # (M,) beginnings, and (M, D) the probability that each has gone on up to here in this tag.
        place, start, kind = np.nonzero((opens[rows] @ self._member.T >= least) & (opens[rows] @ self._member.T > 0))
        row, at = np.asarray(rows)[place], start
        inside = opens[row, at] * self._member[kind]
        while len(row):
            closed = (inside * closes[row, at]).sum(1)
            for n in np.flatnonzero((closed >= least) & (closed > 0)).tolist():
                yield int(row[n]), int(at[n]) + 1, int(kind[n]), int(start[n]), min(1.0, float(closed[n]))
            inside = (inside[:, self._pairs[:, 0]] * goes_on[row, at]) @ arrives
            at = at + 1
            still = inside.sum(1)
            on = (at < self._lengths[row]) & (still >= least) & (still > 0)
            row, start, kind, at, inside = row[on], start[on], kind[on], at[on], inside[on]


def _step_probabilities(
    emissions: Floats, lengths: NDArray[np.int64], scores: Scores, pairs: NDArray[np.int64], between: NDArray[np.bool_]
) -> Steps:
    """Forward and backward in logarithms, one position of all rows at a time; `between` (D, D) are the boundaries."""
    transitions, start, end = scores
    rows, length, _ = emissions.shape
    forward, backward = np.empty_like(emissions), np.empty_like(emissions)
    forward[:, 0] = start + emissions[:, 0]
    for t in range(1, length):
        forward[:, t] = _log_sum(forward[:, t - 1, :, None] + transitions, axis=1) + emissions[:, t]
    backward[:, length - 1] = end
    for t in range(length - 2, -1, -1):
        onward = _log_sum(transitions + (emissions[:, t + 1] + backward[:, t + 1])[:, None, :], axis=2)
        backward[:, t] = np.where((lengths == t + 1)[:, None], end, onward)
    log_z = _log_sum(forward[:, 0] + backward[:, 0], axis=1)
    found = Steps(np.zeros(emissions.shape), np.zeros((rows, length, len(pairs))), np.ones(emissions.shape))
    found.opens[:, 0] = np.exp(forward[:, 0] + backward[:, 0] - log_z[:, None])
    for t in range(length - 1):
        goes_on = (lengths > t + 1)[:, None]
        onward = np.where(goes_on, emissions[:, t + 1] + backward[:, t + 1], -np.inf)[:, None, :]
        step = np.exp(forward[:, t, :, None] + transitions + onward - log_z[:, None, None])  # (B, D, D)
        whole = step.sum(2)
        share = 1 / np.where(whole > 1e-300, whole, np.inf)
        found.opens[:, t + 1] = (step * between).sum(1)
        found.goes_on[:, t] = step[:, pairs[:, 0], pairs[:, 1]] * share[:, pairs[:, 0]]
        found.closes[:, t] = np.where((lengths == t + 1)[:, None], 1.0, (step * between).sum(2) * share)
    return found


def _log_sum(values: Floats, axis: int) -> Floats:
    """log sum exp; -inf of nothing but -inf."""
    highest = values.max(axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(values - highest).sum(axis=axis)) + np.squeeze(highest, axis))
