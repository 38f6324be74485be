"""Sentences that users have corrected, appended to a file of gold JSON lines."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maskedcrf.errors import MaskedCRFError
from maskedcrf.files import write_error


class Collector:
    """Appends sentences to a file: each is whole and on the disk before it is answered, or not there at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.sentences = 0
        """How many this server has appended."""
        self._lock = threading.Lock()
        self._append(b"")  # say now that the file cannot be written

    def add(self, prediction: dict[str, Any], known: Sequence[int] | None) -> dict[str, int]:
        """Append the tokens and tags of a prediction; all but the `known` tokens are left open, none if it is None."""
        tokens = prediction["tokens"]
        opened = [] if known is None else sorted(set(range(len(tokens))) - set(known))
        record = {"tokens": tokens, "tags": prediction["tags"], **({"open": opened} if opened else {})}
        with self._lock:
            self._append((json.dumps(record, ensure_ascii=False) + "\n").encode())
            self.sentences += 1
            return {"sentences": self.sentences, "open": len(opened)}

    def _append(self, line: bytes) -> None:
        try:
            with self.path.open("ab+") as handle:
                end = handle.seek(0, os.SEEK_END)
                try:
                    handle.write(self._missing_line_end(end) + line)
                    handle.flush()
                    os.fsync(handle.fileno())
                except OSError:
                    handle.truncate(end)
                    raise
        except OSError as error:
            raise write_error(self.path, error) from error

    def _missing_line_end(self, size: int) -> bytes:
        """What has to come first where somebody's editor left the last line without its end."""
        if not size:
            return b""
        with self.path.open("rb") as handle:
            handle.seek(size - 1)
            return b"" if handle.read(1) == b"\n" else b"\n"


def require_something_known(known: Sequence[int] | None, tokens: int) -> None:
    """Refuse to keep a sentence that says nothing."""
    if not tokens or (known is not None and not known):
        raise MaskedCRFError("no token has a tag of its own; fix some tags, or accept every tag (complete)")
