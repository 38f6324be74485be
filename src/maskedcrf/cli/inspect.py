"""maskedcrf inspect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.cli.evaluate import is_model
from maskedcrf.cli.options import DEVICE, AsJson, Comment, InputFormat, OwnMisfits, OwnOverlaps, policies

if TYPE_CHECKING:
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.inspection.collect import Collector
    from maskedcrf.inspection.comparison import Comparison
    from maskedcrf.tagger import Tagger
    from maskedcrf.tags.scheme import Scheme
    from maskedcrf.training.settings import Settings


class ListFormat(StrEnum):
    """What is written of selected sentences."""

    labelstudio = "labelstudio"
    doccano = "doccano"
    jsonl = "jsonl"


def run(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="A model and labelled files of any format; perhaps a second model.", metavar="MODEL FILE..."
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="File for the page (report.html) or the --select list.")
    ] = None,
    suspects: Annotated[str | None, typer.Option(help="Also write all suspected labels, as JSON lines.")] = None,
    select: Annotated[int | None, typer.Option(min=1, help="List only this many sentences, to label next.")] = None,
    format: Annotated[ListFormat, typer.Option(help="Format of the list of --select.")] = ListFormat.jsonl,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Train this many taggers; each judges data it was not trained on.")
    ] = None,
    train: Annotated[list[str] | None, typer.Option(help="Labelled file to judge with --folds.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="With --folds, any setting of train, over the model's.", metavar="KEY=VALUE"),
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="Tag scheme of the gold; the model's own if left out.")] = None,
    comment: Comment = None,
    input_format: InputFormat = "auto",
    misfits: OwnMisfits = None,
    overlaps: OwnOverlaps = None,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: AsJson = False,
) -> None:
    """What is wrong with a model, or with its labels: one page of scores, errors, doubts and suspected labels.

    With a second model also where the two differ. With --folds the labels of training data, judged by taggers that
    have not seen them, with the settings of the model if one is given.

    \b
    Example:
      maskedcrf inspect my-tagger test.conll -o report.html
      maskedcrf inspect my-tagger test.conll other-tagger
      maskedcrf inspect my-tagger --folds 5 --train train.conll --suspects suspects.jsonl
      maskedcrf inspect my-tagger news.txt --select 50 --format labelstudio -o tasks.json
    """
    models = [name for name in inputs or [] if is_model(name)]
    files = [name for name in inputs or [] if name not in models]
    _require_sense(models, files, folds=folds, train=train or [], select=select, changes=set_ or [])
    spans = policies(misfits, overlaps)
    reading = {"comment": comment, "format": None if input_format == "auto" else input_format, **spans}
    if select is not None:
        _select(_load(models[0], device), files, select, format, output or "-", reading)
        return
    if folds:
        given = {"format": input_format, **spans}
        changes = [f"data.{name}={value}" for name, value in given.items() if value is not None]
        made = _inspect_folds(models, train or [], folds, [*(set_ or []), *changes], device)
    else:
        made = _inspect(models, files, scheme, reading, device)
    found, comparison, title, signature = made
    _tell(found, comparison, title, signature, output=output, suspects=suspects, as_json=as_json)


def _require_sense(
    models: Sequence[str],
    files: Sequence[str],
    *,
    folds: int | None,
    train: Sequence[str],
    select: int | None,
    changes: Sequence[str],
) -> None:
    """Refuse what does not go together, before anything is read."""
    if folds is not None:
        if not train or files or len(models) > 1 or select is not None:
            raise typer.BadParameter("--folds judges the files after --train, with the settings of one model or none")
        return
    if train or changes:
        raise typer.BadParameter("--train and --set belong to --folds: say how many, such as --folds 5")
    if not models:
        raise typer.BadParameter("no model folder given; a model, then labelled files: inspect my-tagger test.conll")
    if any(Path(name).suffix == ".onnx" for name in models):
        raise typer.BadParameter("an ONNX file gives no probabilities of entities: give the model folder")
    if len(models) > (2 if select is None else 1):
        raise typer.BadParameter(f"{len(models)} models; " + ("two at most" if select is None else "one is asked"))
    if not files:
        raise typer.BadParameter(f"{models[0]} is a model; give files after it")


def _load(name: str, device: str) -> Tagger:
    from maskedcrf.tagger import Tagger

    return Tagger.load(name, device=device)


Made = tuple["Collector", "Comparison | None", str, str]
"""What was found, the second model's part, the page's title, and how the numbers were made."""


def _inspect(
    models: Sequence[str], files: Sequence[str], scheme: str | None, reading: dict[str, Any], device: str
) -> Made:
    """One model on labelled files, or two."""
    from maskedcrf.cli.streams import note
    from maskedcrf.data.annotation import ReadReport, no_sentence
    from maskedcrf.evaluation.compare import signature
    from maskedcrf.inspection.collect import Collector
    from maskedcrf.inspection.comparison import inspect_pair
    from maskedcrf.inspection.reading import in_context, read_sentences
    from maskedcrf.tags.scheme import Scheme

    taggers = [_load(name, device) for name in models]
    own, report = taggers[0].output_scheme, ReadReport()
    gold = own if scheme is None else Scheme.get(scheme, delimiter=own.delimiter, prefix_last=own.prefix_last)
    sentences = _gold_sentences(taggers[0], files, gold, {**reading, "report": report})
    if len(taggers) == 1:
        around = in_context(taggers[0], sentences)
        found: Collector = Collector().add_all(read_sentences(taggers[0], around, gold_scheme=gold))
        comparison = None
    else:
        found, comparison = inspect_pair(taggers[0], taggers[1], sentences, gold_scheme=gold)
    if not found.sentences:
        raise no_sentence(",".join(files), report)
    if report.counts:
        note(str(report))
    decoding = ",".join(tagger.decoding for tagger in taggers)
    made = {"corpus": ",".join(files), "scheme": gold.name, "decoding": decoding}
    title = f"{' and '.join(Path(name).name for name in models)} on {', '.join(Path(name).name for name in files)}"
    return found, comparison, title, signature(**made, model=",".join(models))


def _gold_sentences(tagger: Tagger, files: Sequence[str], gold: Scheme, reading: dict[str, Any]) -> Iterator[Sentence]:
    from maskedcrf.tagger.gold_files import require_gold, stream_gold

    for sentence in stream_gold(tagger, files, scheme=gold, **reading):
        if sentence.tokens:
            require_gold(sentence)
            yield sentence


def _inspect_folds(
    models: Sequence[str], train: Sequence[str], folds: int, changes: Sequence[str], device: str
) -> Made:
    """The labels of training data, read by taggers that were not trained on them."""
    from maskedcrf.cli.streams import note
    from maskedcrf.evaluation.compare import signature
    from maskedcrf.inspection.collect import Collector
    from maskedcrf.inspection.folds import train_folds
    from maskedcrf.inspection.reading import read_sentences

    settings = _settings(models, changes, device)
    scheme = settings.scheme_named(settings.file_scheme)
    sentences = _training_sentences(train, settings, scheme)
    found: Collector = Collector()
    for number, fold in enumerate(train_folds(sentences, settings, folds=folds), start=1):
        found.add_all(read_sentences(fold.tagger, fold.sentences, gold_scheme=scheme))
        note(f"fold {number} of {folds}: {len(fold.sentences):,} sentences read by a tagger that had not seen them")
    made = {"corpus": ",".join(train), "folds": folds, "scheme": scheme.name, "seeds": settings.seed}
    title = f"Labels of {', '.join(Path(name).name for name in train)}, out of fold"
    return found, None, title, signature(**made, settings=models[0] if models else None)


def _settings(models: Sequence[str], changes: Sequence[str], device: str) -> Settings:
    """The settings of a model's training, or the defaults, with changes on top."""
    from maskedcrf.cli.train import assignments
    from maskedcrf.training.settings import Settings
    from maskedcrf.training.settings_file import read_settings

    recorded = _load(models[0], "cpu").record.settings if models else {}
    base = {name: value for name, value in recorded.items() if name in Settings.model_fields}
    return Settings.of(read_settings(None, {"device": device, **assignments(list(changes))}, base=base))


def _training_sentences(train: Sequence[str], settings: Settings, scheme: Scheme) -> list[Sentence]:
    """The sentences of training data, texts cut as training would cut them."""
    from maskedcrf.data.annotation import ReadReport
    from maskedcrf.data.labelled import fit_labelled, read_labelled_records
    from maskedcrf.data.sentence import with_context
    from maskedcrf.data.tokenizer_choice import choose_tokenizer
    from maskedcrf.tagger.gold_files import require_gold

    report, reading = ReadReport(), settings.data.options()
    records = read_labelled_records(list(train), report, **reading)
    cut = choose_tokenizer(records, settings.data.tokenizer).tokenizer
    found = fit_labelled(records, scheme, cut=cut, report=report, **reading)
    sentences = [sentence for sentence in found if sentence.tokens]
    for sentence in sentences:
        require_gold(sentence)
    return list(with_context(sentences, settings.encoder.context))


def _select(
    tagger: Tagger, files: Sequence[str], number: int, format: ListFormat, output: str, reading: dict[str, Any]
) -> None:
    """Write the sentences that the model is least certain of, with its reading as a suggestion."""
    from maskedcrf.cli.streams import note, output_text
    from maskedcrf.data.annotation import ReadReport, no_sentence
    from maskedcrf.data.formats import to_bytes
    from maskedcrf.inspection.selection import most_uncertain
    from maskedcrf.tagger.gold_files import stream_gold

    report = ReadReport()
    sentences = stream_gold(tagger, files, scheme=tagger.output_scheme, report=report, **reading)
    chosen = most_uncertain(tagger, sentences, number)
    if not chosen:
        raise no_sentence(",".join(files), report)
    with output_text(output) as handle:
        for content in to_bytes(chosen, format.value, scheme=tagger.output_scheme):
            handle.write(content.decode())
    note(f"{len(chosen)} sentences, the least certain first")


def _tell(
    found: Collector,
    comparison: Comparison | None,
    title: str,
    signature: str,
    *,
    output: str | None,
    suspects: str | None,
    as_json: bool,
) -> None:
    """Write the page and the list, and print the rest."""
    from maskedcrf.cli.streams import note, output_text, print_json
    from maskedcrf.cli.terminal import echo
    from maskedcrf.evaluation.compare import bootstrap_each
    from maskedcrf.inspection.page import difference_line, page, summary
    from maskedcrf.inspection.suspects import suspect_to_json
    from maskedcrf.inspection.to_json import to_json

    target = output or (None if as_json else "report.html")
    if target is not None:
        with output_text(target) as handle:
            handle.write(page(title, found, comparison=comparison, signature=signature))
    if suspects is not None:
        with output_text(suspects) as handle:
            handle.writelines(
                json.dumps(suspect_to_json(place), ensure_ascii=False) + "\n" for place in found.suspects.ranked()
            )
    if as_json:
        print_json(to_json(found, comparison=comparison, signature=signature))
    elif "-" not in (output, suspects):
        for line in summary(found, bootstrap_each(found.counts.array())[0]):
            echo(line)
        if comparison is not None:
            echo(difference_line(found, comparison))
    note(signature)
    if target not in (None, "-"):
        note(f"wrote {target}: open it in a browser")
