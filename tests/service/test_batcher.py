"""The queue before the model: what shares a batch, what is refused, and that nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import pytest
from service_helpers import asynchronous
from starlette.exceptions import HTTPException

from maskedcrf.errors import IllegalPathError
from maskedcrf.service.batcher import MAX_STUCK_THREADS, Batcher
from maskedcrf.service.limits import Limits


class Item(NamedTuple):
    tokens: tuple[str, ...]


class Model:
    """Answers each item with its words; waits while the gate is shut."""

    def __init__(self) -> None:
        self.calls: list[tuple[Hashable, list[str]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def __call__(self, question: Hashable, items: Sequence[Item]) -> list[bytes]:
        words = ["".join(item.tokens) for item in items]
        self.calls.append((question, words))
        self.entered.set()
        assert self.gate.wait(100)
        if "panic" in words:
            raise KeyboardInterrupt  # as a panic below Python, it is no Exception
        if "bad" in words:
            raise IllegalPathError("no path")
        if "worse" in words:
            raise RuntimeError(*words)
        return [word.encode() for word in words]


class Running:
    """A batcher that runs inside `async with`."""

    def __init__(self, **limits: float) -> None:
        self.model = Model()
        self.batcher = Batcher(self.model, Limits(**limits))

    def set_limits(self, **limits: float) -> None:
        """Other limits for the requests to come."""
        self.batcher._limits = Limits(**limits)

    async def __aenter__(self) -> Running:
        await self.batcher.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.model.gate.set()
        await self.batcher.close()

    async def busy(self) -> asyncio.Task[list[bytes]]:
        """A first request that keeps the model busy until the gate opens."""
        self.model.gate.clear()
        first = self.ask("first")
        await asyncio.to_thread(self.model.entered.wait, 100)
        return first

    def ask(self, *words: str, question: Hashable = "q") -> asyncio.Task[list[bytes]]:
        return asyncio.create_task(self.batcher.submit(question, [Item((word,)) for word in words]))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@asynchronous
async def test_requests_that_wait_together_are_answered_together_and_each_gets_its_own() -> None:
    async with Running() as running:
        first = await running.busy()
        tasks = [running.ask("a", "b"), running.ask("c"), running.ask("d", "e", "f")]
        await settle()
        running.model.gate.set()
        assert await first == [b"first"]
        assert await asyncio.gather(*tasks) == [[b"a", b"b"], [b"c"], [b"d", b"e", b"f"]]
        assert running.model.calls[1:] == [("q", ["a", "b", "c", "d", "e", "f"])]


@asynchronous
async def test_different_questions_do_not_share_a_pass() -> None:
    async with Running() as running:
        await running.busy()
        tasks = [running.ask("a", question=1), running.ask("b", question=2), running.ask("c", question=1)]
        await settle()
        running.model.gate.set()
        assert await asyncio.gather(*tasks) == [[b"a"], [b"b"], [b"c"]]
        assert running.model.calls[1:] == [(1, ["a", "c"]), (2, ["b"])]


@asynchronous
async def test_a_batch_is_bounded_and_a_request_is_never_cut() -> None:
    async with Running(batch_tokens=5) as running:
        await running.busy()
        tasks = [running.ask("a"), running.ask("b"), running.ask("c"), running.ask("d", "e", "f", "g")]
        await settle()
        running.model.gate.set()
        await asyncio.gather(*tasks)
        # Each sentence of one word costs two: its token and itself.
        assert [words for _, words in running.model.calls[1:]] == [["a", "b"], ["c"], ["d", "e", "f", "g"]]


@asynchronous
async def test_a_full_queue_refuses_and_takes_requests_again_when_it_has_emptied() -> None:
    async with Running(queue_tokens=4) as running:
        first = await running.busy()
        second = running.ask("a")
        with pytest.raises(HTTPException) as refused:
            await running.ask("b")
        assert refused.value.status_code == 503
        assert refused.value.headers == {"Retry-After": "1"}
        running.model.gate.set()
        assert await first == [b"first"]
        assert await second == [b"a"]
        assert running.batcher.budget.used == 0
        assert await running.ask("b") == [b"b"]


@asynchronous
async def test_past_its_deadline_a_request_is_given_up_and_never_reaches_the_model() -> None:
    async with Running() as running:
        first = await running.busy()
        running.set_limits(deadline=0.01)
        with pytest.raises(HTTPException) as late:
            await running.ask("a")
        assert late.value.status_code == 504
        running.set_limits()
        running.model.gate.set()
        assert await first == [b"first"]
        assert await running.ask("b") == [b"b"]
        assert [words for _, words in running.model.calls] == [["first"], ["b"]]


@asynchronous
async def test_only_the_request_that_fails_is_told_so() -> None:
    async with Running() as running:
        await running.busy()
        good, bad, other = running.ask("a"), running.ask("bad"), running.ask("c")
        await settle()
        running.model.gate.set()
        assert await good == [b"a"]
        assert await other == [b"c"]
        with pytest.raises(HTTPException) as refused:
            await bad
        assert (refused.value.status_code, refused.value.detail) == (422, "no path")


@asynchronous
async def test_an_unexpected_error_is_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    async with Running() as running:
        with caplog.at_level(logging.ERROR), pytest.raises(HTTPException) as failed:
            await running.ask("worse")
        assert failed.value.status_code == 500
        assert "RuntimeError" in caplog.text
        assert "worse" not in caplog.text + failed.value.detail
        assert await running.ask("a") == [b"a"]


@asynchronous
async def test_closing_answers_what_waits_and_refuses_what_comes_later() -> None:
    running = Running()
    await running.batcher.start()
    first = await running.busy()
    second = running.ask("a")
    await settle()
    closing = asyncio.create_task(running.batcher.close())
    await settle()
    with pytest.raises(HTTPException) as refused:
        await running.ask("b")
    assert refused.value.status_code == 503
    running.model.gate.set()
    await closing
    assert [await first, await second] == [[b"first"], [b"a"]]


@asynchronous
async def test_one_client_alone_never_waits_for_others() -> None:
    async with Running(window=1000.0) as running:
        for word in "abc":
            assert await asyncio.wait_for(running.ask(word), 100) == [word.encode()]


@asynchronous
async def test_clients_that_come_back_after_a_shared_batch_share_the_next() -> None:
    async with Running(window=60.0) as running:
        await running.busy()
        tasks = [running.ask("a"), running.ask("b")]
        await settle()
        running.model.gate.set()
        await asyncio.gather(*tasks)
        again = running.ask("c")
        await settle()
        await asyncio.gather(again, running.ask("d"))
        assert running.model.calls[-1] == ("q", ["c", "d"])


@asynchronous
async def test_a_question_that_costs_more_fills_the_queue_sooner() -> None:
    async with Running(queue_tokens=10) as running:
        await running.busy()
        costly = asyncio.create_task(running.batcher.submit("q", [Item(("a",))], weight=4))
        await settle()
        assert running.batcher.budget.used == 2 + 4 * 2
        with pytest.raises(HTTPException):
            await running.ask("b")
        running.model.gate.set()
        assert await costly == [b"a"]


@asynchronous
async def test_a_panic_fails_its_request_and_the_worker_lives() -> None:
    async with Running() as running:
        with pytest.raises(HTTPException) as failed:
            await running.ask("panic")
        assert failed.value.status_code == 500
        assert running.batcher.state == "ok"
        assert await running.ask("a") == [b"a"]


@asynchronous
async def test_a_stuck_model_gets_a_new_thread_until_too_many_are_stuck() -> None:
    running = Running(batch_seconds=0.01)
    gates = [threading.Event() for _ in range(MAX_STUCK_THREADS)]
    await running.batcher.start()
    for number, gate in enumerate(gates):
        assert running.batcher.state == "ok"
        running.model.gate = gate
        with pytest.raises(HTTPException) as refused:
            await running.ask(f"stuck {number}")
        assert refused.value.status_code == 503
    assert running.batcher.state == "stuck"
    assert not running.batcher.at_rest
    with pytest.raises(HTTPException, match="the server is stuck"):
        await running.ask("a")
    for gate in gates:
        gate.set()
    running.set_limits()
    while not running.batcher.at_rest:
        await asyncio.sleep(0)
    assert running.batcher.state == "ok"
    assert await running.ask("a") == [b"a"]
    await running.batcher.close()


@asynchronous
async def test_while_the_model_warms_up_requests_are_refused_and_stopping_does_not_wait_for_it() -> None:
    running, gate, entered = Running(), threading.Event(), threading.Event()

    def warm_up() -> None:
        entered.set()
        gate.wait()

    warming = running.batcher.start(warm_up)
    await asyncio.to_thread(entered.wait)
    assert running.batcher.state == "starting"
    with pytest.raises(HTTPException, match="503: the server is starting"):
        await running.ask("a")
    await running.batcher.close()
    assert running.batcher.state == "stopping"
    assert not running.batcher.at_rest
    gate.set()
    assert warming.cancelled() or not warming.done()


@asynchronous
async def test_a_model_that_fails_while_it_warms_up_is_said_to_have_failed() -> None:
    running = Running()

    def warm_up() -> None:
        raise IllegalPathError("no path")

    with pytest.raises(IllegalPathError):
        await running.batcher.start(warm_up)
    await settle()
    assert running.batcher.state == "failed"
    with pytest.raises(HTTPException, match="503: the server has failed"):
        await running.ask("a")
    await running.batcher.close()
