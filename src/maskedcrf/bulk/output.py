"""Where results go: one output a file, which appears whole or not at all, and a manifest of those that are done."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from maskedcrf.bulk.tables import TableSink
from maskedcrf.data.formats import FORMATS, find_format
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.files import format_from_suffix
from maskedcrf.folders import flush

MANIFEST = "manifest.jsonl"
REJECTS = ".rejects.jsonl"
PART = ".part"
FORM_OF = {"parquet": "parquet", "jsonl": "jsonl", "doccano": "jsonl", "prodigy": "jsonl", "conll": "conll"}
"""How files of a format are tagged: doccano's and Prodigy's are JSON lines, of which every field is kept."""
COUNTS = ("sentences", "tokens", "rejected")


@dataclass(frozen=True, slots=True)
class Source:
    """A file to tag, and the name of its output inside the output folder."""

    path: str
    form: str
    name: str

    def state(self) -> dict[str, Any]:
        """What tells whether the file has changed since."""
        found = Path(self.path).stat()
        return {"source": self.path, "size": found.st_size, "modified": found.st_mtime_ns}


def find_sources(inputs: Iterable[str | Path], output: Path, *, form: str | None = None) -> list[Source]:
    """The files to tag: those given, and those with a known ending below folders given, in the order of their names.

    A file keeps its name; one found below a folder keeps its path from there. Two that would get the same are refused.
    """
    sources: list[Source] = []
    for given in map(Path, inputs):
        if given.is_dir():
            if output.resolve().is_relative_to(given.resolve()):
                raise DataError(f"{output}: lies inside the input folder {given}; give an output folder outside it")
            found = [path for path in sorted(given.rglob("*")) if path.is_file() and not _is_hidden(path, given)]
            sources += [_source(path, str(path.relative_to(given)), form) for path in found if format_from_suffix(path)]
        elif given.is_file():
            sources.append(_source(given, given.name, form))
        else:
            raise DataError(f"{given}: no such file or folder; check the path")
    if not sources:
        raise DataError("nothing to tag: no file here ends in .parquet, .jsonl or .conll; name the files")
    _refuse_collisions(sources, output)
    return sources


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _source(path: Path, name: str, form: str | None) -> Source:
    found = form or FORM_OF.get(find_format(path))
    if found is None:
        raise DataError(
            f"{path}: {FORMATS[find_format(path)].what}; what is tagged here is Parquet, JSON lines and columns: "
            "use maskedcrf predict, or maskedcrf convert, or say --input-format"
        )
    return Source(str(path.absolute()), found, name)


def _refuse_collisions(sources: Sequence[Source], output: Path) -> None:
    owners: dict[str, str] = {MANIFEST: "the manifest"}
    given = {os.path.realpath(source.path) for source in sources}
    for source in sources:
        for name in (source.name, source.name + REJECTS):
            if name in owners:
                hint = "give their common folder as input, which keeps them apart"
                raise DataError(f"{source.path}: its output {name} would be that of {owners[name]}; {hint}")
            owners[name] = source.path
            if os.path.realpath(output / name) in given:
                raise DataError(f"{output / name}: is an input itself; give another output folder")


class Manifest:
    """The list of finished outputs, one JSON line each after a first that says how they were made."""

    def __init__(self, handle: IO[bytes], folder: Path, done: dict[str, dict[str, Any]], *, is_new: bool) -> None:
        self._handle = handle
        self._folder = folder
        self._done = done
        self.is_new = is_new
        """Whether the folder had no manifest before."""

    @staticmethod
    @contextmanager
    def open(folder: Path, made: Mapping[str, Any], *, overwrite: bool) -> Iterator[Manifest]:
        """The folder's manifest, for this run alone; outputs of another model or other options are refused."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MaskedCRFError(f"{folder}: {error.strerror}; give a folder that can be written") from error
        with (folder / MANIFEST).open("a+b") as handle:
            _lock(handle, folder)
            header, done = _read(handle)
            is_new = header is None
            if overwrite or header is None:
                handle.truncate(0)
                header, done = dict(made), {}
                _append(handle, header)
            if header != made:
                raise MaskedCRFError(
                    f"{folder}: holds the output of another model or of other options; "
                    "give another folder, or say --overwrite"
                )
            yield Manifest(handle, folder, done, is_new=is_new)

    def has(self, source: Source) -> bool:
        """Whether this very file was tagged and its output is there."""
        entry = self._done.get(source.name)
        if entry is None or any(entry.get(key) != value for key, value in source.state().items()):
            return False
        names = [source.name, *([source.name + REJECTS] if entry.get("rejected") else [])]
        return all((self._folder / name).is_file() for name in names)

    def counts(self, source: Source) -> dict[str, int]:
        """How much an earlier run found in this file; zeros if none did."""
        entry = self._done.get(source.name, {})
        return {name: entry.get(name, 0) for name in COUNTS}

    def add(self, source: Source, state: Mapping[str, Any], counts: Mapping[str, int]) -> None:
        """Record a finished output."""
        entry = {"file": source.name, **state, **counts}
        self._done[source.name] = entry
        _append(self._handle, entry)


def _lock(handle: IO[bytes], folder: Path) -> None:
    with suppress(ImportError):  # elsewhere than on Unix, two runs at once are the user's to avoid
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MaskedCRFError(f"{folder}: another run is writing here; wait for it") from error


def _read(handle: IO[bytes]) -> tuple[dict[str, Any] | None, dict[str, dict[str, Any]]]:
    """The header and the entries by output; a last line that a killed run left unfinished is cut off."""
    handle.seek(0)
    content = handle.read()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        handle.truncate(len(whole))
    try:
        header, *entries = [json.loads(line) for line in whole.splitlines()] or [None]
        return header, {entry["file"]: entry for entry in entries}
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{handle.name}: not a manifest of `maskedcrf tag`; give another output folder") from error


def _append(handle: IO[bytes], entry: Mapping[str, Any]) -> None:
    handle.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
    handle.flush()
    os.fsync(handle.fileno())


class Sink(Protocol):
    """Takes a file's pieces one after the other."""

    def write(self, content: bytes) -> Any:
        """Add a piece."""

    def close(self) -> None:
        """Finish the file."""


class OutputFile:
    """One output on its way, and the rows set aside; `finish` makes both appear, `drop` leaves no trace."""

    def __init__(self, folder: Path, source: Source) -> None:
        self._path = folder / source.name
        self._rejects = folder / (source.name + REJECTS)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._parts = [_aside(self._path), _aside(self._rejects)]
        self._raw = [part.open("wb") for part in self._parts]
        self._sink = _sink(self._raw[0], source)
        self._set_aside = 0

    def write(self, content: bytes, rejects: bytes) -> None:
        """Add the rows of a piece."""
        with self._report_errors():
            self._sink.write(content)
            self._set_aside += self._raw[1].write(rejects)

    def finish(self) -> None:
        """Make the output appear, or leave things as they were."""
        with self._report_errors():
            self._finish()

    def drop(self) -> None:
        """Leave nothing behind."""
        for raw, part in zip(self._raw, self._parts, strict=True):
            with suppress(OSError):  # on a full disk, of what has not been written yet
                raw.close()
            part.unlink(missing_ok=True)

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "finished files are kept, make room and run again"
            raise MaskedCRFError(f"{self._path}: {error.strerror or error}; {hint}") from error

    def _finish(self) -> None:
        """The rejects first: where the output stands, everything that belongs to it does."""
        self._sink.close()
        for raw in self._raw:
            raw.flush()
            os.fsync(raw.fileno())
            raw.close()
        if self._set_aside:
            self._parts[1].replace(self._rejects)
        else:
            self._parts[1].unlink()
            self._rejects.unlink(missing_ok=True)
        self._parts[0].replace(self._path)
        flush(self._path.parent)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}{PART}")


def _sink(raw: IO[bytes], source: Source) -> Sink:
    if source.form == "parquet":
        return TableSink(raw)
    packed = source.name.lower().endswith(".gz")
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if packed else _Plain(raw)


class _Plain:
    def __init__(self, raw: IO[bytes]) -> None:
        self.write = raw.write

    def close(self) -> None:
        """The file itself is closed by its owner, who flushes it first."""
