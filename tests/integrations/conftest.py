"""The tagger of the tests of the tagger, saved."""

from __future__ import annotations

from tagger.conftest import saved, tagger

__all__ = ["saved", "tagger"]
