"""A tagger whose every score is written down here, and ways to talk to it: in process, and over a socket."""

from __future__ import annotations

import asyncio
import copy
import functools
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import torch
from token_lists import sentences_of

from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.service.limits import Limits
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.constraints import Constraints, MaskMode

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
LEGAL = {(before, after) for before in TAGS for after in TAGS if after[0] != "I" or before[1:] == after[1:]}
TEXT = "Ann Lee flew to Oslo."

# Word -> the score of each tag. After "to" (O) the unmasked path takes I-LOC for "Oslo", which BIO forbids.
SCORES = {
    "Ann": [0.0, 4.0, 1.0, 0.0, 0.0],
    "Lee": [0.0, 1.0, 4.0, 0.0, 0.0],
    "flew": [5.0, 0.0, 0.0, 0.0, 0.0],
    "to": [5.0, 0.0, 0.0, 0.0, 0.0],
    "Oslo": [0.0, 0.0, 0.0, 3.0, 4.0],
    ".": [5.0, 0.0, 0.0, 0.0, 0.0],
}


@functools.cache
def build_tagger(mask: MaskMode = "train") -> Tagger:
    """A tagger with the emissions of SCORES, zero for any other word, and transitions that are all zero."""
    words = list(SCORES)
    # Each word twice: words seen once would lend their vectors to unseen words of their shape.
    encoder = build_encoder(
        EncoderConfig(words=len(words), characters=0, lstm_layers=0, dropout=0.0), sentences_of([words, words])
    )
    model = TaggerModel(encoder, Constraints.from_scheme(TAGS, "BIO"), mask=mask, dropout=0.0)
    part = encoder.parts["words"]
    with torch.no_grad():
        part.trained.weight.zero_()
        for place, word in enumerate(words):
            part.trained.weight[part.vocabulary.number(word), place] = 1.0
        model.linear.weight.copy_(torch.tensor([SCORES[word] for word in words]).T)
        model.linear.bias.zero_()
        for parameter in model.crf.parameters():
            parameter.zero_()
    return Tagger(model.eval())


def promising_tagger() -> Tagger:
    """One with a promise: in one of five sentences a word is an entity, and the model all but certain it is not."""
    tagger = Tagger(copy.deepcopy(build_tagger().model))
    known = Sentence(("Ann", "Lee", "flew", "to", "Oslo", "."), ("B-PER", "I-PER", "O", "O", "B-LOC", "O"))
    missed = Sentence(("flew", "."), ("B-PER", "O"))
    tagger.promise([known, known, known, known, missed] * 40, miss_rate=0.25)
    return tagger


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The coroutine as a test."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


@asynccontextmanager
async def connected(
    limits: Limits | None = None, *, mask: MaskMode = "train", tagger: Tagger | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, without a socket between them, once its model is warm."""
    from maskedcrf.service.app import create_app

    warm = asyncio.Event()
    app = create_app(tagger or build_tagger(mask), limits=limits, ready=lambda problem: warm.set(), **options)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
    async with app.router.lifespan_context(app), client:
        await warm.wait()
        yield client


@contextmanager
def listening(
    limits: Limits | None = None, *, warm: bool = True, mask: MaskMode = "train", **options: Any
) -> Iterator[tuple[str, int]]:
    """A server on a free port of this machine, in a thread of its own; it stops at the end."""
    with running(limits, warm=warm, mask=mask, **options) as (_, address):
        yield address


@contextmanager
def running(
    limits: Limits | None = None,
    *,
    warm: bool = True,
    mask: MaskMode = "train",
    tagger: Tagger | None = None,
    **options: Any,
) -> Iterator[tuple[Any, tuple[str, int]]]:
    """The same, with the server."""
    from maskedcrf.service.app import create_app
    from maskedcrf.service.listen import build_server, open_listener

    limits, ready = limits or Limits(), threading.Event()
    app = create_app(
        tagger or build_tagger(mask),
        limits=limits,
        hosts={"127.0.0.1", "localhost"},
        ready=lambda problem: ready.set(),
        stopping=lambda: server.should_exit,
        **options,
    )
    server = build_server(app, limits)
    with open_listener("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            # The socket takes connections from the beginning; what comes in is read once the server runs.
            assert ready.wait(100) or not warm
            yield server, listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def serving(model: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`maskedcrf serve` as a process of its own, and the port it says it listens on."""
    command = [sys.executable, "-m", "maskedcrf", "serve", str(model), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines = list[str]()
        while not lines or "serving" not in lines[-1]:  # before that, it may say that it compiles
            lines.append(process.stderr.readline())
            assert lines[-1], f"it ended: {''.join(lines)}"
        yield process, int(lines[-1].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def say(address: tuple[str, int], *parts: bytes, timeout: float = 60.0) -> bytes:
    """All that the server answers to these bytes until it closes the connection."""
    with socket.create_connection(address, timeout=timeout) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                break
        answer = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                answer += part
        return answer
