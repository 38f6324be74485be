"""Batches side by side: the same numbers in the same order, and nothing of it left behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from small_corpus import corpus

from maskedcrf.errors import DataError
from maskedcrf.tagger import parallel
from maskedcrf.tagger.parallel import compute_emissions, parallel_map

SENTENCES = corpus(40, 3)


@pytest.fixture(autouse=True)
def _threads():
    """Four threads in every test, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def computed(tagger):
    """Places and emissions of small batches."""
    with compute_emissions(tagger.model, SENTENCES, size=3, tokens=40) as batches:
        return list(batches)


def test_an_encoder_that_does_not_pad_gets_batches_that_the_cores_share_evenly(tagger, monkeypatch):
    monkeypatch.setattr(type(tagger.model.encoder), "computes_padding", property(lambda encoder: False))
    sums = [sum(len(SENTENCES[place]) for place in batch.indices) for batch in computed(tagger)]
    assert len(sums) % 4 == 0
    assert max(sums) - min(sums) <= 2 * max(map(len, SENTENCES))
    assert sum(sums) == sum(map(len, SENTENCES))


def test_batches_parallel_map_are_those_one_after_the_other_to_the_bit(tagger, monkeypatch):
    met, threads = threading.Barrier(2), []

    def meet(model, prepared, compute=parallel._compute):
        threads.append(threading.current_thread())
        if len(threads) <= 2:
            met.wait()  # would wait for ever if a batch began only after the one before it
        return compute(model, prepared)

    monkeypatch.setattr(parallel, "_compute", meet)
    together = computed(tagger)
    assert threading.current_thread() not in threads
    monkeypatch.undo()
    torch.set_num_threads(1)
    alone = computed(tagger)
    assert [batch.indices for batch in together] == [batch.indices for batch in alone]
    assert all(torch.equal(a.emissions, b.emissions) for a, b in zip(together, alone, strict=True))
    assert sorted(place for batch in together for place in batch.indices) == list(range(len(SENTENCES)))


@pytest.mark.parametrize(("tasks", "threads", "each"), [(1, 1, 4), (2, 2, 2), (3, 3, 1), (9, 4, 1)])
def test_threads_share_out_the_cores_and_all_others_keep_theirs(tasks, threads, each):
    met = threading.Barrier(threads)

    def cores(_):
        met.wait()
        return torch.get_num_threads()

    with parallel_map(tasks) as mapped:
        assert list(mapped(cores, range(threads))) == [each] * threads
        with ThreadPoolExecutor(1) as new:
            assert new.submit(torch.get_num_threads).result() == 4
    assert torch.get_num_threads() == 4


def test_an_error_in_a_thread_is_the_callers_and_leaves_nothing_behind(tagger, monkeypatch):
    threads = []

    def failing(features):
        threads.append(threading.current_thread())
        raise DataError("<memory>:1: no such word")

    monkeypatch.setattr(tagger.model, "emissions", failing)
    tagger.model.train()
    try:
        with pytest.raises(DataError, match="^<memory>:1: no such word$"):
            tagger.predict(SENTENCES, forward_tokens=40)
        assert tagger.model.training
    finally:
        tagger.model.eval()
    assert [thread for thread in threads if thread.is_alive()] == []
    assert torch.get_num_threads() == 4


def test_a_caller_that_gives_up_does_not_wait_for_what_has_not_begun(tagger, monkeypatch):
    started, given_up = [], threading.Event()

    def blocked(features, compute=tagger.model.emissions):
        started.append(1)
        given_up.wait()
        return compute(features)

    class Pool(ThreadPoolExecutor):
        """One whose tasks end only after those that have not begun are cancelled."""

        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            given_up.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(tagger.model, "emissions", blocked)
    with pytest.raises(KeyboardInterrupt), compute_emissions(tagger.model, SENTENCES, size=1, tokens=40):
        raise KeyboardInterrupt
    assert len(started) <= 4 < len(SENTENCES)
    assert torch.get_num_threads() == 4


def test_an_abandoned_stream_leaves_no_thread(tagger, monkeypatch):
    threads = []

    def noted(model, prepared, compute=parallel._compute):
        threads.append(threading.current_thread())
        return compute(model, prepared)

    monkeypatch.setattr(parallel, "_compute", noted)
    answers = tagger.stream(SENTENCES * 50, forward_tokens=40)
    next(answers)
    assert threads
    assert [thread for thread in threads if thread.is_alive()] == []
    assert torch.get_num_threads() == 4
