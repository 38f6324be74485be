"""What the server says of itself, in bounded amounts: whoever can make it fail cannot fill the disk with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LIMITED = ("asyncio", "uvicorn.error", "maskedcrf.service.batcher", "maskedcrf.service.middleware")
"""Loggers that clients can make speak."""
LINES_A_MINUTE = 20


class WarningLimit(logging.Filter):
    """Lets so many warnings and errors a minute through, and says how many it left out; the rest passes."""

    def __init__(self, most: int = LINES_A_MINUTE, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most, self._clock = most, clock
        self._since, self._passed, self._left_out = clock(), 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        if record.levelno < logging.WARNING:
            return True
        if self._clock() - self._since >= 60:
            if self._left_out:
                record.msg = f"({self._left_out} messages were left out) {record.msg}"
            self._since, self._passed, self._left_out = self._clock(), 0, 0
        self._passed += 1
        self._left_out += self._passed > self._most
        return self._passed <= self._most


@contextmanager
def limited_warnings() -> Iterator[None]:
    """While this lasts, what clients can make the server log is bounded."""
    limit, loggers = WarningLimit(), [logging.getLogger(name) for name in LIMITED]
    for each in loggers:
        each.addFilter(limit)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(limit)
