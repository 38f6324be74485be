"""What the site makes of our pages and docstrings beyond what mkdocs does by itself."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import griffe
import markdown
import yaml

DOCS = Path(__file__).parents[2] / "docs"


def test_formulas_are_drawn_without_a_script() -> None:
    draw = runpy.run_path(str(DOCS / "hooks.py"))["on_page_content"]
    options = {"extension_configs": {"pymdownx.arithmatex": {"generic": True}}}
    page = markdown.markdown(
        (DOCS / "maths.md").read_text(encoding="utf-8"), extensions=["pymdownx.arithmatex"], **options
    )
    drawn = draw(page)
    assert drawn.count("<math") == page.count('class="arithmatex"') > 40
    assert not re.search(r"\\[a-z(\[]|\$", re.sub(r"<code>.*?</code>", "", drawn, flags=re.DOTALL))
    assert "<mi>α</mi>" in drawn.replace("&#x003B1;", "α")


def test_examples_in_docstrings_become_code() -> None:
    extension = runpy.run_path(str(DOCS / "doctests.py"))["Doctests"]()
    value = "First line.\n\n>>> one()\n>>> two(\n...     3)\n[1, 2]\n\nMore.\n\n    >>> inner()\n\nEnd."
    found = griffe.Function("example", docstring=griffe.Docstring(value))
    extension.on_instance(obj=found)
    expected = "First line.\n\n```pycon\n>>> one()\n>>> two(\n...     3)\n[1, 2]\n```\n\nMore.\n\n"
    assert found.docstring.value == expected + "    ```pycon\n    >>> inner()\n    ```\n\nEnd."


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r": (\S+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))["strict"] is True


PLUMBING = {"Gold", "Packed", "Paths", "follow", "pack"}
"""How rows are packed and results carried; no quantity of the model."""


def test_the_mathematics_name_every_function_of_the_reference() -> None:
    source = ast.parse((DOCS.parent / "src/maskedcrf/crf/reference.py").read_text(encoding="utf-8"))
    public = {node.name for node in source.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    named = set(re.findall(r"`(\w+)`", (DOCS / "maths.md").read_text(encoding="utf-8")))
    assert {name for name in public if not name.startswith("_")} - PLUMBING <= named
