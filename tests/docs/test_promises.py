"""Every promise names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/guides/serving.md"])
def test_the_tests_that_hold_a_promise_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert len(named) > 10
    missing = [name for file, name in named if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")]
    assert not missing
