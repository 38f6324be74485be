"""What mkdocs does not do by itself: formulas as MathML, which browsers draw without a script or a download."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """The page with every formula drawn."""
    return FORMULA.sub(_drawn, html)


def _drawn(found: re.Match[str]) -> str:
    kind, bracket, formula = found.groups()
    drawn = convert(unescape(formula).strip(), display="block" if bracket == "[" else "inline")
    return f'<{kind} class="formula">{drawn}</{kind}>'
