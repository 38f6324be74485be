"""What stands where an entity stood: its type, a mark of its own for each name, blanks, or what a function says."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal, get_args

from maskedcrf.errors import MaskedCRFError

ReplaceName = Literal["type", "name", "blank"]
Replace = ReplaceName | Callable[[str, str], str]
"""`[PER]`, `[PER-1]`, blanks of equal length, or a function of the type and the hidden text."""
UNNAMED = "HIDDEN"
"""Shown for a type without a name."""


class Marks:
    """The marks of one document: the same name of the same type always gets the same one."""

    def __init__(self, replace: Replace = "type") -> None:
        require_replace(replace)
        self._replace = replace
        self._numbers: dict[tuple[str, str], int] = {}
        self._last: dict[str, int] = {}

    def mark(self, kind: str, text: str) -> str:
        """What to write in place of this text."""
        if callable(self._replace):
            mark = self._replace(kind, text)
            if not isinstance(mark, str):
                raise MaskedCRFError(f"a replace function must return a string, got {type(mark).__name__} for {kind}")
            return mark
        if self._replace == "blank":
            return " " * len(text)
        kind_name = kind or UNNAMED
        return f"[{kind_name}]" if self._replace == "type" else f"[{kind_name}-{self._number(kind_name, text)}]"

    def _number(self, kind: str, text: str) -> int:
        name = kind, normalise(text)
        if name not in self._numbers:
            self._last[kind] = self._numbers[name] = self._last.get(kind, 0) + 1
        return self._numbers[name]


def normalise(name: str) -> str:
    """The name by which two spellings are one: whatever their case, their blanks and the code of their accents."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).split())


def require_replace(replace: object) -> None:
    """Refuse what is neither a way of replacing nor a function."""
    if not callable(replace) and replace not in get_args(ReplaceName):
        raise MaskedCRFError(
            f"replace must be one of {', '.join(get_args(ReplaceName))} or a function, got {replace!r:.40}"
        )
