"""The service on a socket: uvicorn, with a table of its connections beside it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction.rules import Rules
from maskedcrf.service.app import create_app
from maskedcrf.service.collect import Collector
from maskedcrf.service.connections import Connections
from maskedcrf.service.limits import Limits
from maskedcrf.service.log import limited_warnings
from maskedcrf.service.middleware import LOOPBACK
from maskedcrf.tagger import Tagger


def serve(
    tagger: Tagger,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    hosts: Collection[str] = (),
    rules: Rules | None = None,
    limits: Limits | None = None,
    announce: Callable[[str], None] = lambda address: None,
    stopped: Callable[[bool], None] = lambda at_rest: None,
    collect: str | Path | None = None,
) -> None:
    """Serve until interrupted; what has begun is answered first.

    Args:
        tagger: whose answers are served.
        host: the address to listen on.
        port: the port; 0 takes a free one.
        hosts: names the server answers to besides localhost. Without them, one that listens to this machine alone
            answers to no other name, and one that others reach answers to any.
        rules: patterns and dictionaries whose findings `/redact` hides too.
        limits: what the server may hold and how long it waits.
        announce: called with the server's URL once it takes requests.
        collect: file that sentences corrected on the page are appended to; None keeps none.
        stopped: called at the end; with False if a thread is still inside the model, as while it warms up.
    """
    collector = Collector(collect) if collect is not None else None
    named = bool(hosts) or host in {*LOOPBACK, "::1"}
    with open_listener(host, port) as listener:
        number = listener.getsockname()[1]
        address = f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"

        def ready(problem: BaseException | None) -> None:
            problems.append(problem)
            if problem is None:
                announce(address)
            else:
                server.should_exit = True

        problems = list[BaseException | None]()
        limits = limits or Limits()
        app = create_app(
            tagger,
            rules=rules,
            limits=limits,
            hosts=LOOPBACK | set(hosts) if named else None,
            ready=ready,
            stopping=lambda: server.should_exit,
            collector=collector,
        )
        server = build_server(app, limits)
        try:
            with limited_warnings():
                server.run(sockets=[listener])
        finally:
            stopped(app.state.batcher.at_rest)
    if problems and problems[0] is not None:
        raise MaskedCRFError(f"the model fails on two words ({problems[0]}); save it again") from problems[0]


def build_server(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """uvicorn set up for the service: no log of addresses, which may hold text, and no word about itself."""
    connections = Connections(app, limits, H11Protocol)
    settings: dict[str, Any] = {
        "http": connections.new_connection,
        "ws": "none",
        "lifespan": "on",
        "loop": "asyncio",
        "proxy_headers": False,
    }
    quiet: dict[str, Any] = {"access_log": False, "server_header": False, "log_config": None, "log_level": "warning"}
    patience = round(limits.body_seconds + limits.deadline) + 1
    return uvicorn.Server(uvicorn.Config(connections, **settings, **quiet, timeout_graceful_shutdown=patience))


def open_listener(host: str, port: int) -> socket.socket:
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
