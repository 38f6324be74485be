"""The loop, to be read from top to bottom: epochs, batches, steps, dev scores, the best model, checkpoints.

`run_epochs` is a generator: it yields after every step and every epoch, and the caller decides what to show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from maskedcrf.data.batching import prediction_batches, training_batches
from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.part import Features
from maskedcrf.tagger.folder import cpu_state_dict
from maskedcrf.tagger.model import TaggerModel, to_device
from maskedcrf.tagger.scores import score
from maskedcrf.training import adversarial, averaging
from maskedcrf.training.checkpoint import State, load_checkpoint, save_checkpoint
from maskedcrf.training.dataset import TrainingData
from maskedcrf.training.distributed import ProcessGroup, keep_local
from maskedcrf.training.optimiser import build_optimiser, rate_factor, set_rates
from maskedcrf.training.random_state import seed_all
from maskedcrf.training.settings import Settings
from maskedcrf.training.threads import step_threads

HIDDEN_WORD = "\N{REPLACEMENT CHARACTER}"
"""Stands for a hidden word: unknown to every vocabulary, and no piece to a tokenizer."""
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Step(NamedTuple):
    """One step is done; the loss stays on its device until somebody looks."""

    step: int
    total: int
    loss: Tensor


class Epoch(NamedTuple):
    """One epoch is done and scored: its entry of the history."""

    entry: dict[str, Any]


class MicroBatch(NamedTuple):
    """One forward pass of a batch."""

    features: Features
    tags: Tensor
    """(B, T) gold ids."""
    allowed: Tensor | None = None
    """(B, T, D): the gold tag of each word, every tag where it is left open; None where nothing is."""


class BatchLoss(nn.Module):
    """The sum of the losses of a micro-batch's sentences; 0 without one."""

    def __init__(self, model: TaggerModel, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype

    def forward(self, part: MicroBatch | None) -> Tensor:
        """A scalar; the CRF is in float32 or wider whatever the encoder's type."""
        if part is None:
            return self.model.linear.weight.sum() * 0
        with torch.autocast(self.model.device.type, self.dtype) if self.dtype else nullcontext():
            emissions = self.model.emissions(part.features)
        emissions, mask = emissions.float(), part.features["mask"]
        if part.allowed is not None:
            return self.model.crf.partial_loss(emissions, part.allowed, mask, reduction="sum")
        loss: Tensor = self.model.crf(emissions, part.tags, mask, reduction="sum")
        return loss


@dataclass
class TrainingRun:
    """All that a run holds."""

    model: TaggerModel
    corpus: TrainingData
    settings: Settings
    processes: ProcessGroup = field(default_factory=ProcessGroup)
    work: Path | None = None
    """Where checkpoints go; None for none."""
    fingerprint: str = ""
    """Of settings and data: a checkpoint of another run is not gone on with."""
    state: State = field(default_factory=State)
    best: dict[str, Tensor] | None = None
    """The weights of the best epoch so far."""

    def __post_init__(self) -> None:
        self.optimiser = build_optimiser(self.model, self.settings.optim)
        self.average = averaging.start(self.model) if self.settings.ema_decay else {}
        dtype = _precision(self.settings, self.model.device)
        self.scaler = torch.amp.GradScaler(self.model.device.type, enabled=dtype == torch.float16)
        self.batch_loss = self.processes.replicate(BatchLoss(self.model, dtype))
        self.lengths = [len(each.tokens) + sum(map(len, each.context)) for each in self.corpus.sentences]
        self.steps_an_epoch = math.ceil(len(self.lengths) / self.settings.batch_sentences)
        self.total = max((self.settings.epochs or 1) * self.steps_an_epoch, self.settings.minimum_steps)


def resume(run: TrainingRun) -> None:
    """Put the run back to where its last checkpoint was, if there is one."""
    if run.work is not None:
        run.state, run.best = load_checkpoint(
            run.work, model=run.model, optimiser=run.optimiser, average=run.average, fingerprint=run.fingerprint
        )
        if run.state.scaler:
            run.scaler.load_state_dict(run.state.scaler)
    run.processes.broadcast([*run.model.state_dict().values(), *run.average.values()])


def run_epochs(run: TrainingRun) -> Iterator[Step | Epoch]:
    """Train to the end, from wherever the run stands; afterwards the model has the weights of its best epoch."""
    state, settings = run.state, run.settings
    loss_sum = torch.tensor(state.loss_sum, dtype=torch.float64, device=run.model.device)
    while state.step < run.total and not state.finished:
        epoch, done = divmod(state.step, run.steps_an_epoch)
        started = perf_counter()
        batches = training_batches(run.lengths, size=settings.batch_sentences, seed=settings.seed, epoch=epoch)
        for parts, size in tensor_batches(run, batches[done:][: run.total - state.step]):
            loss = train_step(run, parts, size)
            loss_sum += loss
            state.step += 1
            yield Step(state.step, run.total, loss)
            ends = state.step % run.steps_an_epoch == 0 or state.step == run.total
            if ends:
                trained = (state.step - 1) % run.steps_an_epoch + 1
                with averaging.applied(run.average, run.model):
                    _close_epoch(run, epoch + 1, loss=float(loss_sum) / trained, started=started)
                loss_sum.zero_()
                yield Epoch(state.history[-1])
            if ends or (settings.checkpoint_steps and state.step % settings.checkpoint_steps == 0):
                state.loss_sum = float(loss_sum)
                _save(run)
    if run.best is not None:
        run.model.load_state_dict(run.best)
    else:
        averaging.copy_into(run.average, run.model)


def train_step(run: TrainingRun, parts: Sequence[MicroBatch], size: int) -> Tensor:
    """One step on a batch of `size` sentences, given as the forward passes of this process's share.

    Returns the mean loss of the whole batch, the same on every process.
    """
    settings = run.settings
    seed_all(settings.seed, "step", run.state.step, run.processes.rank)
    set_rates(run.optimiser, rate_factor(run.state.step, run.total, settings.optim))
    run.model.train()
    run.optimiser.zero_grad(set_to_none=True)
    device = run.model.device
    on_device = [
        MicroBatch(
            to_device(features, device),
            tags.to(device, non_blocking=True),
            None if allowed is None else allowed.to(device, non_blocking=True),
        )
        for features, tags, allowed in parts
    ]
    with step_threads(run.model):
        loss = _add_gradients(run, on_device, size, last=not settings.adversarial)
        if settings.adversarial:
            with adversarial.perturbed(run.model.encoder, settings.adversarial, run.processes):
                _add_gradients(run, on_device, size, last=True)
        run.scaler.unscale_(run.optimiser)
        torch.nn.utils.clip_grad_norm_(run.model.parameters(), settings.optim.clip)
        run.scaler.step(run.optimiser)
        run.scaler.update()
        if settings.ema_decay:
            averaging.update(run.average, run.model, decay=settings.ema_decay, step=run.state.step + 1)
    return run.processes.all_reduce(loss)


def _add_gradients(run: TrainingRun, parts: Sequence[MicroBatch], size: int, *, last: bool) -> Tensor:
    """Forward and backward through every part; the mean loss over `size` sentences.

    The very last backward of a step sums the gradients over all processes, so each of them has one, share or not.
    """
    total = torch.zeros((), device=run.model.device)
    rounds: Sequence[MicroBatch | None] = parts or [None]
    for number, part in enumerate(rounds, start=1):
        with nullcontext() if last and number == len(rounds) else keep_local(run.batch_loss):
            loss = run.batch_loss(part) / size
            run.scaler.scale(loss).backward()
        total += loss.detach()
    return total


def tensor_batches(run: TrainingRun, batches: Sequence[list[int]]) -> Iterator[tuple[list[MicroBatch], int]]:
    """Each batch as tensors, and its size; a GPU works on the last one meanwhile, since no step waits for it."""
    for batch in batches:
        shard = run.processes.shard(batch)
        limit = run.settings.forward_tokens
        random = np.random.default_rng([run.settings.seed, run.state.step, run.processes.rank])
        lengths = run.model.encoder.compute_lengths([run.corpus.sentences[number] for number in shard])
        micro_batches = prediction_batches(lengths, size=len(batch), tokens=limit)
        yield [_part(run, [shard[place] for place in places], random) for places in micro_batches], len(batch)


def _part(run: TrainingRun, numbers: Sequence[int], random: np.random.Generator) -> MicroBatch:
    inputs = [_drop_words(run.corpus.sentences[number], run.settings.word_dropout, random) for number in numbers]
    features = run.model.encoder.prepare(inputs)
    mask = features["mask"]
    tags = torch.full(mask.shape, -100)
    tags[mask] = torch.tensor([tag for number in numbers for tag in run.corpus.ids[number]])
    opened = [sentence.open for sentence in inputs]
    return MicroBatch(features, tags, _allowed(run, tags, mask, opened) if any(opened) else None)


def _allowed(run: TrainingRun, tags: Tensor, mask: Tensor, opened: Sequence[Sequence[int]]) -> Tensor:
    """(B, T, D): only the gold tag at a word, any where it is left open or no word stands."""
    allowed = nn.functional.one_hot(tags.clamp(min=0), len(run.corpus.tags)).bool() | ~mask[:, :, None]
    for row, positions in enumerate(opened):
        allowed[row, mask[row].nonzero()[list(positions), 0]] = True
    return allowed


def _drop_words(sentence: Sentence, share: float, random: np.random.Generator) -> Sentence:
    """Word dropout: replace a random share of the words by HIDDEN_WORD."""
    if not share:
        return sentence
    hidden = random.random(len(sentence.tokens)) < share
    words = tuple(HIDDEN_WORD if hide else word for word, hide in zip(sentence.tokens, hidden, strict=True))
    return replace(sentence, tokens=words)


def _close_epoch(run: TrainingRun, epoch: int, *, loss: float, started: float) -> None:
    """Score the epoch on dev, keep the best weights, decide whether to stop."""
    state, settings = run.state, run.settings
    entry: dict[str, Any] = {"epoch": epoch, "step": state.step, "loss": loss}
    if run.corpus.dev:
        dev_key = torch.zeros(2, dtype=torch.float64, device=run.model.device)
        if run.processes.is_main:
            scores = score(run.model, run.corpus.dev, gold_scheme=settings.scheme_named(settings.file_scheme))
            entry["dev"] = scores.to_dict()
            dev_key += torch.tensor([scores.f1, -scores.loss if scores.loss is not None else 0.0]).to(dev_key)
        run.processes.broadcast([dev_key])
        better, loss_on_dev = dev_key.tolist() > state.best, -float(dev_key[1])
        if better:
            state.best, state.best_epoch = dev_key.tolist(), epoch
            run.best = cpu_state_dict(run.model)
        # While the loss still falls there is something to wait for, whatever F1 an early epoch had by chance.
        falls = state.lowest_loss is None or loss_on_dev < state.lowest_loss
        state.lowest_loss = loss_on_dev if falls else state.lowest_loss
        state.bad_epochs = 0 if better or falls else state.bad_epochs + 1
        state.finished = bool(settings.patience) and state.bad_epochs >= (settings.patience or 0)
    else:
        state.best_epoch = epoch
    state.history.append({**entry, "seconds": round(perf_counter() - started, 3)})


def _save(run: TrainingRun) -> None:
    if run.work is not None and run.processes.is_main:
        run.state.scaler = run.scaler.state_dict()
        save_checkpoint(
            run.work,
            run.state,
            model=run.model,
            optimiser=run.optimiser,
            best=run.best,
            average=run.average,
            fingerprint=run.fingerprint,
        )


def _precision(settings: Settings, device: torch.device) -> torch.dtype | None:
    """The encoder's type under autocast; None is float32."""
    if settings.precision == "auto":
        return torch.bfloat16 if device.type == "cuda" else None
    return _DTYPES.get(settings.precision)
