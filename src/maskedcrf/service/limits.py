"""What one request, and all of them together, may cost; what exceeds a limit is refused, never cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MEBI = 1 << 20

# Of one request; these stand in the OpenAPI schema too.
CHARACTERS = 20_000
"""In one text."""
TOKENS = 2_000
"""In one sentence."""
TOKEN_CHARACTERS = 256
"""In one token: a character CNN pads all words to the longest."""
SENTENCES = 256
REQUEST_TOKENS = 16_000
"""In all sentences of a request, each counted by its weight."""
RANKED_WEIGHT, THRESHOLD_WEIGHT = 4, 16
"""What a token costs when probabilities or the best paths are asked for too, and when a threshold is given."""
LATTICE_TOKENS = 128
REDACT_TOKENS = REQUEST_TOKENS // RANKED_WEIGHT
"""In one text to redact."""
KEYS = TOKENS
"""In one object: fixed tags have a key each, and each key that is none costs a complaint."""
NBEST = 20
THRESHOLD = 0.01


def at_most(number: int, most: int, what: str) -> None:
    """Refuse a request with more than so many."""
    if number > most:
        raise HTTPException(422, f"at most {most} {what}, got {number}")


def most_connections() -> int:
    """As many as this process may have files open, less what it needs itself."""
    try:
        from resource import RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows
        return 512
    files, _ = getrlimit(RLIMIT_NOFILE)
    return max(16, min(1024, files - 96)) if files > 0 else 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What the whole server may hold and how long it waits."""

    body_bytes: int = MEBI
    bodies_bytes: int = 64 * MEBI
    """Of all requests that are being read or answered."""
    body_seconds: float = 10.0
    """For a client to send its whole body."""
    deadline: float = 30.0
    """Seconds from a request's arrival to its answer."""
    queue_tokens: int = 64_000
    """Waiting for the model, all requests together."""
    batch_tokens: int = 8_192
    """Taken from the queue at once; a request is never cut, so one alone may exceed it."""
    window: float = 0.004
    """Seconds to wait for as many requests as the last batch had."""
    connections: int = field(default_factory=most_connections)
    """Open at once."""
    head_seconds: float = 10.0
    """For a client to send the head of a request, on a new connection or on one that was answered."""
    write_seconds: float = 30.0
    """For a client that takes nothing of its answer."""
    batch_seconds: float = 120.0
    """After which the model counts as stuck and gets a new thread."""
    drain_bytes: int = 16 * MEBI
    """Read and thrown away of a body that is too large, so that the client sees the answer."""


class Budget:
    """An amount that many share: taking more than is left is refused with 503."""

    def __init__(self, size: int, *, what: str) -> None:
        self.size, self.used, self._what = size, 0, what

    def take(self, amount: int) -> None:
        """Take this much, or refuse; whoever is alone is served whatever its size."""
        if self.used and self.used + amount > self.size:
            raise busy(self._what)
        self.used += amount

    def give_back(self, amount: int) -> None:
        """What was taken is free again."""
        self.used -= amount

    @contextmanager
    def hold(self, amount: int) -> Iterator[None]:
        """Take this much for a while."""
        self.take(amount)
        try:
            yield
        finally:
            self.give_back(amount)


def busy(what: str) -> HTTPException:
    """The refusal of a server that has too much to do."""
    return HTTPException(503, f"{what}; try again later", headers={"Retry-After": "1"})


class LimitedRequest(Request):
    """A request whose body is read within the limits and parsed strictly."""

    limits: Limits
    budget: Budget
    held = 0
    _read: bytes | None = None

    async def body(self) -> bytes:
        """The whole body, or a refusal: 408, 413, 415, 503."""
        if self._read is None:
            self._check_headers()
            try:
                async with asyncio.timeout(self.limits.body_seconds):
                    self._read = b"".join([part async for part in self._parts()])
            except TimeoutError:
                raise HTTPException(408, f"the body did not come within {self.limits.body_seconds:g} s") from None
            except ClientDisconnect:
                raise HTTPException(400, "the connection closed before the body was whole") from None
        return self._read

    async def json(self) -> Any:
        """The body as JSON, or a refusal: 400, 422."""
        return parse(await self.body())

    def release(self) -> None:
        """The body is no longer needed."""
        self.budget.give_back(self.held)
        self.held = 0

    def _check_headers(self) -> None:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
        size = self.headers.get("content-length", "")
        if size.isdecimal() and int(size) > self.limits.drain_bytes:
            raise self._too_large()

    async def _parts(self) -> AsyncIterator[bytes]:
        """The body as it comes, counted as it comes: a Content-Length may be absent or false.

        A body that is refused is still read for a while: a client that is sending sees no answer before it has done so.
        """
        size, refused = 0, None
        async for part in self.stream():
            size += len(part)
            refused = refused or self._keep(part, size)
            if size > self.limits.drain_bytes:
                break
            if refused is None:
                yield part
        if refused is not None:
            raise refused

    def _keep(self, part: bytes, size: int) -> HTTPException | None:
        """Count this part of a body of this size so far, or say why it is not taken."""
        if size > self.limits.body_bytes:
            return self._too_large()
        try:
            self.budget.take(len(part))
        except HTTPException as refusal:
            return refusal
        self.held += len(part)
        return None

    def _too_large(self) -> HTTPException:
        less = "fewer sentences" if self.scope["route"].path == "/tag/batch" else "a shorter text"
        return HTTPException(413, f"the body is larger than {self.limits.body_bytes} bytes; send {less}")


def parse(body: bytes) -> Any:
    """Strict JSON: UTF-8, no NaN or Infinity, no key twice, no nesting that exhausts the stack."""
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the body is not UTF-8: byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise HTTPException(400, f"the body is not JSON: {error.msg}, character {error.pos}") from None
    except ValueError:  # an integer of thousands of digits
        raise HTTPException(400, "the body is not JSON that can be read: a number is too long") from None
    except RecursionError:
        raise HTTPException(422, "the body is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    at_most(len(pairs), KEYS, "keys in one object")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HTTPException(400, "the body is not JSON that can be read: a key stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise HTTPException(400, f"the body is not JSON: {name} is no number")


Handler = Callable[[Request], Any]


def limit_body(handle: Handler, limits: Limits, budget: Budget) -> Handler:
    """The same handler, reading its request's body within the limits."""

    async def within(request: Request) -> Any:
        narrowed = LimitedRequest(request.scope, request.receive)
        narrowed.limits, narrowed.budget = limits, budget
        try:
            return await handle(narrowed)
        finally:
            narrowed.release()

    return within


Answer = TypeVar("Answer")


async def cancel_on_disconnect(request: Request, answer: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer to a request that was read; given up once the client has closed the connection."""
    answering, leaving = asyncio.ensure_future(answer), asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise HTTPException(400, "the connection closed before the answer")
        return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
