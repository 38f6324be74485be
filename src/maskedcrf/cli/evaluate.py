"""maskedcrf evaluate."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.cli.options import (
    DEVICE,
    AsJson,
    Beta,
    Comment,
    DecodingChoice,
    Delimiter,
    InputFormat,
    OwnMisfits,
    OwnOverlaps,
    PrefixLast,
    Rule,
    SegmentThreshold,
    Trust,
    decoding_options,
    policies,
)
from maskedcrf.cli.terminal import printable

if TYPE_CHECKING:
    from maskedcrf.evaluation.conlleval import Evaluation
    from maskedcrf.onnx.tagger import OnnxTagger
    from maskedcrf.tagger import Tagger
    from maskedcrf.tags.scheme import Scheme

GOLD, PREDICTED = -2, -1
"""Columns of a file that holds both sides."""


FilesArgument = Annotated[
    list[str],
    typer.Argument(
        help="Column files with both sides, or a model and labelled files of any format; - is standard input.",
        metavar="[MODEL] FILE...",
    ),
]
SchemeOption = Annotated[
    str | None, typer.Option(help="Tag scheme of the gold: BIO, BIOES, ...; by default the model's, else BIO.")
]
StrategyOption = Annotated[
    Rule, typer.Option(help="Illegal segments: retain (conlleval), discard, both; or seqeval's default, strict.")
]
GoldColumnOption = Annotated[
    int | None, typer.Option(help="Column of the gold tags, from 0; by default -2, or as the model was trained.")
]


def run(
    files: FilesArgument,
    scheme: SchemeOption = None,
    strategy: StrategyOption = Rule.retain,
    gold_column: GoldColumnOption = None,
    predicted_column: Annotated[
        int | None, typer.Option(help="Column of the predicted tags, from 0; -1 is the last.")
    ] = None,
    delimiter: Delimiter = "-",
    prefix_last: PrefixLast = False,
    comment: Comment = None,
    input_format: InputFormat = "auto",
    misfits: OwnMisfits = None,
    overlaps: OwnOverlaps = None,
    decoding: DecodingChoice = None,
    segment_threshold: SegmentThreshold = None,
    beta: Beta = 1.0,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Score predicted tags against gold tags: conlleval's report to the byte in a pipe, a table on a terminal.

    Gold and predicted tags stand in the last two columns unless you say otherwise; or give a model folder (or .onnx
    file) first, then files of any format, which it tags and is scored on. F1 with illegal segments retained and
    discarded, and the settings behind it, go to standard error.

    \b
    Example:
      maskedcrf evaluate predictions.conll
      maskedcrf evaluate my-tagger test.jsonl
      maskedcrf evaluate --scheme BIOES --strategy both --json dev.conll test.conll.gz
    """
    # What is done with illegal segments decides the score, so that both readings are always told.
    rules = ["retain", "discard"] if strategy in (Rule.retain, Rule.discard, Rule.both) else [strategy.value]
    strategies = rules if strategy is Rule.both else [strategy.value]
    if is_model(files[0]):
        if predicted_column is not None or prefix_last or delimiter != "-":
            raise typer.BadParameter("a model predicts, and writes tags its own way: leave out what says so of columns")
        opened = _LoadedModel.of(files[0], device, decoding_options(decoding, segment_threshold, beta), trust=trust)
        form = None if input_format == "auto" else input_format
        reading = {"tag_column": gold_column, "comment": comment, "format": form, **policies(misfits, overlaps)}
        results = _score_model(opened, files[1:], scheme, rules, reading)
    else:
        if decoding is not None or segment_threshold is not None:
            raise typer.BadParameter("predicted tags are decoded already: give a model folder first, then the files")
        gold = GOLD if gold_column is None else gold_column
        columns = gold, (PREDICTED if predicted_column is None else predicted_column)
        scheme_ = _scheme(scheme, delimiter, prefix_last)
        results = _score_columns(files, scheme_, rules, columns, comment=comment, input_format=input_format)
    _tell(results, strategies, as_json=as_json)


def is_model(name: str) -> bool:
    """Whether this is a model folder or an ONNX file, and no data."""
    return Path(name).suffix == ".onnx" or (Path(name) / "config.json").is_file()


def _scheme(name: str | None, delimiter: str, prefix_last: bool) -> Scheme:
    from maskedcrf.tags.scheme import Scheme

    return Scheme.get(name or "BIO", delimiter=delimiter, prefix_last=prefix_last)


def _score_columns(
    files: Sequence[str],
    scheme: Scheme,
    rules: Sequence[str],
    columns: tuple[int, int],
    *,
    comment: str | None,
    input_format: str,
) -> dict[str, Evaluation]:
    """The scores of files that hold both sides, by strategy."""
    from maskedcrf.cli.streams import chunks, column, columns_hint
    from maskedcrf.evaluation.check import located
    from maskedcrf.evaluation.conlleval import Evaluation
    from maskedcrf.evaluation.counts import Counts, count

    totals = {rule: Counts() for rule in rules}
    for chunk in chunks(files, keep_docstart=True, comment=comment, input_format=input_format):
        gold, predicted = (column(chunk, number) for number in columns)
        with located(chunk, columns_hint(*columns)):
            for rule in rules:
                totals[rule] += count(gold, predicted, scheme=scheme, strategy=rule)
    return {rule: Evaluation(total, scheme.name, rule, ",".join(files)) for rule, total in totals.items()}


@dataclass(frozen=True)
class _LoadedModel:
    """A model, and how it is to decode."""

    name: str
    tagger: Tagger | OnnxTagger
    options: dict[str, Any]
    decoding: str

    @staticmethod
    def of(name: str, device: str, options: dict[str, Any], *, trust: bool) -> _LoadedModel:
        """Open a model folder or an ONNX file."""
        tagger: Tagger | OnnxTagger
        if Path(name).suffix == ".onnx":
            from maskedcrf.onnx.tagger import OnnxTagger

            tagger = OnnxTagger.load(name, trusted=trust)
        else:
            from maskedcrf.tagger import Tagger

            tagger = Tagger.load(name, device=device)
        threshold = options["segment_threshold"]
        if threshold == "expected":
            return _LoadedModel(name, tagger, options, "segments at expected")
        chosen = tagger.threshold_for(options["decoding"], threshold)
        return _LoadedModel(name, tagger, options, "path" if chosen is None else f"segments at {chosen:g}")


def _score_model(
    opened: _LoadedModel, files: Sequence[str], scheme: str | None, rules: Sequence[str], reading: dict[str, Any]
) -> dict[str, Evaluation]:
    """The scores of a model on labelled files, by strategy."""
    from maskedcrf.cli.streams import note
    from maskedcrf.data.annotation import ReadReport, no_sentence
    from maskedcrf.errors import DataError
    from maskedcrf.evaluation.check import located
    from maskedcrf.evaluation.conlleval import Evaluation
    from maskedcrf.evaluation.counts import Counts, count
    from maskedcrf.tagger.gold_files import require_gold, stream_gold
    from maskedcrf.tags.scheme import Scheme

    if not files:
        raise DataError(f"{opened.name}: a model; give the labelled files to score it on after it")
    tagger, own, report = opened.tagger, opened.tagger.output_scheme, ReadReport()
    gold_scheme = own if scheme is None else Scheme.get(scheme, delimiter=own.delimiter, prefix_last=own.prefix_last)
    tagger.output_scheme = gold_scheme  # so that tags are compared with tags
    totals = {rule: Counts() for rule in rules}
    sentences = stream_gold(tagger, files, scheme=gold_scheme, report=report, **reading)
    for chunk in _chunks(tagger.stream(sentences, **opened.options)):
        kept = [prediction.sentence for prediction in chunk if prediction.tokens]
        marks = Counts(tokens=len(chunk) - len(kept), correct_tags=len(chunk) - len(kept))  # O and O
        gold = [require_gold(sentence) for sentence in kept]
        predicted = [prediction.tags for prediction in chunk if prediction.tokens]
        with located(kept, f"gold is read as {gold_scheme.name} (--scheme)"):
            for rule in rules:
                totals[rule] += count(gold, predicted, scheme=gold_scheme, strategy=rule) + marks
    if not next(iter(totals.values())).tokens:
        raise no_sentence(",".join(files), report)
    if report.counts:
        note(str(report))
    made = {"corpus": ",".join(files), "model": opened.name, "decoding": opened.decoding}
    return {rule: Evaluation(total, gold_scheme.name, rule, **made) for rule, total in totals.items()}


def _chunks(predictions: Iterator[Any], size: int = 1024) -> Iterator[list[Any]]:
    from itertools import islice

    while chunk := list(islice(predictions, size)):
        yield chunk


def _tell(results: dict[str, Evaluation], strategies: Sequence[str], *, as_json: bool) -> None:
    """Print the scores asked for; all of them on standard error, with their signatures."""
    from maskedcrf.cli.streams import note, print_json, warn_wrong_scheme

    if as_json:
        answers = {rule: results[rule].to_dict() for rule in strategies}
        print_json(answers if len(answers) > 1 else next(iter(answers.values())))
        return
    for rule in strategies:
        if sys.stdout.isatty():
            _show(results[rule])
        else:
            print(results[rule].report(), end="")
    for result in results.values():
        note(f"f1 {result.f1:.2f} | {result.signature}")
    if "discard" in results:
        kept, legal = (results[rule].counts.total.predicted for rule in ("retain", "discard"))
        warn_wrong_scheme(kept - legal, kept, results["discard"].scheme)


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
