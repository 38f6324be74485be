"""Settings for every test: hypothesis profiles, and the folder of real corpora."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora; tests that ask for it carry the mark `corpora`."""
    folder = os.environ.get("MASKEDCRF_CORPORA")
    if not folder:
        pytest.skip("set MASKEDCRF_CORPORA to a folder of real corpora to run this test")
    return Path(folder)
