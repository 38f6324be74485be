"""One training: every epoch is read in every way that serves a row, and each row keeps its best epoch's weights."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from experiments.measure import Measured, Reading, Split, pack, transition_sizes
from experiments.trainings import CORPORA, ROWS, Training
from maskedcrf import Tagger, __version__
from maskedcrf.data.corpora import load
from maskedcrf.data.splits import part_of
from maskedcrf.evaluation.compare import signature
from maskedcrf.tagger.device import choose_device
from maskedcrf.tagger.folder import cpu_state_dict
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.loop import Epoch, TrainingRun, run_epochs
from maskedcrf.training.random_state import preserve_rng, seed_all
from maskedcrf.training.settings import Settings
from maskedcrf.training.train import build_model


@dataclass(frozen=True)
class Best:
    """The epoch that a row takes: highest dev F1, then lowest dev loss."""

    epoch: int
    loss: float
    dev: Reading
    weights: Mapping[str, torch.Tensor]


class Rows:
    """The rows that a training serves, each with the best epoch so far by its own reading."""

    def __init__(self, training: Training) -> None:
        self.readings = {name: row.reading for name, row in ROWS.items() if row.head == training.head}
        self.best: dict[str, Best] = {}

    def look(self, epoch: int, found: Measured, model: TaggerModel) -> None:
        """Keep this epoch's weights for the rows that like them best."""
        weights: dict[str, torch.Tensor] | None = None
        for name, reading in self.readings.items():
            old, dev = self.best.get(name), found.readings[reading]
            if old is None or (dev.f1, -found.loss) > (old.dev.f1, -old.loss):
                weights = cpu_state_dict(model) if weights is None else weights
                self.best[name] = Best(epoch, found.loss, dev, weights)


@cache
def read_corpus(name: str, folder: str) -> Any:
    """A corpus of the folder, read once a process."""
    return load(name, folder)


def train(training: Training, corpora: str, encoders: str = "", weights: Path | None = None) -> dict[str, Any]:
    """Train, measure, and give the line that goes into the results; `weights` gets a model folder a row."""
    corpus = read_corpus(training.corpus, corpora)
    sizes = CORPORA[training.corpus]
    chosen = drawn(corpus.train, training.sentences(len(corpus.train)))
    run_settings = training.settings()
    given = json.loads(json.dumps(run_settings).replace("{folder}", encoders))
    reading = {"file_scheme": corpus.scheme, "illegal_gold": corpus.gold, "dev_fraction": 0}
    settings = Settings.of({**given, **reading}).resolved(len(chosen))
    data = build_corpus(chosen, None, None, settings)
    parts = drawn(corpus.dev, sizes.dev), corpus.test
    dev, test = (Split(part, corpus.scheme, training.scheme) for part in parts)
    rows, curve, started = Rows(training), list[dict[str, Any]](), time.perf_counter()
    with preserve_rng():
        seed_all(settings.seed, "model")
        model = build_model(data, settings).to(choose_device(settings.device))
        for event in run_epochs(TrainingRun(model, data, settings)):
            if isinstance(event, Epoch):
                found = dev.measure(model, training.head)
                curve.append(_epoch(event.entry["loss"], found, model))
                rows.look(len(curve), found, model)
    measured = {name: _measured(name, best, model, test, training) for name, best in rows.best.items()}
    if weights is not None:
        _save(rows, model, settings, weights / training.name)
    gold = test.measure(model, training.head).readings["masked"].counts[:, 2:]
    return {
        "name": training.name,
        "training": training.as_dict(),
        "signature": _signature(training, model),
        "version": __version__,
        "settings": run_settings,
        "seconds": round(time.perf_counter() - started, 1),
        "sentences": {"train": len(chosen), "dev": len(dev.sentences), "test": len(test.sentences)},
        "epochs": curve,
        "gold": pack(gold),
        "rows": measured,
    }


def drawn(sentences: Sequence[Any], limit: int | None) -> Sequence[Any]:
    """So many of the sentences, the same for every training; all of them without a limit."""
    return part_of(sentences, limit / len(sentences), seed=0) if limit else sentences


def _epoch(loss: float, found: Measured, model: TaggerModel) -> dict[str, Any]:
    """What the curves show of an epoch."""
    f1 = {name: round(reading.f1, 3) for name, reading in found.readings.items()}
    illegal = next(iter(found.readings.values())).illegal
    largest = transition_sizes(model)["largest"]
    numbers = {"loss": loss, "dev_loss": found.loss, "illegal": illegal, "largest": largest}
    return {**{name: round(value, 4) for name, value in numbers.items()}, "f1": f1}


def _measured(name: str, best: Best, model: TaggerModel, test: Split, training: Training) -> dict[str, Any]:
    """A row's line: its epoch, dev and test, and how large the transitions are."""
    model.load_state_dict(best.weights)
    return {
        "epoch": best.epoch,
        "dev": {"f1": best.dev.f1, "illegal": best.dev.illegal, "loss": best.loss, **best.dev.cells},
        "test": test.measure(model, training.head).readings[ROWS[name].reading].as_dict(),
        "transitions": transition_sizes(model),
    }


def _save(rows: Rows, model: TaggerModel, settings: Settings, folder: Path) -> None:
    """A model folder for each row, with the mask that the row decodes with."""
    for name, best in rows.best.items():
        model.load_state_dict(best.weights)
        tagger = Tagger(model.eval(), output_scheme=settings.scheme_named(settings.output_scheme))
        if rows.readings[name] == "masked" and model.crf.mask_mode != "train":
            tagger.mask = "decode"
        tagger.save(folder / name, overwrite=True)
        if tagger.mask == "decode":
            tagger.mask = "off"


def _signature(training: Training, model: TaggerModel) -> str:
    """What the numbers were measured on and with, in one line."""
    device = torch.cuda.get_device_name() if model.device.type == "cuda" else platform.machine()
    return signature(
        corpus=f"{training.corpus}/test",
        scheme=training.scheme,
        encoder=training.encoder,
        head=training.head,
        crf_rate=training.crf_rate,
        seeds=training.seed,
        device=device,
        torch=torch.__version__,
    )
