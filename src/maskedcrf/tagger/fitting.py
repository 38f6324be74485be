"""Transitions fitted to a frozen encoder: convex likelihood, the recipe chosen by cross-validation.

A softmax tagger's scores are taken as they are; a bias for each tag and transitions between tags are fitted by L-BFGS.
All at once may lose: over-confident scores pull their own scale down, transitions then outvote good scores, and
likelihood improves while F1 falls. So the recipe is the one with the best F1 on sentences it was not fitted to, the
mask alone is among the candidates, and it stays unless another is better by more than chance. The temperature comes
last: one number over the whole lattice, which changes no best path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.errors import DataError
from maskedcrf.evaluation.reliability import Reliability
from maskedcrf.tagger.lattice import TRANSITIONS, Batch, Example, Lattice, LatticeScorer, Recipe, make_batches
from maskedcrf.tags.segments import Segment

STRENGTHS = (100.0, 10.0, 1.0, 0.1)
"""Of the l2 penalty on what is fitted, strongest first: each fit starts where the one before it ended."""
FOLDS = 3
MIN_SENTENCES = 20
"""Below this a fold says nothing."""


MASK_ONLY = Recipe("mask only")
FAMILIES = (
    Recipe("bias", ("bias",)),
    Recipe("transitions", TRANSITIONS),
    Recipe("bias and transitions", ("bias", *TRANSITIONS)),
    Recipe("joint scale", ("scale", "bias", *TRANSITIONS)),
)


class Interval(NamedTuple):
    """F1 in percent and how far chance over sentences moves it, with 95 % confidence."""

    f1: float
    margin: float

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.f1:.2f} +- {self.margin:.2f}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recipe and how it does on sentences it was not fitted to."""

    recipe: str
    f1: float
    """In percent."""
    margin: float
    """Of F1, as in `Interval`."""
    gain: float
    """Over mask only, in points of F1."""
    gain_error: float
    """Standard error of the gain."""
    loss: float
    """Nats a sentence."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: getattr(self, name) for name in ("recipe", "f1", "margin", "gain", "gain_error", "loss")}


@dataclass(frozen=True, slots=True)
class Fit:
    """What was chosen, what it was chosen from, and how well its probabilities hold; all on held-out folds."""

    chosen: str
    candidates: tuple[Candidate, ...]
    temperature: float
    sentences: int
    inexpressible: int
    """Sentences whose gold the model cannot express: scored, but no part of the likelihood."""
    mask_only: Reliability
    mask_tempered: Reliability
    """The mask alone under a temperature of its own."""
    fitted: Reliability

    @property
    def figures(self) -> dict[str, Candidate]:
        """The two candidates that matter: the mask alone, and what was chosen."""
        by_name = {each.recipe: each for each in self.candidates}
        return {"mask only": by_name[str(MASK_ONLY)], "fitted": by_name[self.chosen]}

    def to_json(self) -> dict[str, Any]:
        """Plain values, as the model's record keeps them."""
        return {
            "chosen": self.chosen,
            "temperature": self.temperature,
            "sentences": self.sentences,
            "inexpressible": self.inexpressible,
            "candidates": [each.to_json() for each in self.candidates],
            "calibration": {
                "mask only": self.mask_only.to_json(),
                "mask only, one temperature": self.mask_tempered.to_json(),
                "fitted": self.fitted.to_json(),
            },
        }

    def __str__(self) -> str:
        rows = [f"{'recipe':<32} {'F1':>6} {'gain':>6} {'+-':>5} {'nats':>7}"]
        for each in self.candidates:
            mark = "  chosen" if each.recipe == self.chosen else ""
            rows.append(
                f"{each.recipe:<32} {each.f1:6.2f} {each.gain:+6.2f} {each.gain_error:5.2f} {each.loss:7.3f}{mark}"
            )
        return "\n".join(rows)


def fit_lattice(
    crf: MaskedCRF, examples: Sequence[Example], *, folds: int = FOLDS, seed: int = 0
) -> tuple[Lattice, Fit]:
    """The best recipe fitted to all sentences and divided by its temperature, and how it was found."""
    if len(examples) < max(MIN_SENTENCES, folds):
        raise DataError(f"fitting needs {max(MIN_SENTENCES, folds)} labelled sentences or more, got {len(examples)}")
    if not any(each.gold for each in examples):
        raise DataError("no sentence has an entity, so nothing says which recipe is better; give other gold")
    scorer = LatticeScorer(crf)
    parts = np.array_split(np.random.default_rng(seed).permutation(len(examples)), folds)
    found: dict[Recipe, list[_HeldOut]] = {}
    for held_out in parts:
        chosen = set(held_out.tolist())
        train = make_batches([each for place, each in enumerate(examples) if place not in chosen])
        test = make_batches([examples[place] for place in held_out])
        gold = [examples[place].gold for place in held_out]
        for recipe, lattice in _fit_recipes(scorer, train):
            found.setdefault(recipe, []).append(_HeldOut(lattice, test, *scorer.count(lattice, test, gold)))
    candidates = _compare(found)
    best = _choose(list(found), candidates)
    lattice = scorer.fit(make_batches(examples), best, scorer.base)
    by_fold = [[examples[place].gold for place in part] for part in parts]
    tempered, masked = _temper(scorer, found[MASK_ONLY], by_fold)
    temperature, fitted = (tempered, masked) if best is MASK_ONLY else _temper(scorer, found[best], by_fold)
    return lattice.divided_by(temperature), Fit(
        str(best),
        candidates,
        temperature,
        len(examples),
        sum(each.tags is None for each in examples),
        scorer.reliability([(scorer.base, each.batches) for each in found[MASK_ONLY]], by_fold),
        masked,
        fitted,
    )


def _temper(
    scorer: LatticeScorer, held_out: Sequence[_HeldOut], gold: Sequence[Sequence[frozenset[Segment]]]
) -> tuple[float, Reliability]:
    """The temperature of one recipe over all folds, and how its probabilities hold under it."""
    temperature = scorer.temperature([(each.lattice, each.batches) for each in held_out])
    divided = [(each.lattice.divided_by(temperature), each.batches) for each in held_out]
    return temperature, scorer.reliability(divided, gold)


class _HeldOut(NamedTuple):
    """A recipe fitted without one fold, and its counts on that fold."""

    lattice: Lattice
    batches: list[Batch]
    counts: NDArray[np.int64]
    """(sentences, 3): entities right, predicted, gold."""
    loss: float
    """Sum in nats."""


def _fit_recipes(scorer: LatticeScorer, train: list[Batch]) -> Iterable[tuple[Recipe, Lattice]]:
    yield MASK_ONLY, scorer.base
    for family in FAMILIES:
        lattice = scorer.base
        for strength in STRENGTHS:
            recipe = replace(family, l2=strength)
            lattice = scorer.fit(train, recipe, lattice)
            yield recipe, lattice


def _compare(found: dict[Recipe, list[_HeldOut]]) -> tuple[Candidate, ...]:
    counts = {recipe: np.concatenate([each.counts for each in parts]) for recipe, parts in found.items()}
    base = counts[MASK_ONLY]
    sentences = max(1, sum(int(batch.known.sum()) for each in found[MASK_ONLY] for batch in each.batches))
    candidates = []
    for recipe, parts in found.items():
        own = counts[recipe]
        loss = sum(each.loss for each in parts) / sentences
        gain, error = f1_gain(own, base)
        candidates.append(Candidate(str(recipe), *interval_of(own), gain, error, loss))
    return tuple(candidates)


def _choose(recipes: Sequence[Recipe], candidates: Sequence[Candidate]) -> Recipe:
    """The best F1 that is better than the mask alone by more than one standard error."""
    better = [n for n, each in enumerate(candidates) if each.gain > each.gain_error]
    return recipes[max(better, key=lambda n: candidates[n].f1)] if better else MASK_ONLY


def f1_of(counts: NDArray[np.int64]) -> float:
    """F1 in percent of (sentences, 3) counts: right, predicted, gold."""
    right, predicted, gold = counts.sum(axis=0).tolist()
    return 200 * right / (predicted + gold) if predicted + gold else 0.0


def interval_of(counts: NDArray[np.int64]) -> Interval:
    """F1 of (sentences, 3) counts and its margin, by each sentence's influence."""
    return Interval(f1_of(counts), 1.96 * float(np.sqrt((_influence(counts) ** 2).sum())))


def f1_gain(own: NDArray[np.int64], base: NDArray[np.int64]) -> tuple[float, float]:
    """Difference in F1 on the same sentences, and its standard error."""
    spread = _influence(own) - _influence(base)
    return f1_of(own) - f1_of(base), float(np.sqrt((spread**2).sum()))


def _influence(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(sentences,): by how much each sentence moves F1, in points: F1's derivative by that sentence's weight."""
    share = f1_of(counts) / 100
    whole = max(1, int(counts[:, 1:].sum()))
    differences: NDArray[np.float64] = 100 * (2 * counts[:, 0] - share * counts[:, 1:].sum(axis=1)) / whole
    return differences
