"""tag_files: files in, tagged files out, on Ray Data.

One ordered stream: files are cut into pieces, the pieces are spread over the workers, and come back in their order to
be written. Ray Data repeats what a lost worker had in hand and holds the cutting back while results wait; here every
piece is counted, so that a file appears only when all of its pieces have come, each once.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maskedcrf.bulk.cluster import Cluster, allocate_workers, check_reachable, connect_ray, import_ray
from maskedcrf.bulk.formats import cut, tag
from maskedcrf.bulk.output import COUNTS, Manifest, OutputFile, Source, find_sources
from maskedcrf.bulk.rows import Options, Piece
from maskedcrf.data.tokenizers import change_tokenizer
from maskedcrf.errors import DataError, MaskedCRFError

if TYPE_CHECKING:
    from maskedcrf.onnx.tagger import OnnxTagger
    from maskedcrf.tagger import Tagger

GPU_PIECE = 8
"""A GPU gets this many times larger pieces: it takes more at a time."""
READERS = 2
"""Files that are cut at a time: the next one is open when one ends."""
PIECES_PER_WORKER = 2
"""Pieces that a worker has at a time: one in hand, and the next."""


@dataclass(slots=True)
class Progress:
    """How far a run is; sentences, tokens and rejected rows count those of the files it found finished, too."""

    files: int
    skipped: int = 0
    finished: int = 0
    sentences: int = 0
    tokens: int = 0
    rejected: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Files that could not be read, with the reason; they have no output."""
    workers: int = 0
    device: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether every row of every file was tagged."""
        return not self.rejected and not self.failed

    def count(self, counts: Mapping[str, int], *, sign: int = 1) -> None:
        """Add these counts, or with -1 take them back."""
        self.sentences += sign * counts["sentences"]
        self.tokens += sign * counts["tokens"]
        self.rejected += sign * counts["rejected"]


def tag_files(
    model: str | Path,
    inputs: Iterable[str | Path],
    *,
    output: str | Path,
    options: Options | None = None,
    cluster: Cluster | None = None,
    form: str | None = None,
    overwrite: bool = False,
) -> Iterator[Progress]:
    """Tag files into a folder; yields how far it is, after every piece, and last when all is done.

    What an earlier run with the same model and options has finished is skipped. Every node must see model and inputs
    under the same paths; the output is written by the process that calls this.
    """
    import_ray()
    options, cluster, folder = options or Options(), cluster or Cluster(), Path(output)
    if cluster.address:
        check_reachable(cluster.address)
    sources = find_sources(inputs, folder, form=form)
    if options.probabilities and any(source.form == "conll" for source in sources):
        raise DataError("columns have no room for probabilities; give Parquet or JSON lines")
    model = Path(model).absolute()
    _check(model, options)
    with Manifest.open(folder, _run_fingerprint(model, options), overwrite=overwrite) as manifest:
        pending = [source for source in sources if not manifest.has(source)]
        if manifest.is_new and not overwrite:
            _refuse_foreign(pending, folder)
        progress = Progress(len(sources), skipped=len(sources) - len(pending))
        for source in sources:
            progress.count(manifest.counts(source), sign=int(source not in pending))
        if pending:
            yield from _run(model, pending, folder, options, cluster, manifest, progress)
        yield progress


def load_tagger(model: Path, options: Options, device: str = "cpu") -> Tagger | OnnxTagger:
    """The tagger of a model folder or of an ONNX file, with one thread: there are as many workers as cores."""
    tagger: Tagger | OnnxTagger
    if model.suffix == ".onnx":
        from maskedcrf.onnx.tagger import OnnxTagger

        tagger = OnnxTagger.load(model, threads=1, trusted=options.trusted)
    else:
        from maskedcrf.tagger import Tagger

        tagger = Tagger.load(model, device=device)
    change_tokenizer(tagger, options.tokenizer, options.sentences)
    return tagger


def _check(model: Path, options: Options) -> None:
    """Refuse here, before anything is started, what every worker would refuse."""
    next(iter(load_tagger(model, options).stream(["a"], **options.question)))


def _run_fingerprint(model: Path, options: Options) -> dict[str, Any]:
    """What the output depends on: the model's bytes and the options, save those that change nothing in it."""
    digest = hashlib.sha256()
    for path in sorted(model.rglob("*")) if model.is_dir() else [model]:
        if path.is_file():
            digest.update(path.name.encode() + b"\0")
            with path.open("rb") as handle:
                digest.update(hashlib.file_digest(handle, "sha256").digest())
    settings = {name: value for name, value in asdict(options).items() if name not in ("piece", "trusted")}
    return {"maskedcrf": "tag", "model": digest.hexdigest(), **settings}


def _refuse_foreign(sources: Sequence[Source], folder: Path) -> None:
    for source in sources:
        if (folder / source.name).exists():
            raise DataError(f"{folder / source.name}: is there already, and not from this command; say --overwrite")


def _run(
    model: Path,
    sources: Sequence[Source],
    folder: Path,
    options: Options,
    cluster: Cluster,
    manifest: Manifest,
    progress: Progress,
) -> Iterator[Progress]:
    with connect_ray(cluster) as ray:
        progress.workers, progress.device = allocate_workers(ray, cluster, gpu_able=model.is_dir())
        if progress.device == "cuda":
            options = replace(options, piece=options.piece * GPU_PIECE)
        with (
            _quiet(ray, options) as context,
            ray.data.DataContext.current(context),
            closing(_results(ray, model, sources, options, progress)) as results,
        ):
            yield from _write(results, sources, folder, manifest, progress)


@contextmanager
def _quiet(ray: Any, options: Options) -> Iterator[Any]:
    """Settings of the stream: in order, in small blocks, without Ray Data's own bars and lines."""
    context = ray.data.DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.target_max_block_size = options.piece  # a piece is a block
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logger = logging.getLogger("ray.data")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield context
    finally:
        logger.setLevel(before)


def _results(
    ray: Any, model: Path, sources: Sequence[Source], options: Options, progress: Progress
) -> Generator[dict[str, Any], None, None]:
    """What the workers give back, in the order of the files and of their pieces."""
    items = [{"file": number, "path": source.path, "form": source.form} for number, source in enumerate(sources)]
    needs = {"num_gpus": 1} if progress.device == "cuda" else {"num_cpus": 1}
    stream = (
        ray.data.from_items(items, override_num_blocks=len(items))
        .map_batches(
            _cut_files,
            batch_size=1,
            batch_format="pyarrow",
            fn_kwargs={"options": options},
            compute=ray.data.TaskPoolStrategy(size=min(READERS, len(items))),
            num_cpus=0.25,
        )
        .map_batches(
            _Worker,
            batch_size=1,
            batch_format="pyarrow",
            fn_constructor_kwargs={"model": str(model), "device": progress.device, "options": options},
            compute=ray.data.ActorPoolStrategy(size=progress.workers, max_tasks_in_flight_per_actor=PIECES_PER_WORKER),
            **needs,
        )
    )
    try:
        for block in stream.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from block.to_pylist()
    except ray.exceptions.RayError as error:
        raise MaskedCRFError(f"a worker failed ({_cause(error)}); finished files are kept, run again") from error


def _cause(error: BaseException) -> str:
    """What went wrong at the bottom of Ray's layers, in one line."""
    below = getattr(error, "cause", None) or error.__cause__
    if isinstance(below, BaseException) and below is not error:
        return _cause(below)
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def _cut_files(batch: Any, *, options: Options) -> Iterator[Any]:
    """A row for each piece of the files of a batch, and one that says how many there were."""
    for item in batch.to_pylist():
        number, failed = 0, ""
        try:
            for piece in cut(item["path"], item["form"], options):
                yield _row({**item, "number": number, **piece._asdict()}, _CUT)
                number += 1
        except DataError as error:
            failed = str(error)
        yield _row({**item, "number": number, "ends": True, "failed": failed}, _CUT)


class _Worker:
    """A process with a model."""

    def __init__(self, *, model: str, device: str, options: Options) -> None:
        if not model.endswith(".onnx"):
            import torch

            torch.set_num_threads(1)
        self._tagger = load_tagger(Path(model), options, device)
        self._options = options

    def __call__(self, batch: Any) -> Iterator[Any]:
        for row in batch.to_pylist():
            yield _row(row if row["ends"] else self._tag_piece(row), _DONE)

    def _tag_piece(self, row: dict[str, Any]) -> dict[str, Any]:
        piece = Piece(row["first"], row["content"], row["layout"])
        done = tag(self._tagger, piece, path=row["path"], form=row["form"], options=self._options)
        rejects = "".join(json.dumps(reject, ensure_ascii=False) + "\n" for reject in done.rejects)
        counts = {"sentences": done.sentences, "tokens": done.tokens, "rejected": len(done.rejects)}
        return {**row, "content": done.content, "rejects": rejects.encode("utf-8", "backslashreplace"), **counts}


_HEAD = {"file": 0, "number": 0, "ends": False, "failed": "", "content": b""}
_CUT = {**_HEAD, "path": "", "form": "", "first": 0, "layout": ""}
_DONE = {**_HEAD, "rejects": b"", "sentences": 0, "tokens": 0, "rejected": 0}
"""What a row on the way to the workers and back from them holds, with the values it has if nothing is said."""


def _row(values: dict[str, Any], fields: dict[str, Any]) -> Any:
    """A table of one row with these fields and no others."""
    import pyarrow as pa

    kinds = {int: pa.int64(), bool: pa.bool_(), str: pa.string(), bytes: pa.large_binary()}
    columns = {n: pa.array([values.get(n, default)], kinds[type(default)]) for n, default in fields.items()}
    return pa.table(columns)


def _write(
    results: Iterator[dict[str, Any]], sources: Sequence[Source], folder: Path, manifest: Manifest, progress: Progress
) -> Iterator[Progress]:
    """Write what comes, file by file; each must come whole and in order, or the run stops."""
    states = [source.state() for source in sources]  # before they are read: what changes later is tagged again
    for number, (source, state) in enumerate(zip(sources, states, strict=True)):
        target = OutputFile(folder, source)
        counts = Counter({name: 0 for name in COUNTS})
        try:
            for row in _pieces_of(results, number, source):
                target.write(row["content"], row["rejects"])
                counts.update({name: row[name] for name in COUNTS})
                progress.count(row)
                yield progress
            target.finish()
            manifest.add(source, state, counts)
            progress.finished += 1
        except _FailedError as error:
            progress.failed[source.path] = str(error)
            progress.count(counts, sign=-1)
        finally:
            target.drop()
    if next(results, None) is not None:
        raise MaskedCRFError("more came back than was sent; please report this")


class _FailedError(Exception):
    """The file could not be read to its end."""


def _pieces_of(results: Iterator[dict[str, Any]], number: int, source: Source) -> Iterator[dict[str, Any]]:
    expected = 0
    for row in results:
        if (row["file"], row["number"]) != (number, expected):
            break
        if row["ends"]:
            if row["failed"]:
                raise _FailedError(row["failed"])
            return
        yield row
        expected += 1
    raise MaskedCRFError(f"{source.path}: piece {expected} is missing; run again, finished files are kept")
