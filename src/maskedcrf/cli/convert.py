"""maskedcrf convert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from maskedcrf.cli.options import Comment, Delimiter, Files, Output, PrefixLast, Repair, TagColumn

if TYPE_CHECKING:
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.tags.scheme import Scheme


def run(
    files: Files,
    source: Annotated[str, typer.Option("--from", help="Scheme the tags are in.")],
    target: Annotated[str, typer.Option("--to", help="Scheme to write.")],
    strategy: Annotated[
        Repair, typer.Option(help="What to do with segments that are illegal in --from.")
    ] = Repair.retain,
    column: TagColumn = -1,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    output: Output = "-",
) -> None:
    """Rewrite tags from one scheme into another; tokens, other columns, comments and -DOCSTART- lines stay.

    IO cannot part neighbours of one type: how many segments merge is said on standard error, and so is how many
    were illegal.

    \b
    Example:
      maskedcrf convert --from IOB1 --to BIOES eng.train > train.bioes.conll
    """
    from maskedcrf.cli.streams import chunks, note, written
    from maskedcrf.data.conll import write_conll
    from maskedcrf.tags.scheme import Scheme

    schemes = [Scheme.get(name, delimiter=delimiter, prefix_last=prefix_last) for name in (source, target)]
    illegal = merged = tokens = 0
    with written(output) as text:
        for chunk in chunks(files, comment=comment, marks=True):
            converted = _converted(chunk, column, schemes[0], schemes[1], keep_illegal=strategy is Repair.retain)
            illegal, merged = illegal + converted.illegal, merged + converted.merged
            tokens += write_conll(converted.sentences, text)
    note(f"{tokens} tags converted from {schemes[0].name} to {schemes[1].name}")
    if illegal:
        note(f"{illegal} segments are illegal in {schemes[0].name} ({strategy.value}); maskedcrf check lists them")
    if merged:
        note(f"{merged} segments merged with a neighbour of their type, which {schemes[1].name} cannot tell apart")


class _Converted(NamedTuple):
    sentences: list[Sentence]
    illegal: int
    merged: int


def _converted(
    chunk: Sequence[Sentence], number: int, source: Scheme, target: Scheme, *, keep_illegal: bool
) -> _Converted:
    import numpy as np

    from maskedcrf.cli.streams import column
    from maskedcrf.evaluation.check import located
    from maskedcrf.tags.segments import Segment, TagIds, encode, read, read_known

    tags = column(chunk, number)
    with located(chunk):
        found = read_known(tags, source)
    # All sentences are written in one go, one cell apart, so that segments of two sentences never touch.
    firsts = np.cumsum([0, *map(len, tags)])
    gaps = np.searchsorted(firsts[1:], found.start, side="right")
    kept = found.legal | keep_illegal
    places = zip(
        (found.start + gaps)[kept].tolist(),
        (found.end + gaps)[kept].tolist(),
        found.type_index[kept].tolist(),
        strict=True,
    )
    segments = [Segment(start, end, found.types[kind]) for start, end, kind in places]
    line = encode(segments, int(firsts[-1]) + len(tags), target)
    begins = (firsts[:-1] + np.arange(len(tags))).tolist()
    written = [line[begin : begin + len(own)] for begin, own in zip(begins, tags, strict=True)]
    merged = len(segments) - len(read(TagIds.of(written), target).start)
    sentences = [sentence.with_column(number, own) for sentence, own in zip(chunk, written, strict=True)]
    return _Converted(sentences, int((~found.legal).sum()), merged)
