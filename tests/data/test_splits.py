"""Seeded splits: complete, disjoint, in order, the same in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data.splits import dev_split, part_of
from maskedcrf.errors import DataError


@given(st.integers(2, 300), st.floats(0.01, 1), st.integers(0, 5))
def test_train_and_dev_are_the_whole_in_order(size: int, share: float, seed: int) -> None:
    train, dev = dev_split(range(size), share=share, seed=seed)
    assert sorted(train + dev) == list(range(size))
    assert train == sorted(train)
    assert dev == sorted(dev)
    assert len(dev) == min(size - 1, max(1, round(size * share)))


def test_ten_per_cent_is_a_tenth() -> None:
    train, dev = dev_split(range(8936))
    assert (len(train), len(dev)) == (8042, 894)


def test_another_seed_gives_another_split() -> None:
    assert dev_split(range(1000), seed=1) != dev_split(range(1000), seed=2)


def test_a_smaller_part_lies_in_a_larger_one() -> None:
    assert set(part_of(range(1000), 0.1)) < set(part_of(range(1000), 0.5)) < set(part_of(range(1000), 1))
    assert part_of(range(1000), 1) == list(range(1000))


def test_a_part_is_drawn_independently_of_the_dev_split() -> None:
    both = set(part_of(range(10_000), 0.1)) & set(dev_split(range(10_000))[1])
    assert 60 < len(both) < 140  # 100 expected, standard deviation 9


def test_the_split_does_not_depend_on_the_process() -> None:
    code = "from maskedcrf.data.splits import dev_split; print(dev_split(range(500), seed=3)[1])"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{dev_split(range(500), seed=3)[1]}\n"}


def test_impossible_splits_are_refused() -> None:
    with pytest.raises(DataError, match="1 sentences cannot be split"):
        dev_split(["one"])
    for share in (0, -0.1, 10):
        with pytest.raises(DataError, match=r"between 0 and 1"):
            part_of(range(10), share)
