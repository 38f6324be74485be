"""How loops are compiled, where their machine code is kept, and what users are told.

It lies in the user's cache folder, in a directory named by the version and a digest of the kernels' source: an edited
kernel never meets code compiled before the edit. Within it numba tells processors and numba versions apart, and
replaces files atomically, so that two processes may compile at once.
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

KERNELS = ("maskedcrf.crf.cpu", "maskedcrf.segmentation.paths")
NOTICE = "maskedcrf: compiling the CRF for this processor, some seconds; `maskedcrf warm-up` does it ahead of time\n"


def cache_folder() -> Path:
    """The directory for the machine code of these very kernels, in the user's folder for caches."""
    here = Path(__file__).parent
    sources = [Path(__file__), here / "segmentation" / "paths.py", *sorted((here / "crf" / "cpu").glob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    return _user_folder() / f"kernels-{__version__}-{digest.hexdigest()[:12]}"


def _user_folder() -> Path:
    if chosen := numba.config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return Path(chosen) / "maskedcrf"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/maskedcrf").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / "maskedcrf" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "maskedcrf"


def _writable(folder: Path) -> Path | None:
    """The folder; a private copy if it can only be read, as in an image; None if there is nothing to read either."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        try:
            copy = tempfile.mkdtemp(prefix="maskedcrf-")
            atexit.register(shutil.rmtree, copy, ignore_errors=True)
            return Path(shutil.copytree(folder, copy, dirs_exist_ok=True))
        except OSError:
            return None


FOLDER = _writable(cache_folder())


def _compile_with(*flags: str, from_python: bool = False) -> Callable[[Any], Any]:
    """A decorator: machine code on first use, which releases the GIL; NaN and infinities keep their meaning."""

    def decorate(function: Any) -> Any:
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(FOLDER)
        try:  # numba asks for the folder here, once
            options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", *flags}}
            options["no_cpython_wrapper"] = not from_python
            return numba.njit(cache=FOLDER is not None, **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate


kernel = _compile_with("reassoc", from_python=True)
"""For what Python calls."""
compiled, as_written = _compile_with("reassoc"), _compile_with()
"""For what kernels call; the second for arithmetic whose result depends on its order, as in tricks of rounding."""


class _Notice(event.Listener):
    """Explains a silent pause once, on stderr, which notebooks show; loading from disk makes no such event."""

    given = False

    def on_start(self, event_: Any) -> None:
        function = getattr(event_.data.get("dispatcher"), "py_func", None)  # anybody's, of any kind
        if not self.given and str(getattr(function, "__module__", "")).startswith(KERNELS):
            self.given = True
            sys.stderr.write(NOTICE)
            sys.stderr.flush()

    def on_end(self, event_: Any) -> None:
        """Does nothing."""


event.register("numba:compile", _Notice())
