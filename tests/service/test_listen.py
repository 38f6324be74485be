"""The service on a socket: clients that leave, clients that stay while it stops, and clients that send in crumbs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from service_helpers import listening, running, say
from uvicorn.protocols.http.h11_impl import H11Protocol

from maskedcrf.service.app import Service
from maskedcrf.service.connections import READ_BYTES
from maskedcrf.service.metrics import Metrics

PATIENCE = 100.0


class Panic(BaseException):
    """What a panic of a library written in Rust looks like from Python."""


class SlowModel:
    """Answers as the model does, but holds the text "slow" until it is let go; keeps what it was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.entered, self.let_go = threading.Event(), threading.Event()

    def answer(self, service: Service, question: object, items: list) -> list[bytes]:
        self.texts += [sentence.text for sentence in items]
        if any(sentence.text == "slow" for sentence in items):
            self.entered.set()
            assert self.let_go.wait(PATIENCE)
        return [b"{}" for _ in items]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowModel]:
    slow = SlowModel()
    monkeypatch.setattr(Service, "answer", lambda *given: slow.answer(*given))
    yield slow
    slow.let_go.set()


def asking(text: str, path: str = "/tag", *, close: bool = False) -> bytes:
    body = json.dumps({"text": text}).encode()
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, *(["Connection: close"] if close else []), "", "")).encode() + body


@pytest.mark.parametrize("path", ["/tag", "/lattice"])
def test_what_a_client_that_has_left_asked_for_never_reaches_the_model(
    model: SlowModel, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, count = threading.Event(), Metrics.count_request

    def counted(self: Metrics, path: str, status: int, seconds: float) -> None:
        count(self, path, status, seconds)
        if status == 400:
            gone.set()

    monkeypatch.setattr(Metrics, "count_request", counted)
    with listening() as address, ThreadPoolExecutor(1) as other:
        first = other.submit(say, address, asking("slow", close=True))
        assert model.entered.wait(PATIENCE)
        with socket.create_connection(address) as leaving:
            leaving.sendall(asking("left alone", path))
        assert gone.wait(PATIENCE)
        assert not first.done()
        metrics = httpx.get(f"http://localhost:{address[1]}/metrics", timeout=PATIENCE).text
        assert f'maskedcrf_requests_total{{path="{path}",status="400"}} 1.0' in metrics
        assert "maskedcrf_queue_requests 0.0\n" in metrics
        model.let_go.set()
        assert first.result(PATIENCE).startswith(b"HTTP/1.1 200")
        assert say(address, asking("stays", close=True)).startswith(b"HTTP/1.1 200")
    assert "left alone" not in model.texts
    assert model.texts[-1] == "stays"


def test_an_answer_given_while_stopping_tells_the_client_to_come_no_more(model: SlowModel) -> None:
    with ThreadPoolExecutor(1) as other, running() as (server, address):
        last = other.submit(say, address, asking("slow"))
        assert model.entered.wait(PATIENCE)
        server.should_exit = True
        model.let_go.set()
        answer = last.result(PATIENCE).lower()
    assert answer.startswith(b"http/1.1 200")
    assert b"\r\nconnection: close\r\n" in answer


def test_a_panic_below_the_model_fails_its_request_and_the_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Service.answer

    def panicking(service: Service, question: object, sentences: list) -> list[bytes]:
        if any(sentence.text == "panic" for sentence in sentences):
            raise Panic(sentences[0].text)
        return answer(service, question, sentences)

    monkeypatch.setattr(Service, "answer", panicking)
    with listening() as address:
        failed = say(address, asking("panic", close=True))
        assert failed.startswith(b"HTTP/1.1 500 ")
        assert (
            json.loads(failed.partition(b"\r\n\r\n")[2])["message"] == "the model failed; the server's log says where"
        )
        health = say(address, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert health.startswith(b"HTTP/1.1 200 ")
        assert say(address, asking("Ann", close=True)).startswith(b"HTTP/1.1 200 ")


def test_no_client_is_read_for_long_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, received = list[int](), H11Protocol.data_received

    def counted(self: H11Protocol, data: bytes) -> None:
        sizes.append(len(data))
        received(self, data)

    monkeypatch.setattr(H11Protocol, "data_received", counted)
    with listening() as address:
        assert say(address, asking("a" * (1 << 20), close=True)).startswith(b"HTTP/1.1 413")
    assert max(sizes) <= READ_BYTES
    assert sum(sizes) > 1 << 20
