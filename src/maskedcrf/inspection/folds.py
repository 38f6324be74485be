"""Taggers that have not seen what they read: k of them, each trained without one fold, and that fold.

A model agrees with the labels it has learnt, wrong ones among them, so training data are judged out of fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.tagger.tagger import Tagger

if TYPE_CHECKING:
    from maskedcrf.training.settings import Settings


class Fold(NamedTuple):
    """A tagger and sentences that it was not trained on."""

    tagger: Tagger
    sentences: list[Sentence]


def draw_folds(size: int, folds: int, *, seed: int = 0) -> list[list[int]]:
    """The numbers below `size`, shared out by chance among the folds; the same on every machine."""
    if not 2 <= folds <= size:
        raise DataError(f"{folds} folds of {size} sentences; give at least 2 folds, and a sentence for each")
    random = Random(f"folds {seed}")
    # Random.random is the one method whose numbers Python promises to keep from version to version.
    order = sorted(range(size), key=[random.random() for _ in range(size)].__getitem__)
    return [sorted(order[number::folds]) for number in range(folds)]


def train_folds(
    sentences: Sequence[Sentence], settings: Settings, *, folds: int, seed: int = 0, progress: bool = True
) -> Iterator[Fold]:
    """Each fold with a tagger trained on all the others, one after the other."""
    for held_out in draw_folds(len(sentences), folds, seed=seed):
        hidden = set(held_out)
        rest = [sentence for number, sentence in enumerate(sentences) if number not in hidden]
        tagger = Tagger.train(rest, settings=settings, progress=progress)
        yield Fold(tagger, [sentences[number] for number in held_out])
