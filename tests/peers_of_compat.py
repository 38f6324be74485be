"""Files of libraries that cannot be installed beside current torch, loaded by themselves.

`make test` keeps the packages, without what they depend on, in the folder `peers` of the environment. Their packages'
own `__init__` files import half the world, so bare stand-ins take their place while one file is loaded.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PEERS = Path(sys.prefix) / "peers"


def load(module: str, *, stubs: dict[str, dict[str, Any]]) -> ModuleType:
    """The module, with bare packages above it and modules in place of `stubs` that hold these attributes only."""
    parts = module.split(".")
    if not (PEERS / parts[0]).is_dir():
        pytest.skip(f"{parts[0]} is not in {PEERS}; `make test` puts it there")
    before = dict(sys.modules)
    try:
        for name in _packages([module, *stubs]):
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [str(PEERS.joinpath(*name.split(".")))]
        for name, attributes in stubs.items():
            vars(sys.modules.setdefault(name, ModuleType(name))).update(attributes)
        return import_module(module)
    finally:
        for name in set(sys.modules) - set(before):
            if name.partition(".")[0] == parts[0]:
                del sys.modules[name]


def _packages(modules: list[str]) -> list[str]:
    """The packages among these modules and above them, the outermost first."""
    found = {name.rsplit(".", depth)[0] for name in modules for depth in range(name.count(".") + 1)}
    return sorted(name for name in found if PEERS.joinpath(*name.split(".")).is_dir())
