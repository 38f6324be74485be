"""Settings for every test: hypothesis profiles, the folder of real corpora, what needs a GPU, nothing left behind."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
settings.register_profile("default", UNTIMED)
settings.register_profile("ci", UNTIMED, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
os.environ.setdefault("RAY_worker_niceness", "0")  # with Ray's own 15 a busy machine leaves its workers no time


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora; tests that ask for it carry the mark `corpora`."""
    folder = os.environ.get("MASKEDCRF_CORPORA")
    if not folder:
        pytest.skip("set MASKEDCRF_CORPORA to a folder of real corpora to run this test")
    return Path(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none; torch is imported only if such a test was asked for."""
    needing = [item for item in items if item.get_closest_marker("gpu")]
    if needing:
        import torch

        if not torch.cuda.is_available():
            for item in needing:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives to the end: the search for garbage, a tenth of all time, leaves it out and is rarer."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)


def _process_state() -> dict[str, Any]:
    """What our code could change for every later test of the process."""
    own, torch = logging.getLogger("maskedcrf"), sys.modules.get("torch")
    state: dict[str, Any] = {
        "folder": os.getcwd(),  # noqa: PTH109
        "logging": (own.level, own.disabled, own.propagate, own.manager.disable),
    }
    if torch is not None:
        state["torch"] = torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()
    return state


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """A test leaves the process as it found it, or what fails for its sake is another test."""
    before = _process_state()
    yield
    after = _process_state()
    changed = {name: (value, after[name]) for name, value in before.items() if after[name] != value}
    assert not changed, f"left behind: {changed}"
