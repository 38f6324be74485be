"""The demo's trainings: three heads at every rate of one grid, each row's epoch and rate chosen on dev."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maskedcrf.data.demo_corpus import TYPES, DemoCorpus, demo_corpus
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import MaskedCRFError
from maskedcrf.evaluation.audit import audit
from maskedcrf.evaluation.counts import Tally, count, count_sentences
from maskedcrf.report.lattice import Lattice, lattice
from maskedcrf.tagger.folder import cpu_state_dict
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.constraints import Constraints, MaskMode
from maskedcrf.tags.scheme import Ints, Scheme
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.loop import Epoch, TrainingRun, run_epochs
from maskedcrf.training.random_state import preserve_rng, seed_all
from maskedcrf.training.settings import Settings
from maskedcrf.training.train import build_model

GRID = (1e-3, 1e-2, 1e-1)
"""The rates of the transition scores (`crf_rate`) that every CRF head is trained at."""
HEADS: dict[str, dict[str, str]] = {
    "softmax": {"head": "softmax", "mask": "off"},
    "CRF": {"head": "crf", "mask": "off"},
    "MCRF": {"head": "crf", "mask": "train"},
}
TRAIN_SENTENCES = 1000
"""With all 3,000 the heads differ less, and the demo takes three times as long."""
SETTINGS: dict[str, Any] = {
    "encoder": {"words": 64, "characters": 0, "lstm_hidden": 64, "dropout": 0.4},
    "batch_sentences": 16,
    "epochs": 12,
    "patience": 0,
    "device": "cpu",
}
HEAD_RATE = 5e-3
"""The rate of everything but the transition scores, the same for all."""


class Row(NamedTuple):
    """One row of the table: which head is trained, and how its output is made and read."""

    name: str
    head: str
    mask: MaskMode
    strategy: str


ROWS = (
    Row("softmax, retain", "softmax", "off", "retain"),
    Row("softmax, discard", "softmax", "off", "discard"),
    Row("softmax, masked decoding", "softmax", "decode", "retain"),
    Row("CRF, retain", "CRF", "off", "retain"),
    Row("CRF, discard", "CRF", "off", "discard"),
    Row("MCRF-decoding", "CRF", "decode", "retain"),
    Row("MCRF-training", "MCRF", "train", "retain"),
)


@dataclass(frozen=True)
class Trial:
    """One row at one rate: the epoch that is best on dev by the row's own score, and its test scores."""

    row: Row
    crf_rate: float | None
    """None for a softmax, which has no transition scores."""
    dev_f1: tuple[float, ...]
    """After each epoch."""
    test: Tally
    counts: Ints
    """(N, 3): correct, predicted and gold segments of each test sentence."""
    illegal: float
    """Illegal segments in percent of the predicted ones; 0 where they are discarded."""
    example: Lattice | None = None
    """A test sentence that a model trained without the mask tags illegally; None if there is none."""

    @property
    def best_dev_f1(self) -> float:
        """What rates are compared by."""
        return max(self.dev_f1)

    @property
    def epoch(self) -> int:
        """The first of the best epochs."""
        return self.dev_f1.index(self.best_dev_f1) + 1


@dataclass(frozen=True)
class Demo:
    """What the demo found."""

    trials: tuple[Trial, ...]
    constraints: Constraints
    sentences: dict[str, int]
    """Of train, dev and test."""
    settings: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    """Of the trainings of each head."""

    @property
    def chosen(self) -> dict[str, Trial]:
        """By row, the trial at the rate that is best on dev."""
        return choose_rates(self.trials)

    def of_row(self, name: str) -> list[Trial]:
        """The trials of one row, by rate."""
        return sorted((t for t in self.trials if t.row.name == name), key=lambda trial: trial.crf_rate or 0.0)


def choose_rates(trials: Sequence[Trial]) -> dict[str, Trial]:
    """Of each row the trial that is best on dev; rows that were not tried at the same rates are refused."""
    rows: dict[str, list[Trial]] = {}
    for trial in trials:
        rows.setdefault(trial.row.name, []).append(trial)
    grids = {
        name: sorted(trial.crf_rate or 0.0 for trial in tried)
        for name, tried in rows.items()
        if tried[0].row.head != "softmax"
    }
    if any(grid != next(iter(grids.values())) for grid in grids.values()):
        tried_at = "; ".join(f"{name} at {', '.join(map(str, grid))}" for name, grid in grids.items())
        raise MaskedCRFError(f"no fair comparison: every row must be tried at the same rates, but {tried_at}")
    return {name: max(tried, key=lambda trial: trial.best_dev_f1) for name, tried in rows.items()}


def run_demo(
    *,
    sentences: int | None = None,
    epochs: int | None = None,
    grid: Sequence[float] = GRID,
    tell: Callable[[str], None] = lambda line: None,
) -> Demo:
    """Train every head at every rate; `sentences` and `epochs` make it smaller, `tell` hears what is going on."""
    parts = demo_corpus()
    parts = parts._replace(train=parts.train[:TRAIN_SENTENCES])
    parts = DemoCorpus(*(part[:sentences] for part in parts))
    settings = {**SETTINGS, **({"epochs": epochs} if epochs else {})}
    plan = [(head, rate) for head in HEADS for rate in ((None,) if head == "softmax" else grid)]
    trials: list[Trial] = []
    seconds = dict.fromkeys(HEADS, 0.0)
    for number, (head, rate) in enumerate(plan, 1):
        at = "" if rate is None else f" at crf_rate {rate}"
        tell(f"training {number} of {len(plan)}: {head}{at}, {len(parts.train)} sentences")
        started = perf_counter()
        trials += _train(head, rate, parts, settings)
        seconds[head] += perf_counter() - started
    rules = Constraints.from_scheme(Scheme.get("BIO").tags(TYPES), "BIO")
    sizes = {name: len(part) for name, part in parts._asdict().items()}
    return Demo(tuple(trials), rules, sizes, {**settings, "head_rate": HEAD_RATE}, seconds)


def _train(head: str, rate: float | None, parts: DemoCorpus, values: Mapping[str, Any]) -> Iterator[Trial]:
    """One training, which serves every row of its head: for each the weights of its own best epoch are kept."""
    optim = {"head_rate": HEAD_RATE, **({} if rate is None else {"crf_rate": rate})}
    settings = Settings.of({**values, **HEADS[head], "optim": optim})
    corpus = build_corpus(parts.train, parts.dev, None, settings)
    settings = settings.resolved(len(parts.train))
    rows = [row for row in ROWS if row.head == head]
    dev_f1: dict[Row, list[float]] = {row: [] for row in rows}
    best: dict[Row, dict[str, Tensor]] = {}
    with preserve_rng():
        seed_all(settings.seed, "model")
        model = build_model(corpus, settings)
        for event in run_epochs(TrainingRun(model, corpus, settings)):
            if isinstance(event, Epoch):
                for row, f1 in _dev_scores(model, rows, parts.dev):
                    if f1 > max(dev_f1[row], default=-1.0):
                        best[row] = cpu_state_dict(model)
                    dev_f1[row].append(f1)
                model.crf.mask_mode = settings.mask
    for row in rows:
        model.load_state_dict(best[row])
        yield _test(model, row, rate, dev_f1[row], parts.test)


def _dev_scores(model: TaggerModel, rows: Sequence[Row], dev: Sequence[Sentence]) -> Iterator[tuple[Row, float]]:
    gold = [sentence.tags or () for sentence in dev]
    answers = {mask: _tags(model, mask, dev) for mask in {row.mask for row in rows}}
    for row in rows:
        yield row, count(gold, answers[row.mask], strategy=row.strategy).total.f1


def _test(model: TaggerModel, row: Row, rate: float | None, dev_f1: list[float], test: Sequence[Sentence]) -> Trial:
    gold = [sentence.tags or () for sentence in test]
    tags = _tags(model, row.mask, test)
    kept_illegal = row.strategy == "retain" and audit(gold, tags).total.illegal_over_total
    return Trial(
        row,
        rate,
        tuple(dev_f1),
        count(gold, tags, strategy=row.strategy).total,
        count_sentences(gold, tags, strategy=row.strategy),
        100 * (kept_illegal or 0.0),
        _illegal_example(model, test, tags) if row.mask == "off" and row.strategy == "retain" else None,
    )


def _tags(model: TaggerModel, mask: MaskMode, sentences: Sequence[Sentence]) -> list[tuple[str, ...]]:
    model.crf.mask_mode = mask
    return [tuple(answer.tags) for answer in Tagger(model).predict([sentence.tokens for sentence in sentences])]


@torch.inference_mode()
def _illegal_example(
    model: TaggerModel, sentences: Sequence[Sentence], answers: Sequence[tuple[str, ...]]
) -> Lattice | None:
    """The lattice of a sentence that is tagged illegally: if it can be, one of eight words that the mask gets right."""
    rules = model.crf.constraints
    ids = {tag: number for number, tag in enumerate(rules.tags)}
    examples: list[tuple[tuple[bool, bool, int], Lattice]] = []
    model.eval()
    for sentence, tags in zip(sentences, answers, strict=True):
        if rules.violations([ids[tag] for tag in tags]):
            emissions = model.emissions(model.encoder.prepare([sentence]))[0]
            found = lattice(model.crf, emissions, sentence.tokens)
            wrong = tuple(found.tags[tag] for tag in found.path) != sentence.tags
            plain = all(found.path[min(step.position, len(found.path) - 1)] == 0 for step in found.broken)
            examples.append(((wrong, plain, abs(len(sentence.tokens) - 8)), found))
    return min(examples, key=lambda example: example[0])[1] if examples else None
