"""The backends, so that every test of the layer runs against all of them."""

from __future__ import annotations

import pytest

BACKENDS = ["reference", "plain", "cpu", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn; the tests of the layer run against all of them."""
    return str(request.param)
