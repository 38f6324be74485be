"""What callers give, checked at the door; and errors that say which row, position and tags were at fault."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maskedcrf.crf import reference
from maskedcrf.crf.functional import Reduced
from maskedcrf.crf.scores import Lattice
from maskedcrf.errors import ConstraintError, IllegalPathError, MaskedCRFError, ShapeError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import TagMatrices

_WHOLE = (int, np.integer)


def one_of(value: str, name: str, choices: Any) -> None:
    """A mode is one of its words."""
    if value not in get_args(choices):
        raise MaskedCRFError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")


def at_least_one(value: object, name: str) -> None:
    """A number of paths is one or more."""
    if not isinstance(value, _WHOLE) or int(value) < 1:
        raise MaskedCRFError(f"{name} must be a whole number and at least 1, got {value!r}")


def tensor(given: object, name: str) -> None:
    """Arrays and lists are not taken for tensors, which say on which device they are."""
    if not isinstance(given, Tensor):
        raise ShapeError(f"{name} must be a tensor, got {type(given).__name__}: write torch.as_tensor({name})")


def emissions(given: Tensor, size: int, device: torch.device) -> Tensor:
    """Emissions (B, T, D) in float32 or wider."""
    tensor(given, "emissions")
    if torch.jit.is_tracing():  # type: ignore[no-untyped-call, attr-defined]
        raise MaskedCRFError("torch.jit.trace would keep the paths of its example: use torch.export or torch.compile")
    if given.ndim != 3 or given.shape[2] != size:
        raise ShapeError(f"emissions must be (B, T, {size}), got {tuple(given.shape)}")
    if not given.is_floating_point():
        raise ShapeError(f"emissions must be floating point, got {given.dtype}: give the scores, not tags")
    if given.device != device:
        raise ShapeError(f"emissions are on {given.device}, the layer is on {device}: move one of them")
    return given if given.dtype in (torch.float32, torch.float64) else given.float()


def mask(given: Tensor | None, emissions: Tensor) -> Tensor:
    """A Boolean mask (B, T); all on where none is given. Integer masks of 0 and 1 are taken as Boolean."""
    shape = emissions.shape[:2]
    if given is None:
        return torch.ones(shape, dtype=torch.bool, device=emissions.device)
    tensor(given, "mask")
    if given.shape != shape:
        raise ShapeError(f"mask must be {tuple(shape)} like the emissions, got {tuple(given.shape)}")
    if given.is_floating_point():
        raise ShapeError(f"mask must be Boolean, got {given.dtype}: write mask > 0 or mask.bool()")
    if given.dtype != torch.bool and given.device.type == "cpu" and given.numel() and not _zeros_and_ones(given):
        raise ShapeError("mask must be Boolean, or of 0 and 1: other numbers are tag ids, say, given as the mask")
    return given.to(device=emissions.device, dtype=torch.bool)


def _zeros_and_ones(given: Tensor) -> bool:
    return torch.compiler.is_compiling() or bool(((given == 0) | (given == 1)).all())


def tags(given: Tensor, mask: Tensor) -> Tensor:
    """Tag ids (B, T) as int64."""
    tensor(given, "tags")
    if given.shape != mask.shape:
        raise ShapeError(f"tags must be {tuple(mask.shape)} like the emissions, got {tuple(given.shape)}")
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise ShapeError(f"tags must be integers, got {given.dtype}: give tag ids")
    return given.to(device=mask.device, dtype=torch.long)


def narrow(emissions: Tensor, allowed: Tensor) -> Tensor:
    """Emissions that are -inf where a tag is not allowed."""
    tensor(allowed, "allowed")
    if allowed.shape != emissions.shape:
        raise ShapeError(f"allowed must be {tuple(emissions.shape)} like the emissions, got {tuple(allowed.shape)}")
    if allowed.dtype != torch.bool:
        raise ShapeError(f"allowed must be Boolean, got {allowed.dtype}: write allowed > 0 or allowed.bool()")
    return emissions.masked_fill(~allowed.to(emissions.device), -torch.inf)


def scale(emissions: Tensor, weights: Tensor) -> Tensor:
    """Emissions times the weight of their tag; what is excluded stays so, whatever the weight."""
    excluded = emissions == -torch.inf
    return (emissions.masked_fill(excluded, 0) * weights).masked_fill(excluded, -torch.inf)


def fixed_values(rules: Constraints, weights: Sequence[float] | Tensor | None) -> dict[str, Tensor | None]:
    """What a layer never learns: its rules and its class weights, on the CPU."""
    illegal = {"illegal": rules.legal, "illegal_start": rules.start, "illegal_end": rules.end}
    values = {name: torch.from_numpy(~legal) for name, legal in illegal.items()}
    return {**values, "weights": _class_weights(weights, len(rules))}


def _class_weights(given: Sequence[float] | Tensor | None, size: int) -> Tensor | None:
    """(D,) weights, finite and not negative."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        raise ShapeError("weights must be a list, one a tag in the order of their ids, got a mapping")
    weights = torch.as_tensor(given, dtype=torch.float32, device="cpu").detach().clone()
    if weights.shape != (size,):
        raise ShapeError(f"weights must be ({size},), one a tag, got {tuple(weights.shape)}")
    if not (weights.isfinite() & (weights >= 0)).all():
        raise ShapeError(f"weights must be finite and not negative, got {weights.tolist()}")
    return weights


def spans(
    given: Sequence[Sequence[tuple[int, int, str]]], mask: Tensor, matrices: TagMatrices
) -> tuple[Tensor, Tensor]:
    """Spans as rows of (row, start, end) and the tags of their types: (N, 3) and (N, D)."""
    if len(given) != len(mask):
        raise ShapeError(f"spans must hold one list for each of the {len(mask)} rows, got {len(given)}")
    lengths = mask.sum(1).tolist()
    numbers = {kind: number for number, kind in enumerate(matrices.types)}
    found: list[tuple[int, int, int, int]] = []
    for row, length in enumerate(lengths):
        if not isinstance(given[row], Sequence):
            raise ShapeError(f"row {row}: its spans are a list, empty where there are none; got {given[row]!r}")
        for span in given[row]:
            start, end, kind = _triple(span, row)
            if not 0 <= start < end <= length:
                raise ShapeError(
                    f"row {row}: span ({start}, {end}) leaves its {length} labelled positions; end is exclusive"
                )
            if kind not in numbers:
                raise ConstraintError(f"row {row}: no tag has the type {kind!r}; types are {', '.join(matrices.types)}")
            found.append((row, start, end, numbers[kind]))
    index = torch.tensor(found, dtype=torch.long, device=mask.device).view(-1, 4)
    types = torch.from_numpy(matrices.type_index[:-1]).to(mask.device)
    return index[:, :3], index[:, 3:] == types


def _triple(span: Any, row: int) -> Sequence[Any]:
    """Start, end and type, which more may follow."""
    listed = hasattr(span, "__len__") and not isinstance(span, str) and len(span) >= 3
    if not (listed and isinstance(span[0], _WHOLE) and isinstance(span[1], _WHOLE)):
        raise ShapeError(f"row {row}: a span is (start, end, type), got {span!r}; each row has a list of them")
    return span[:3]  # type: ignore[no-any-return]


class Notice(NamedTuple):
    """A number in the host's memory that a GPU writes when it comes to it; nobody has to wait for it or to copy it."""

    value: Tensor
    """(), float64."""
    bits: NDArray[np.int64]
    """(1,), the same memory."""

    @property
    def arrived(self) -> bool:
        """Whether it has been written since it was handed out."""
        return bool(self.bits[0] != _AWAITED)


_AWAITED = 0x7FF8_6D61_736B_6564
"""A NaN that no computation ends in."""
_free: list[Notice] = []
"""Kept for the whole process, since a device may still write when nobody cares any more."""


def notice_from(results: Tensor) -> Notice | None:
    """Room for a number from the device of `results`; none on the CPU, which is looked at at once, or in a graph."""
    if torch.compiler.is_compiling() or not results.is_cuda or torch.cuda.is_current_stream_capturing():
        return None
    if not _free:
        block = torch.empty(64, dtype=torch.float64, pin_memory=True)
        bits = block.numpy().view(np.int64)
        _free.extend(Notice(block[n], bits[n : n + 1]) for n in range(0, 64, 2))  # each at a multiple of 16 bytes
    notice = _free.pop()
    notice.bits[0] = _AWAITED
    return notice


class Pending:
    """Raises where a row has no legal path or an illegal gold path.

    On the CPU at once. On a GPU looking at the result would stop the host until the device is done, so a notice of
    every result is looked at in a later call, as CUDA's own errors are.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, ...]] = deque()

    def check(
        self,
        results: Tensor,
        lattice: Lattice,
        tags: Tensor | None,
        constraints: Constraints,
        *,
        reduced: Reduced | None = None,
        notice: Notice | None = None,
    ) -> None:
        """Look at `results` (B,), which must be finite; what they were `reduced` to tells sooner, where it is known."""
        if torch.compiler.is_compiling():
            return
        telling = _plain(results if reduced is None else reduced.total)
        if not results.is_cuda:
            if not _all_finite(telling) and not results.isfinite().all():
                explain(results, lattice, tags, constraints)
            return
        if (notice := notice or notice_from(results)) is None:
            return
        self.look()
        if reduced is None or not reduced.noticed:
            notice.value.copy_(telling.sum(dtype=torch.float64), non_blocking=True)
        if lattice.emissions.requires_grad:
            lattice = lattice._replace(emissions=lattice.emissions.detach())
        self._waiting.append((notice, _plain(results), lattice, tags, constraints))

    def look(self) -> None:
        """Look at the notices that have arrived: after waiting for a result, at its own too."""
        while self._waiting and self._waiting[0][0].arrived:
            notice, *rest = self._waiting.popleft()
            _free.append(notice)
            if not _all_finite(notice.value) and not rest[0].isfinite().all():
                explain(*rest)

    def __deepcopy__(self, memo: Any) -> Pending:
        return Pending()  # what is under way on a device belongs to the layer that asked

    def __reduce__(self) -> tuple[type[Pending], tuple[()]]:
        return Pending, ()


def _plain(values: Tensor) -> Tensor:
    """The values without what they came from, of which nothing must be kept alive."""
    return values.detach() if values.requires_grad else values


def _all_finite(values: Tensor) -> bool:
    """In one small kernel or none; large ones may overflow, so that a no is to be looked at again."""
    return math.isfinite((values.sum() if values.ndim else values).item())


def explain(results: Tensor, lattice: Lattice, tags: Tensor | None, constraints: Constraints) -> None:
    """Raise the error that names the first row at fault: what, where, and what to do."""
    row = int((~results.isfinite()).cpu().nonzero()[0])
    emissions, mask, transitions, start, end = (part.detach().cpu() for part in lattice.scores())
    positions = mask[row].nonzero().squeeze(1)
    scores = emissions[row, positions]
    spoilt = (scores.isnan() | (scores == torch.inf)).any(1).nonzero()
    if len(spoilt):
        raise IllegalPathError(
            f"row {row}, position {int(positions[spoilt[0]])}: emissions are NaN or infinite; look at the encoder"
        )
    if not all((part.isfinite() | (part == -torch.inf)).all() for part in (transitions, start, end)):
        raise IllegalPathError(
            "the transition scores are NaN or infinite: has training diverged? Lower its rate or clip gradients"
        )
    if tags is not None:
        _explain_gold(row, scores, tags[row].cpu()[positions], positions, constraints)
    one_row = (emissions[row : row + 1].double(), mask[row : row + 1])
    if reference.log_partition(*one_row, transitions.double(), start.double(), end.double()).isfinite().all():
        raise IllegalPathError(
            f"row {row}: scores are too large for {emissions.dtype}; use float64, or scale them down"
        )
    raise IllegalPathError(
        f"row {row}: no legal path over its {len(positions)} labelled positions; "
        f"widen `allowed` there, or the constraint's start and end"
    )


def _explain_gold(row: int, scores: Tensor, gold: Tensor, positions: Tensor, constraints: Constraints) -> None:
    names = constraints.tags
    for tag, position in zip(gold.tolist(), positions.tolist(), strict=True):
        if not 0 <= tag < len(names):
            remedy = ": pass mask=tags != -100" if tag == reference.PAD else ""
            known = f"ids run from 0 to {len(names) - 1}"
            raise IllegalPathError(f"row {row}, position {position}: {tag} is no tag id, {known}{remedy}")
    forbidden = scores.gather(1, gold[:, None]).squeeze(1) == -torch.inf
    if forbidden.any():
        at = int(forbidden.nonzero()[0])
        place = f"row {row}, position {int(positions[at])}"
        raise IllegalPathError(
            f"{place}: gold tag {names[gold[at]]} is not in the allowed set; widen `allowed` there or correct the label"
        )
    for step, before, after in constraints.violations(gold.tolist()):
        at = int(positions[min(step, len(positions) - 1)])
        rules = constraints.scheme.name if constraints.scheme else "the constraint"
        raise IllegalPathError(
            f"row {row}, position {at}: gold steps from {before or 'the start'} to {after or 'the end'}, "
            f"which {rules} forbids; repair or drop the sentence"
        )
