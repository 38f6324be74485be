"""Pretrained word vectors from the three usual kinds of file."""

from __future__ import annotations

import gzip
import itertools
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from maskedcrf.errors import DataError

MOST = 400_000
"""Words kept from the head of a file, where the frequent ones stand: all of GloVe 6B, 80 MB at 100 wide."""
HUGE = 1000.0
"""No trained vector has a component this large; half precision ends at 65504."""

Row = tuple[int, str, NDArray[np.floating]]
"""Line (or place, where there are no lines), word, vector (W,)."""


@dataclass(frozen=True)
class Vectors:
    """Words and their vectors (N, W) in half precision, frequent words first."""

    words: list[str]
    array: NDArray[np.float16]

    @property
    def width(self) -> int:
        """W, the width of a vector."""
        return int(self.array.shape[1])

    def __post_init__(self) -> None:
        assert self.array.shape[0] == len(self.words)


def read_vectors(file: str | Path, wanted: Collection[str] = (), *, most: int = MOST) -> Vectors:
    """The first `most` vectors of a file, and those of `wanted` words wherever they stand.

    GloVe text with or without the header of word2vec, word2vec binary (.bin), npz (arrays words and vec);
    text and binary also as .gz. The first of two vectors of the same word counts.
    """
    path = Path(file)
    rows: dict[str, NDArray[np.float16]] = {}
    try:
        for number, (line, word, vector) in enumerate(_reader(path)(path)):
            if (number < most or word in wanted) and word not in rows:
                if not (np.abs(vector) < HUGE).all():
                    raise DataError(
                        f"{path}:{line}: the vector of {word!r} holds NaN, infinity or a number above {HUGE}"
                    )
                rows[word] = vector.astype(np.float16)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"{path}:1: cannot read word vectors: {reason}") from error
    if not rows:
        raise DataError(f"{path}:1: no word vectors in this file")
    return Vectors(list(rows), np.stack(list(rows.values())))


def _reader(path: Path) -> Callable[[Path], Iterator[Row]]:
    kinds = {".npz": _npz, ".bin": _binary}
    return kinds.get(Path(path.name.removesuffix(".gz")).suffix, _text)


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _text(path: Path) -> Iterator[Row]:
    width = 0
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.rstrip(b"\r\n ").split(b" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                continue
            width = width or len(fields) - 1
            # Some words of GloVe hold blanks, so the vector is counted from the right.
            word, values = b" ".join(fields[: len(fields) - width]), fields[len(fields) - width :]
            try:
                if not width or not word:
                    raise ValueError
                yield number, word.decode("utf-8"), np.array(values, dtype=np.float64)
            except ValueError as error:
                found = f"{len(fields)} fields, {line[:40].decode('utf-8', errors='ignore').rstrip()!r}"
                raise DataError(
                    f"{path}:{number}: expected a word and {width or 'its'} numbers, got {found}"
                ) from error


def _binary(path: Path) -> Iterator[Row]:
    with _open(path) as file:
        header = file.readline(100).split()
        if len(header) != 2 or not all(field.isdigit() for field in header) or not 0 < int(header[1]) <= 4096:
            raise DataError(f"{path}:1: not word2vec binary: the first line must be the count and the width")
        count, width = map(int, header)
        for number in range(1, count + 1):
            word = b"".join(iter(lambda: _letter(file), b" ")).lstrip(b"\n")
            values = file.read(4 * width)
            if len(values) != 4 * width:
                raise DataError(f"{path}:{number}: the file ends inside vector {number} of {count}")
            yield number, word.decode("utf-8", errors="replace"), np.frombuffer(values, dtype="<f4")


def _letter(file: IO[bytes]) -> bytes:
    return file.read(1) or b" "


def _npz(path: Path) -> Iterator[Row]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vec"]
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}:1: expected an npz with arrays `words` (strings) and `vec`: {error}") from error
    if words.ndim != 1 or words.dtype.kind != "U" or vectors.dtype.kind != "f" or vectors.shape[:-1] != words.shape:
        raise DataError(f"{path}:1: expected words (N,) of strings and vec (N, W) of floats")
    return zip(itertools.count(1), words.tolist(), vectors)
