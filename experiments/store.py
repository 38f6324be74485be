"""Results files: one JSON line a finished run, in the file of its encoder, in the folder of its corpus."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from experiments.grid import Run
from maskedcrf.errors import DataError
from maskedcrf.files import atomic_file, numbered_lines

RESULTS = Path(__file__).parent / "results"


def files(folder: Path) -> list[Path]:
    """All results files, in order."""
    return sorted(folder.rglob("*.jsonl"))


def finished(folder: Path) -> dict[str, dict[str, Any]]:
    """The results so far, by name; a line cut short by a crash is passed over and run again."""
    found: dict[str, dict[str, Any]] = {}
    for path in files(folder):
        for number, line in numbered_lines(path):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[_name(entry, f"{path}:{number}")] = entry
    return found


def _name(entry: Any, where: str) -> str:
    """The entry's name, if it is one of a finished run."""
    try:
        name = Run(**entry["run"]).name
        if name == entry["name"] and entry.keys() >= {"settings", "test"}:
            return name
    except (KeyError, TypeError, ValueError):
        pass
    raise DataError(f"{where}: not a run's result; take the line out, or fetch the file again")


def put(folder: Path, entry: dict[str, Any]) -> None:
    """The entry into the file of its encoder, on disk before anything else happens; an older one of its name goes."""
    path = folder / entry["run"]["corpus"] / f"{entry['run']['encoder']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    before = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    kept = [each for each in before if not each.startswith(f'{{"name":"{entry["name"]}"'.encode())]
    if len(kept) < len(before):
        with atomic_file(path) as whole:
            whole.writelines([*kept, line])
        return
    with path.open("ab") as file:
        # What a crash cut short has no end of its line.
        file.write(b"\n" * bool(before and not before[-1].endswith(b"\n")) + line)
        file.flush()
        os.fsync(file.fileno())
