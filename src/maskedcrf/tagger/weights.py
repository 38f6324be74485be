"""The weights of a model folder: checked against the model from the file's header alone, then read, once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import prod
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from maskedcrf.errors import ModelFolderError

LARGEST_HEADER = 16 << 20
MAX_MODULES_PER_WEIGHT = 32
"""A model needs some modules without weights beside those with: activations, dropout, containers."""
SPARE_WEIGHTS = 64
"""Weights that a library builds and that are taken out again before they are saved, such as a pooler's."""
SPARE_TABLE_BYTES = 64 << 20
"""Of tables that a library computes and never saves, such as those of positions, beside twice the weights' own size."""
WORTH_THREADS = 16 << 20
"""Bytes to digest above which more threads than one save time."""
_TYPES = {
    **dict.fromkeys(("F64", "F32", "F16", "BF16"), "floating-point"),
    **dict.fromkeys(("I64", "I32", "I16", "I8", "U8"), "whole"),
    "BOOL": "Boolean",
}
"""safetensors' names of the number types that weights may have, and what kind of numbers they are."""
_DRAW = frozenset(("uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_"))
"""Functions of torch, and of libraries in their place, that fill a tensor with random numbers."""


class OneNumberDrawn(TorchFunctionMode):
    """While this lasts one number is drawn for all of a tensor: those of a file are about to replace them.

    It is drawn as they would be: a function that refuses its arguments, or draws until all are in bounds, still does.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Draw one number where torch would draw as many as the tensor has."""
        named = dict(kwargs or {})
        if getattr(func, "__name__", "") not in _DRAW:
            return func(*args, **named)
        tensor, *given = args or (named.pop("tensor"),)
        one = torch.empty((1,) * tensor.ndim, dtype=tensor.dtype, device="cpu")
        with torch.no_grad():
            return tensor.fill_(func(one, *given, **named).item())


class Entry(NamedTuple):
    """What the header of a weights file says of one tensor."""

    kind: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, Entry]:
    """Names, types and shapes of the tensors, after a look at the header's size."""
    with path.open("rb") as handle:
        size = int.from_bytes(handle.read(8), "little")
    if size > min(LARGEST_HEADER, max(path.stat().st_size - 8, 0)):
        raise ModelFolderError(f"{path}: not a safetensors file, or its header is oversized ({size} bytes)")
    with _reading(path), safe_open(path, framework="pt") as tensors:
        slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118  (not a dict)
        return {name: Entry(str(one.get_dtype()), tuple(one.get_shape())) for name, one in slices.items()}


def check_header(path: Path, found: Mapping[str, Entry], model: nn.Module) -> None:
    """Refuse weights of other names, shapes or kinds of numbers than the model's."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    shapes = {name: entry.shape for name, entry in found.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != shapes.get(name):
            sides = [str(side.get(name, "nothing")) for side in (shapes, expected)]
            shown = ascii(name)[1:-1][:100]  # of no model's own, perhaps
            raise ModelFolderError(f"{path}: {shown} is {sides[0]} where the model of config.json has {sides[1]}")
    for name, tensor in model.state_dict().items():
        if _TYPES.get(found[name].kind) != _kind(tensor):
            raise ModelFolderError(
                f"{path}: {name} holds numbers of type {found[name].kind}, the model has {_kind(tensor)} numbers there"
            )


def _kind(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return "floating-point"
    return "Boolean" if tensor.dtype == torch.bool else "whole"


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors, all of them finite."""
    with _reading(path), safe_open(path, framework="pt") as tensors:
        weights = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118  (not a dict)
    for name, tensor in weights.items():
        # A sum is finite only if all its parts are, and takes half the time; one that overflows proves nothing.
        if tensor.is_floating_point() and not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise ModelFolderError(f"{path}: {name} holds NaN or infinite weights; train again, or give another model")
    return weights


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise ModelFolderError(
            f"{path}: not a sound safetensors file ({str(error).splitlines()[0]}); save or fetch the model again"
        ) from error


def digest_weights(weights: Mapping[str, Tensor]) -> str:
    """Equal for equal names, types, shapes and numbers, however a file has them arranged."""

    def digest(name: str) -> str:
        tensor = weights[name].contiguous()
        found = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
        return found.hexdigest()

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        over = pool.map if sum(tensor.nbytes for tensor in weights.values()) > WORTH_THREADS else map
        return hashlib.sha256("\n".join(over(digest, sorted(weights))).encode()).hexdigest()


@contextmanager
def building_at_most(header: Mapping[str, Entry], where: str) -> Iterator[None]:
    """Stop building a model that grows beyond the weights of this header: a configuration costs no more than they."""
    left = {
        "weights": len(header) + SPARE_WEIGHTS,
        "modules": MAX_MODULES_PER_WEIGHT * (len(header) + SPARE_WEIGHTS),
        "table bytes": SPARE_TABLE_BYTES + 8 * sum(prod(entry.shape) for entry in header.values()),
    }
    thread = get_ident()

    def take(kind: str, amount: int) -> None:
        if get_ident() != thread:
            return
        left[kind] -= amount
        if left[kind] < 0:
            raise ModelFolderError(
                f"{where}: describes a larger model than the {len(header)} weights it came with; save it again"
            )

    handles = [
        hooks.register_module_parameter_registration_hook(lambda module, name, weight: take("weights", 1)),
        hooks.register_module_module_registration_hook(lambda module, name, inner: take("modules", 1)),
        hooks.register_module_buffer_registration_hook(
            lambda module, name, table: take("table bytes", 0 if table is None else table.nbytes)
        ),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
