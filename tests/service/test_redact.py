"""POST /redact and GET /promise: what is hidden, what is promised, what is refused."""

from __future__ import annotations

import asyncio
import re

import pytest
import regex
from service_helpers import TEXT, asynchronous, build_tagger, connected, promising_tagger

from maskedcrf.redaction.patterns import BUILTIN, Pattern
from maskedcrf.redaction.rules import Dictionary, Rules
from maskedcrf.service.redaction import RedactionService
from maskedcrf.service.schemas import RedactRequest


def hidden(answer: dict, text: str) -> list[tuple[str, str]]:
    """The hidden words and their types; the redacted text has marks in their place and nothing else changed."""
    rest, at, found = "", 0, []
    for one in answer["hidden"]:
        rest += text[at : one["start"]] + f"[{one['type']}]"
        at = one["end"]
        found.append((text[one["start"] : one["end"]], one["type"]))
    assert answer["text"] == rest + text[at:]
    return found


@asynchronous
async def test_a_text_is_redacted_at_the_threshold_given() -> None:
    async with connected() as client:
        answers = [(await client.post("/redact", json={"text": TEXT, "threshold": t})).json() for t in (0.5, 0.95, 1)]
    assert hidden(answers[0], TEXT) == [("Ann Lee", "PER"), ("Oslo", "LOC")]
    assert answers[2]["text"] == TEXT
    assert len(answers[0]["hidden"]) >= len(answers[1]["hidden"])
    assert answers[0]["miss_rate"] is None
    assert {one["source"] for one in answers[0]["hidden"]} == {"model"}


@asynchronous
async def test_it_answers_as_the_tagger_does_whatever_is_asked() -> None:
    tagger = promising_tagger()
    text = "Ann Lee flew.\r\n Oslo to Oslo \n\n😀 Ann"
    async with connected(tagger=tagger) as client:
        for options in (
            {},
            {"threshold": 0.5},
            {"threshold": 0.3, "types": ["PER"]},
            {"threshold": 0.3, "types": ["LOC"], "replace": "name"},
            {"replace": "blank"},
        ):
            answer = (await client.post("/redact", json={"text": text, **options})).json()
            expected = tagger.redact(text, **options)
            assert answer["text"] == expected.text, options
            assert answer["hidden"] == [each.to_json() for each in expected.hidden], options


@asynchronous
async def test_without_a_threshold_the_promise_holds_and_is_told() -> None:
    tagger = promising_tagger()
    kept = tagger.record.settings["promise"]
    async with connected(tagger=tagger) as client:
        promised = (await client.get("/promise")).json()
        answer = (await client.post("/redact", json={"text": TEXT})).json()
        stricter = (await client.post("/redact", json={"text": TEXT, "threshold": 0.0})).json()
        looser = (await client.post("/redact", json={"text": TEXT, "threshold": 1.0})).json()
        partly = (await client.post("/redact", json={"text": TEXT, "threshold": 0.1, "types": ["LOC"]})).json()
        other = await client.post("/redact", json={"text": TEXT, "types": ["LOC"]})
        turned = (await client.post("/redact", json={"text": TEXT, "types": kept["types"][::-1]})).json()
    assert promised["reason"] is None
    assert promised["promise"]["threshold"] == kept["threshold"] == answer["threshold"]
    assert promised["promise"]["sentence"] == kept["sentence"]
    assert [rate for rate, _, _ in promised["promise"]["curve"]] == [rate for rate, _, _ in kept["curve"]]
    assert 0.2 < answer["miss_rate"] <= kept["miss_rate"] == 0.25
    assert stricter["miss_rate"] < 0.01
    assert turned == answer
    assert looser["miss_rate"] is None
    assert partly["miss_rate"] is None
    assert other.status_code == 422
    assert other.json()["message"] == "the promise is about other types; give a threshold"


@asynchronous
async def test_a_model_without_a_promise_says_so_and_one_with_a_void_promise_too() -> None:
    void = promising_tagger()
    void.model.linear.bias.data += 1.0
    for tagger, words in ((build_tagger(), "no promised miss rate"), (void, "made for another model")):
        async with connected(tagger=tagger) as client:
            about = (await client.get("/promise")).json()
            answer = await client.post("/redact", json={"text": TEXT})
        assert about["promise"] is None
        assert words in about["reason"]
        assert answer.status_code == 422
        assert words in answer.json()["message"]


@asynchronous
async def test_rules_hide_too_and_are_named() -> None:
    weighted = Pattern("flight", "LOC", regex.compile("flew"), None, 1.0)
    rules = Rules((BUILTIN["email"], weighted), (Dictionary("clients", "PER", ("unseen",)),))
    text = "unseen wrote to ann@example.org"
    async with connected(rules=rules) as client:
        answer = (await client.post("/redact", json={"text": text, "threshold": 1})).json()
    assert hidden(answer, text) == [("unseen", "PER"), ("ann@example.org", "EMAIL")]
    assert [one["source"] for one in answer["hidden"]] == ["dictionary:clients", "pattern:email"]


@asynchronous
async def test_many_at_once_get_the_answers_they_would_get_alone() -> None:
    texts = ["Ann Lee", "Oslo .", "", "Lee to Oslo", "x", "Ann\nLee"] * 4
    requests = [
        {"text": text, "threshold": (0.1, 0.5, 0.9)[number % 3], "replace": ("type", "name")[number % 2]}
        for number, text in enumerate(texts)
    ]
    async with connected() as client:
        alone = [(await client.post("/redact", json=each)).json() for each in requests]
        together = await asyncio.gather(*(client.post("/redact", json=each) for each in requests))
    assert [answer.json() for answer in together] == alone


def test_texts_that_are_redacted_together_are_no_neighbours_in_a_document() -> None:
    service = RedactionService(build_tagger())
    request = RedactRequest(text="Ann\nLee", threshold=0.5)
    documents = [{each.document for each in service.job(request).piece.sentences} for _ in range(3)]
    assert [len(numbers) for numbers in documents] == [1, 1, 1]
    assert len(set.union(*documents)) == 3


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({"text": "Ann", "threshold": 1.5}, "threshold"),
        ({"text": "Ann", "threshold": -0.1}, "threshold"),
        ({"text": "Ann", "threshold": "0.5"}, "threshold"),
        ({"text": "Ann", "threshold": 0.5, "types": []}, "types"),
        ({"text": "Ann", "threshold": 0.5, "types": ["NONE"]}, "'NONE' is not one of the model's types"),
        ({"text": "Ann", "threshold": 0.5, "replace": "stars"}, "replace"),
        ({"text": "Ann", "threshold": 0.5, "fixed": {}}, "fixed"),
        ({"tokens": ["Ann"], "threshold": 0.5}, "text"),
        ({"threshold": 0.5}, "text"),
        ({"text": "a " * 2001, "threshold": 0.5}, "at most 2000 tokens in one sentence, got 2001"),
        ({"text": "a \n" * 4001, "threshold": 0.5}, "at most 4000 tokens in one text to redact, got 4001"),
        ({"text": "a" * 257, "threshold": 0.5}, "at most 256 characters in one token, got 257"),
        ({"text": "a" * 20_001, "threshold": 0.5}, "text"),
    ],
)
@asynchronous
async def test_what_is_not_asked_for_is_refused(requests: dict, words: str) -> None:
    async with connected() as client:
        answer = await client.post("/redact", json=requests)
    assert (answer.status_code, answer.json()["error"]) == (422, "refused")
    assert re.search(re.escape(words), answer.json()["message"])
