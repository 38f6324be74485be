"""What stands before every request and after every answer: host check, security headers, counts, a log without text."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Collection
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


def refusal(status: int, message: str) -> JSONResponse:
    """A refusal in the form of the schema's Error."""
    return JSONResponse({"error": REASONS[status][0], "message": message}, status)


class Guard:
    """An ASGI middleware.

    `hosts` are the names a Host header may have, None any: a page from elsewhere whose name was made to point to
    this machine must not reach a server that listens to this machine alone.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] | None, metrics: Metrics) -> None:
        self._app, self._hosts, self._metrics = app, hosts, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            app = self._app if self._knows(scope) else refusal(400, "the Host header names another server")
            await app(scope, receive, watched)
        except Exception as error:
            frames = "".join(traceback.format_tb(error.__traceback__))
            # Without the error's message, which may quote the request.
            logger.error("a request failed: %s\n%s", type(error).__name__, frames)
            if not status:
                await refusal(500, "the server failed; its log says where")(scope, receive, watched)
        path = getattr(scope.get("route"), "path", "other")
        seconds = time.perf_counter() - begun
        self._metrics.request(path, status, seconds)
        method = scope["method"] if scope["method"] in METHODS else "other"
        logger.info("%s %s %d %.1f ms", method, path, status, 1000 * seconds)

    def _knows(self, scope: Scope) -> bool:
        host = Headers(scope=scope).get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        return self._hosts is None or name.lower() in self._hosts
