"""maskedcrf convert."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.cli.options import (
    Comment,
    Delimiter,
    EntityColumn,
    Files,
    InputFormat,
    Misfit,
    Misfits,
    Output,
    Overlap,
    Overlaps,
    PrefixLast,
    Repair,
    SentenceSplitter,
    TagColumn,
    TokenizerName,
)
from maskedcrf.cli.terminal import write_bytes
from maskedcrf.errors import DataError, MaskedCRFError

if TYPE_CHECKING:
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.tags.scheme import Scheme


def run(
    files: Files,
    source: Annotated[str, typer.Option("--from", help="Scheme the tags are in, or spans are written in.")] = "BIO",
    target: Annotated[str | None, typer.Option("--to", help="Scheme to write; that of --from if left out.")] = None,
    to_format: Annotated[
        str | None,
        typer.Option(help="Format to write: conll, jsonl, doccano, labelstudio, brat, spacy, csv, parquet."),
    ] = None,
    input_format: InputFormat = "auto",
    strategy: Annotated[
        Repair, typer.Option(help="What to do with segments that are illegal in --from.")
    ] = Repair.retain,
    column: TagColumn = -1,
    entity_column: EntityColumn = None,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    tokenizer: TokenizerName = "simple",
    sentences: SentenceSplitter = "line",
    misfits: Misfits = Misfit.error,
    overlaps: Overlaps = Overlap.error,
    output: Output = "-",
) -> None:
    """Rewrite files from one format into another, and tags from one scheme into another.

    Columns that become columns keep their other columns, comments and -DOCSTART- lines. Changes are reported on
    standard error: segments that were illegal, neighbours of one type that IO merges, spans that fit no tokens.

    \b
    Example:
      maskedcrf convert --from IOB1 --to BIOES eng.train > train.bioes.conll
      maskedcrf convert project-1.json --to-format conll -o train.conll
      maskedcrf convert train.conll --to-format brat -o brat/
    """
    from maskedcrf.cli.streams import note
    from maskedcrf.data.annotation import ReadReport
    from maskedcrf.data.formats import find_format, read_sentences
    from maskedcrf.tags.scheme import Scheme

    found = [find_format(name) if input_format == "auto" else input_format for name in files]
    schemes = [Scheme.get(name, delimiter=delimiter, prefix_last=prefix_last) for name in (source, target or source)]
    counts = _Counts()
    if set(found) == {"conll"} and to_format in (None, "conll"):
        _rewrite_columns(files, output, column, comment, schemes, strategy, counts)
    else:
        report = ReadReport()
        options: dict[str, Any] = {"tag_column": column, "comment": comment, "entity_column": entity_column}
        options |= {"tokenizer": tokenizer, "sentences": sentences, "misfits": misfits.value, "report": report}
        options |= {"overlaps": overlaps.value, "scheme": schemes[0]}
        read = (
            sentence
            for name, form in zip(files, found, strict=True)
            for sentence in read_sentences(name, format=form, **options)  # type: ignore[arg-type]
        )
        _write(_convert_sentences(read, schemes, strategy, counts), to_format or "conll", output, schemes[1])
        if report.counts:
            note(str(report))
    counts.tell(schemes, strategy)


@dataclass(slots=True)
class _Counts:
    """What a conversion did to the tags."""

    tokens: int = 0
    illegal: int = 0
    merged: int = 0

    def tell(self, schemes: Sequence[Scheme], strategy: Repair) -> None:
        """Say it."""
        from maskedcrf.cli.streams import note

        source, target = schemes
        note(f"{self.tokens} tags converted from {source.name} to {target.name}")
        if self.illegal:
            note(f"{self.illegal} segments are illegal in {source.name} ({strategy.value}); maskedcrf check lists them")
        if self.merged:
            note(f"{self.merged} segments merged with a neighbour of their type, which {target.name} cannot tell apart")


def _rewrite_columns(
    files: Sequence[str],
    output: str,
    number: int,
    comment: str | None,
    schemes: Sequence[Scheme],
    strategy: Repair,
    counts: _Counts,
) -> None:
    """Columns to columns: only the tags change."""
    from maskedcrf.cli.streams import chunks, column, output_text
    from maskedcrf.data.formats.conll import write_conll

    with output_text(output) as text:
        for chunk in chunks(files, comment=comment, marks=True):
            tags = _convert_chunk(chunk, column(chunk, number), schemes, strategy, counts)
            sentences = [sentence.with_column(number, own) for sentence, own in zip(chunk, tags, strict=True)]
            counts.tokens += write_conll(sentences, text)


def _convert_sentences(
    sentences: Iterable[Sentence], schemes: Sequence[Scheme], strategy: Repair, counts: _Counts
) -> Iterator[Sentence]:
    """The sentences with their tags converted; those without tags stay so."""
    from maskedcrf.data.sentence import in_chunks

    for chunk in in_chunks(sentences):
        tags = _convert_chunk(chunk, [sentence.tags or () for sentence in chunk], schemes, strategy, counts)
        for sentence, own in zip(chunk, tags, strict=True):
            counts.tokens += len(own)
            yield sentence if sentence.tags is None else replace(sentence, tags=tuple(own), columns=())


def _write(sentences: Iterator[Sentence], to_format: str, output: str, scheme: Scheme) -> None:
    """The sentences in a format: a folder, a file, or standard output."""

    from maskedcrf.data.formats import FORMATS, WRITABLE, to_bytes, to_files
    from maskedcrf.files import atomic_file
    from maskedcrf.folders import atomic_folder

    if to_format not in WRITABLE:
        raise DataError(f"{to_format!r} cannot be written; known are {', '.join(WRITABLE)}")
    if FORMATS[to_format].write_files is not None:
        if output == "-" or Path(output).exists():
            raise MaskedCRFError(f"{to_format} is a folder of files: name a new one with --output")
        with atomic_folder(Path(output)) as folder:
            for name, content in to_files(sentences, to_format, scheme=scheme):
                (folder / name).write_bytes(content)
    elif output == "-":
        for content in list(to_bytes(sentences, to_format, scheme=scheme)):
            write_bytes(content)
    else:
        with atomic_file(output) as handle:
            for content in to_bytes(sentences, to_format, scheme=scheme):
                handle.write(content)


def _convert_chunk(
    chunk: Sequence[Sentence],
    tags: Sequence[Sequence[str]],
    schemes: Sequence[Scheme],
    strategy: Repair,
    counts: _Counts,
) -> list[list[str]]:
    """The tags of each sentence in the second scheme."""
    import numpy as np

    from maskedcrf.evaluation.check import located
    from maskedcrf.tags.segments import Segment, TagIds, encode, read, read_known

    source, target = schemes
    with located(chunk):
        found = read_known(tags, source)
    # All sentences are written in one go, one cell apart, so that segments of two sentences never touch.
    firsts = np.cumsum([0, *map(len, tags)])
    gaps = np.searchsorted(firsts[1:], found.start, side="right")
    kept = found.legal | (strategy is Repair.retain)
    places = zip(
        (found.start + gaps)[kept].tolist(),
        (found.end + gaps)[kept].tolist(),
        found.type_index[kept].tolist(),
        strict=True,
    )
    segments = [Segment(start, end, found.types[kind]) for start, end, kind in places]
    line = encode(segments, int(firsts[-1]) + len(tags), target)
    begins = (firsts[:-1] + np.arange(len(tags))).tolist()
    output_text = [line[begin : begin + len(own)] for begin, own in zip(begins, tags, strict=True)]
    counts.merged += len(segments) - len(read(TagIds.of(output_text), target).start)
    counts.illegal += int((~found.legal).sum())
    return output_text
