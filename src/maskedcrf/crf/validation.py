"""Checks of what callers give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from maskedcrf.errors import ConstraintError, MaskedCRFError, ShapeError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import TagMatrices

_WHOLE, _LISTED = (int, np.integer), (tuple, list)


def one_of(value: str, name: str, choices: Any) -> None:
    """A mode is one of its words."""
    if value not in get_args(choices):
        raise MaskedCRFError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")


def at_least_one(value: object, name: str) -> None:
    """A number of paths is one or more."""
    if not isinstance(value, _WHOLE) or int(value) < 1:
        raise MaskedCRFError(f"{name} must be a whole number and at least 1, got {value!r}")


def tensor(given: object, name: str) -> None:
    """Arrays and lists are refused, because only a tensor says which device it is on."""
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


def apply_allowed(emissions: Tensor, allowed: Tensor) -> Tensor:
    """Emissions that are -inf where a tag is not allowed."""
    tensor(allowed, "allowed")
    if allowed.shape != emissions.shape:
        raise ShapeError(f"allowed must be {tuple(emissions.shape)} like the emissions, got {tuple(allowed.shape)}")
    if allowed.dtype != torch.bool:
        raise ShapeError(f"allowed must be Boolean, got {allowed.dtype}: write allowed > 0 or allowed.bool()")
    return emissions.masked_fill(~allowed.to(emissions.device), -torch.inf)


def apply_weights(emissions: Tensor, weights: Tensor) -> Tensor:
    """Emissions times the weight of their tag; what is excluded stays so, whatever the weight."""
    excluded = emissions == -torch.inf
    return (emissions.masked_fill(excluded, 0) * weights).masked_fill(excluded, -torch.inf)


def rule_buffers(rules: Constraints, weights: Sequence[float] | Tensor | None) -> dict[str, Tensor | None]:
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
    numbers = {kind: number for number, kind in enumerate(matrices.types)}
    found = list[int]()
    for row, (listed, length) in enumerate(zip(given, mask.sum(1).tolist(), strict=True)):
        if not isinstance(listed, Sequence):
            raise ShapeError(f"row {row}: its spans are a list, empty where there are none; got {listed!r}")
        for span in listed:
            start, end, kind = _triple(span, row)
            if not 0 <= start < end <= length:
                raise ShapeError(
                    f"row {row}: span ({start}, {end}) leaves its {length} labelled positions; end is exclusive"
                )
            if kind not in numbers:
                raise ConstraintError(f"row {row}: no tag has the type {kind!r}; types are {', '.join(matrices.types)}")
            found += row, start, end, numbers[kind]
    index = torch.from_numpy(np.array(found, np.int64).reshape(-1, 4)).to(mask.device)
    types = torch.from_numpy(matrices.type_index[:-1]).to(mask.device)
    return index[:, :3], index[:, 3:] == types


def _triple(span: Any, row: int) -> Any:
    """Start, end and type, which more may follow."""
    whole = isinstance(span, _LISTED) and len(span) >= 3 and isinstance(span[0], _WHOLE)
    if whole and isinstance(span[1], _WHOLE):
        return span[:3]
    raise ShapeError(f"row {row}: a span is (start, end, type), got {span!r}; each row has a list of them")
