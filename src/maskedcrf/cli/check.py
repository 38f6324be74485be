"""maskedcrf check."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from maskedcrf.cli.options import AsJson, Comment, Delimiter, Files, PrefixLast, TagColumn

if TYPE_CHECKING:
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.evaluation.check import Checked
    from maskedcrf.tags.scheme import Scheme


def run(
    files: Files,
    scheme: Annotated[str | None, typer.Option(help="Tag scheme; left out, one is suggested.")] = None,
    column: TagColumn = -1,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    as_json: AsJson = False,
) -> None:
    """Count sentences, tokens and types, and list every illegal transition as file:line. -DOCSTART- lines do not count.

    Exit code: 0 if all is legal, 1 if a transition is illegal, 2 if the file cannot be read.
    Without --scheme the likeliest scheme is suggested and used for the list; the others that fit are named.

    \b
    Example:
      maskedcrf check train.conll
      maskedcrf check --scheme IOB1 --json eng.train eng.testa
    """
    from maskedcrf.cli.streams import print_json
    from maskedcrf.tags.scheme import Scheme

    if scheme is None:
        if delimiter != "-" or prefix_last:
            raise typer.BadParameter("say --scheme too when you say how tags are written")
        chosen, found, others = _suggested(files, column, comment)
    else:
        chosen = Scheme.get(scheme, delimiter=delimiter, prefix_last=prefix_last)
        found, others = _checked(files, column, comment, chosen), []
    if as_json:
        print_json(_answer(found, chosen, others, suggested=scheme is None))
    else:
        _show(found, chosen, others, suggested=scheme is None)
    if found.illegal:
        raise typer.Exit(1)


def _checked(files: Sequence[str], column: int, comment: str | None, scheme: Scheme) -> Checked:
    from maskedcrf.cli.streams import chunks
    from maskedcrf.evaluation.check import Checked, check

    found = [check(_tagged(chunk, column), scheme) for chunk in chunks(files, comment=comment)]
    return sum(found, Checked())


def _tagged(chunk: Sequence[Sentence], number: int) -> list[Sentence]:
    """The sentences with this column as their tags."""
    from dataclasses import replace

    from maskedcrf.cli.streams import column

    return [replace(each, tags=tags) for each, tags in zip(chunk, column(chunk, number), strict=True)]


def _suggested(files: Sequence[str], column: int, comment: str | None) -> tuple[Scheme, Checked, list[tuple[str, int]]]:
    """The likeliest scheme, what a check by it finds, and what else fits with how many illegal transitions."""
    from dataclasses import replace

    from maskedcrf.cli.streams import chunks
    from maskedcrf.errors import DataError
    from maskedcrf.evaluation.check import check
    from maskedcrf.tags.segments import suggest_schemes

    known: dict[str, str] = {}
    kept: list[Sentence] = []
    for chunk in chunks(files, comment=comment):
        for sentence in _tagged(chunk, column):
            # One string per tag, and no words: the whole corpus must be seen before a scheme can be suggested.
            tags = tuple(known.setdefault(tag, tag) for tag in sentence.tags or ())
            kept.append(replace(sentence, tags=tags, tokens=(), columns=()))
    suggestions = suggest_schemes([sentence.tags or () for sentence in kept])
    if not suggestions:
        some = ", ".join(sorted(known)[:8])
        raise DataError(
            f"{','.join(files)}: no scheme has all of these tags: {some}; is --column right? else say --scheme"
        )
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
            table.add_row(*step)
        print_table(table)
    else:
        for where, before, after in steps:
            print(f"{where}: {before} -> {after} is illegal in {_name(scheme)}")
    types = ", ".join(f"{kind or '(bare)'} {number}" for kind, number in sorted(found.types.items()))
    print(f"{found.sentences} sentences, {found.tokens} tokens, {len(found.types)} types: {types or 'none'}")
    print(f"{len(steps)} illegal transition{'s' * (len(steps) != 1)} under {_name(scheme)}")
    if suggested:
        rest = ", ".join(f"{name} ({illegal} illegal)" for name, illegal in others) or "nothing else"
        print(f"no --scheme given: {_name(scheme)} is a suggestion; these tags can also be read as: {rest}")
