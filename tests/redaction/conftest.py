"""A tagger for all tests of this folder; whoever changes it copies it first."""

from __future__ import annotations

import copy

import pytest
from small_corpus import SMALL, corpus

from maskedcrf.tagger import Tagger


@pytest.fixture(scope="session")
def trained() -> Tagger:
    """One that has learnt some, so that its probabilities are of every size."""
    return Tagger.train(corpus(40), **{**SMALL, "epochs": 4, "dev_fraction": 0.0})


@pytest.fixture
def tagger(trained: Tagger) -> Tagger:
    """One of one's own, to promise by and to spoil."""
    return Tagger(copy.deepcopy(trained.model), output_scheme=trained.output_scheme, record=trained.record)
