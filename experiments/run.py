"""Train what the results lack, one JSON line a finished training.

python -m experiments.run small large --corpora DIR --budget 30
python -m experiments.run transformer --corpora DIR --encoders DIR
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

from experiments.command import command, minutes, parser_for, positive, workers
from experiments.result_files import RESULTS, append_result, read_results
from experiments.trainings import GROUPS, Training
from maskedcrf.errors import MaskedCRFError


def execute(training: Training, corpora: str, encoders: str, weights: Path | None) -> dict[str, Any]:
    """Train in a process of its own, on one thread: trainings go side by side instead."""
    import logging

    import torch

    from experiments.train import train

    logging.getLogger("maskedcrf").setLevel(logging.ERROR)  # of this process only: importing changes nobody's logs
    torch.set_num_threads(1)
    return train(training, corpora, encoders, weights)


Ended = tuple[Training, dict[str, Any] | BaseException]


def in_processes(
    trainings: Sequence[Training], options: argparse.Namespace, *, deadline: float = float("inf")
) -> Iterator[Ended]:
    """Trainings as they end, `--jobs` at a time; none is begun after the deadline."""
    waiting = list(trainings)
    with workers(options.jobs) as pool:
        under_way: dict[Future[dict[str, Any]], Training] = {}
        while waiting or under_way:
            while waiting and len(under_way) < options.jobs and time.monotonic() < deadline:
                training = waiting.pop(0)
                future = pool.submit(execute, training, options.corpora, options.encoders, options.weights)
                under_way[future] = training
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
            append_result(result, options.results)
            rows = "  ".join(f"{name} {row['test']['f1']:.2f}" for name, row in result["rows"].items())
            outcome = f"{rows}  ({result['seconds']:.0f} s)"
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
