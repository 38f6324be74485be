"""Requests that wait at the same time go through the model together, on one thread; a stuck one is replaced."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeVar

from starlette.exceptions import HTTPException

from maskedcrf.errors import MaskedCRFError
from maskedcrf.service.limits import Budget, Limits, busy
from maskedcrf.service.model_thread import ModelPanicError, ModelThread

logger = logging.getLogger(__name__)

MAX_STUCK_THREADS = 2
"""Each holds a core for as long as it is stuck; with so many, only a restart of the server helps."""
Result = TypeVar("Result")
State = Literal["starting", "ok", "stuck", "failed", "stopping"]


class HasTokens(Protocol):
    """One sentence, as far as the queue is concerned."""

    @property
    def tokens(self) -> Sequence[str]:
        """What its cost is counted by."""


Answer = Callable[[Hashable, Sequence[HasTokens]], list[bytes]]
"""(question, sentences) -> an answer for each sentence."""


@dataclass(slots=True, eq=False)
class Job:
    """The sentences of one request, waiting for their answers."""

    question: Hashable
    items: Sequence[HasTokens]
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
        self._wake = asyncio.Event()
        self._expected = 1
        self._closing = False
        self._warm = False
        self._thread = ModelThread()
        self._stuck: list[ModelThread] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Requests in the queue whose clients still wait for an answer."""
        return sum(not job.future.done() for job in self._waiting)

    @property
    def state(self) -> State:
        """Whether it takes requests ("ok"), and if not, why."""
        if self._closing:
            return "stopping"
        if self._task is None or self._task.done():
            return "starting" if self._task is None else "failed"
        if not self._warm:
            return "starting"
        return "stuck" if sum(thread.busy for thread in self._stuck) >= MAX_STUCK_THREADS else "ok"

    @property
    def at_rest(self) -> bool:
        """Whether no thread is inside the model."""
        return not any(thread.busy for thread in (self._thread, *self._stuck))

    def start(self, warm_up: Callable[[], None] = lambda: None) -> asyncio.Task[None]:
        """Begin to serve on the running event loop, once the model is warm; the task ends when it is."""
        warming = asyncio.create_task(self._warm_up(warm_up))
        self._task = asyncio.create_task(self._run(warming))
        return warming

    async def close(self) -> None:
        """Answer all that waits, then stop; a model that is not warm yet is not waited for."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            if not self._warm:
                self._task.cancel()
            await asyncio.wait([self._task])
        self._thread.close()

    async def submit(self, question: Hashable, items: Sequence[HasTokens], *, weight: int = 1) -> list[bytes]:
        """An answer for each item; 503 if the queue is full, 504 past the deadline, 422 if the model refuses.

        A token counts `weight` times, for questions that cost the model more.
        """
        self.require_ok()
        cost = weight * (sum(len(item.tokens) for item in items) + len(items))
        with self.budget.hold(cost):
            job = Job(question, items, cost, asyncio.get_running_loop().create_future())
            self._waiting.append(job)
            if len(self._waiting) >= self._expected:
                self._wake.set()
            return await self.within_deadline(job.future)

    async def within_deadline(self, answer: Awaitable[Result]) -> Result:
        """What this gives, or 504."""
        try:
            return await asyncio.wait_for(answer, self._limits.deadline)
        except TimeoutError:
            seconds = f"{self._limits.deadline:g} s"
            raise HTTPException(504, f"no answer within {seconds}; send fewer sentences") from None

    def require_ok(self) -> None:
        """Refuse with 503 while no request is taken."""
        if self.state != "ok":
            raise busy(f"the server is {self.state}" if self.state != "failed" else "the server has failed")

    async def _warm_up(self, warm_up: Callable[[], None]) -> None:
        await self._thread.run(warm_up)
        self._warm = True

    async def _run(self, warming: asyncio.Task[None]) -> None:
        await warming
        while jobs := await self._next():
            for question in dict.fromkeys(job.question for job in jobs):
                await self._answer_jobs([job for job in jobs if job.question == question])

    async def _next(self) -> list[Job]:
        """What waits, up to a batch; nothing once it is closing and all is answered."""
        last, jobs = self._expected, list[Job]()
        await self._wait_for(1)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.window):
                await self._wait_for(last)
        while self._waiting:
            if jobs and sum(job.cost for job in jobs) + self._waiting[0].cost > self._limits.batch_tokens:
                break
            job = self._waiting.popleft()
            if not job.future.done():  # else its client has been told to go
                jobs.append(job)
        self._expected = max(1, len(jobs))
        return jobs if jobs or self._closing else await self._next()

    async def _wait_for(self, expected: int) -> None:
        self._expected = expected
        while len(self._waiting) < expected and not self._closing:
            self._wake.clear()
            await self._wake.wait()

    async def _answer_jobs(self, jobs: Sequence[Job]) -> None:
        """Answer these together; if that fails, each alone, so that only the one that fails is told so."""
        items = [item for job in jobs for item in job.items]
        self._observe(len(jobs), sum(len(item.tokens) for item in items))
        try:
            answers = await self._in_thread(jobs[0].question, items)
        except TimeoutError:
            for job in jobs:
                _refuse(job, busy("the model was stuck"))
            return
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    await self._answer_jobs([job])
            else:
                _refuse(jobs[0], _refusal(error))
            return
        found = iter(answers)
        for job in jobs:
            own = [next(found) for _ in job.items]
            if not job.future.done():
                job.future.set_result(own)

    async def _in_thread(self, question: Hashable, items: Sequence[HasTokens]) -> list[bytes]:
        """The model's answers; a thread that does not come back is left alone, and a new one takes its place."""
        answering = self._thread.run(partial(self._answer, question, items))
        try:
            return await asyncio.wait_for(answering, self._limits.batch_seconds)
        except TimeoutError:
            logger.error("the model has not answered for %g s: a new thread takes over", self._limits.batch_seconds)
            self._thread.close()
            self._stuck = [thread for thread in (*self._stuck, self._thread) if thread.busy]
            self._thread = ModelThread()
            raise


def _refuse(job: Job, refusal: HTTPException) -> None:
    if not job.future.done():
        job.future.set_exception(refusal)


def _refusal(error: Exception) -> HTTPException:
    if isinstance(error, MaskedCRFError) and not isinstance(error, ModelPanicError):
        return HTTPException(422, str(error))
    # The message of an unexpected error may hold text of the request, which no log shows.
    logger.error("the model failed: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
    return HTTPException(500, "the model failed; the server's log says where")
