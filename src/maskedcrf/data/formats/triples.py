"""Parallel files as ATIS and SNIPS have them: a folder with seq.in, seq.out and perhaps label, line for line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from maskedcrf.data.formats.conll import runs
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.files import numbered_lines


def read_triples(folder: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of a folder, tokens from seq.in and tags from seq.out, each perhaps with `.gz`.

    Blanks may be doubled and trail, as in SNIPS. `label` (the intents) is not read but must have as many lines.
    Without seq.out the sentences have no tags.
    """
    tokens, tags, intents = (_find(Path(folder), name) for name in ("seq.in", "seq.out", "label"))
    if tokens is None:
        raise DataError(f"{os.fspath(folder)}: no seq.in here; give the folder of one split, such as atis/train")
    others = [path for path in (tags, intents) if path is not None]
    for number, (line, *rest) in enumerate(zip_longest(*map(_lines, (tokens, *others))), 1):
        short = [path for path, cell in zip((tokens, *others), (line, *rest), strict=True) if cell is None]
        if short:
            raise DataError(f"{short[0]}:{number}: the file ends here, those beside it do not; they must run in step")
        words = _cells(line)
        marks = _cells(rest[0]) if tags and options.tag_column is not None else None
        if marks is not None and len(words) != len(marks):
            raise DataError(
                f"{tokens}:{number}: {len(words)} tokens but {len(marks)} tags beside them; give each token one tag"
            )
        if words:
            yield Sentence(words, marks, str(tokens), number, one_line=True)


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _lines(path: Path) -> Iterator[str]:
    return (line for _, line in numbered_lines(path))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(runs(line)) if line.strip(" \t") else ()
