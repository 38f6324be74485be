"""train: from labelled data and settings to a tagger, saved if asked for."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import torch

from maskedcrf.data.labelled import LabelledData
from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.errors import MaskedCRFError, ModelFolderError
from maskedcrf.evaluation.compare import signature
from maskedcrf.inspection.collect import Collector
from maskedcrf.inspection.page import page
from maskedcrf.inspection.reading import read_sentences
from maskedcrf.report import html
from maskedcrf.report.decoding import decoding_section
from maskedcrf.tagger.decoding import choose_decoding, keep_choice
from maskedcrf.tagger.device import choose_device
from maskedcrf.tagger.folder import (
    METRICS,
    REPORT,
    TrainingRecord,
    read_config,
    read_metrics,
    require_replaceable,
    update_record,
    write_metrics,
)
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.scores import Scores, score
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.constraints import Constraints
from maskedcrf.training.dataset import TrainingData, build_corpus
from maskedcrf.training.distributed import join_process_group
from maskedcrf.training.lock import lock_output, sibling
from maskedcrf.training.loop import TrainingRun, resume, run_epochs
from maskedcrf.training.progress import flatten, open_tracker, with_progress
from maskedcrf.training.random_state import preserve_rng, seed_all
from maskedcrf.training.settings import Settings
from maskedcrf.training.settings_dict import SettingsDict
from maskedcrf.training.warm_start import copy_encoder_weights

logger = logging.getLogger(__name__)

CHECKPOINT_SUFFIX, TRACKER_SUFFIX = ".training", ".logs"
"""Endings of the folders beside a model's: checkpoints while it trains, and what a tracker writes, which stays."""


def train(
    train: LabelledData,
    dev: LabelledData | None = None,
    *,
    test: LabelledData | None = None,
    settings: Settings | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **changes: Unpack[SettingsDict],
) -> Tagger:
    """A tagger trained on this data, saved to `output` if given.

    A run that was stopped goes on where its last checkpoint was when it is started again with the same settings and
    data; one that had finished is loaded, and scored on `test` if given. `overwrite` starts anew.

    Args:
        train: a path, several paths, a dataset, `Sentence`s or (tokens, tags) pairs.
        dev: the same, to choose the best epoch by; a part of train if left out.
        test: the same, to score the finished model on.
        settings: all settings at once.
        output: the folder of the model; its checkpoints stand beside it while it trains.
        overwrite: start anew, whatever is there.
        progress: show a bar where a terminal can show one.
        **changes: single settings, over those of `settings`.
    """
    given = {} if settings is None else settings.model_dump(exclude_unset=True)
    chosen = Settings.of({**given, **changes})
    target = Path(output) if output is not None else None
    if target is not None and (overwrite or not target.exists()):
        require_replaceable(target)  # before anything is trained
    with lock_output(target):
        data = build_corpus(train, dev, test, chosen)
        chosen = chosen.resolved(len(data.sentences))
        if target is not None and target.exists() and not overwrite:
            return _load_finished(target, data, chosen)
        return _train(data, chosen, target, overwrite=overwrite, progress=progress)


def _train(data: TrainingData, settings: Settings, target: Path | None, *, overwrite: bool, progress: bool) -> Tagger:
    device = choose_device(settings.device)
    with preserve_rng(), join_process_group(device) as processes:
        seed_all(settings.seed, "model")
        model = build_model(data, settings).to(device)
        work = _work_folder(target, overwrite=overwrite and processes.is_main)
        processes.wait()  # or another might still find the checkpoint that the first is about to delete
        run = TrainingRun(model, data, settings, processes, work, data.fingerprint(settings))
        resume(run)
        logs = Path.cwd() if target is None else sibling(target, TRACKER_SUFFIX)
        _run_to_end(run, progress=progress, logs=logs)
        tagger = _tagger(run)
        if target is not None and processes.is_main:
            tagger.save(target, overwrite=overwrite)
            _write_report(tagger, data, settings, target)
        if work is not None and processes.is_main:
            shutil.rmtree(work)
    return tagger


def _write_report(tagger: Tagger, data: TrainingData, settings: Settings, target: Path) -> None:
    """The page about dev, beside a model that is already safe."""
    if data.dev:
        gold_scheme = settings.scheme_named(settings.file_scheme)
        found = Collector().add_all(read_sentences(tagger, data.dev, gold_scheme=gold_scheme))
        made = signature(corpus=data.summary["dev"]["files"] or "dev", model=tagger.record.signature)
        choice = tagger.record.settings.get("decoding_choice")
        chosen = [] if choice is None else [decoding_section(choice)]
        html.write(target / REPORT, page(f"{target.name} on dev", found, signature=made, further=chosen))


def _load_finished(target: Path, corpus: TrainingData, settings: Settings) -> Tagger:
    """The tagger that this very run had saved already; anything else in its place is left alone."""
    if _has_fingerprint(target, corpus.fingerprint(settings)):
        logger.info("%s: already trained with these settings and data", target)
        # Checkpoints are left if the run was killed after it had saved the model.
        shutil.rmtree(sibling(target, CHECKPOINT_SUFFIX), ignore_errors=True)
        tagger = Tagger.load(target, device=settings.device)
        tagger.history = read_metrics(target / METRICS)
        if corpus.test:
            _score_test(tagger, target, corpus, settings)
        return tagger
    raise MaskedCRFError(
        f"{target}: there is something already; give another output folder, or overwrite it (--overwrite)"
    )


def _has_fingerprint(target: Path, fingerprint: str) -> bool:
    """Whether this is the model folder of the run with this fingerprint."""
    try:
        return read_config(target).record.fingerprint == fingerprint
    except ModelFolderError:
        return False


def _score_test(tagger: Tagger, target: Path, corpus: TrainingData, settings: Settings) -> None:
    """Record the scores of a finished run on the test data given now, which the fingerprint does not cover."""
    device = choose_device(settings.device)
    with join_process_group(device) as processes:
        processes.wait()  # or another might still be reading the folder that the first is about to replace
        if not processes.is_main:
            return
        found = _score(tagger, corpus.test, settings)
        old = tagger.record
        data, scores = {**old.data, "test": corpus.summary["test"]}, {**old.scores, "test": found.to_dict()}
        tagger.record = old.model_copy(update={"data": data, "scores": scores})
        if tagger.record != old:
            update_record(target, tagger.record)


def _work_folder(target: Path | None, *, overwrite: bool) -> Path | None:
    """Where the run keeps its checkpoints until it is done: beside the output, which appears only when it is whole."""
    if target is None:
        return None
    work = sibling(target, CHECKPOINT_SUFFIX)
    if overwrite:
        for old in (work, sibling(target, TRACKER_SUFFIX)):
            shutil.rmtree(old, ignore_errors=True)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MaskedCRFError(f"{work}: {error.strerror}; give an output folder that can be written") from error
    return work


def build_model(corpus: TrainingData, settings: Settings) -> TaggerModel:
    """The model that these settings train on this corpus, before its first step; settings must be resolved."""
    encoder = build_encoder(settings.encoder, corpus.sentences)
    if settings.encoder_from:
        copy_encoder_weights(encoder, Path(settings.encoder_from))
    rules = Constraints.from_scheme(corpus.tags, settings.scheme_named(None))
    assert settings.dropout is not None, "settings are resolved"
    model = TaggerModel(encoder, rules, head=settings.head, mask=settings.mask, dropout=settings.dropout)
    model.tokenizer = corpus.tokenizer
    return model


def _run_to_end(run: TrainingRun, *, progress: bool, logs: Path) -> None:
    name = run.settings.tracker if run.processes.is_main else None
    with open_tracker(name, logs, run.settings.model_dump(mode="json")) as tracker:
        for entry in with_progress(run_epochs(run), bar=progress, silent=not run.processes.is_main):
            if run.work is not None and run.processes.is_main:
                write_metrics(run.work / METRICS, run.state.history)
            if tracker is not None:
                tracker.log({k: v for k, v in flatten(entry) if not isinstance(v, str)}, step=entry["step"])


def _tagger(run: TrainingRun) -> Tagger:
    """The trained tagger with the record of its making."""
    settings, corpus = run.settings, run.corpus
    encoder = settings.encoder
    record = TrainingRecord(
        data=corpus.summary,
        settings=settings.model_dump(mode="json"),
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
    tagger = Tagger(run.model.eval(), output_scheme=settings.scheme_named(settings.output_scheme), record=record)
    tagger.history = run.state.history
    _decide_decoding(run, tagger)
    if run.processes.is_main:
        scores = {
            name: _score(tagger, part, settings).to_dict()
            for name, part in (("dev", corpus.dev), ("test", corpus.test))
            if part
        }
        tagger.record = tagger.record.model_copy(update={"scores": scores})
    return tagger


def _score(tagger: Tagger, sentences: Sequence[Sentence], settings: Settings) -> Scores:
    """By the tagger's own decoding."""
    gold_scheme = settings.scheme_named(settings.file_scheme)
    return score(tagger.model, sentences, gold_scheme=gold_scheme, segment_threshold=tagger.threshold_for())


def _decide_decoding(run: TrainingRun, tagger: Tagger) -> None:
    """What scores higher on dev, the same on every process; without dev, segments at one half.

    That gained with nearly every model measured (docs/paper.md). Without a mask the best path is shown, legal or not.
    """
    settings, dev = run.settings, [sentence for sentence in run.corpus.dev if sentence.tokens]
    if settings.decoding == "path" or tagger.mask == "off":
        return
    decided = torch.tensor([1.0, tagger.segment_threshold], dtype=torch.float64, device=run.model.device)
    if len(dev) > 1 and run.processes.is_main:
        gold_scheme = settings.scheme_named(settings.file_scheme)
        choice = choose_decoding(tagger.model, dev, gold_scheme=gold_scheme, beta=settings.beta)
        keep_choice(tagger, choice)
        decided[0], decided[1] = choice.decoding == "segments", choice.threshold
        logger.info("dev: %s", choice)
    run.processes.broadcast([decided])
    by_segments = settings.decoding == "segments" or bool(decided[0])
    tagger.decoding, tagger.segment_threshold = "segments" if by_segments else "path", float(decided[1])
