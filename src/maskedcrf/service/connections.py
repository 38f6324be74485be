"""All open connections: how many there may be, how long each may be silent, how long its client may leave an answer.

uvicorn limits none of these. Its own protocol stays as it is: each connection hands it what comes in, and this table
watches from beside it which connections wait for a request and which have an answer that is not taken.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from maskedcrf.service.limits import Limits
from maskedcrf.service.schemas import REASONS

READ_BYTES = 1 << 14
"""Taken from a connection at a time: a body in chunks of one byte takes long to read, and others wait meanwhile."""
CHECK_SECONDS = 1.0
"""Between two looks at all connections."""
_BODY = json.dumps({"error": REASONS[503][0], "message": "too many connections are open; try again later"}).encode()
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class Connection(asyncio.Protocol):
    """One client: uvicorn's protocol for it, and since when it is silent or does not read."""

    transport: asyncio.Transport

    def __init__(self, table: Connections, protocol: Any) -> None:
        self._table, self._protocol = table, protocol
        self._admitted = False
        self.requests = 0
        """Requests that are being answered."""
        self.idle_since = 0.0
        self.unsent, self.unsent_since = 0, 0.0
        """Bytes of answers that the client has not taken, and since when there are no fewer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection to uvicorn, or refuse it."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._admitted = self._table.admit(self)
        if self._admitted:
            transport.max_size = READ_BYTES  # type: ignore[attr-defined]
            self._protocol.connection_made(transport)
        else:
            transport.write(FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Hand on what the client sends."""
        if self._admitted:
            self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Hand on that the client sends no more."""
        return self._protocol.eof_received() if self._admitted else None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._admitted:
            self._table.forget(self)
            self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Hand on that the client does not take its answer fast enough."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Hand on that it does again."""
        self._protocol.resume_writing()


class Connections:
    """The table of connections, and the ASGI application around the service that knows which of them are answered."""

    def __init__(
        self, app: ASGIApp, limits: Limits, protocol: Callable[..., Any], *, clock: Callable[[], float] | None = None
    ) -> None:
        self._app, self._limits, self._protocol = app, limits, protocol
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._open: dict[Any, Connection] = {}
        self._check: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def new_connection(self, **settings: Any) -> Connection:
        """What uvicorn calls for every connection, in place of its own protocol."""
        return Connection(self, self._protocol(**settings))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; its connection is not idle meanwhile."""
        connection = self._open.get((scope.get("client"), scope.get("server")))
        if scope["type"] != "http" or connection is None:
            await self._app(scope, receive, send)
            return
        connection.requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            connection.requests -= 1
            connection.idle_since = self._clock()

    def admit(self, connection: Connection) -> bool:
        """Take a connection in; where there are too many, in place of the one that has been silent longest."""
        if len(self._open) >= self._limits.connections:
            idle = [one for one in self._open.values() if not one.requests]
            if not idle:
                return False
            longest = min(idle, key=lambda one: one.idle_since)
            self.forget(longest)
            longest.transport.abort()
        connection.idle_since = connection.unsent_since = self._clock()
        self._open[_addresses(connection)] = connection
        if self._check is None:
            self._check = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check_again)
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is closed, or about to be."""
        if self._open.get(_addresses(connection)) is connection:
            del self._open[_addresses(connection)]

    def _check_again(self) -> None:
        self.check(self._clock())
        loop = asyncio.get_running_loop()
        self._check = loop.call_later(CHECK_SECONDS, self._check_again) if self._open else None

    def check(self, now: float) -> None:
        """Close the connections whose time is up."""
        for connection in list(self._open.values()):
            unsent = connection.transport.get_write_buffer_size()
            if not unsent or unsent < connection.unsent:
                connection.unsent_since = now
            connection.unsent = unsent
            silent = not unsent and not connection.requests and now - connection.idle_since > self._limits.head_seconds
            if silent or now - connection.unsent_since > self._limits.write_seconds:
                connection.transport.abort()


def _addresses(connection: Connection) -> Any:
    """Client and server as uvicorn has them in a request's scope."""
    names = (connection.transport.get_extra_info(name) for name in ("peername", "sockname"))
    return tuple((str(name[0]), int(name[1])) if isinstance(name, tuple) else None for name in names)
