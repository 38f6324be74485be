"""What the commands here share: folders, processes, and one line in the place of a traceback where the input is bad."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import wraps
from multiprocessing import get_context, parent_process
from pathlib import Path

from maskedcrf.errors import MaskedCRFError

Main = Callable[..., int]
UNLESS_GIVEN = {"corpora": ".", "encoders": ""}
"""Where a folder is if neither the option nor the variable names it; of encoders, nowhere."""


def parser_for(about: str | None, *folders: str) -> argparse.ArgumentParser:
    """A command's parser, with an option for each of these folders."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in folders:
        variable = f"MASKEDCRF_{name.upper()}"
        given = os.environ.get(variable, UNLESS_GIVEN[name])
        parser.add_argument(f"--{name}", type=folder, default=given, help=f"folder of the {name} (or {variable})")
    return parser


def folder(text: str) -> str:
    """A folder that is there, or none."""
    if text and not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text}: no such folder")
    return text


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: give a whole number from 1 on")
    return int(text)


def minutes(text: str) -> float:
    """A stretch of time, 0 at least."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not found >= 0:
        raise argparse.ArgumentTypeError(f"{text}: give minutes, 0 or more")
    return found


def workers(jobs: int, prepare: Callable[[], None]) -> ProcessPoolExecutor:
    """Prepared processes that run things side by side, and end when this one does, even if it is killed."""
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(prepare,))


def _begin(prepare: Callable[[], None]) -> None:
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    prepare()


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def command(main: Main) -> Main:
    """The same; what is wrong with its input is said in one line, with exit code 2, and being stopped in none."""

    @wraps(main)
    def run_command(given: Sequence[str] | None = None) -> int:
        try:
            return main(given)
        except KeyboardInterrupt:
            return 130
        except MaskedCRFError as error:
            print(f"error: {error}", file=sys.stderr)
        except BrokenProcessPool:
            print(
                "error: a run was killed, perhaps for memory: try fewer --jobs; the finished ones are kept",
                file=sys.stderr,
            )
        except OSError as error:
            print(f"error: {error.filename or 'file'}: {error.strerror or error}", file=sys.stderr)
        return 2

    return run_command
