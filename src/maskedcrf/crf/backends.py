"""Which backend computes on which device: the only file that knows every backend.

A backend is a module with the functions of `matmul`.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.errors import MaskedCRFError, MissingExtraError


class Backend(NamedTuple):
    """What a backend needs: a library, and tensors on one kind of device (None: any)."""

    title: str
    module: str
    library: str = "torch"
    device: str | None = None


BACKENDS = {
    "reference": Backend("reference (torch)", "reference"),
    "plain": Backend("plain (torch)", "matmul"),
    "cpu": Backend("cpu (numba)", "cpu", "numba", "cpu"),
    "gpu": Backend("gpu (Triton)", "triton", "triton", "cuda"),
}
_PREFERRED = {backend.device: name for name, backend in BACKENDS.items() if backend.device}
_modules: dict[tuple[str, str], Any] = {}


def known_backend(name: str) -> str:
    """The name, if there is such a backend."""
    if name != "auto" and name not in BACKENDS:
        raise MaskedCRFError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {name!r}")
    return name


def describe(backend: str, device: torch.device) -> str:
    """The backend that answers on this device, for `repr`."""
    return BACKENDS[_choose(backend, device.type)].title


def _choose(backend: str, device: str) -> str:
    if backend != "auto":
        return backend
    preferred = _PREFERRED.get(device)
    return preferred if preferred and importlib.util.find_spec(BACKENDS[preferred].library) else "plain"


def module_of(backend: str, tensor: Tensor) -> Any:
    """The module that computes, imported on first use."""
    key = backend, tensor.device.type
    if key not in _modules:
        name = _choose(*key)
        needs = BACKENDS[name]
        if needs.device not in (None, key[1]):
            raise MaskedCRFError(
                f"backend {name!r} computes on {needs.device} tensors, these are on {key[1]}: use 'auto'"
            )
        if not importlib.util.find_spec(needs.library):
            raise MissingExtraError(
                f"backend {name!r} needs {needs.library}: pip install {needs.library}, or use 'auto'"
            )
        _modules[key] = importlib.import_module(f"maskedcrf.crf.{needs.module}")
    return _modules[key]
