"""The thread that the model runs on: a failure of any kind reaches whoever asked, and never ends the thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from maskedcrf.errors import MaskedCRFError

Found = TypeVar("Found")
Task = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class ModelPanicError(MaskedCRFError):
    """A library below the model failed in a way that is not even an Exception."""


class ModelThread:
    """One task after the other; it does not keep the process from ending."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self.busy = False
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    def run(self, function: Callable[[], Found]) -> asyncio.Future[Found]:
        """What the function returns or raises on the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Found] = loop.create_future()
        self._tasks.put((function, loop, future))
        return future

    def close(self) -> None:
        """End the thread once it has done what it was given."""
        self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, loop, future = task
            self.busy = True
            try:
                settle = _setter(future, function())
            except Exception as error:
                settle = _raiser(future, error)
            except BaseException as error:  # as a panic in a library written in Rust is
                panic = ModelPanicError(f"a library of the model panicked ({type(error).__name__})")
                settle = _raiser(future, panic.with_traceback(error.__traceback__))
            self.busy = False
            with suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(settle)


def _setter(future: asyncio.Future[Any], value: object) -> Callable[[], None]:
    return lambda: None if future.done() else future.set_result(value)


def _raiser(future: asyncio.Future[Any], error: Exception) -> Callable[[], None]:
    return lambda: None if future.done() else future.set_exception(error)
