"""What the experiments' tests share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from small_corpus import corpus

from experiments import train


@pytest.fixture
def small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every corpus is a small one: 24 sentences in train, 6 in dev, 8 in test."""
    small = SimpleNamespace(train=corpus(24), dev=corpus(6, seed=1), test=corpus(8, seed=2), scheme="BIO", gold="error")
    monkeypatch.setattr(train, "read_corpus", lambda name, folder: small)
