"""maskedcrf repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import ne
from typing import TYPE_CHECKING, Annotated

import typer

from maskedcrf.cli.options import (
    Comment,
    Delimiter,
    Files,
    InputFormat,
    Output,
    PrefixLast,
    Repair,
    SchemeName,
    TagColumn,
)

if TYPE_CHECKING:
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.tags.scheme import Scheme


def run(
    files: Files,
    strategy: Annotated[
        Repair, typer.Option(help="retain: write illegal segments legally; discard: make them outside.")
    ] = Repair.retain,
    scheme: SchemeName = "BIO",
    column: TagColumn = -1,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    input_format: InputFormat = "auto",
    output: Output = "-",
) -> None:
    """Rewrite illegal tags into legal ones; all else stays, comments and -DOCSTART- lines too.

    \b
    Example:
      maskedcrf repair --strategy discard predictions.conll > legal.conll
      maskedcrf repair --scheme BIOES train.conll.gz --output train.legal.conll.gz
    """
    from maskedcrf.cli.streams import chunks, note, output_text
    from maskedcrf.data.formats.conll import write_conll
    from maskedcrf.tags.scheme import Scheme

    scheme_ = Scheme.get(scheme, delimiter=delimiter, prefix_last=prefix_last)
    changed = tokens = 0
    with output_text(output) as text:
        for chunk in chunks(files, comment=comment, marks=True, input_format=input_format):
            repaired = list(_repair(chunk, column, scheme_, strategy.value))
            for before, after in zip(chunk, repaired, strict=True):
                if before is not after:
                    changed += sum(map(ne, before.columns[column], after.columns[column]))
            tokens += write_conll(repaired, text)
    note(f"{changed} of {tokens} tags changed ({scheme_.name}, {strategy.value})")


def _repair(chunk: Sequence[Sentence], number: int, scheme: Scheme, strategy: str) -> Iterator[Sentence]:
    """The sentences, those with an illegal step rewritten, the others as they are."""
    from maskedcrf.cli.streams import column
    from maskedcrf.data.gold import REPAIRS
    from maskedcrf.evaluation.check import located
    from maskedcrf.tags.segments import all_violations, read_known

    rewrite = REPAIRS[strategy]
    tags = column(chunk, number)
    with located(chunk):
        illegal = {owner for owner, _ in all_violations(tags, read_known(tags, scheme))}
    for index, sentence in enumerate(chunk):
        yield sentence.with_column(number, rewrite(tags[index], scheme)) if index in illegal else sentence
