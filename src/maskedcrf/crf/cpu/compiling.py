"""How the kernels are compiled, where machine code is kept between processes, and what the user is told meanwhile.

Machine code lies in the user's cache folder, in a directory named by the version and a digest of the kernels' source:
an edited kernel never meets code compiled before the edit. Within it numba tells processors and numba versions apart,
and replaces files atomically, so that two processes may compile at once.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from maskedcrf import __version__

FIRST = "maskedcrf: compiling the CRF for this processor, some seconds; `maskedcrf warm-up` does it ahead of time"


def cache_folder() -> Path | None:
    """Where machine code is kept: NUMBA_CACHE_DIR if the user has set it, else a part of the user's cache folder."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
    folder = user_folder() / f"kernels-{__version__}-{digest.hexdigest()[:12]}"
    return _writable(folder)


def user_folder() -> Path:
    """The folder for caches: the user's own choice for numba or by XDG, else the platform's convention."""
    if chosen := numba.config.CACHE_DIR:
        return Path(chosen) / "maskedcrf"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/maskedcrf").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / "maskedcrf" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "maskedcrf"


def _writable(folder: Path) -> Path | None:
    """The folder; a private copy of it if it can only be read; None if there is nothing to read either."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        if not folder.is_dir():
            return None
    try:
        copy = tempfile.mkdtemp(prefix="maskedcrf-")
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        return Path(shutil.copytree(folder, copy, dirs_exist_ok=True))
    except OSError:
        return None


_FOLDER = cache_folder()


def _compile_with(*flags: str) -> Callable[[Any], Any]:
    """A decorator: machine code on first use, which releases the GIL; NaN and infinities keep their meaning."""

    def decorate(function: Any) -> Any:
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_FOLDER)
        try:  # numba asks for the folder here, once
            options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", *flags}}
            return numba.njit(cache=_FOLDER is not None, **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate


compiled = _compile_with("reassoc")
as_written = _compile_with()
"""For arithmetic whose result depends on its order, as in tricks of rounding."""


class _Notice(event.Listener):  # type: ignore[misc]
    """Says once on stderr what a silent pause is spent on; code that is on disk makes no such event."""

    given = False

    def on_start(self, event_: Any) -> None:
        compiled_function = getattr(event_.data.get("dispatcher"), "py_func", None)  # anybody's, of any kind
        if not self.given and str(getattr(compiled_function, "__module__", "")).startswith(__package__):
            self.given = True
            print(FIRST, file=sys.stderr, flush=True)  # noqa: T201  a notebook shows stderr, and may hide the log

    def on_end(self, event_: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _Notice())
