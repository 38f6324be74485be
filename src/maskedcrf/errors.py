"""The errors callers can catch: one family, a few children, each saying what to do."""

from __future__ import annotations


class MaskedCRFError(ValueError):
    """Anything maskedcrf refuses: catch this one to catch them all."""


class SchemeError(MaskedCRFError):
    """A tag, prefix or scheme name that the tables do not know."""


class ConstraintError(MaskedCRFError):
    """A constraint that cannot be used: wrong shape, or no legal path at all."""


class ShapeError(MaskedCRFError):
    """A tensor of the wrong shape, dtype or device."""


class IllegalPathError(MaskedCRFError):
    """A gold path that the constraint forbids, or a row with no legal path."""


class DataError(MaskedCRFError):
    """A file that cannot be read as what it should be; the message begins with file:line, or a folder's name."""


class ModelFolderError(MaskedCRFError):
    """A model folder that is damaged, foreign or hostile; the message says what is wrong with which file."""


class VoidPromiseError(MaskedCRFError):
    """A promised miss rate that was made for another model, tokenizer or set of types."""


class MissingExtraError(MaskedCRFError, ImportError):
    """An optional library is absent; the message says how to install it."""
