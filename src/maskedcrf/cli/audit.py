"""maskedcrf audit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from maskedcrf.cli.options import (
    AsJson,
    Comment,
    Delimiter,
    Files,
    GoldColumn,
    InputFormat,
    PredictedColumn,
    PrefixLast,
    SchemeName,
)
from maskedcrf.cli.terminal import printable

if TYPE_CHECKING:
    from maskedcrf.evaluation.audit import Audit


def run(
    files: Files,
    scheme: SchemeName = "BIO",
    gold_column: GoldColumn = -2,
    predicted_column: PredictedColumn = -1,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    input_format: InputFormat = "auto",
    as_json: AsJson = False,
) -> None:
    """Count predicted segments by legality and correctness, per type and over all (the paper's Table 1).

    An illegal segment is one that begins or ends as its scheme forbids, such as I-LOC after O in BIO.

    \b
    Example:
      maskedcrf audit predictions.conll
      maskedcrf audit --scheme BIOES --json predictions.conll
    """
    from maskedcrf.cli.streams import chunks, column, columns_hint, note, print_json, warn_wrong_scheme
    from maskedcrf.evaluation.audit import Audit, audit
    from maskedcrf.evaluation.check import located
    from maskedcrf.tags.scheme import Scheme

    scheme_ = Scheme.get(scheme, delimiter=delimiter, prefix_last=prefix_last)
    total = Audit({}, scheme_.name, ",".join(files))
    for chunk in chunks(files, comment=comment, keep_docstart=True, input_format=input_format):
        sides = column(chunk, gold_column), column(chunk, predicted_column)
        with located(chunk, columns_hint(gold_column, predicted_column)):
            total += audit(*sides, scheme=scheme_)
    if as_json:
        print_json(total.to_dict())
        return
    _show(total)
    warn_wrong_scheme(total.total.illegal, total.total.predicted, scheme_.name)
    note(total.signature)


def _show(total: Audit) -> None:
    from maskedcrf.cli.streams import print_table

    header = (
        "type",
        "legal TP",
        "illegal TP",
        "legal FP",
        "illegal FP",
        "illegal TP/illegal",
        "illegal FP/FP",
        "illegal/total",
    )
    rows = []
    for kind, cells in [*sorted(total.types.items()), ("all", total.total)]:
        counts = (cells.legal_tp, cells.illegal_tp, cells.legal_fp, cells.illegal_fp)
        ratios = (cells.illegal_tp_over_illegal, cells.illegal_fp_over_fp, cells.illegal_over_total)
        rows.append([kind, *map(str, counts), *("-" if each is None else f"{100 * each:.1f}%" for each in ratios)])
    if not sys.stdout.isatty():
        print("\n".join("\t".join(row) for row in [header, *rows]))
        return
    from rich.table import Table

    table = Table("type")
    for name in header[1:]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*map(printable, row))
    print_table(table)
