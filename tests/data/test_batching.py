"""Batches: every sentence once, similar lengths together, the same order for the same seed and epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data.batching import even_batches, prediction_batches, training_batches

lengths_drawn = st.lists(st.integers(min_value=0, max_value=60), max_size=200)
budgets = st.none() | st.integers(min_value=1, max_value=300)


@given(lengths_drawn, st.integers(min_value=1, max_value=9), budgets, st.integers(min_value=0, max_value=99))
def test_every_sentence_is_in_exactly_one_batch_within_the_budget(
    lengths: list[int], size: int, tokens: int | None, seed: int
) -> None:
    for batches in (
        training_batches(lengths, size=size, tokens=tokens, seed=seed, epoch=3),
        prediction_batches(lengths, size=size, tokens=tokens),
        prediction_batches(lengths, size=size, tokens=tokens, similar=0.9),
    ):
        assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
        for batch in batches:
            assert 1 <= len(batch) <= size
            padded = len(batch) * max(lengths[number] for number in batch)
            assert tokens is None or padded <= tokens or len(batch) == 1


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    lengths = [n % 17 for n in range(500)]
    first = training_batches(lengths, seed=1, epoch=2)
    assert first == training_batches(lengths, seed=1, epoch=2)
    assert first != training_batches(lengths, seed=1, epoch=3)
    assert first != training_batches(lengths, seed=2, epoch=2)


def test_batches_hold_sentences_of_similar_length() -> None:
    lengths = [(n * 7919) % 50 + 1 for n in range(5000)]
    batches = training_batches(lengths, size=32)
    padded = sum(len(batch) * max(lengths[n] for n in batch) for batch in batches)
    assert padded < 1.05 * sum(lengths)
    assert len({max(lengths[n] for n in batch) for batch in batches[:10]}) > 3, "but not in order of length"


@pytest.mark.parametrize("batches", [training_batches, prediction_batches])
def test_no_sentences_are_no_batches(batches) -> None:  # type: ignore[no-untyped-def]
    assert batches([]) == []


def test_a_batch_that_is_large_enough_takes_no_much_shorter_sentence() -> None:
    lengths = [100] * 8 + [50] * 24
    assert [len(batch) for batch in prediction_batches(lengths, size=32, similar=0.9)] == [8, 24]
    assert [len(batch) for batch in prediction_batches(lengths, size=32)] == [32]


@given(lengths_drawn, st.integers(min_value=1, max_value=9), st.integers(min_value=1, max_value=300), st.integers(1, 4))
def test_even_batches_hold_every_sentence_once_longest_first(
    lengths: list[int], size: int, tokens: int, workers: int
) -> None:
    batches = even_batches(lengths, size=size, tokens=tokens, workers=workers)
    order = [number for batch in batches for number in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[number] for number in order] == sorted(lengths, reverse=True)
    assert all(1 <= len(batch) <= size for batch in batches)
    # Half a sentence too many at the most, since the nearer of two borders is taken.
    longest = max(lengths, default=0)
    assert all(sum(lengths[number] for number in batch) <= tokens + longest for batch in batches)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_even_batches_are_alike_and_shared_out_without_a_rest(workers: int) -> None:
    lengths = [(n * 7919) % 50 + 1 for n in range(500)]
    batches = even_batches(lengths, size=256, tokens=1024, workers=workers)
    sums = [sum(lengths[number] for number in batch) for batch in batches]
    assert len(batches) % workers == 0
    assert max(sums) <= 1024
    assert max(sums) - min(sums) <= max(lengths)
    assert len(even_batches(lengths[:20], size=256, tokens=1024, workers=workers)) == 1, "all workers share one batch"


def test_a_very_long_sentence_leaves_even_batches_to_the_others() -> None:
    lengths = [10_000, *[5] * 1000]
    first, *others = even_batches(lengths, size=256, tokens=1024, workers=2)
    assert first == [0]
    assert {len(batch) for batch in others} <= {66, 67}
