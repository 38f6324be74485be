"""Emissions of many sentences, by the batch; on a CPU, batches side by side.

Each batch on a core of its own is done sooner than one after the other on all of them: a batch has hundreds of small
products, and cores that share each of these mostly wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.data.batching import even_batches, prediction_batches
from maskedcrf.encoders.features import Sentences
from maskedcrf.encoders.part import Features
from maskedcrf.tagger.model import TaggerModel, to_device

_thread_count_lock = Lock()


def _renew_lock() -> None:
    global _thread_count_lock
    _thread_count_lock = Lock()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_renew_lock)  # a thread that held it is not in the child


class Batch(NamedTuple):
    """Which of the sentences, the scores of their words (B, T, D) and where words stand (B, T)."""

    indices: list[int]
    emissions: Tensor
    mask: Tensor


@contextmanager
def compute_emissions(
    model: TaggerModel,
    sentences: Sentences,
    *,
    size: int,
    tokens: int,
    similar: float = 0.0,
) -> Iterator[Iterator[Batch]]:
    """All sentences, none empty, in batches of `prediction_batches`, or of `even_batches` if the encoder does not pad.

    The model does not train meanwhile.
    """
    lengths = model.encoder.compute_lengths(sentences)
    if model.encoder.computes_padding:
        batches = prediction_batches(lengths, size=size, tokens=tokens, similar=similar)
    else:
        batches = even_batches(lengths, size=size, tokens=tokens, workers=torch.get_num_threads())
    prepared = ((indices, model.encoder.prepare([sentences[index] for index in indices])) for indices in batches)
    was_training = model.training
    model.eval()
    try:
        with parallel_map(len(batches) if model.device.type == "cpu" else 1) as each:
            yield each(partial(_compute, model), prepared)
    finally:
        model.train(was_training)


@torch.inference_mode()
def _compute(model: TaggerModel, prepared: tuple[list[int], Features]) -> Batch:
    indices, features = prepared
    features = to_device(features, model.device)
    return Batch(indices, model.emissions(features).float(), features["mask"])


@contextmanager
def parallel_map(tasks: int) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]]:
    """A `map` for so many tasks, in threads that share out the cores torch may use; one task gets them all."""
    with _thread_count_lock:
        cores = torch.get_num_threads()
    threads = min(tasks, cores)
    if threads < 2:
        yield map
        return
    pool, ready = ThreadPoolExecutor(threads), Barrier(threads)

    def start() -> None:
        torch.get_num_threads()  # the first question sets a thread up, which would undo what is set before it
        torch.set_num_threads(cores // threads)
        ready.wait()

    try:
        # torch keeps the number by thread, but a thread new to it takes the one last set in any: so all set theirs
        # at once, and what others will take is put back before any work begins.
        with _thread_count_lock:
            wait([pool.submit(start) for _ in range(threads)])
            torch.set_num_threads(cores)
        yield pool.map
    finally:
        ready.abort()
        pool.shutdown(cancel_futures=True)
