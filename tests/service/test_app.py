"""The service in process: its answers, its refusals, its headers, and what it does not tell."""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import math
import socket
import sys
import threading

import httpx
import pytest
import service_helpers
from service_helpers import LEGAL, SCORES, TAGS, TEXT, asynchronous, build_tagger, connected

from maskedcrf.data.tokenizers import Tokenizer
from maskedcrf.service.app import PAGE, Service, create_app
from maskedcrf.service.limits import Limits
from maskedcrf.tagger.fixed_tags import allowed_tags
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.scheme import Scheme

TOKENS = ["Ann", "Lee", "flew", "to", "Oslo", "."]


def weights() -> dict[tuple[str, ...], float]:
    """Every legal path of TOKENS and its weight, listed by hand-written rules."""
    paths = itertools.product(TAGS, repeat=len(TOKENS))
    legal = (p for p in paths if p[0][0] != "I" and all(step in LEGAL for step in itertools.pairwise(p)))
    return {p: math.exp(sum(SCORES[word][TAGS.index(tag)] for word, tag in zip(TOKENS, p, strict=True))) for p in legal}


@asynchronous
async def test_a_text_is_answered_with_tags_entities_and_their_exact_probabilities() -> None:
    listed = weights()
    total = sum(listed.values())
    best = max(listed, key=listed.get)
    name = sum(w for path, w in listed.items() if path[:2] == ("B-PER", "I-PER") and path[2] != "I-PER") / total
    place = sum(w for path, w in listed.items() if path[4] == "B-LOC" and path[5] != "I-LOC") / total
    async with connected() as client:
        answer = (await client.post("/tag", json={"text": TEXT, "probabilities": True, "nbest": 3})).json()
    assert answer["tokens"] == TOKENS
    assert tuple(answer["tags"]) == best == ("B-PER", "I-PER", "O", "O", "B-LOC", "O")
    ann, oslo = answer["entities"]
    assert ann == {
        "type": "PER",
        "text": "Ann Lee",
        "start": 0,
        "end": 7,
        "tokens": [0, 2],
        "probability": ann["probability"],
    }
    assert oslo["text"] == TEXT[oslo["start"] : oslo["end"]] == "Oslo"
    assert ann["probability"] == pytest.approx(name, rel=1e-5)
    assert oslo["probability"] == pytest.approx(place, rel=1e-5)
    ranked = sorted(listed.values(), reverse=True)[:3]
    assert [one["probability"] for one in answer["nbest"]] == pytest.approx([w / total for w in ranked], rel=1e-5)


@asynchronous
async def test_the_answer_is_decoded_as_the_tagger_is_set_to() -> None:
    own = Tagger(build_tagger().model)
    own.decoding, own.segment_threshold = "segments", 0.9
    expected = own.predict(TEXT)
    assert [entity.text for entity in own.predict(TEXT, decoding="path").entities] == ["Ann Lee", "Oslo"]
    assert [entity.text for entity in expected.entities] == ["Ann Lee"]
    sentences = [{"text": TEXT}, {"tokens": TOKENS}, {"tokens": ["Oslo"] * 9}]
    async with connected(tagger=own) as client:
        alone = [(await client.post("/tag", json=sentence)).json() for sentence in sentences]
        batch = (await client.post("/tag/batch", json={"sentences": sentences})).json()["predictions"]
    assert alone == batch
    assert alone[0]["tags"] == list(expected.tags)


@asynchronous
async def test_fixed_tags_change_the_path() -> None:
    async with connected() as client:
        answer = await client.post("/tag", json={"tokens": TOKENS, "fixed": {"4": ["O", "I-LOC"], "3": "B-LOC"}})
        assert answer.json()["tags"] == ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O"]


@asynchronous
async def test_a_threshold_gives_every_segment_that_likely() -> None:
    async with connected() as client:
        answer = (await client.post("/tag", json={"text": TEXT, "threshold": 0.02})).json()
    listed = weights()
    oslo_as_person = sum(w for p, w in listed.items() if p[4] == "B-PER" and p[5] != "I-PER") / sum(listed.values())
    assert oslo_as_person > 0.02
    assert ("PER", "Oslo") in {(one["type"], one["text"]) for one in answer["entities"]}
    assert all(one["probability"] >= 0.02 for one in answer["entities"])


@asynchronous
async def test_a_batch_answers_as_single_requests_do() -> None:
    sentences = [{"text": TEXT}, {"tokens": []}, {"text": "Oslo"}, {"tokens": ["Lee", "unseen"], "fixed": {"1": "O"}}]
    async with connected() as client:
        batch = (await client.post("/tag/batch", json={"sentences": sentences})).json()["predictions"]
        single = [(await client.post("/tag", json=sentence)).json() for sentence in sentences]
    assert batch == single
    assert [len(one["tags"]) for one in batch] == [6, 0, 1, 2]


@asynchronous
async def test_many_clients_at_once_each_get_their_own_answer() -> None:
    texts = [" ".join(TOKENS[: 1 + number % 6] * (1 + number % 5)) for number in range(64)]
    expected = [list(found.tags) for found in build_tagger().predict(texts)]
    async with connected() as client:
        answers = await asyncio.gather(*(client.post("/tag", json={"text": text}) for text in texts))
        batches = (await client.get("/metrics")).text
    assert [answer.json()["tags"] for answer in answers] == expected
    assert "maskedcrf_batch_requests_sum 64.0\n" in batches
    passes = float(batches.partition("maskedcrf_batch_requests_count ")[2].partition("\n")[0])
    assert passes < 64


@asynchronous
async def test_the_lattice_compares_a_masked_model_with_its_best_tags_and_an_unmasked_one_with_its_path() -> None:
    async with connected() as client:
        found = (await client.post("/lattice", json={"text": TEXT, "nbest": 2})).json()
        empty = (await client.post("/lattice", json={"text": " "})).json()
    async with connected(mask="decode") as client:
        unmasked = (await client.post("/lattice", json={"text": TEXT})).json()
    assert (found["comparison"], unmasked["comparison"]) == ("per_token", "unmasked")
    for answer in (found, unmasked):  # without transitions both are the best tag of each token
        names = [answer["tags"][tag] for tag in answer["comparison_path"]]
        assert names == ["B-PER", "I-PER", "O", "O", "I-LOC", "O"]
        assert answer["broken"] == [{"position": 4, "previous": "O", "tag": "I-LOC"}]
    assert found["emissions"] == [SCORES[word] for word in TOKENS]
    whole = math.prod(sum(map(math.exp, SCORES[word])) for word in TOKENS)  # no transitions: positions are independent
    assert found["illegal_mass"] is None
    assert unmasked["illegal_mass"] == pytest.approx(1 - sum(weights().values()) / whole, rel=1e-5)
    assert len(found["nbest"]) == 2
    assert empty["tokens"] == empty["path"] == []


@asynchronous
async def test_health_metrics_and_schema_are_there() -> None:
    async with connected() as client:
        health = await client.get("/health")
        assert health.json()["tags"] == TAGS
        await client.get("/nothing/of/the/kind")
        metrics = await client.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'maskedcrf_requests_total{path="/health",status="200"} 1.0\n' in metrics.text
        assert 'maskedcrf_requests_total{path="other",status="404"} 1.0\n' in metrics.text
        assert 'maskedcrf_request_seconds_bucket{le="+Inf"} 2.0\n' in metrics.text
        schema = (await client.get("/openapi.json")).json()
        assert set(schema["paths"]) == {"/tag", "/tag/batch", "/lattice", "/redact", "/promise", "/health", "/metrics"}


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/tag/..%2f..%2fetc/passwd", "/page/", "/health/", "/server.py"])
@asynchronous
async def test_nothing_else_is_served(path: str) -> None:
    async with connected() as client:
        answer = await client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"] == "not_found"


@pytest.mark.parametrize("path", [*PAGE, "/health"])
@asynchronous
async def test_head_is_answered_as_get_is_without_the_body(path: str) -> None:
    async with connected() as client:
        whole, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == whole.headers


@asynchronous
async def test_other_methods_are_refused_with_those_allowed() -> None:
    async with connected() as client:
        answer = await client.get("/tag")
        assert (answer.status_code, answer.headers["allow"], answer.json()["error"]) == (
            405,
            "POST",
            "method_not_allowed",
        )


@pytest.mark.parametrize("path", [*PAGE, "/health", "/nothing"])
@asynchronous
async def test_every_answer_carries_the_security_headers_and_no_origin_is_let_in(path: str) -> None:
    async with connected() as client:
        answer = await client.get(path, headers={"Origin": "http://elsewhere.example"})
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:80", 200),
        ("[::1]", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("evil.example:80", 400),
        ("", 400),
    ],
)
@asynchronous
async def test_a_name_made_to_point_here_is_not_answered(host: str, status: int) -> None:
    async with connected() as client:
        assert (await client.get("/health", headers={"Host": host})).status_code == status
    async with connected(hosts=None) as client:
        assert (await client.get("/health", headers={"Host": host})).status_code == 200


@asynchronous
async def test_no_text_of_a_request_reaches_the_log_or_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with connected() as client:
            await client.post("/tag?secret=1", json={"text": "secret words"})
            await client.post("/secret", json={"text": "secret"})
            refused = await client.post("/tag", json={"text": 7, "tokens": "secret"})
            await client.post("/tag", content=b'{"text": "secret', headers={"Content-Type": "application/json"})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("maskedcrf", "uvicorn"))]
    assert any(line.startswith("POST /tag 200") for line in ours)
    assert not [line for line in ours if "secret" in line]
    assert "secret" not in refused.text


@asynchronous
async def test_an_error_of_our_own_is_a_declared_answer_and_a_log_without_text(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **named: object) -> None:
        raise KeyError(*arguments[1:])

    monkeypatch.setattr("maskedcrf.service.app.allowed_tags", broken)
    async with connected() as client:
        answer = await client.post("/tag", json={"text": "secret"})
        assert (answer.status_code, answer.json()["error"]) == (500, "failed")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "KeyError" in caplog.text
        assert "secret" not in caplog.text + answer.text


@asynchronous
async def test_the_model_s_own_mode_is_kept_and_its_weights_are_left_alone() -> None:
    tagger = build_tagger()
    before = {name: value.clone() for name, value in tagger.model.state_dict().items()}
    async with connected() as client:
        await client.post("/lattice", json={"text": TEXT})
        assert (await client.get("/health")).json()["mask"] == tagger.mask == "train"
    assert all((value == before[name]).all() for name, value in tagger.model.state_dict().items())


CONNECTIONS: list[object] = []
sys.addaudithook(lambda event, details: CONNECTIONS.append(details) if event == "socket.connect" else None)


@asynchronous
async def test_serving_opens_no_connection() -> None:
    before = len(CONNECTIONS)
    async with connected() as client:
        for path in ("/tag", "/lattice"):
            assert (await client.post(path, json={"text": TEXT})).status_code == 200
        await client.get("/")
    assert CONNECTIONS[before:] == []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        socket.create_connection(listener.getsockname()).close()
    assert len(CONNECTIONS) == before + 1  # the hook does see them


@asynchronous
async def test_tags_and_ranked_paths_come_in_the_output_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Tagger(build_tagger().model, output_scheme=Scheme.get("BIOES"))
    monkeypatch.setattr(service_helpers, "build_tagger", lambda _mask: other)
    async with connected() as client:
        answer = (await client.post("/tag", json={"text": TEXT, "nbest": 1})).json()
        known = (await client.post("/tag", json={"text": TEXT, "fixed": {"3": "B-LOC", "4": "I-LOC"}})).json()
        health = (await client.get("/health")).json()
    assert answer["tags"] == answer["nbest"][0]["tags"] == ["B-PER", "E-PER", "O", "O", "S-LOC", "O"]
    assert known["tags"] == ["B-PER", "E-PER", "O", "B-LOC", "E-LOC", "O"]
    assert (health["tags"], health["scheme"], health["output_scheme"]) == (TAGS, "BIO", "BIOES")


@asynchronous
async def test_a_server_that_stops_says_that_it_is_not_healthy() -> None:
    warm = asyncio.Event()
    app = create_app(build_tagger(), ready=lambda problem: warm.set())
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
    async with client:
        async with app.router.lifespan_context(app):
            await warm.wait()
            assert (await client.get("/health")).status_code == 200
        answer = await client.get("/health")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json()["message"] == "the server is stopping; try again later"


@asynchronous
async def test_a_server_whose_model_is_not_warm_says_that_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(Service, "warm_up", lambda self: gate.wait())
    warm = asyncio.Event()
    app = create_app(build_tagger(), ready=lambda problem: warm.set())
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
    async with client, app.router.lifespan_context(app):
        for answer in (await client.get("/health"), await client.post("/tag", json={"text": "a"})):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert answer.json()["message"] == "the server is starting; try again later"
        gate.set()
        await warm.wait()
        assert (await client.get("/health")).status_code == 200


FIXED = {"tokens": ["a"] * 2000, "fixed": {str(position): "O" for position in range(0, 2000, 2)}}


@asynchronous
async def test_a_batch_that_is_too_large_is_refused_before_its_fixed_tags_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("maskedcrf.service.app.allowed_tags", never)
    async with connected() as client:
        given = {"tokens": ["a"] * 2000, "fixed": {"0": "O"}}
        answer = await client.post("/tag/batch", json={"sentences": [given] * 125})
        assert answer.status_code == 422
        assert answer.json()["message"] == "at most 16000 tokens in one request that asks for this, got 250000"
        texts = [{"text": "a " * 2000}] * 9
        assert (await client.post("/tag/batch", json={"sentences": texts})).status_code == 422


@asynchronous
async def test_a_large_batch_is_checked_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()

    def watched(*given: object, **named: object) -> object:
        threads.add(threading.get_ident())
        return allowed_tags(*given, **named)

    monkeypatch.setattr("maskedcrf.service.app.allowed_tags", watched)
    async with connected() as client:
        assert (await client.post("/tag/batch", json={"sentences": [FIXED] * 8})).status_code == 200
        assert threading.get_ident() not in threads
        assert len(threads) == 1


@asynchronous
async def test_texts_are_split_as_the_model_splits_and_a_lattice_shows_one_sentence() -> None:
    async with connected() as client:
        answer = (await client.post("/tag", json={"text": "Ann\nLee flew to Oslo"})).json()
        assert [each["text"] for each in answer["entities"]] == ["Ann", "Lee", "Oslo"]
        refused = await client.post("/lattice", json={"text": "Ann\nLee flew to Oslo"})
        assert (refused.status_code, refused.json()["message"]) == (
            422,
            "this is for one sentence, and the text has 2",
        )
        fixed = {"text": "Ann\nLee", "fixed": {"1": "I-PER"}}
        assert (await client.post("/tag", json=fixed)).status_code == 422


@pytest.mark.parametrize("path", ["/tag", "/redact"])
@asynchronous
async def test_a_tokenizer_that_came_with_a_model_works_beside_the_event_loop_and_within_the_deadline(
    path: str,
) -> None:
    gate, threads = threading.Event(), list[int]()

    def cut(text: str) -> list[tuple[int, int]]:
        threads.append(threading.get_ident())
        if text == "slow":
            gate.wait(100)
        return [(0, len(text))]

    tagger = Tagger(copy.deepcopy(build_tagger().model))
    tagger.tokenizer = Tokenizer("model", cut)
    async with connected(Limits(deadline=0.01), tagger=tagger) as client:
        late = await client.post(path, json={"text": "slow", "threshold": 0.5})
        assert (late.status_code, late.json()["error"]) == (504, "deadline")
        gate.set()
    assert threading.get_ident() not in threads
