"""The tagger: encoder and masked CRF from raw text to entities, saved as safetensors and JSON."""

from __future__ import annotations

from maskedcrf.tagger.tagger import Tagger

__all__ = ["Tagger"]
