"""What a run shows while it trains: a bar on a terminal, log lines elsewhere, a tracker."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from maskedcrf.errors import MissingExtraError
from maskedcrf.training.loop import Epoch, Step

logger = logging.getLogger(__name__)

LOSS_EVERY_STEPS = 10
"""Steps between two looks at the loss: each makes the host wait for the device."""


def with_progress(
    events: Iterable[Step | Epoch], *, bar: bool = True, silent: bool = False
) -> Iterator[dict[str, Any]]:
    """Drive a run and give its epochs as they end, showing a bar where a terminal can show one."""
    if bar and not silent and sys.stderr.isatty():
        yield from _with_bar(events)
        return
    for event in events:
        if isinstance(event, Epoch):
            if not silent:
                logger.info(epoch_line(event.entry))
            yield event.entry


def epoch_line(entry: dict[str, Any]) -> str:
    """One line about an epoch: loss, dev F1 both ways, illegal %."""
    line = f"epoch {entry['epoch']}: loss {entry['loss']:.4f}"
    if dev := entry.get("dev"):
        both = f"{dev['retain']['f1']:.2f} retain / {dev['discard']['f1']:.2f} discard"
        line += f", dev F1 {both}, illegal {dev['illegal']:.2f} %"
    return f"{line}, {entry['seconds']:.1f} s"


def _with_bar(events: Iterable[Step | Epoch]) -> Iterator[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=None)
        scores = ""
        for event in events:
            if isinstance(event, Epoch):
                dev = event.entry.get("dev")
                scores = f"  F1 {dev['retain']['f1']:.2f}  illegal {dev['illegal']:.2f} %" if dev else ""
                progress.console.print(epoch_line(event.entry), highlight=False)
                yield event.entry
            elif event.step % LOSS_EVERY_STEPS == 0 or event.step == event.total:
                label = f"loss {float(event.loss):.3f}{scores}"
                progress.update(task, completed=event.step, total=event.total, description=label)


class Tracker(Protocol):
    """The summary of an epoch, in one line."""

    def log(self, values: dict[str, Any], step: int) -> None:
        """Take the values of one epoch."""


@contextmanager
def open_tracker(name: str | None, folder: Path, settings: dict[str, Any]) -> Iterator[Tracker | None]:
    """A tracker of accelerate's by its name (tensorboard, wandb, ...); None for none."""
    if name is None:
        yield None
        return
    try:
        from accelerate import Accelerator
    except ImportError as error:
        raise MissingExtraError("trackers need accelerate: pip install 'maskedcrf[transformers]'") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it only warns of what is not installed; we refuse
            accelerator = Accelerator(log_with=name, project_dir=str(folder))
        accelerator.init_trackers("maskedcrf", config=dict(flatten(settings)))
    except (ValueError, ImportError) as error:
        raise MissingExtraError(f"tracker {name!r}: {str(error).splitlines()[0]}") from error
    if not accelerator.trackers:
        raise MissingExtraError(f"tracker {name!r} is not installed: pip install {name}")
    try:
        yield accelerator
    finally:
        accelerator.end_training()


def flatten(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float | str]]:
    """Nested values as `dev/retain/f1`, numbers and words only."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}/")
        elif isinstance(value, int | float | str):
            yield f"{prefix}{name}", value
