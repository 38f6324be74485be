"""Splits drawn by chance, the same on every machine: a dev part of train, and a share of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from maskedcrf.errors import DataError

Item = TypeVar("Item")


def dev_split(sentences: Sequence[Item], *, share: float = 0.1, seed: int = 0) -> tuple[list[Item], list[Item]]:
    """Train and dev: the paper's 10 % taken from train where a corpus has no dev part; both keep their order."""
    if len(sentences) < 2:
        raise DataError(f"{len(sentences)} sentences cannot be split into train and dev; give a dev file")
    chosen = _choose(len(sentences), share, f"dev {seed}", most=len(sentences) - 1)
    train = [sentence for number, sentence in enumerate(sentences) if number not in chosen]
    return train, [sentences[number] for number in sorted(chosen)]


def part_of(sentences: Sequence[Item], share: float, *, seed: int = 0) -> list[Item]:
    """This share of the sentences, in their order; a smaller share with the same seed is a part of a larger one."""
    chosen = _choose(len(sentences), share, f"part {seed}", most=len(sentences))
    return [sentences[number] for number in sorted(chosen)]


def _choose(size: int, share: float, seed: str, *, most: int) -> set[int]:
    if not 0 < share <= 1:
        raise DataError(f"a share lies between 0 and 1, got {share}; 0.1 is 10 %")
    # Random.random is the one method whose numbers Python promises to keep from version to version.
    random = Random(seed)
    order = sorted(range(size), key=[random.random() for _ in range(size)].__getitem__)
    return set(order[: min(most, max(1, round(size * share)))])
