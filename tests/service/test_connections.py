"""The table of connections: how many, how long silent, how long unread; with a clock that the test turns."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import uvicorn
from service_helpers import asynchronous, build_tagger, listening

from maskedcrf.service.connections import FULL, Connection, Connections
from maskedcrf.service.limits import Limits, most_connections
from maskedcrf.service.listen import serve
from maskedcrf.service.log import LIMITED, WarningLimit

SERVER = ("127.0.0.1", 80)


class Transport(asyncio.Transport):
    """What a connection does to its socket."""

    def __init__(self, port: int) -> None:
        super().__init__({"peername": ("127.0.0.1", port), "sockname": SERVER})
        self.unsent, self.written = 0, b""
        self.closed: str | None = None

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = "closed"

    def abort(self) -> None:
        self.closed = "aborted"


class Table:
    """A table of connections, a clock, and an application that answers when it is told to."""

    def __init__(self, **limits: Any) -> None:
        self.now = 0.0
        self.answer = asyncio.Event()
        self.handed: list[str] = []
        self.connections = Connections(self._application, Limits(**limits), self._protocol, clock=lambda: self.now)

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        await self.answer.wait()

    def _protocol(self, **settings: Any) -> Any:
        handed = self.handed

        class Protocol:
            def __getattr__(self, name: str) -> Callable[..., None]:
                return lambda *arguments: handed.append(name)

        return Protocol()

    def connect(self, port: int) -> tuple[Connection, Transport]:
        connection, transport = self.connections.new_connection(), Transport(port)
        connection.connection_made(transport)
        return connection, transport

    def ask(self, port: int) -> asyncio.Task[None]:
        scope: Any = {"type": "http", "client": ("127.0.0.1", port), "server": SERVER}
        return asyncio.get_running_loop().create_task(self.connections(scope, None, None))  # type: ignore[arg-type]

    def check(self, now: float) -> None:
        self.now = now
        self.connections.check(now)


@asynchronous
async def test_a_connection_without_a_request_is_closed_and_one_that_is_answered_is_not() -> None:
    table = Table(head_seconds=10)
    (_, silent), (_, busy) = table.connect(1), table.connect(2)
    asking = table.ask(2)
    await asyncio.sleep(0)
    table.check(10)
    assert (silent.closed, busy.closed) == (None, None)
    table.check(11)
    assert (silent.closed, busy.closed) == ("aborted", None)
    table.answer.set()
    await asking
    table.check(21)
    assert busy.closed is None
    table.check(22)
    assert busy.closed == "aborted"


@asynchronous
async def test_a_client_that_takes_nothing_of_its_answer_is_given_up_and_a_slow_one_is_not() -> None:
    table = Table(write_seconds=30, head_seconds=10)
    (_, stalled), (_, slow) = table.connect(1), table.connect(2)
    stalled.unsent, slow.unsent = 1000, 1000
    for now in range(1, 100):
        slow.unsent -= 10
        table.check(now)
        assert slow.closed is None
        assert stalled.closed == (None if now < 31 else "aborted")


@asynchronous
async def test_where_there_are_too_many_the_longest_silent_one_goes_and_requests_stay() -> None:
    table = Table(connections=2)
    (_, first), (_, second) = table.connect(1), table.connect(2)
    asking = table.ask(1)
    await asyncio.sleep(0)
    _, third = table.connect(3)
    assert (first.closed, second.closed, third.closed) == (None, "aborted", None)
    also = table.ask(3)
    await asyncio.sleep(0)
    refused, fourth = table.connect(4)
    assert (fourth.closed, fourth.written) == ("closed", FULL)
    refused.data_received(b"GET / HTTP/1.1\r\n\r\n")
    refused.connection_lost(None)
    assert len(table.connections) == 2
    assert "data_received" not in table.handed
    table.answer.set()
    await asyncio.gather(asking, also)
    head, _, body = FULL.partition(b"\r\n\r\n")
    assert httpx.Response(503, content=body).json()["error"] == "busy"
    assert b"Content-Length: %d" % len(body) in head


@asynchronous
async def test_a_connection_that_is_lost_is_forgotten() -> None:
    table = Table()
    connection, _ = table.connect(1)
    connection.data_received(b"GET")
    connection.connection_lost(None)
    assert len(table.connections) == 0
    assert table.handed == ["connection_made", "data_received", "connection_lost"]


def test_so_many_silent_clients_keep_nobody_from_the_server() -> None:
    with listening(Limits(connections=5)) as address:
        clients = [socket.create_connection(address) for _ in range(20)]
        assert httpx.get(f"http://localhost:{address[1]}/health", timeout=100).status_code == 200
        for client in clients:
            client.close()


def test_there_are_fewer_connections_than_a_process_may_have_files() -> None:
    from resource import RLIMIT_NOFILE, getrlimit

    files, _ = getrlimit(RLIMIT_NOFILE)
    assert 16 <= most_connections() <= max(16, files - 96)


def test_what_clients_can_make_the_server_log_is_bounded() -> None:
    now = 0.0
    limit = WarningLimit(2, clock=lambda: now)
    records = [
        logging.LogRecord("x", level, "", 0, "said", (), None) for level in [logging.WARNING] * 5 + [logging.INFO]
    ]
    assert [limit.filter(record) for record in records] == [True, True, False, False, False, True]
    now = 60.0
    later = logging.LogRecord("x", logging.ERROR, "", 0, "said", (), None)
    assert limit.filter(later)
    assert later.getMessage() == "(3 messages were left out) said"


def test_while_a_server_runs_every_logger_that_clients_can_make_speak_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited = dict[str, int]()

    def run(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        limited.update(limits())

    def limits() -> dict[str, int]:
        return {name: sum(isinstance(one, WarningLimit) for one in logging.getLogger(name).filters) for name in LIMITED}

    monkeypatch.setattr(uvicorn.Server, "run", run)
    serve(build_tagger(), port=0)
    assert limited == dict.fromkeys(LIMITED, 1)
    assert limits() == dict.fromkeys(LIMITED, 0), "afterwards others of the process log as they did"
