"""maskedcrf evaluate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from maskedcrf.cli.options import (
    AsJson,
    Comment,
    Delimiter,
    Files,
    GoldColumn,
    PredictedColumn,
    PrefixLast,
    Rule,
    SchemeName,
)
from maskedcrf.cli.terminal import printable

if TYPE_CHECKING:
    from maskedcrf.evaluation.conlleval import Evaluation


def run(
    files: Files,
    scheme: SchemeName = "BIO",
    strategy: Annotated[
        Rule, typer.Option(help="Illegal segments: retain (conlleval), discard, both; or seqeval's default, strict.")
    ] = Rule.retain,
    gold_column: GoldColumn = -2,
    predicted_column: PredictedColumn = -1,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    as_json: AsJson = False,
) -> None:
    """Score predicted tags against gold tags: conlleval's report to the byte in a pipe, a table on a terminal.

    Gold and predicted tags stand in the last two columns unless you say otherwise. F1 with illegal segments
    retained and discarded, and the settings behind it, go to standard error.

    \b
    Example:
      maskedcrf evaluate predictions.conll
      maskedcrf evaluate --scheme BIOES --strategy both --json dev.conll test.conll.gz
    """
    from maskedcrf.cli.streams import chunks, column, doubt_scheme, note, print_json, sides_read
    from maskedcrf.evaluation.check import located
    from maskedcrf.evaluation.conlleval import Evaluation
    from maskedcrf.evaluation.counts import Counts, count
    from maskedcrf.tags.scheme import Scheme

    # What is done with illegal segments decides the score, so that both readings are always told.
    rules = ["retain", "discard"] if strategy in (Rule.retain, Rule.discard, Rule.both) else [strategy.value]
    asked = rules if strategy is Rule.both else [strategy.value]
    scheme_ = Scheme.get(scheme, delimiter=delimiter, prefix_last=prefix_last)
    totals = {rule: Counts() for rule in rules}
    for chunk in chunks(files, comment=comment, keep_docstart=True):
        sides = column(chunk, gold_column), column(chunk, predicted_column)
        with located(chunk, sides_read(gold_column, predicted_column)):
            for rule in rules:
                totals[rule] += count(*sides, scheme=scheme_, strategy=rule)
    results = {rule: Evaluation(total, scheme_.name, rule, ",".join(files)) for rule, total in totals.items()}
    if as_json:
        answers = {rule: results[rule].to_dict() for rule in asked}
        print_json(answers if len(answers) > 1 else next(iter(answers.values())))
        return
    for rule in asked:
        if sys.stdout.isatty():
            _show(results[rule])
        else:
            print(results[rule].report(), end="")
    for result in results.values():
        note(f"f1 {result.f1:.2f} | {result.signature}")
    if "discard" in results:
        kept, legal = (results[rule].counts.total.predicted for rule in ("retain", "discard"))
        doubt_scheme(kept - legal, kept, scheme_.name)


def _show(result: Evaluation) -> None:
    from rich.table import Table

    from maskedcrf.cli.streams import print_table

    heading = f"{result.tokens:,} tokens, accuracy {result.accuracy:.2f} %, illegal segments: {result.strategy}"
    table = Table("type", title=heading)
    for name in ("precision", "recall", "F1", "correct", "predicted", "gold"):
        table.add_column(name, justify="right")
    for kind, tally in [*result.types.items(), ("all", result.counts.total)]:
        ratios = (f"{ratio:.2f}" for ratio in (tally.precision, tally.recall, tally.f1))
        table.add_row(printable(kind), *ratios, *map(str, (tally.correct, tally.predicted, tally.gold)))
    print_table(table)
