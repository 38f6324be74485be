"""Results files: one JSON line a finished training, in the file of its encoder, in the folder of its corpus."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.trainings import Training
from maskedcrf.errors import DataError
from maskedcrf.files import numbered_lines

RESULTS = Path(__file__).parent / "results"


def result_files(folder: Path) -> list[Path]:
    """All results files of a folder of corpora, in order."""
    return sorted(folder.glob("*/*.jsonl"))


def read_results(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The results so far, by name; a line cut short by a crash is passed over and its training made again."""
    found: dict[str, dict[str, Any]] = {}
    for path in result_files(folder):
        for number, line in numbered_lines(path):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[_name(entry, f"{path}:{number}")] = entry
    return found


def _name(entry: Any, where: str) -> str:
    """The entry's name, if it is one of a finished training."""
    try:
        name = Training(**entry["training"]).name
        if name == entry["name"] and entry.keys() >= {"settings", "rows", "epochs", "gold"}:
            return name
    except (KeyError, TypeError, ValueError):
        pass
    raise DataError(f"{where}: not a training's result; take the line out, or fetch the file again")


def append_result(entry: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write the entry into its encoder's file, on disk before anything else happens."""
    append_line(entry, folder / entry["training"]["corpus"] / f"{entry['training']['encoder']}.jsonl")


def append_line(entry: Mapping[str, Any], path: Path) -> None:
    """Write one JSON line, on disk before anything else happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    before = path.read_bytes() if path.exists() else b""
    with path.open("ab") as file:
        # What a crash cut short has no end of its line.
        file.write(b"\n" * bool(before and not before.endswith(b"\n")) + line)
        file.flush()
        os.fsync(file.fileno())
