"""Trains, kills and resumes small runs in forked children, so that the heavy imports are paid for once.

    python kill_and_resume.py FOLDER SLOW MOMENT [SLOW MOMENT ...]

For each pair a run is killed after MOMENT times an unbroken run's seconds and then resumed; with SLOW = 1 its saves
are slowed down, so that the kill is likely to fall inside one. Prints the digest of each model, the unbroken one first.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

torch.set_num_threads(1)  # threads do not survive a fork

from small_corpus import SMALL, corpus  # noqa: E402

import maskedcrf.training.train  # noqa: E402, F401  (imported on use: once here, not in every child)
from maskedcrf import files  # noqa: E402
from maskedcrf.tagger import Tagger  # noqa: E402

SETTINGS = {**SMALL, "epochs": 2, "checkpoint_steps": 1, "encoder": {"words": 16, "lstm_hidden": 16}}


def slow_down_saves() -> None:
    flush, replace = files._flush, files._replace

    def slow_flush(path: Path) -> None:
        time.sleep(0.01)
        flush(path)

    def slow_replace(aside: Path, target: Path) -> None:
        time.sleep(0.02)
        replace(aside, target)

    files._flush, files._replace = slow_flush, slow_replace


def forked(folder: Path, *, slow: bool = False) -> int:
    child = os.fork()
    if child == 0:
        if slow:
            slow_down_saves()
        try:
            Tagger.train(corpus(40), corpus(8, 1), output=folder / "model", **SETTINGS)
        except BaseException as error:
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return child


def finished(folder: Path) -> str:
    _, status = os.waitpid(forked(folder), 0)
    if status:
        sys.exit(f"the run in {folder} failed")
    left = sorted(path.name for path in folder.iterdir())
    if left != ["model"]:
        sys.exit(f"left behind: {left}")
    return hashlib.sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(folder: Path, pairs: list[tuple[bool, float]]) -> None:
    (folder / "unbroken").mkdir()
    began = time.monotonic()
    say(finished(folder / "unbroken"))
    seconds = time.monotonic() - began
    for number, (slow, moment) in enumerate(pairs):
        own = folder / str(number)
        own.mkdir()
        child = forked(own, slow=slow)
        time.sleep(moment * seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        say(finished(own))


if __name__ == "__main__":
    given = sys.argv[2:]
    main(Path(sys.argv[1]), [(given[n] == "1", float(given[n + 1])) for n in range(0, len(given), 2)])
