"""Batches of sentences of similar length, so that little is computed on padding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

POOL = 50
"""Training sorts by length within pools of this many batches: near enough to sorted, random enough to learn from."""


def training_batches(
    lengths: Sequence[int], *, size: int = 32, tokens: int | None = None, seed: int = 0, epoch: int = 0
) -> list[list[int]]:
    """Sentence numbers in batches of similar length, each exactly once, in an order that seed and epoch decide.

    `tokens` bounds a batch's sentences times its longest length as well; a longer sentence is a batch of its own.
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths)).tolist()
    pools = (order[start : start + size * POOL] for start in range(0, len(order), size * POOL))
    batches = [batch for pool in pools for batch in _cut(_sorted(pool, lengths), lengths, size, tokens)]
    return [batches[n] for n in random.permutation(len(batches))]


def prediction_batches(
    lengths: Sequence[int], *, size: int = 32, tokens: int | None = None, similar: float = 0.0
) -> list[list[int]]:
    """Sentence numbers in batches of similar length, each exactly once, longest first.

    A batch that has a quarter of its tokens takes no more sentences shorter than `similar` times its longest.
    """
    return list(_cut(_sorted(range(len(lengths)), lengths), lengths, size, tokens, similar=similar))


def even_batches(lengths: Sequence[int], *, size: int, tokens: int, workers: int = 1) -> list[list[int]]:
    """The same where nothing pads: batches of about as many tokens each, some `tokens` or fewer, longest first.

    If there are several, their number is one that the workers can share out evenly, while sentences suffice.
    """
    order = _sorted(range(len(lengths)), lengths)
    left, taken = sum(lengths), 0
    due = max(math.ceil(left / tokens), math.ceil(len(order) / size))
    if due > 1:
        due = workers * math.ceil(due / workers)
    batches: list[list[int]] = []
    while taken < len(order):
        share, batch = left / max(1, due - len(batches)), list[int]()
        while taken < len(order) and len(batch) < size and (not batch or share >= lengths[order[taken]] / 2):
            batch.append(order[taken])
            share -= lengths[order[taken]]
            left -= lengths[order[taken]]
            taken += 1
        batches.append(batch)
    return batches


def _sorted(numbers: Iterable[int], lengths: Sequence[int]) -> list[int]:
    return sorted(numbers, key=lambda number: -lengths[number])


def _cut(
    numbers: Sequence[int], lengths: Sequence[int], size: int, tokens: int | None, *, similar: float = 0.0
) -> Iterator[list[int]]:
    start = 0
    while start < len(numbers):
        # Sorted longest first, so the first sentence decides how much the batch pads.
        longest = max(1, lengths[numbers[start]])
        most = size if tokens is None else max(1, min(size, tokens // longest))
        stop = min(start + most, len(numbers))
        while stop > start + max(1, most // 4) and lengths[numbers[stop - 1]] < similar * longest:
            stop -= 1
        yield list(numbers[start:stop])
        start = stop
