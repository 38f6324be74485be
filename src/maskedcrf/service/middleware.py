"""What stands before every request and after every answer: host check, security headers, counts, a log without text."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Collection
from http import HTTPMethod

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maskedcrf.service.metrics import Metrics
from maskedcrf.service.schemas import REASONS

logger = logging.getLogger(__name__)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
METHODS = frozenset(HTTPMethod)
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
DRAIN_SECONDS = 1.0
"""How long the rest of a body that nobody wants is still read, so that its sender sees the answer."""


def refusal(status: int, message: str) -> JSONResponse:
    """A refusal in the form of the schema's Error."""
    return JSONResponse({"error": REASONS[status][0], "message": message}, status)


class SecurityMiddleware:
    """An ASGI middleware.

    `hosts` are the names a Host header may have, None any: a page from elsewhere whose name was made to point to
    this machine must not reach a server that listens to this machine alone. Answers given while `stopping` tell the
    client to come no more on this connection.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str] | None,
        metrics: Metrics,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app, self._hosts, self._metrics, self._stopping = app, hosts, metrics, stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        body = _Body(scope, receive)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # Whoever is refused may otherwise go on to send for ever.
                if not await body.drain() or self._stopping():
                    headers["Connection"] = "close"
            await send(message)

        try:
            app = self._app if self._host_allowed(scope) else refusal(400, "the Host header names another server")
            await app(scope, body.receive, send_with_headers)
        except Exception as error:
            frames = "".join(traceback.format_tb(error.__traceback__))
            # Without the error's message, which may quote the request.
            logger.error("a request failed: %s\n%s", type(error).__name__, frames)
            if not status:
                await refusal(500, "the server failed; its log says where")(scope, receive, send_with_headers)
        path = getattr(scope.get("route"), "path", "other")
        seconds = time.perf_counter() - started
        self._metrics.count_request(path, status, seconds)
        method = scope["method"] if scope["method"] in METHODS else "other"
        logger.info("%s %s %d %.1f ms", method, path, status, 1000 * seconds)

    def _host_allowed(self, scope: Scope) -> bool:
        host = Headers(scope=scope).get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        return self._hosts is None or name.lower() in self._hosts


class _Body:
    """The body of a request on its way in, and whether it has come to its end."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self._receive = receive
        self._ended = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._ended = True
        return message

    async def drain(self) -> bool:
        """Throw away what is left of it, for a moment; whether that was all."""
        try:
            async with asyncio.timeout(None if self._ended else DRAIN_SECONDS):
                while not self._ended:
                    await self.receive()
        except TimeoutError:
            return False
        return True
