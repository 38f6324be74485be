"""Trains, kills and resumes small runs in forked children, so that the heavy imports are paid for once.

    python kill_and_resume.py FOLDER MOMENT [MOMENT ...]

Each moment, from 0 to 1, is a place among the file operations of an unbroken run: just before that operation a run
kills itself, and is then resumed. Prints the digest of each model, the unbroken one first.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

torch.set_num_threads(1)  # threads do not survive a fork

from small_corpus import SMALL, corpus  # noqa: E402

import maskedcrf.training.train  # noqa: E402, F401  (imported on use: once here, not in every child)
from maskedcrf.tagger import Tagger  # noqa: E402

SETTINGS = {**SMALL, "epochs": 2, "checkpoint_steps": 1, "encoder": {"words": 16, "characters": 0, "lstm_hidden": 16}}
FILE_OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
"""Python's names for the events of which it tells an audit hook."""


class FileOperations:
    """Counts what a process does to files below a folder, and kills the process before one of them."""

    def __init__(self, folder: Path, *, kill_before: int | None) -> None:
        self.folder = str(folder)
        self.kill_before = kill_before
        self.count = 0
        sys.addaudithook(self._count)

    def _count(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_OPERATIONS and self.folder in str(arguments[0]):
            if self.count == self.kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1


def trained(folder: Path, *, kill_before: int | None = None) -> int | None:
    """Train in a child; returns how many file operations that took, None if the child was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            operations = FileOperations(folder, kill_before=kill_before)
            Tagger.train(corpus(40), corpus(8, 1), output=folder / "model", **SETTINGS)
            os.write(write, str(operations.count).encode())
        except BaseException as error:
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        count = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    if status:
        sys.exit(f"the run in {folder} failed")
    return int(count)


def digest(folder: Path) -> str:
    left = sorted(path.name for path in folder.iterdir())
    if left != ["model"]:
        sys.exit(f"left behind: {left}")
    return hashlib.sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(folder: Path, moments: list[float]) -> None:
    (folder / "unbroken").mkdir()
    operations = trained(folder / "unbroken") or 0
    say(digest(folder / "unbroken"))
    for number, moment in enumerate(moments):
        own = folder / str(number)
        own.mkdir()
        if trained(own, kill_before=int(moment * operations)) is not None:
            sys.exit(f"the run in {own} was not killed")
        trained(own)
        say(digest(own))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [float(moment) for moment in sys.argv[2:]])
