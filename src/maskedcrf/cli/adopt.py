"""maskedcrf adopt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.cli.options import AsJson
from maskedcrf.cli.terminal import echo
from maskedcrf.errors import MaskedCRFError

if TYPE_CHECKING:
    from maskedcrf.tagger import Tagger
    from maskedcrf.tagger.adaptation import BestTagAudit
    from maskedcrf.tagger.fitting import Fit
    from maskedcrf.tags.scheme import Scheme


class Words(StrEnum):
    """Which pieces of a word score it."""

    first = "first"
    last = "last"
    mean = "mean"
    max = "max"


class Positions(StrEnum):
    """Where an ONNX graph's lattice runs."""

    words = "words"
    all = "all"


def run(
    model: Annotated[str, typer.Argument(help="A token classifier: folder, name on the hub, or ONNX file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder, or ONNX file, to write.")],
    fit: Annotated[
        list[str] | None, typer.Option(help="Labelled file to fit transitions and temperature to; may be repeated.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="File of labels, one per line in column order, if the model has none.")
    ] = None,
    scheme: Annotated[str, typer.Option(help="Scheme of the labels; auto reads it off their prefixes.")] = "auto",
    gold_scheme: Annotated[str | None, typer.Option(help="Scheme of the labelled files, if it is another.")] = None,
    words: Annotated[Words, typer.Option(help="Pieces that score a word.")] = Words.first,
    positions: Annotated[
        Positions, typer.Option(help="ONNX: words adds the input word_mask, all takes every position.")
    ] = Positions.words,
    transitions: Annotated[
        Path | None, typer.Option(help="File of transition scores (.npy, labels x labels) of an existing CRF.")
    ] = None,
    logits: Annotated[str | None, typer.Option(help="ONNX: the output that holds the scores.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a token classifier legal, without training it: what is decoded never leaves the scheme.

    Says what the labels were taken for. With --fit, bias, transitions and one temperature are fitted to labelled
    sentences by the recipe that cross-validates best, and F1 and calibration before and after are shown. An ONNX file
    gets the Viterbi behind its logits and stays as it is otherwise.

    \b
    Example:
      maskedcrf adopt my-token-classifier -o legal-model --fit dev.conll
      maskedcrf adopt model.onnx --labels labels.txt -o legal.onnx
    """
    if output.exists() and not overwrite:
        raise MaskedCRFError(f"{output}: there is something already; give another name, or --overwrite")
    given = {"labels": _labels(labels), "scheme": scheme, "transitions": _scores(transitions)}
    if model.endswith(".onnx"):
        if fit:
            raise MaskedCRFError("--fit needs the model's folder; an ONNX file is adopted as it is")
        _adopt_file(model, output, {**given, "positions": positions.value, "logits": logits}, as_json=as_json)
        return
    from maskedcrf.tagger import Tagger

    tagger = Tagger.from_pretrained(model, **given, words=words.value)
    answer: dict[str, Any] = {"labels": tagger.record.settings["adopted"]["labels"], "output": str(output)}
    found = _fit(tagger, fit, gold_scheme) if fit else None
    if found is not None:
        answer |= {"best tags": found[0].to_json(), "fit": found[1].to_json(), "pieces": found[2]}
        answer["decoding"] = tagger.record.settings["decoding_choice"]
    tagger.save(output, overwrite=overwrite)
    if as_json:
        from maskedcrf.cli.streams import print_json

        print_json(answer)
        return
    _tell(tagger, found, output)


def _labels(path: Path | None) -> Any:
    if path is None:
        return None
    from maskedcrf.tags.label_file import read_label_file

    return read_label_file(path)


def _scores(path: Path | None) -> Any:
    if path is None:
        return None
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise MaskedCRFError(f"{path}: not an array of numpy ({reason}); save it with numpy.save") from error


def _adopt_file(model: str, output: Path, options: dict[str, Any], *, as_json: bool) -> None:
    from maskedcrf.cli.streams import note, print_json
    from maskedcrf.onnx.adopt import adopt_onnx

    if options["labels"] is None:
        raise MaskedCRFError(f"{model}: an ONNX file does not name its labels; give --labels FILE, one per line")
    if options["transitions"] is None:
        options.pop("transitions")
    found = adopt_onnx(model, output, **options)
    if as_json:
        answer = {"output": found.path, "labels": found.report.to_json(), "logits": found.logits}
        print_json({**answer, "inputs": list(found.inputs), "example_tags": found.example_tags})
        return
    echo(found.report)
    note(f"{output}: {found.logits} as before, and tags and log_probability; inputs {', '.join(found.inputs)}")


def _fit(tagger: Tagger, files: Sequence[str], gold_scheme: str | None) -> tuple[BestTagAudit, Fit, str | None]:
    """Best tags by themselves, the fit, and what is said of later pieces of words."""
    from maskedcrf.integrations.piece_labels import count_piece_labels
    from maskedcrf.tagger.adaptation import audit_best_tags, fit_examples, gold_examples
    from maskedcrf.tags.scheme import Scheme

    scheme: Scheme = Scheme.get(gold_scheme) if gold_scheme else tagger.scheme
    gold = tagger.read_gold(files, scheme)
    pieces = count_piece_labels(tagger.model, gold)
    with _encoding(len(gold)) as progress:
        examples = gold_examples(tagger.model, gold, scheme=scheme, progress=progress)
    audit = audit_best_tags(examples, tagger.tags, tagger.scheme)
    return audit, fit_examples(tagger, examples), str(pieces) if pieces is not None and pieces.repeats else None


@contextmanager
def _encoding(sentences: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("encoding", total=sentences)
        yield lambda done: bar.advance(task, done)


def _tell(tagger: Tagger, found: tuple[BestTagAudit, Fit, str | None] | None, output: Path) -> None:
    from maskedcrf.cli.streams import note

    echo(_describe_labels(tagger.record.settings["adopted"]["labels"]))
    if found is not None:
        audit, fit, pieces = found
        if pieces:
            echo(f"pieces: {pieces}")
        echo()
        echo("\n".join(_figures(audit, fit)))
        echo()
        echo(fit)
        echo(f"decoding by {tagger.decoding}")
    note(f"{output}: saved; maskedcrf predict {output} tags with it")


def _describe_labels(report: dict[str, Any]) -> str:
    """What the labels were taken for, in a few lines."""
    tags = [tag for tag in report["tags"].values() if tag is not None]
    lines = [f"{len(tags)} of {len(report['tags'])} labels read as {report['scheme']}: {', '.join(tags)}"]
    lines += [f"  {label!r} is {tag}" for label, tag in report["renamed"].items()]
    lines += [f"  column {column} is never predicted ({reason})" for column, reason in report["dropped"].items()]
    return "\n".join([*lines, *(f"  note: {note}" for note in report["notes"])])


def _figures(audit: BestTagAudit, fit: Fit) -> list[str]:
    """F1 and calibration error, before and after; what is fitted is scored on held-out folds."""
    mask, fitted = fit.figures["mask only"], fit.figures["fitted"]
    rows = [
        ("best tag of each word, illegal retained", f"{audit.retain}", _error(audit.mean_softmax.error)),
        (f"best tag, discarded ({audit.illegal:.2f} % illegal)", f"{audit.discard}", ""),
        ("mask only", f"{mask.f1:.2f} +- {mask.margin:.2f}", _error(fit.mask_only.error)),
        ("mask only, one temperature", f"{mask.f1:.2f} +- {mask.margin:.2f}", _error(fit.mask_tempered.error)),
        (f"fitted: {fit.chosen}", f"{fitted.f1:.2f} +- {fitted.margin:.2f}", _error(fit.fitted.error)),
    ]
    heading = f"{fit.sentences} sentences, cross-validated"
    width = max(len(name) for name, *_ in [(heading,), *rows])
    return [
        f"{heading:<{width}}  {'F1 (95 %)':>15}  calibration error %",
        *(f"{name:<{width}}  {score:>15}  {error:>19}".rstrip() for name, score, error in rows),
    ]


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
