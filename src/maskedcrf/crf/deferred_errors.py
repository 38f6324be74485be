"""Errors that name the row, the position and the tags at fault; on a GPU they come with a later call."""

from __future__ import annotations

import math
import sys
import weakref
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.scores import LatticeScores
from maskedcrf.errors import IllegalPathError
from maskedcrf.tags.constraints import Constraints


class HostFlag(NamedTuple):
    """A number in the host's memory that a GPU writes when a result is there; the host neither waits nor copies."""

    value: Tensor
    """(), float64."""
    bits: NDArray[np.int64]
    """(1,), the same memory."""

    @property
    def is_written(self) -> bool:
        """Whether it has been written since it was handed out."""
        return bool(self.bits[0] != _NOT_WRITTEN)


_NOT_WRITTEN = 0x7FF8_6D61_736B_6564
"""A NaN that no computation ends in."""
_flag_pool: list[HostFlag] = []
"""Kept for the whole process, since a device may write to a flag after its layer is gone."""


def new_host_flag(results: Tensor) -> HostFlag | None:
    """A flag for the device of `results`; None on the CPU, where results are checked at once, and in a graph."""
    if torch.compiler.is_compiling() or not results.is_cuda or torch.cuda.is_current_stream_capturing():
        return None
    try:
        flag = _flag_pool.pop()  # in one step, as another thread may take the last one
    except IndexError:
        flag, *others = _allocate_flags()
        _flag_pool.extend(others)
    flag.bits[0] = _NOT_WRITTEN
    return flag


def _allocate_flags() -> list[HostFlag]:
    """32 flags in memory that the device can write to, each at a multiple of 16 bytes."""
    block = torch.empty(64, dtype=torch.float64, pin_memory=torch.cuda.is_available())
    bits = block.numpy().view(np.int64)
    return [HostFlag(block[n], bits[n : n + 1]) for n in range(0, 64, 2)]


class Results(NamedTuple):
    """Values (B,) that are finite unless a row is at fault, and what an error about them would name."""

    values: Tensor
    scores: LatticeScores
    tags: Tensor | None
    constraints: Constraints

    def raise_unless_finite(self, total: Tensor) -> None:
        """Raise an error that names the first row at fault. A finite sum or mean is proof that there is none."""
        # A total that is not finite is none: a large sum may overflow.
        if not math.isfinite(total.item()) and not self.values.isfinite().all():
            raise IllegalPathError(_explain(self, int((~self.values.isfinite()).cpu().nonzero()[0])))


class DeferredErrors:
    """Raises if a row has no legal path or an illegal gold path.

    On the CPU it raises at once. On a GPU, reading the result would stop the host until the device is done, so the
    device writes a flag that a later call reads: errors come late, as CUDA's own do. An error of the last call is
    written to stderr when the layer is deleted or the process ends.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[HostFlag, Results]] = deque()
        weakref.finalize(self, _report_last, self._waiting)

    def check_or_defer(self, results: Results, *, total: Tensor | None = None, flag: HostFlag | None = None) -> None:
        """Raise unless the results are finite, now or when the device has written a flag.

        Give their sum or mean as `total` if it is known, and the `flag` if the device is writing it there already.
        """
        if torch.compiler.is_compiling():
            return
        values = results.values.detach()
        if not values.is_cuda:
            results.raise_unless_finite(values.sum() if total is None else total)
            return
        if flag is None and (flag := new_host_flag(values)):
            flag.value.copy_(values.sum(dtype=torch.float64), non_blocking=True)
        if flag:
            self.defer(flag, results)

    def defer(self, flag: HostFlag, results: Results) -> None:
        """Leave the results to a later call, for which the device is writing their sum or mean to `flag`."""
        self.raise_arrived()
        # Detached: nothing that they were computed from must be kept alive.
        scores = results.scores._replace(emissions=results.scores.emissions.detach())
        self._waiting.append((flag, results._replace(values=results.values.detach(), scores=scores)))

    def raise_arrived(self) -> None:
        """Check the results whose flags are written. After waiting for a result its own flag is written, too."""
        _raise_arrived(self._waiting)

    def __deepcopy__(self, memo: Any) -> DeferredErrors:
        return DeferredErrors()  # what is under way on a device belongs to the layer that asked

    def __reduce__(self) -> tuple[type[DeferredErrors], tuple[()]]:
        return DeferredErrors, ()


def _raise_arrived(waiting: deque[tuple[HostFlag, Results]]) -> None:
    while waiting:
        try:
            flag, results = waiting.popleft()  # before the flag is read, so that no other thread takes the same one
        except IndexError:
            return
        if not flag.is_written:
            waiting.appendleft((flag, results))
            return
        total = flag.value.clone()
        _flag_pool.append(flag)
        results.raise_unless_finite(total)


def _report_last(waiting: deque[tuple[HostFlag, Results]]) -> None:
    """Write to stderr the error that no later call will raise."""
    if not waiting or torch.cuda._is_in_bad_fork():  # a forked child has no part in what its parent asked the device
        return
    try:
        if (values := waiting[-1][1].values).is_cuda:
            torch.cuda.synchronize(values.device)
        _raise_arrived(waiting)
    except IllegalPathError as error:
        sys.stderr.write(f"maskedcrf: the last call of a layer failed: {error}\n")


def _explain(results: Results, row: int) -> str:
    """What is wrong in this row, where, and what to do."""
    emissions, mask, transitions, start, end = (part.detach().cpu() for part in results.scores.exclude())
    positions = mask[row].nonzero().squeeze(1)
    emitted = emissions[row, positions]
    spoilt = (emitted.isnan() | (emitted == torch.inf)).any(1).nonzero()
    if len(spoilt):
        place = f"row {row}, position {int(positions[spoilt[0]])}"
        return f"{place}: emissions are NaN or infinite; look at the encoder"
    if not all((part.isfinite() | (part == -torch.inf)).all() for part in (transitions, start, end)):
        return "the transition scores are NaN or infinite: has training diverged? Lower its rate or clip gradients"
    if results.tags is not None:
        gold = results.tags[row].cpu()[positions]
        if fault := _explain_gold(row, emitted, gold, positions, results.constraints):
            return fault
    one_row = emissions[row : row + 1].double(), mask[row : row + 1]
    if reference.log_partition(*one_row, transitions.double(), start.double(), end.double()).isfinite().all():
        return f"row {row}: scores are too large for {emissions.dtype}; use float64, or scale them down"
    remedy = "widen `allowed` there, or the constraint's start and end"
    return f"row {row}: no legal path over its {len(positions)} labelled positions; {remedy}"


def _explain_gold(row: int, emitted: Tensor, gold: Tensor, positions: Tensor, constraints: Constraints) -> str | None:
    """What is wrong with the labels of this row; None if they are a legal path."""
    names = constraints.tags
    for tag, position in zip(gold.tolist(), positions.tolist(), strict=True):
        if not 0 <= tag < len(names):
            remedy = ": pass mask=tags != -100" if tag == reference.PAD else ""
            return f"row {row}, position {position}: {tag} is no tag id, ids run from 0 to {len(names) - 1}{remedy}"
    forbidden = (emitted.gather(1, gold[:, None]).squeeze(1) == -torch.inf).nonzero()
    if len(forbidden):
        at = int(forbidden[0])
        fault = f"gold tag {names[gold[at]]} is not in the allowed set"
        return f"row {row}, position {int(positions[at])}: {fault}; widen `allowed` there or correct the label"
    for step, before, after in constraints.violations(gold.tolist()):
        at = int(positions[min(step, len(positions) - 1)])
        rules = constraints.scheme.name if constraints.scheme else "the constraint"
        fault = f"gold steps from {before or 'the start'} to {after or 'the end'}, which {rules} forbids"
        return f"row {row}, position {at}: {fault}; repair or drop the sentence"
    return None
