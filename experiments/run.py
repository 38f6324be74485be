"""Train what the results lack, one JSON line a finished training.

python -m experiments.run small large --corpora DIR --budget 30 --decode
python -m experiments.run pretrained --corpora DIR --encoders DIR

With `--decode`, each model that a table may take is also decoded both ways (`experiments.decoding`).
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from experiments.command import command, minutes, parser_for, positive, workers
from experiments.decoded import ROWS, Model, append_decoded
from experiments.result_files import RESULTS, append_result, read_results
from experiments.trainings import GROUPS, Training
from maskedcrf.errors import MaskedCRFError


class Finished(NamedTuple):
    """The line of a training, and those of its models decoded both ways if that was asked for."""

    entry: dict[str, Any]
    decoded: list[dict[str, Any]]


def execute(training: Training, options: argparse.Namespace) -> Finished:
    """Train, and decode what was trained if that was asked for."""
    from experiments.decoding import measure
    from experiments.train import train

    with nullcontext(options.weights) if options.weights else TemporaryDirectory() as folder:
        entry = train(training, options.corpora, options.encoders, Path(folder))
        models = [Model(row, entry) for row in ROWS if row in entry["rows"]] if options.decode else []
        return Finished(entry, [measure(model, options.corpora, Path(folder)) for model in models])


def prepare_worker() -> None:
    """A process that trains: on one thread, since others train beside it, and without the log lines of a training."""
    import torch

    logging.getLogger("maskedcrf").setLevel(logging.ERROR)
    torch.set_num_threads(1)


Ended = tuple[Training, Finished | BaseException]


def in_processes(
    trainings: Sequence[Training], options: argparse.Namespace, *, deadline: float = float("inf")
) -> Iterator[Ended]:
    """Trainings as they end, `--jobs` at a time; none is begun after the deadline."""
    waiting = list(trainings)
    with workers(options.jobs, prepare_worker) as pool:
        under_way: dict[Future[Finished], Training] = {}
        while waiting or under_way:
            while waiting and len(under_way) < options.jobs and time.monotonic() < deadline:
                training = waiting.pop(0)
                under_way[pool.submit(execute, training, options)] = training
            if not under_way:
                return
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(done), done.exception() or done.result()


def run_missing(trainings: Sequence[Training], options: argparse.Namespace) -> int:
    """Train what is not in the results yet; returns how many failed."""
    deadline = time.monotonic() + 60 * options.budget
    done = read_results(options.results)
    missing = [training for training in trainings if training.name not in done]
    options.results.mkdir(parents=True, exist_ok=True)  # a folder that cannot be is named before anything is trained
    _say(f"{len(missing)} trainings to do, {len(trainings) - len(missing)} in the results")
    failed = ended = 0
    for training, result in in_processes(missing, options, deadline=deadline):
        ended += 1
        if isinstance(result, BaseException):
            failed += 1
            outcome = f"failed: {(str(result).strip().splitlines() or [type(result).__name__])[-1]}"
        else:
            append_result(result.entry, options.results)
            for line in result.decoded:
                append_decoded(line, options.results)
            rows = "  ".join(f"{name} {row['test']['f1']:.2f}" for name, row in result.entry["rows"].items())
            outcome = f"{rows}  ({result.entry['seconds']:.0f} s)"
        _say(f"{ended}/{len(missing)} {training.name}: {outcome}")
    if ended < len(missing):
        _say(f"{len(missing) - ended} are left: the same command goes on with them")
    return failed


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@command
def main(given: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = parser_for(__doc__, "corpora", "encoders")
    parser.add_argument("groups", nargs="+", choices=sorted(GROUPS), help="parts of the trial, in this order")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results files")
    parser.add_argument("--weights", type=Path, help="folder that gets the best model of every row; none are kept else")
    parser.add_argument(
        "--decode", action="store_true", help="decode every finished model by path and by segments, too"
    )
    parser.add_argument("--jobs", type=positive, default=1, help="trainings side by side")
    parser.add_argument("--budget", type=minutes, default=float("inf"), help="minutes after which none is begun")
    parser.add_argument("--only", default="", help="only trainings whose name contains this")
    options = parser.parse_args(given)
    trainings = [each for group in options.groups for each in GROUPS[group] if options.only in each.name]
    if not trainings:
        example = GROUPS[options.groups[0]][0].name
        raise MaskedCRFError(f"--only {options.only}: no training's name contains this; they are like {example}")
    return 1 if run_missing(list(dict.fromkeys(trainings)), options) else 0


if __name__ == "__main__":
    sys.exit(main())
