"""Masked conditional random fields: sequence labelling that never leaves its tagging scheme.

Heavy parts are imported on first use, so that `import maskedcrf` needs neither torch nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maskedcrf.crf.layer import MaskedCRF as MaskedCRF
    from maskedcrf.errors import MaskedCRFError as MaskedCRFError
    from maskedcrf.evaluation.audit import audit as audit
    from maskedcrf.evaluation.conlleval import evaluate as evaluate
    from maskedcrf.tagger import Tagger as Tagger
    from maskedcrf.tags.constraints import Constraints as Constraints
    from maskedcrf.tags.scheme import Scheme as Scheme

__version__ = "0.1.0"

_HOMES = {
    "Constraints": "maskedcrf.tags.constraints",
    "MaskedCRF": "maskedcrf.crf.layer",
    "MaskedCRFError": "maskedcrf.errors",
    "Scheme": "maskedcrf.tags.scheme",
    "Tagger": "maskedcrf.tagger",
    "audit": "maskedcrf.evaluation.audit",
    "evaluate": "maskedcrf.evaluation.conlleval",
}

__all__ = ["Constraints", "MaskedCRF", "MaskedCRFError", "Scheme", "Tagger", "__version__", "audit", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maskedcrf' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
