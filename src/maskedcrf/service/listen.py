"""The service on a socket: uvicorn, with a limit on how long a client may take to ask."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Collection
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from maskedcrf.errors import MaskedCRFError
from maskedcrf.service.app import create_app
from maskedcrf.service.limits import Limits
from maskedcrf.service.middleware import LOOPBACK
from maskedcrf.tagger import Tagger

HEADER_SECONDS = 10.0
"""For a client to send the head of a request; its body has a limit of its own."""
READ_BYTES = 1 << 14
"""Taken from a connection at a time: a body in chunks of one byte takes long to read, and others wait meanwhile."""
CLOSE = (b"connection", b"close")


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose request does not come; uvicorn alone would wait for ever."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the head is whole."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for."""
        self._stop_waiting()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close once the answer is out, and say so in it: a client that did not know would lose its next request."""
        if self.cycle is not None:
            scope = self.cycle.scope
            scope["headers"] = [*scope["headers"], CLOSE]  # uvicorn repeats it in the answer
        super().shutdown()

    def _wait(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def serve(
    tagger: Tagger,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    hosts: Collection[str] = (),
    limits: Limits | None = None,
    announce: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until interrupted; what has begun is answered first.

    `hosts` are names the server answers to besides localhost. Without them, one that listens to this machine alone
    answers to no other name, and one that others reach answers to any.
    """
    named = bool(hosts) or host in {*LOOPBACK, "::1"}
    server = build_server(tagger, hosts=LOOPBACK | set(hosts) if named else None, limits=limits)
    with listening(host, port) as listener:
        number = listener.getsockname()[1]
        announce(f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}")
        server.run(sockets=[listener])


def build_server(tagger: Tagger, *, hosts: Collection[str] | None, limits: Limits | None = None) -> uvicorn.Server:
    """uvicorn set up for the service: no log of addresses, which may hold text, and no word about itself."""
    limits = limits or Limits()
    settings: dict[str, Any] = {"http": PatientProtocol, "ws": "none", "lifespan": "on", "loop": "asyncio"}
    quiet: dict[str, Any] = {"access_log": False, "server_header": False, "log_config": None, "log_level": "warning"}
    patience = round(limits.body_seconds + limits.deadline) + 1
    app = create_app(tagger, limits=limits, hosts=hosts)
    return uvicorn.Server(uvicorn.Config(app, **settings, **quiet, timeout_graceful_shutdown=patience))


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        # create_server's own message repeats the address; the numbers of a name that is not found are below 0.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else "no such address"
        foreign = number <= 0 or number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
        choose = "--host" if foreign else "--port"
        raise MaskedCRFError(f"cannot listen on {host} port {port}: {reason}; choose another with {choose}") from error
    # An answer goes out in two writes; without this the second waits some 40 ms for the first to be acknowledged.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
