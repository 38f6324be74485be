"""The three journeys of docs/design.md are those that the program takes."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service_helpers import TEXT, asynchronous, build_tagger, connected
from small_corpus import SMALL, corpus, write_conll

import maskedcrf
from maskedcrf.tagger import Tagger

PACKAGE = Path(maskedcrf.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "design.md"
HOP = re.compile(r"^\d\. `([\w/]+\.py)`, `(\w+)`", re.MULTILINE)

Hop = tuple[str, str]


def journey(title: str) -> list[Hop]:
    """The files and functions that the page lists under this heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {title}\n")[1].split("\n#")[0]
    return HOP.findall(section)


@contextmanager
def traced() -> Iterator[list[Hop]]:
    """The functions of the package that are called meanwhile, in this thread and in those begun meanwhile."""
    calls: list[Hop] = []

    def note(frame: Any, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)):
            calls.append((Path(path).relative_to(PACKAGE).as_posix(), frame.f_code.co_name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def assert_taken(title: str, calls: list[Hop]) -> None:
    """Each hop is called, and the first time after the hop before it."""
    hops = journey(title)
    assert 0 < len(hops) <= 8
    assert len({file for file, _ in hops}) == len(hops), "no file is visited twice"
    assert [hop for hop in hops if hop not in calls] == []
    first = [calls.index(hop) for hop in hops]
    assert first == sorted(first), list(zip(first, hops, strict=True))


def test_a_sentence_goes_into_a_gradient_step_as_the_page_says(tmp_path: Path) -> None:
    write_conll(tmp_path / "train.conll", corpus(8))
    with traced() as calls:
        Tagger.train(tmp_path / "train.conll", **{**SMALL, "epochs": 1, "dev_fraction": 0.0})
    assert_taken("A sentence into a gradient step", calls)


def test_a_text_becomes_entities_as_the_page_says() -> None:
    with traced() as calls:
        assert build_tagger().predict(TEXT).entities
    assert_taken("A text into entities", calls)


@asynchronous
async def test_a_request_goes_through_the_service_as_the_page_says() -> None:
    with traced() as calls:
        async with connected() as client:
            calls.clear()  # what it took to get ready
            answer = await client.post("/tag", json={"text": TEXT})
    assert answer.status_code == 200
    assert_taken("A request through the service", calls)


def test_every_journey_of_the_page_is_tested() -> None:
    titles = re.findall(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [title for title in titles if journey(title)] == [
        "A sentence into a gradient step",
        "A text into entities",
        "A request through the service",
    ]
