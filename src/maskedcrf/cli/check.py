"""maskedcrf check."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.cli.options import (
    AsJson,
    Comment,
    Delimiter,
    EntityColumn,
    Files,
    InputFormat,
    PrefixLast,
    SentenceSplitter,
    TagColumn,
    TokenizerName,
)
from maskedcrf.cli.terminal import echo, printable

if TYPE_CHECKING:
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.evaluation.check import Checked
    from maskedcrf.tags.scheme import Scheme


def run(
    files: Files,
    scheme: Annotated[str | None, typer.Option(help="Tag scheme; left out, one is suggested.")] = None,
    column: TagColumn = -1,
    entity_column: EntityColumn = None,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    input_format: InputFormat = "auto",
    tokenizer: TokenizerName = "simple",
    sentences: SentenceSplitter = "line",
    as_json: AsJson = False,
) -> None:
    """Count sentences, tokens and types, and list every illegal transition as file:line. -DOCSTART- lines do not count.

    Files of any format. Where they hold spans, those that fit no tokens, or overlap, are listed with the nearest
    boundaries. Exit code: 0 if all is well, 1 if anything is listed, 2 if the file cannot be read.
    Without --scheme the likeliest scheme is suggested and used for the list; the others that fit are named.

    \b
    Example:
      maskedcrf check train.conll
      maskedcrf check --scheme IOB1 --json eng.train eng.testa
    """
    from maskedcrf.cli.streams import labelled_chunks, note, print_json
    from maskedcrf.data.annotation import ReadReport
    from maskedcrf.evaluation.check import Checked, check
    from maskedcrf.tags.scheme import Scheme

    report = ReadReport()
    reading: dict[str, Any] = {"comment": comment, "entity_column": entity_column, "input_format": input_format}
    reading |= {"tokenizer": tokenizer, "splitter": sentences}
    read = partial(labelled_chunks, files, number=column, report=report, **reading)
    if scheme is None:
        if delimiter != "-" or prefix_last:
            raise typer.BadParameter("say --scheme too when you say how tags are written")
        chosen, found, others = _suggest_scheme(read(), ",".join(files))
    else:
        chosen = Scheme.get(scheme, delimiter=delimiter, prefix_last=prefix_last)
        found, others = sum((check(chunk, chosen) for chunk in read()), Checked()), []
    misfits = [place.rpartition("; dropped")[0] or place for place in report.places]  # a check changes nothing
    if as_json:
        read_as = {"spans": misfits, "left_out": report.counts} if report.counts else {}
        print_json({**_answer(found, chosen, others, suggested=scheme is None), **read_as})
    else:
        for line in misfits:
            echo(line)
        if report.counts:
            note(str(report).split("\n")[0])
        _show(found, chosen, others, suggested=scheme is None)
    if found.illegal or report.places:
        raise typer.Exit(1)


def _suggest_scheme(chunks: Iterable[list[Sentence]], files: str) -> tuple[Scheme, Checked, list[tuple[str, int]]]:
    """The likeliest scheme, what a check by it finds, and what else fits with how many illegal transitions."""
    from dataclasses import replace

    from maskedcrf.errors import DataError
    from maskedcrf.evaluation.check import check
    from maskedcrf.tags.segments import suggest_schemes

    known: dict[str, str] = {}
    kept: list[Sentence] = []
    for chunk in chunks:
        for sentence in chunk:
            # One string per tag, and no words: the whole corpus must be seen before a scheme can be suggested.
            tags = tuple(known.setdefault(tag, tag) for tag in sentence.tags or ())
            kept.append(replace(sentence, tags=tags, tokens=(), columns=()))
    suggestions = suggest_schemes([sentence.tags or () for sentence in kept])
    if not suggestions:
        some = ", ".join(sorted(known)[:8])
        raise DataError(f"{files}: no scheme has all of these tags: {some}; is --column right? else say --scheme")
    chosen = suggestions[0].scheme
    return chosen, check(kept, chosen), [(_name(each.scheme), each.illegal) for each in suggestions[1:]]


def _name(scheme: Scheme) -> str:
    return f"{scheme.name} (prefix last)" if scheme.prefix_last else scheme.name


def _answer(found: Checked, scheme: Scheme, others: list[tuple[str, int]], *, suggested: bool) -> dict[str, object]:
    return {
        "scheme": scheme.name,
        "prefix_last": scheme.prefix_last,
        "suggested": suggested,
        "other_schemes": dict(others),
        "sentences": found.sentences,
        "tokens": found.tokens,
        "types": dict(sorted(found.types.items())),
        "illegal": [step.to_dict() for step in found.illegal],
    }


def _show(found: Checked, scheme: Scheme, others: list[tuple[str, int]], *, suggested: bool) -> None:
    steps = [(f"{step.file}:{step.line}", step.previous or "(start)", step.tag or "(end)") for step in found.illegal]
    if steps and sys.stdout.isatty():
        from rich.table import Table

        from maskedcrf.cli.streams import print_table

        table = Table("where", "from", "to", title=f"illegal in {_name(scheme)}")
        for step in steps:
            table.add_row(*map(printable, step))
        print_table(table)
    else:
        for where, before, after in steps:
            echo(f"{where}: {before} -> {after} is illegal in {_name(scheme)}")
    types = ", ".join(f"{kind or '(bare)'} {number}" for kind, number in sorted(found.types.items()))
    echo(f"{found.sentences} sentences, {found.tokens} tokens, {len(found.types)} types: {types or 'none'}")
    echo(f"{len(steps)} illegal transition{'s' * (len(steps) != 1)} under {_name(scheme)}")
    if suggested:
        rest = ", ".join(f"{name} ({illegal} illegal)" for name, illegal in others) or "nothing else"
        echo(f"no --scheme given: {_name(scheme)} is a suggestion; these tags can also be read as: {rest}")
