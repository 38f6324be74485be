"""The page in a real browser: type, read, look, choose, share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from service_helpers import TEXT, listening, promising_tagger
from small_corpus import SMALL, corpus

from maskedcrf.service import limits
from maskedcrf.service.collect import Collector
from maskedcrf.tagger import Tagger

pytestmark = [
    pytest.mark.browser,
    # The driver's own event loop; nothing of ours.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
CHROMIUM = os.environ.get("MASKEDCRF_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NODE = 'td[data-position="{}"][data-tag="{}"]'


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening() as (host, port):
        yield f"http://{host}:{port}/"


@pytest.fixture(scope="module")
def unmasked_address() -> Iterator[str]:
    with listening(mask="decode") as (host, port):
        yield f"http://{host}:{port}/"


@pytest.fixture(scope="module")
def promising_address() -> Iterator[str]:
    with listening(tagger=promising_tagger()) as (host, port):
        yield f"http://{host}:{port}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium found; install one, or name it in MASKEDCRF_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def view(browser: Any) -> Iterator[Any]:
    """A page, the complaints of its console, and where its requests went."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(20_000)
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    context.on("request", lambda request: requests.append(request.url))
    yield SimpleNamespace(page=page, complaints=complaints, requests=requests, context=context)
    assert complaints == []
    assert len({urlsplit(url).netloc for url in requests}) == 1, "every request goes to the page's own server"
    context.close()


def opened(view: Any, address: str, fragment: str = "") -> Any:
    view.page.goto(address + fragment)
    if fragment:
        view.page.wait_for_selector("#results:not([hidden]) table.grid")
    return view.page


def path_of(page: Any) -> list[str]:
    """The masked path, as the lattice shows it."""
    return page.eval_on_selector_all(
        "td.on", "cells => cells.sort((a, b) => a.dataset.position - b.dataset.position).map(c => c.dataset.tag)"
    )


def wait_for_path(page: Any, *tags: str) -> None:
    page.wait_for_function(
        """tags => JSON.stringify([...document.querySelectorAll("td.on")]
          .sort((a, b) => a.dataset.position - b.dataset.position).map(c => c.dataset.tag)) === tags""",
        arg="[" + ",".join(f'"{tag}"' for tag in tags) + "]",
    )


def only_refused(view: Any) -> None:
    """The browser itself notes each answer of 4xx; there was such a one, and no other complaint."""
    assert view.complaints
    assert [text for text in view.complaints if "422" not in text] == []
    view.complaints.clear()


LEGAL = ("B-PER", "I-PER", "O", "O", "B-LOC", "O")
SHOWN = "#text=Ann+Lee+flew+to+Oslo."


def test_typing_a_sentence_shows_its_entities_with_exact_probabilities(view: Any, address: str) -> None:
    page = opened(view, address)
    page.get_by_label("Sentence").type(TEXT)
    wait_for_path(page, *LEGAL)
    # The figures are those that test_server.py lists paths for.
    assert page.locator("mark").all_inner_texts() == ["Ann LeePER 91.15 %", "OsloLOC 88.87 %"]
    assert "Ann Lee PER 91.15 %; Oslo LOC 88.87 %" in page.get_by_role("status").inner_text()
    assert page.locator("#entities").inner_text().startswith("Ann Lee")
    assert page.get_by_role("button", name="Keep every tag").is_hidden()  # this server keeps nothing


def test_the_illegal_step_of_the_best_tags_is_crossed_out_and_named(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    assert page.locator("#lattice line.illegal").count() == 1
    assert page.locator("#lattice path.cross").count() == 1
    assert "O → I-LOC at “Oslo”" in page.locator("#facts").inner_text()
    assert "if each token takes the encoder’s best tag for it alone" in page.locator("#facts").inner_text()
    assert "without the mask" not in page.locator("body").inner_text()
    page.get_by_label("every illegal edge").check()
    # Of the 25 steps between two tokens BIO forbids 6; two tags may not begin a sentence.
    assert page.locator("#lattice line.illegal.all").count() == 6 * 5 + 2
    assert "illegal=1" in page.url


def test_a_model_trained_without_the_mask_shows_its_unmasked_path(view: Any, unmasked_address: str) -> None:
    page = opened(view, unmasked_address, SHOWN)
    assert "O → I-LOC at “Oslo”" in page.locator("#facts").inner_text()
    assert "74.86 %" in page.locator("#facts").inner_text()
    assert page.locator("#comparison").inner_text() == "unmasked path"


def test_a_click_fixes_a_tag_then_forbids_it_then_frees_it(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    page.locator(NODE.format(3, "B-LOC")).click()
    wait_for_path(page, "B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O")
    assert page.locator(NODE.format(3, "B-LOC")).get_attribute("aria-label").endswith("fixed")
    page.locator(NODE.format(3, "B-LOC")).click()
    wait_for_path(page, *LEGAL)
    assert page.locator(NODE.format(3, "B-LOC")).get_attribute("aria-label").endswith("forbidden")
    page.locator(NODE.format(4, "B-LOC")).click()
    page.locator(NODE.format(4, "B-LOC") + ".fixed").click()
    page.wait_for_selector(NODE.format(4, "B-LOC") + ".forbidden")
    assert path_of(page)[4] in {"O", "B-PER"}
    page.get_by_role("button", name="Free all tags").click()
    wait_for_path(page, *LEGAL)


def test_the_lattice_is_used_by_keyboard_alone(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    page.locator('td[tabindex="0"]').focus()
    page.keyboard.press("Control+Home")
    for key in ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"]:
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.dataset.tag") == "B-LOC"
    assert "score 0.00" in page.locator("#detail").inner_text()
    page.keyboard.press("Enter")
    wait_for_path(page, "B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O")
    assert page.evaluate("document.activeElement.dataset.position") == "3"
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.position") == "5"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_a_node_under_the_pointer_says_its_scores_and_shows_its_steps(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    page.locator(NODE.format(4, "I-LOC")).hover()
    detail = page.locator("#detail").inner_text()
    assert "score 4.00" in detail
    assert "Never from O, B-PER, I-PER" in detail
    # Into I-LOC 3 of 5 steps are illegal, out of it the one to I-PER; the unmasked path's own step is drawn besides.
    assert page.locator("#lattice line.illegal.all").count() == 4


def test_the_best_paths_are_listed_and_drawn_when_pointed_at(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    rows = page.locator("#nbest tbody tr")
    assert rows.count() == 5
    assert "77.81 %" in rows.nth(0).inner_text()
    assert "B-PER I-PER O O B-LOC O" in rows.nth(0).inner_text()
    rows.nth(1).hover()
    assert page.locator("#lattice line.ranked").count() == 5
    page.locator("h1").hover()
    assert page.locator("#lattice line.ranked").count() == 0
    page.get_by_role("button", name="Draw path 2 in the lattice").focus()
    assert page.locator("#lattice line.ranked").count() == 5


def test_the_address_holds_the_whole_state_and_opens_it_again(view: Any, address: str) -> None:
    page = opened(view, address)
    page.get_by_label("Sentence").fill("Ann & Zoë 😀 to Oslo = #1")
    page.wait_for_selector("table.grid")
    page.locator(NODE.format(1, "B-LOC")).click()
    page.wait_for_selector(NODE.format(1, "B-LOC") + ".fixed")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert parse_qs(urlsplit(link).fragment) == {"text": ["Ann & Zoë 😀 to Oslo = #1"], "fix": ["1:B-LOC"]}
    before = page.locator("#entities").inner_html()
    other = view.context.new_page()
    other.goto(link)
    other.wait_for_selector(NODE.format(1, "B-LOC") + ".fixed")
    assert other.locator("#entities").inner_html() == before
    assert other.get_by_label("Sentence").input_value() == "Ann & Zoë 😀 to Oslo = #1"


def test_highlighting_counts_characters_beyond_the_basic_plane_once(view: Any, address: str) -> None:
    page = opened(view, address, "#text=😀😀+Oslo+😀&fix=0:O&fix=1:O&fix=3:O")
    assert page.locator("mark").evaluate("mark => mark.firstChild.data") == "Oslo"
    assert page.locator("#entities").inner_text().startswith("😀😀 Oslo")


@pytest.mark.parametrize(("text", "direction"), [("سافرت Ann Lee 7 أوسلو", "rtl"), (TEXT, "ltr")])
def test_a_text_runs_in_its_own_direction_and_its_marks_in_ours(
    view: Any, address: str, text: str, direction: str
) -> None:
    page = opened(view, address, f"#text={quote(text)}")
    found = "element => getComputedStyle(element).direction"
    assert [page.eval_on_selector(name, found) for name in ("#text", "#entities")] == [direction] * 2
    assert page.eval_on_selector("#entities small", found) == "ltr"


def test_text_is_shown_as_text(view: Any, address: str) -> None:
    page = opened(view, address, "#text=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E+Oslo")
    assert page.locator("#entities img").count() == 0
    assert "<img src=x onerror=alert(1)>" in page.locator("#entities").inner_text()


def test_tags_without_a_legal_path_are_refused_in_words_and_can_be_freed(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    page.locator(NODE.format(0, "I-PER")).click()
    assert "no legal path" in page.get_by_role("alert").inner_text()
    assert page.locator(NODE.format(0, "I-PER") + ".fixed").count() == 1
    page.get_by_role("button", name="Free all tags").click()
    page.get_by_role("alert").wait_for(state="hidden")
    only_refused(view)


def test_blank_text_shows_nothing_and_no_complaint(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    page.get_by_label("Sentence").fill("   ")
    page.locator("#results").wait_for(state="hidden")
    assert page.get_by_role("alert").is_hidden()


def test_a_text_too_long_for_a_lattice_still_shows_its_entities(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    page.get_by_label("Sentence").fill(f"{TEXT} " * (limits.LATTICE_TOKENS // 6 + 1))
    page.locator("#no-lattice").wait_for()
    lines = f"The lattice is left out: at most {limits.LATTICE_TOKENS} tokens in one request"
    assert page.locator("#no-lattice").inner_text().startswith(lines)
    assert lines in page.get_by_role("status").inner_text()
    assert page.locator("mark").count() == 2 * (limits.LATTICE_TOKENS // 6 + 1)
    assert page.locator("mark").all_inner_texts()[:2] == ["Ann LeePER 91.15 %", "OsloLOC 88.87 %"]
    assert page.locator("#lattice").is_hidden()
    assert page.locator("#nbest").is_hidden()
    assert page.get_by_role("alert").is_hidden()
    if folder := os.environ.get("MASKEDCRF_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "long.png", full_page=True)
    page.get_by_label("Sentence").fill(TEXT)
    page.locator("#lattice").wait_for()
    assert page.locator("#no-lattice").is_hidden()
    only_refused(view)


def test_a_refused_text_does_not_stand_over_the_results_of_another(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN)
    page.get_by_label("Sentence").fill("a " * (limits.TOKENS + 1))
    page.get_by_role("alert").wait_for()
    assert "tokens in one sentence" in page.get_by_role("alert").inner_text()
    assert page.locator("#results").is_hidden()
    page.get_by_label("Sentence").fill(TEXT)
    page.locator("#lattice").wait_for()
    assert page.get_by_role("alert").is_hidden()
    only_refused(view)


def test_a_switch_shows_the_text_redacted_and_a_slider_what_is_promised(view: Any, promising_address: str) -> None:
    page = opened(view, promising_address, SHOWN)
    assert page.locator("#redacted").is_hidden()
    page.get_by_role("switch", name="Show the text with its entities hidden").check()
    page.locator("mark.hidden-entity").first.wait_for()
    assert page.locator("#redacted").inner_text() == "[PER] flew to [LOC]."
    assert page.locator("mark.hidden-entity").first.get_attribute("title").endswith("%, model")
    # One of five sentences is missed there; at the other end nothing, which 200 sentences show to 1 in 201.
    lines = page.locator("#promised .fact").all_inner_texts()
    assert [line.split("\n")[0] for line in lines][1:] == ["≤ 25.00 %", "0.00 %"]
    assert "at threshold 0.4999: On average at most 25.00%" in page.locator("#sentence").inner_text()
    slider = page.get_by_label("Hide more or less")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_function("() => document.querySelectorAll('#redacted mark').length > 2")
    assert "flew" not in page.locator("#redacted").inner_text()
    assert "100.00 % of all other words hidden too" in slider.get_attribute("aria-valuetext")
    threshold = parse_qs(urlsplit(page.url).fragment)["redact"][0]
    assert float(threshold) < 0.05
    before = page.locator("#redacted").inner_html()
    other = view.context.new_page()
    other.goto(page.url)
    other.wait_for_function("() => document.querySelectorAll('#redacted mark').length > 2")
    assert other.locator("#redacted").inner_html() == before
    page.get_by_role("switch").uncheck()
    page.locator("#redacted").wait_for(state="hidden")
    assert "redact" not in page.url


def test_a_model_without_a_promise_redacts_at_a_threshold_and_says_so(view: Any, address: str) -> None:
    page = opened(view, address, SHOWN + "&redact=0.5")
    page.locator("mark.hidden-entity").first.wait_for()
    assert page.locator("#redacted").inner_text() == "[PER] flew to [LOC]."
    assert page.locator("#sentence").inner_text().startswith("Nothing is promised: this model has no promised miss")
    page.get_by_label("Hide more or less").press("End")
    page.wait_for_function("() => document.querySelectorAll('#redacted mark').length === 0")
    assert page.locator("#redacted").inner_text() == TEXT
    page.get_by_label("Sentence").fill("😀 <b>Oslo</b>")
    page.get_by_label("Hide more or less").press("Home")
    page.wait_for_function("() => document.querySelector('#redacted').innerText.includes('[LOC]')")
    assert page.locator("#redacted b").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_no_serious_fault_and_nothing_overflows(view: Any, address: str, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    view.page.emulate_media(color_scheme=scheme)
    view.page.set_viewport_size({"width": width, "height": 900})
    page = opened(view, address, SHOWN + "&fix=2:O&not=4:I-LOC&illegal=1&redact=0.5")
    page.locator("mark.hidden-entity").first.wait_for()
    page.get_by_text("The paths as a table").click()
    found = axe.Axe().run(page).response["violations"]
    assert [
        (fault["id"], fault["nodes"][0]["html"]) for fault in found if fault["impact"] in {"serious", "critical"}
    ] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("MASKEDCRF_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{scheme}-{width}.png", full_page=True)


def test_a_corrected_sentence_is_kept_and_the_next_training_has_learnt_it(view: Any, tmp_path: Path) -> None:
    settings = {**SMALL, "epochs": 12, "dev_fraction": 0.0, "progress": False}
    tagger, file = Tagger.train(corpus(80), **settings), tmp_path / "corrections.jsonl"
    unseen = "eve flew to zork ."
    assert ("ORG", "zork") not in [(each.type, each.text) for each in tagger.predict(unseen).entities]
    texts = ["ann flew to zork .", "bob lee flew to zork .", "the rain in zork stopped"]
    with listening(tagger=tagger, collector=Collector(file)) as (host, port):
        page = opened(view, f"http://{host}:{port}/")
        for number, text in enumerate(texts, 1):
            node = NODE.format(text.split().index("zork"), "B-ORG")
            page.get_by_label("Sentence").fill(text)
            page.wait_for_function(
                "text => document.querySelector('#entities').innerText.startsWith(text)", arg=text[:3]
            )
            page.wait_for_selector(node + ":not(.fixed)")
            assert page.get_by_role("button", name="Keep the fixed tags").is_disabled()
            page.locator(node).click()
            page.wait_for_selector(node + ".fixed")
            page.get_by_role("button", name="Keep the fixed tags").click()
            page.get_by_text(f"Kept, {len(text.split()) - 1} tokens left open; {number} so far.").wait_for()
        if folder := os.environ.get("MASKEDCRF_SCREENSHOTS"):
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 900})
                page.screenshot(path=Path(folder) / f"collect-{width}.png", full_page=True)
        page.get_by_role("button", name="Keep every tag").click()
        page.get_by_text("Kept; 4 so far.").wait_for()
    learnt = Tagger.train([*corpus(80), file, file], **settings)
    assert ("ORG", "zork") in [(each.type, each.text) for each in learnt.predict(unseen).entities]
    assert learnt.predict("eve flew to oslo .").tags == ("B-PER", "O", "O", "B-LOC", "O")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_buttons_that_keep_a_sentence_are_usable_by_all(view: Any, scheme: str, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    view.page.emulate_media(color_scheme=scheme)
    view.page.set_viewport_size({"width": 360, "height": 900})
    with listening(collector=Collector(tmp_path / "gold.jsonl")) as (host, port):
        page = opened(view, f"http://{host}:{port}/", SHOWN + "&fix=3:O")
        page.get_by_role("button", name="Keep the fixed tags").focus()
        page.keyboard.press("Enter")
        page.get_by_text("Kept, 5 tokens left open; 1 so far.").wait_for()
        found = axe.Axe().run(page).response["violations"]
        assert [fault["id"] for fault in found if fault["impact"] in {"serious", "critical"}] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
