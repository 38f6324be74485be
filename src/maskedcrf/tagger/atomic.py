"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from maskedcrf.errors import MaskedCRFError


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `target` at the end; if anything fails, `target` stays as it was.

    Files and folders are flushed to the disk before the rename, so that not even a power cut leaves half of one.
    """
    aside = target.with_name(f".{target.name}.tmp")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # of a run that was killed
        aside.mkdir(parents=True)
        yield aside
        for path in [*aside.rglob("*"), aside]:
            _flush(path)
        _replace(aside, target)
        _flush(target.parent)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        kept = "what was there before is untouched" if target.exists() else "nothing was left half-written"
        raise MaskedCRFError(f"{target}: could not be written ({reason}); {kept}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _replace(aside: Path, target: Path) -> None:
    """Put the new folder in the old one's place; the old one is deleted only after that, and put back if it fails."""
    old = target.with_name(f".{target.name}.old")
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    try:
        aside.rename(target)
    except OSError:
        if old.exists():  # also where an earlier run was killed between the two renames
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
