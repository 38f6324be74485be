"""The tagger: encoder and masked CRF from raw text to entities, saved as safetensors and JSON.

`Tagger` is imported on first use, so that results can be read where torch is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maskedcrf.tagger.tagger import Tagger

__all__ = ["Tagger"]


def __getattr__(name: str) -> Any:
    if name != "Tagger":
        raise AttributeError(f"module 'maskedcrf.tagger' has no attribute {name!r}")
    from maskedcrf.tagger.tagger import Tagger

    return Tagger
