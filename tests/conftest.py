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
    torch, state = sys.modules.get("torch"), dict[str, Any](folder=os.getcwd())  # noqa: PTH109
    if torch is not None:
        state["torch"] = torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()
    return state


def _silenced() -> dict[str, Any]:
    """Loggers that keep messages from whoever reads them; those of a fresh process do not, nor does importing ours."""
    found = {name: each for name, each in logging.root.manager.loggerDict.items() if name.startswith("maskedcrf")}
    loggers = [logging.root, *(each for each in found.values() if isinstance(each, logging.Logger))]
    states = {each.name: (each.level, each.disabled, each.propagate, each.filters) for each in loggers}
    fresh = {name: (logging.WARNING if name == "root" else logging.NOTSET, False, True, []) for name in states}
    silenced = {name: state for name, state in states.items() if state != fresh[name]}
    return silenced | ({"disabled up to": logging.root.manager.disable} if logging.root.manager.disable else {})


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """A test leaves the process as it found it, or what fails for its sake is another test."""
    assert not _silenced(), f"an import, or a fixture that tests share, has changed what is logged: {_silenced()}"
    before = _process_state()
    yield
    after = _process_state()
    changed = {name: (value, after[name]) for name, value in before.items() if after[name] != value} | _silenced()
    assert not changed, f"left behind: {changed}"
