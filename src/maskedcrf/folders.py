"""Folders that others may read and write meanwhile: written whole or not at all, read as one version of themselves."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.files import current_umask

LARGEST_FILE = 1 << 28
"""Bytes of a file that is read into memory whole: JSON, a vocabulary, a tokenizer."""
READ_ATTEMPTS = 10
"""How often a folder that is replaced meanwhile is read anew."""
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}
"""What kernels and file systems say that cannot exchange two folders."""

Content = TypeVar("Content")


@contextmanager
def atomic_folder(given: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `given` at the end; if anything fails, `given` stays as it was.

    Every writer has a temporary folder of its own, so of two at once the later one wins, whole. Files and folders are
    on the disk before the exchange, so that not even a power cut leaves half of one.
    """
    target = given.resolve()  # a link stays a link
    aside: Path | None = None
    lock = -1
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        aside, lock = _new_aside(target)
        yield aside
        for path in [*aside.rglob("*"), aside]:
            flush(path)
        _put_in_place(aside, target)
        flush(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        kept = "what was there before is untouched" if target.exists() else "nothing was left half-written"
        raise MaskedCRFError(f"{given}: could not be written ({reason}); {kept}") from error
    finally:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
            os.close(lock)


def _new_aside(target: Path) -> tuple[Path, int]:
    """A new folder beside the target, and a lock on it that says until this process ends: somebody writes here."""
    while True:
        aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"))
        lock = -1
        try:
            lock = os.open(aside, os.O_RDONLY)
            _lock(lock, wait=True)
            aside.chmod(0o777 & ~current_umask())
            return aside, lock
        except FileNotFoundError:  # another writer took it for abandoned before it was locked
            if lock >= 0:
                os.close(lock)


def _remove_abandoned(target: Path) -> None:
    """Delete what writers that were killed have left: temporary folders that nobody holds locked."""
    for path in target.parent.glob(f".{_escape(target.name)}.*.tmp"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                _lock(handle, wait=False)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def _escape(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _lock(handle: int, *, wait: bool) -> None:
    try:
        import fcntl
    except ImportError:  # without locks nothing counts as abandoned
        if not wait:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        if not wait:
            raise


def _put_in_place(aside: Path, target: Path) -> None:
    """Give the new folder the target's name in one step; what had it before is then called `aside`."""
    while True:
        try:
            if _exchange(aside, target):
                return
            if not target.exists():
                aside.rename(target)
                return
            _replace_in_two_steps(aside, target)
            return
        except OSError as error:
            # Another writer was there between the question and the answer.
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST) or not aside.exists():
                raise


def _exchange(aside: Path, target: Path) -> bool:
    """Exchange the two names atomically; False if there is no target, or no such system call."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux
        return False
    names = (os.fsencode(aside), os.fsencode(target))
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE or (number == errno.ENOENT and aside.exists()):
        return False
    raise OSError(number, os.strerror(number))


def _replace_in_two_steps(aside: Path, target: Path) -> None:
    """Move the old folder away, then the new one in; the old one is put back if that fails."""
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".old"))
    try:
        target.rename(old)
        try:
            aside.rename(target)
        except OSError:
            if not target.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def flush(path: Path) -> None:
    """Have a file, or the names in a folder, reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FolderFiles:
    """The files of a folder, each read once and kept: what changes on the disk later does not reach the reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, bytes] = {}

    def where(self, name: str) -> str:
        """The file as messages name it."""
        return str(self.path / name)

    def read(self, name: str) -> bytes:
        """The bytes of a plain file of reasonable size; a link may lead out of the folder, so none is followed."""
        if name not in self._read:
            self._read[name] = read_plain_file(self.path / name)
        return self._read[name]

    def digests(self) -> dict[str, str]:
        """The digest of each file that was read so far."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(self._read.items())}


def read_plain_file(path: Path) -> bytes:
    """The bytes of a file that is no link and not too large to be read whole."""
    if path.is_symlink() or not path.is_file():
        raise DataError(f"{path}:1: no such file (or a link, which is not followed); save it again, or copy it anew")
    with path.open("rb") as handle:
        content = handle.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise DataError(f"{path}:1: larger than {LARGEST_FILE >> 20} MiB, which no file of a model needs")
    return content


def read_consistently(folder: Path, read: Callable[[], Content]) -> Content:
    """What `read` makes of a folder, from one version of it; if it is replaced meanwhile, it is read anew."""
    for _ in range(READ_ATTEMPTS):
        before = _version(folder)
        problem: Exception | None = None
        try:
            found = read()
        except MaskedCRFError as error:
            problem = error
        except OSError as error:
            problem = DataError(f"{error.filename or folder}: {error.strerror or error}")
            problem.__cause__ = error
        if _version(folder) == before:
            if problem is not None:
                raise problem
            return found
    raise DataError(f"{folder}: replaced {READ_ATTEMPTS} times while it was being read; try again later")


def _version(folder: Path) -> frozenset[tuple[str, int, int, int, int]]:
    """Something that changes whenever the folder or one of its files is replaced or written to."""
    found = set()
    for place, _, names in os.walk(folder.resolve()):
        for path in (place, *(f"{place}/{name}" for name in names)):
            with suppress(OSError):
                about = os.lstat(path)
                found.add((path, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
    return frozenset(found)
