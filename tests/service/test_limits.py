"""What a client may send: size, time, and JSON that can only be read one way."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel, ValidationError
from service_helpers import TEXT, asynchronous, connected, listening, say
from starlette.exceptions import HTTPException

from maskedcrf.service import limits, schemas
from maskedcrf.service.limits import Budget, Limits, parse
from maskedcrf.service.listen import open_listener as open_socket
from maskedcrf.service.schemas import REASONS

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"nonsense", 400),
        (b'{"text": "\xff"}', 400),
        (b'\xef\xbb\xbf{"text": "a"}', 400),
        (b'{"text": "\\ud800"}', 422),
        (b'{"\\ud800": 1}', 422),
        (b'{"text": "a", "threshold": NaN}', 400),
        (b'{"text": "a", "threshold": Infinity}', 400),
        (b'{"text": "a", "threshold": 1e999}', 422),
        (b'{"text": "a", "text": "b"}', 400),
        (b'{"text": "a", "fixed": {"0": "O", "0": "O"}}', 400),
        (b'{"text": "a", "nbest": ' + b"1" * 5000 + b"}", 400),
        (b'{"text": "a", "nbest": true}', 422),
        (b'{"text": "a", "nbest": 1.0}', 422),
        (b'{"text": null}', 422),
        (b"[" * 150_000, 422),
        (b'{"text":' * 100_000, 422),
        (b'{"text": ' + b"[" * 500 + b"]" * 500 + b"}", 422),
    ],
    ids=lambda value: str(value[:30]) if isinstance(value, bytes) else str(value),
)
@asynchronous
async def test_a_body_that_is_not_what_is_asked_for_is_refused_as_declared(body: bytes, status: int) -> None:
    async with connected() as client:
        answer = await client.post("/tag", content=body, headers=JSON)
        assert answer.status_code == status
        assert answer.json().keys() == {"error", "message"}
        assert "\n" not in answer.json()["message"]


def test_parsing_keeps_plain_json_as_it_is() -> None:
    value = {"text": "Zoë \U0001f600", "fixed": {"0": ["O"]}, "threshold": 0.5, "nested": [[], {}]}
    assert parse(json.dumps(value).encode()) == value


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
@asynchronous
async def test_only_json_is_taken_so_that_other_sites_pages_cannot_post(kind: str) -> None:
    async with connected() as client:
        answer = await client.post("/tag", content=b'{"text": "a"}', headers={"Content-Type": kind})
        assert answer.status_code == 415


@pytest.mark.parametrize(
    "body",
    [
        {"text": "a" * 20_001},
        {"text": "a " * 2001},
        {"text": "a" * 257},
        {"tokens": ["a"] * 2001},
        {"tokens": ["a" * 257]},
        {"tokens": [""]},
        {"text": "a", "nbest": 21},
        {"text": "a", "threshold": 0.001},
        {"text": "a", "threshold": 1.1},
        {"text": "a", "unknown": 1},
        {"text": "a", "tokens": ["a"]},
        {},
        {"tokens": ["a"], "fixed": {"1": "O"}},
        {"tokens": ["a"], "fixed": {"-1": "O"}},
        {"tokens": ["a"], "fixed": {"0": "X"}},
        {"tokens": ["a"], "fixed": {"0": []}},
        {"tokens": ["a"], "fixed": {"0": "I-PER"}},
        {"tokens": ["a", "b"], "fixed": {"0": "B-LOC", "1": ["I-PER"]}},
    ],
    ids=lambda body: str(body)[:40],
)
@asynchronous
async def test_what_exceeds_a_limit_or_contradicts_the_rules_is_refused_not_cut(body: dict) -> None:
    async with connected() as client:
        assert (await client.post("/tag", json=body)).status_code == 422
        several = {key: body.pop(key) for key in ("nbest", "threshold") if key in body}
        answer = await client.post("/tag/batch", json={"sentences": [{"text": "a"}, body], **several})
        assert answer.status_code == 422


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (schemas.TagRequest, {"tokens": [1] * 2000}),
        (schemas.TagRequest, {"text": "a", "fixed": {"0": [1] * 1000}}),
        (schemas.BatchRequest, {"sentences": [{"tokens": [1] * 2000}] * 256}),
        (schemas.RedactRequest, {"text": "a", "types": [1] * 1000}),
    ],
    ids=["tokens", "fixed", "sentences", "types"],
)
def test_a_body_full_of_mistakes_is_refused_for_one_of_them(kind: type[BaseModel], body: dict) -> None:
    """A list of half a million complaints takes seconds to write, in which the server answers nobody."""
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(body)
    assert refused.value.error_count() <= 2  # of a tag or a list of tags, one each


def test_an_object_has_no_more_keys_than_a_sentence_has_tokens() -> None:
    full = {str(number): 1 for number in range(limits.KEYS)}
    assert parse(json.dumps(full).encode()) == full
    with pytest.raises(HTTPException, match="422: at most 2000 keys in one object, got 2001"):
        parse(json.dumps(full | {"one": 1}).encode())


@asynchronous
async def test_the_guide_tells_every_limit_and_refusal() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/serving.md").read_text(encoding="utf-8")
    sizes = [limits.CHARACTERS, limits.TOKENS, limits.TOKEN_CHARACTERS, limits.SENTENCES, limits.REQUEST_TOKENS]
    assert all(f"{size:,}" in guide for size in (*sizes, limits.LATTICE_TOKENS))
    assert f"{limits.KEYS:,} keys an object" in guide
    assert f"an `nbest` over {limits.NBEST} (below 1 for a lattice), a `threshold` below {limits.THRESHOLD}" in guide
    documented = {
        int(status) for row in re.findall(r"^\| ([45][\d, ]+) \|", guide, re.MULTILINE) for status in row.split(", ")
    }
    assert documented == set(REASONS)
    async with connected() as client:
        for body in ({"text": "a", "nbest": 21}, {"text": "a", "threshold": 0.009}, {"tokens": [""]}, {}):
            assert (await client.post("/tag", json=body)).status_code == 422
        assert (await client.post("/tag/batch", json={"sentences": []})).status_code == 422
        assert (await client.post("/lattice", json={"text": "a", "nbest": 0})).status_code == 422
        assert (await client.get("/nowhere")).status_code == 404
        assert (await client.get("/tag")).status_code == 405
        for nothing in ({"text": ""}, {"tokens": []}):
            assert (await client.post("/tag", json=nothing)).json()["tags"] == []


@asynchronous
async def test_the_limits_of_a_whole_request_hold_too() -> None:
    async with connected() as client:
        full = {"tokens": ["a"] * 2000}
        assert (await client.post("/tag/batch", json={"sentences": [full] * 8})).status_code == 200
        assert (await client.post("/tag/batch", json={"sentences": [full] * 9})).status_code == 422
        costly = {"sentences": [{"tokens": ["a"] * 1001}], "threshold": 1.0}
        assert (await client.post("/tag/batch", json=costly)).status_code == 422
        assert (await client.post("/tag", json={"tokens": ["a"] * 1000, "threshold": 1.0})).status_code == 200
        for option in ({"probabilities": True}, {"nbest": 1}):
            assert (await client.post("/tag/batch", json={"sentences": [full] * 3, **option})).status_code == 422
        assert (await client.post("/tag/batch", json={"sentences": [{"text": ""}] * 257})).status_code == 422
        assert (await client.post("/tag/batch", json={"sentences": []})).status_code == 422
        assert (await client.post("/lattice", json={"tokens": ["a"] * 129})).status_code == 422
        answer = await client.post(
            "/tag/batch", json={"sentences": [{"text": "a"}, {"text": "a", "fixed": {"3": "O"}}]}
        )
        assert answer.json()["message"].startswith("sentences.1: ")


def test_a_budget_refuses_what_would_exceed_it_and_serves_whoever_is_alone() -> None:
    budget = Budget(10, what="full")
    with budget.hold(11), pytest.raises(Exception, match="503: full; try again later"):
        budget.take(1)
    with budget.hold(4), budget.hold(6):
        assert budget.used == 10
    assert budget.used == 0


@asynchronous
async def test_bodies_that_are_held_together_are_bounded() -> None:
    async def endless():
        yield b'{"text": "'
        answer = await client.post("/tag", json={"text": "a" * 100})
        statuses.append((answer.status_code, answer.headers.get("Retry-After")))
        yield b'"}'

    statuses: list = []
    async with connected(Limits(bodies_bytes=50)) as client:
        answer = await client.post("/tag", content=endless(), headers=JSON)
        assert (answer.status_code, statuses) == (200, [(503, "1")])
        assert "maskedcrf_body_bytes 0.0\n" in (await client.get("/metrics")).text


# Over a real socket.


def head(*headers: bytes) -> bytes:
    fixed = (b"POST /tag HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", b"Connection: close")
    return b"\r\n".join((*fixed, *headers)) + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


MEGABYTE = b"a" * (1 << 20)


@pytest.mark.parametrize(
    ("path", "advice"),
    [("/tag", "send a shorter text"), ("/lattice", "send a shorter text"), ("/tag/batch", "send fewer sentences")],
)
@asynchronous
async def test_the_refusal_of_a_large_body_says_what_this_address_can_take_less_of(path: str, advice: str) -> None:
    async with connected(Limits(body_bytes=10)) as client:
        answer = await client.post(path, json={"text": "a" * 100})
    assert (answer.status_code, answer.json()["message"]) == (413, f"the body is larger than 10 bytes; {advice}")


def test_a_large_body_is_refused_however_it_comes() -> None:
    with listening() as address:
        assert say(address, head(b"Content-Length: 3145728"), *[MEGABYTE] * 3).startswith(b"HTTP/1.1 413")
        assert say(address, head(b"Content-Length: 99999999999")).startswith(b"HTTP/1.1 413")
        chunked = [head(b"Transfer-Encoding: chunked"), *[chunk(MEGABYTE)] * 10, b"0\r\n\r\n"]
        assert say(address, *chunked).startswith(b"HTTP/1.1 413")
        # Beyond what is read and thrown away the connection is closed, perhaps before the client sees why.
        endless = [head(b"Transfer-Encoding: chunked"), *[chunk(MEGABYTE)] * 30]
        assert say(address, *endless)[:12] in (b"", b"HTTP/1.1 413")
        # A Content-Length that says too little: what follows is no request.
        lie = say(address, head(b"Content-Length: 13"), b'{"text": "a"}' + MEGABYTE)
        assert lie[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 400")
        both = say(address, head(b"Content-Length: 13", b"Content-Length: 14"), b'{"text": "a"}')
        assert both.startswith(b"HTTP/1.1 400")
        body = json.dumps({"text": TEXT}).encode()
        split = [chunk(body[at : at + 1]) for at in range(len(body))]
        assert say(address, head(b"Transfer-Encoding: chunked"), *split, b"0\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert httpx.post(f"http://localhost:{address[1]}/tag", json={"text": "a"}, timeout=100).status_code == 200


def test_a_client_that_sends_no_more_is_given_up() -> None:
    with listening(Limits(body_seconds=0.1)) as address:
        assert say(address, head(b"Content-Length: 9999"), b'{"text":').startswith(b"HTTP/1.1 408")
    with listening(Limits(head_seconds=0.1)) as address:
        assert say(address, b"POST /tag HTTP/1.1\r\nHost:") == b""
        assert say(address) == b""
    with listening() as address:
        assert httpx.get(f"http://localhost:{address[1]}/health", timeout=100).status_code == 200


def test_after_a_refusal_the_rest_of_the_body_is_not_waited_for() -> None:
    keep_alive = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    with listening() as address:
        answer = say(address, keep_alive, b"a")
        assert answer.startswith(b"HTTP/1.1 404")
        assert b"connection: close" in answer.lower()


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with open_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
