"""Requests that wait at the same time go through the model together, on one thread."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from starlette.exceptions import HTTPException

from maskedcrf.errors import MaskedCRFError
from maskedcrf.service.limits import Budget, Limits

logger = logging.getLogger(__name__)


class Sized(Protocol):
    """One sentence, as far as the queue is concerned."""

    @property
    def tokens(self) -> Sequence[str]:
        """What its cost is counted by."""


Answer = Callable[[Hashable, Sequence[Sized]], list[bytes]]
"""(question, sentences) -> an answer for each sentence."""


@dataclass(slots=True, eq=False)
class Job:
    """The sentences of one request, waiting for their answers."""

    question: Hashable
    items: Sequence[Sized]
    cost: int
    future: asyncio.Future[list[bytes]]


class Batcher:
    """A bounded queue before one worker thread, which takes whatever waits when it is free.

    Under load the queue itself makes the batches. The window only helps clients that answer at once: after a
    batch of n requests the worker waits a moment for n more, and one client alone never waits.
    """

    def __init__(
        self, answer: Answer, limits: Limits, *, observe: Callable[[int, int], None] = lambda requests, tokens: None
    ) -> None:
        self._answer, self._limits, self._observe = answer, limits, observe
        self.budget = Budget(limits.queue_tokens, what="too many requests are waiting for the model")
        self._waiting: deque[Job] = deque()
        self._bell = asyncio.Event()
        self._wanted = 1
        self._closing = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Requests in the queue whose clients still wait for an answer."""
        return sum(not job.future.done() for job in self._waiting)

    @property
    def alive(self) -> bool:
        """Whether it takes requests."""
        return self._task is not None and not self._task.done() and not self._closing

    def start(self) -> None:
        """Begin to serve, on the running event loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Answer all that waits, then stop."""
        self._closing = True
        self._bell.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def submit(self, question: Hashable, items: Sequence[Sized], *, weight: int = 1) -> list[bytes]:
        """An answer for each item; 503 if the queue is full, 504 past the deadline, 422 if the model refuses.

        A token counts `weight` times, for questions that cost the model more.
        """
        if not self.alive:
            raise HTTPException(503, "the server is stopping; try again later", headers={"Retry-After": "1"})
        cost = weight * (sum(len(item.tokens) for item in items) + len(items))
        with self.budget.hold(cost):
            job = Job(question, items, cost, asyncio.get_running_loop().create_future())
            self._waiting.append(job)
            if len(self._waiting) >= self._wanted:
                self._bell.set()
            try:
                return await asyncio.wait_for(job.future, self._limits.deadline)
            except TimeoutError:
                seconds = f"{self._limits.deadline:g} s"
                raise HTTPException(504, f"no answer within {seconds}; send fewer sentences") from None

    async def _run(self) -> None:
        while jobs := await self._next():
            for question in dict.fromkeys(job.question for job in jobs):
                await self._serve([job for job in jobs if job.question == question])

    async def _next(self) -> list[Job]:
        """What waits, up to a batch; nothing once it is closing and all is answered."""
        last, jobs = self._wanted, list[Job]()
        await self._arrivals(1)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.window):
                await self._arrivals(last)
        while self._waiting:
            if jobs and sum(job.cost for job in jobs) + self._waiting[0].cost > self._limits.batch_tokens:
                break
            job = self._waiting.popleft()
            if not job.future.done():  # else its client has been told to go
                jobs.append(job)
        self._wanted = max(1, len(jobs))
        return jobs if jobs or self._closing else await self._next()

    async def _arrivals(self, wanted: int) -> None:
        self._wanted = wanted
        while len(self._waiting) < wanted and not self._closing:
            self._bell.clear()
            await self._bell.wait()

    async def _serve(self, jobs: Sequence[Job]) -> None:
        """Answer these together; if that fails, each alone, so that only the one that fails is told so."""
        items = [item for job in jobs for item in job.items]
        self._observe(len(jobs), sum(len(item.tokens) for item in items))
        try:
            answers = await self._in_thread(jobs[0].question, items)
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    await self._serve([job])
            elif not jobs[0].future.done():
                jobs[0].future.set_exception(_refusal(error))
            return
        found = iter(answers)
        for job in jobs:
            own = [next(found) for _ in job.items]
            if not job.future.done():
                job.future.set_result(own)

    async def _in_thread(self, question: Hashable, items: Sequence[Sized]) -> list[bytes]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question, items)


def _refusal(error: Exception) -> HTTPException:
    if isinstance(error, MaskedCRFError):
        return HTTPException(422, str(error))
    # The message of an unexpected error may hold text of the request, which no log shows.
    logger.error("the model failed: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
    return HTTPException(500, "the model failed; the server's log says where")
