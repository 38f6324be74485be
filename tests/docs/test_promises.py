"""Every promise names tests that exist and are not skipped."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def decorators(file: str) -> dict[str, str]:
    """The tests of a file, and what stands above each."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: " ".join(map(ast.unparse, node.decorator_list)) for node in functions}


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/guides/serving.md"])
def test_the_tests_that_hold_a_promise_exist_and_are_not_skipped(page: str) -> None:
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    missing = [name for file, name in named if "skip" in decorators(file).get(name, "skip: there is none")]
    assert not missing
