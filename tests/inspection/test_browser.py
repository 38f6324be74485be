"""The page in a real browser: read without a script, on a desk and on a phone, by eye, keyboard and screen reader."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_corpus import corpus

from maskedcrf.inspection.comparison import inspect_pair
from maskedcrf.inspection.page import page
from maskedcrf.tags.scheme import Scheme

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]
CHROMIUM = os.environ.get("MASKEDCRF_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_every_screen_and_shuts_nobody_out(vague, able, tmp_path: Path, width: int, colours: Any) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium found; install one, or name it in MASKEDCRF_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    found, comparison = inspect_pair(vague, able, corpus(40, 9), gold_scheme=Scheme.get("BIO"))
    (tmp_path / "report.html").write_text(page("two", found, comparison=comparison, signature="v:1"), encoding="utf-8")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        view = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
        view.goto((tmp_path / "report.html").as_uri())
        assert view.evaluate("document.documentElement.scrollWidth") == width
        assert view.locator("mark.wrong").count() > 0
        problems = axe.run(view).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in problems] == []
        browser.close()
