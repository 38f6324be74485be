"""A tagger trained once for all tests of this folder."""

from __future__ import annotations

import pytest
from small_corpus import SMALL, corpus

from maskedcrf.tagger import Tagger


@pytest.fixture(scope="session")
def tagger() -> Tagger:
    """A masked CRF in BIO that has learnt the small corpus."""
    return Tagger.train(corpus(60), corpus(20, 1), test=corpus(20, 2), **{**SMALL, "epochs": 6})


@pytest.fixture(scope="session")
def vague() -> Tagger:
    """One that has learnt next to nothing, so that many segments are about as probable."""
    return Tagger.train(corpus(6), **{**SMALL, "epochs": 1, "dev_fraction": 0.0, "decoding": "path"})


@pytest.fixture(scope="session")
def saved(tagger, tmp_path_factory):
    """Its model folder; tests that spoil one copy it first."""
    return tagger.save(tmp_path_factory.mktemp("model") / "saved")
