"""A tagger that is often unsure, and one that has learnt the small corpus."""

from __future__ import annotations

import pytest
from small_corpus import SMALL, corpus

from maskedcrf.tagger import Tagger


@pytest.fixture(scope="session")
def vague() -> Tagger:
    return Tagger.train(corpus(20), **{**SMALL, "epochs": 2, "dev_fraction": 0.0})


@pytest.fixture(scope="session")
def able() -> Tagger:
    return Tagger.train(corpus(60), **{**SMALL, "epochs": 6, "dev_fraction": 0.0})
