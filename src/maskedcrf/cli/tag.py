"""maskedcrf tag."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maskedcrf.cli.options import (
    DEVICE,
    AsJson,
    Comment,
    DecodingChoice,
    OwnSplitter,
    OwnTokenizer,
    SegmentThreshold,
    Trust,
    stream_decoding,
)
from maskedcrf.files import SUFFIXES

if TYPE_CHECKING:
    from maskedcrf.bulk.run import Progress


NAMES = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
FIELD = (
    "Field of tokens or text; else `tokens`, then `text`. Offsets of tokens are those of the tokens joined by spaces."
)


class Form(StrEnum):
    """What the files are."""

    auto = "auto"
    parquet = "parquet"
    jsonl = "jsonl"
    conll = "conll"


class Device(StrEnum):
    """What workers run on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


WorkersOption = Annotated[
    int | None, typer.Option(help="Number of workers; by default one per GPU, else one per core.", min=1)
]
AddressOption = Annotated[
    str | None, typer.Option(help="A running Ray cluster: host:port of its head, or auto; else this machine.")
]


def run(
    model: Annotated[Path, typer.Argument(help="Model folder, as `maskedcrf train` writes it, or .onnx file.")],
    inputs: Annotated[list[Path], typer.Argument(help=f"Files ({NAMES}), or folders of them.", metavar="INPUT...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results; finished files are skipped.")],
    workers: WorkersOption = None,
    address: AddressOption = None,
    device: Annotated[Device, typer.Option(help=DEVICE)] = Device.auto,
    input_format: Annotated[Form, typer.Option(help="Format of the files; auto recognises it by content.")] = Form.auto,
    field: Annotated[str | None, typer.Option(help=FIELD)] = None,
    prefix: Annotated[str, typer.Option(help="Prefix for the names of the added fields.")] = "",
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Exact probability of each entity.")] = False,
    token_column: Annotated[int, typer.Option(help="Column of the tokens in a column file.")] = 0,
    comment: Comment = None,
    tokenizer: OwnTokenizer = None,
    sentences: OwnSplitter = None,
    decoding: DecodingChoice = None,
    segment_threshold: SegmentThreshold = None,
    longest: Annotated[int, typer.Option(help="Set aside sentences of more tokens than this.", min=1)] = 50_000,
    temp_dir: Annotated[Path | None, typer.Option(help="Where Ray keeps its own files; else below /tmp.")] = None,
    trust: Trust = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start over and replace what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tag many files at once: Parquet, JSON lines or columns, packed with gzip or not.

    Each file is written under its name into the output folder, with tags and entities added, when it is whole.
    Rows that cannot be tagged go to NAME.rejects.jsonl with the reason. A run that was stopped goes on with the files
    that are not finished. Exit code 0: every row was tagged; 1: some were set aside, or a file could not be read.

    \b
    Example:
      maskedcrf tag my-model news/ --output tagged --workers 8
      maskedcrf tag my-model a.parquet b.parquet -o tagged --address head:6379
    """
    from maskedcrf.bulk.cluster import Cluster
    from maskedcrf.bulk.rows import Options
    from maskedcrf.bulk.run import tag_files
    from maskedcrf.cli.streams import note, print_json

    given = {"tokenizer": tokenizer, "sentences": sentences, **stream_decoding(decoding, segment_threshold)}
    options = Options(field, prefix, probabilities, token_column, comment, longest)
    steps = tag_files(
        model,
        inputs,
        output=output,
        options=replace(options, trusted=trust, **given),
        cluster=Cluster(address, workers, device.value, temp_dir),
        form=None if input_format is Form.auto else input_format.value,
        overwrite=overwrite,
    )
    progress = _run_with_hint(steps, overwrite=overwrite)
    for reason in progress.failed.values():
        note(reason)
    if as_json:
        print_json({**asdict(progress), "output": str(output)})
    else:
        note(_summary(progress, output))
    if not progress.is_complete:
        raise typer.Exit(1)


def _run_with_hint(steps: Iterable[Progress], *, overwrite: bool) -> Progress:
    """Run to the end and return the last count; after Ctrl-C, say how to resume."""
    from maskedcrf.cli.streams import note

    try:
        return _show_progress(steps)
    except KeyboardInterrupt:
        same = "the same command without --overwrite" if overwrite else "the same command"
        note(f"stopped; finished files are kept, {same} does the rest")
        raise


def _show_progress(steps: Iterable[Progress]) -> Progress:
    """The last tally; on a terminal, each is shown on one line."""
    start, before = time.monotonic(), None
    is_terminal = sys.stderr.isatty()
    try:
        for progress in steps:
            if is_terminal:
                before = progress.sentences if before is None else before
                rate = (progress.sentences - before) / max(time.monotonic() - start, 1e-3)
                done = f"{progress.skipped + progress.finished} of {progress.files} files"
                rejected = f", {progress.rejected:,} set aside" if progress.rejected else ""
                line = f"{done}, {progress.sentences:,} sentences{rejected}, {rate:,.0f} a second"
                print(f"\r{line}", end="\033[K", file=sys.stderr, flush=True)
    finally:
        if is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    return progress


def _summary(progress: Progress, output: Path) -> str:
    files = progress.finished + progress.skipped
    parts = [f"{progress.sentences:,} sentences, {progress.tokens:,} tokens in {files} files"]
    parts += [f"{progress.skipped} of them done before"] if progress.skipped else []
    parts += [f"{progress.rejected:,} rows set aside, see *.rejects.jsonl below {output}"] if progress.rejected else []
    parts += [f"{len(progress.failed)} files could not be read"] if progress.failed else []
    return "; ".join(parts)
