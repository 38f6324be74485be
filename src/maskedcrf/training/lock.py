"""One process at a time trains one output: a second is refused at once; a process that dies frees its lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from maskedcrf.errors import MaskedCRFError
from maskedcrf.training.distributed import is_main_process

LOCK_SUFFIX = ".lock"


@contextmanager
def lock_output(target: Path | None) -> Iterator[None]:
    """Keep other processes from training the same output while this lasts.

    The operating system gives up a lock when its process ends, however it ends, so that a stale file blocks nobody.
    """
    if target is None or not is_main_process():
        yield
        return
    path = sibling(target.resolve(), LOCK_SUFFIX)  # one lock, by whatever name the folder is reached
    created = [folder for folder in path.parents if not folder.exists()]
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise MaskedCRFError(
            f"{target}: another process is training this model; wait for it, or give another output folder"
        ) from error
    except OSError as error:
        raise MaskedCRFError(f"{target}: {error.strerror}; give an output folder that can be written") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held, so that it is nobody else's
        lock.release()
        for folder in created:
            with suppress(OSError):  # what holds something stays
                folder.rmdir()


def sibling(target: Path, suffix: str) -> Path:
    """The path beside a model folder with this ending."""
    return target.with_name(target.name + suffix)
