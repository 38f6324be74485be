"""train: from labelled data and settings to a tagger, saved if asked for."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.errors import MaskedCRFError, ModelFolderError
from maskedcrf.evaluation.compare import signature
from maskedcrf.tagger.folder import (
    METRICS,
    Record,
    read_config,
    refuse_foreign,
    write_metrics,
    write_record,
)
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.scores import Scores, score
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.constraints import Constraints
from maskedcrf.training.dataset import Corpus, Data, build_corpus
from maskedcrf.training.distributed import choose_device, joined
from maskedcrf.training.loop import Run, resume, run_epochs
from maskedcrf.training.progress import flat, tracked, watch
from maskedcrf.training.random_state import own_randomness, seed_all
from maskedcrf.training.settings import Settings
from maskedcrf.training.warm_start import begin_with

logger = logging.getLogger(__name__)

WORK, LOGS = ".training", ".logs"
"""Endings of the folders beside a model's: checkpoints while it trains, and what a tracker writes, which stays."""


def train(
    train: Data,
    dev: Data = None,
    *,
    test: Data = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    bar: bool = True,
    **settings: Any,
) -> Tagger:
    """A tagger trained on this data, saved to `output` if given.

    A run that was stopped goes on where its last checkpoint was when it is started again with the same settings and
    data; one that had finished is loaded, and scored on `test` if given. `overwrite` starts anew.
    """
    chosen = Settings.of(settings)
    target = Path(output) if output is not None else None
    if target is not None and (overwrite or not target.exists()):
        refuse_foreign(target)  # before anything is trained
    corpus = build_corpus(train, dev, test, chosen)
    chosen = chosen.resolved(len(corpus.sentences))
    fingerprint = corpus.fingerprint(chosen)
    if target is not None and target.exists() and not overwrite:
        return _finished(target, corpus, chosen, fingerprint)
    device = choose_device(chosen.device)
    with own_randomness(), joined(device) as processes:
        seed_all(chosen.seed, "model")
        model = build_model(corpus, chosen).to(device)
        work = _work_folder(target, overwrite=overwrite and processes.first)
        processes.wait()  # or another might still find the checkpoint that the first is about to delete
        run = Run(model, corpus, chosen, processes, work, fingerprint)
        resume(run)
        logs = Path.cwd() if target is None else _beside(target, LOGS)
        _drive(run, bar=bar, logs=logs)
        tagger = _tagger(run)
        if target is not None and processes.first:
            tagger.save(target, overwrite=overwrite)
        if work is not None and processes.first:
            shutil.rmtree(work)
    return tagger


def _finished(target: Path, corpus: Corpus, settings: Settings, fingerprint: str) -> Tagger:
    """The tagger that this very run had saved already; anything else in its place is left alone."""
    if _made_by(target, fingerprint):
        logger.info("%s: already trained with these settings and data", target)
        shutil.rmtree(_beside(target, WORK), ignore_errors=True)  # killed between saving the model and this
        tagger = Tagger.load(target)
        if corpus.test:
            _score_test(tagger, target, corpus, settings)
        return tagger
    raise MaskedCRFError(
        f"{target}: there is something already; give another output folder, or overwrite it (--overwrite)"
    )


def _made_by(target: Path, fingerprint: str) -> bool:
    """Whether this is the model folder of the run with this fingerprint."""
    try:
        return read_config(target).record.fingerprint == fingerprint
    except ModelFolderError:
        return False


def _score_test(tagger: Tagger, target: Path, corpus: Corpus, settings: Settings) -> None:
    """Record the scores of a finished run on the test data given now, which the fingerprint does not cover."""
    device = choose_device(settings.device)
    with joined(device) as processes:
        processes.wait()  # or another might still be reading the folder that the first is about to replace
        if not processes.first:
            return
        found = score(tagger.to(device).model, corpus.test, gold_scheme=settings.the_scheme(settings.file_scheme))
        old = tagger.record
        data, scores = {**old.data, "test": corpus.summary["test"]}, {**old.scores, "test": found.to_dict()}
        tagger.record = old.model_copy(update={"data": data, "scores": scores})
        if tagger.record != old:
            write_record(target, tagger.record)


def _work_folder(target: Path | None, *, overwrite: bool) -> Path | None:
    """Where the run keeps its checkpoints until it is done: beside the output, which appears only when it is whole."""
    if target is None:
        return None
    work = _beside(target, WORK)
    if overwrite:
        for old in (work, _beside(target, LOGS)):
            shutil.rmtree(old, ignore_errors=True)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MaskedCRFError(f"{work}: {error.strerror}; give an output folder that can be written") from error
    return work


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(target.name + ending)


def build_model(corpus: Corpus, settings: Settings) -> TaggerModel:
    """The model that these settings train on this corpus, before its first step; settings must be resolved."""
    encoder = build_encoder(settings.encoder, corpus.sentences)
    if settings.start:
        begin_with(encoder, Path(settings.start))
    rules = Constraints.from_scheme(corpus.tags, settings.the_scheme(None))
    assert settings.dropout is not None, "settings are resolved"
    return TaggerModel(encoder, rules, head=settings.head, mask=settings.mask, dropout=settings.dropout)


def _drive(run: Run, *, bar: bool, logs: Path) -> None:
    name = run.settings.tracker if run.processes.first else None
    with tracked(name, logs, run.settings.model_dump(mode="json")) as tracker:
        for entry in watch(run_epochs(run), bar=bar, silent=not run.processes.first):
            if run.work is not None and run.processes.first:
                write_metrics(run.work / METRICS, run.state.history)
            if tracker is not None:
                tracker.log({k: v for k, v in flat(entry) if not isinstance(v, str)}, step=entry["step"])


def _tagger(run: Run) -> Tagger:
    """The trained tagger with the record of its making."""
    settings, corpus = run.settings, run.corpus
    gold_scheme = settings.the_scheme(settings.file_scheme)
    scores: dict[str, Scores] = {}
    if run.processes.first:
        parts = {"dev": corpus.dev, "test": corpus.test}
        scores = {name: score(run.model, part, gold_scheme=gold_scheme) for name, part in parts.items() if part}
    encoder = settings.encoder
    record = Record(
        data=corpus.summary,
        settings=settings.model_dump(mode="json"),
        scores={name: found.to_dict() for name, found in scores.items()},
        epoch=run.state.best_epoch,
        signature=signature(
            corpus=corpus.summary["train"]["files"] or None,
            scheme=settings.scheme,
            illegal="retain+discard",
            head=settings.head,
            mask=settings.mask,
            encoder=Path(encoder.transformer or encoder.elmo or encoder.vectors or "words").name,
            seeds=settings.seed,
        ),
        fingerprint=run.fingerprint,
    )
    tagger = Tagger(run.model.eval(), output_scheme=settings.the_scheme(settings.output_scheme), record=record)
    tagger.history = run.state.history
    return tagger
