"""Examples of docstrings as code: without a fence of its own, `>>>` would be taken for a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around each example before the docstring is read as Markdown."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that has been collected."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(found: re.Match[str]) -> str:
    indent = found[1]
    return f"{indent}```pycon\n{found[0]}\n{indent}```"
