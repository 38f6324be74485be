"""maskedcrf redact."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.cli.options import DEVICE, AsJson, Comment, Dictionary, InputFormat, Patterns, read_rules

if TYPE_CHECKING:
    from maskedcrf.redaction.files import Entry
    from maskedcrf.redaction.redactor import Redactor
    from maskedcrf.redaction.rules import Rules
    from maskedcrf.tagger import Tagger


class ReplaceName(StrEnum):
    """What stands where an entity stood."""

    type = "type"
    name = "name"
    blank = "blank"


class UnitName(StrEnum):
    """What a sample was drawn by."""

    auto = "auto"
    sentence = "sentence"
    document = "document"
    file = "file"


class LossName(StrEnum):
    """What is missed of a unit."""

    entities = "entities"
    tokens = "tokens"
    types = "types"


FilesArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Text, JSON lines, columns or Parquet; - is standard input.", metavar="[FILE]..."),
]
OutputOption = Annotated[
    str, typer.Option("--output", "-o", help="File to write, or a folder for several; - is standard output.")
]
CalibrateOption = Annotated[
    str | None, typer.Option(help="Labelled file: promise a miss rate from it, kept in the model folder.")
]
ConfidenceOption = Annotated[
    float | None, typer.Option(help="With --calibrate: promise it for this share of samples, such as 0.95.")
]
MissRateOption = Annotated[
    float | None, typer.Option(help="With --calibrate: share that may be missed, on average; 0.01 if left out.")
]
UnitOption = Annotated[
    UnitName, typer.Option(help="What the sample was drawn by; auto is documents where there are some.")
]
LossOption = Annotated[
    LossName | None,
    typer.Option(help="With --calibrate: what counts, a share of entities (the default), of tokens, or of each type."),
]
ThresholdOption = Annotated[float | None, typer.Option(help="Hide what is at least this probable, without a promise.")]
ReplaceOption = Annotated[
    ReplaceName, typer.Option(help="[PER]; [PER-1], the same for the same name in a document; or blanks.")
]
CheckOption = Annotated[
    str | None,
    typer.Option(help="Labelled file: report the miss rate found in it; exit code 1 breaks the promise."),
]


def run(
    model: Annotated[Path, typer.Argument(help="Model folder, as `maskedcrf train` writes it.")],
    files: FilesArgument = None,
    output: OutputOption = "-",
    calibrate: CalibrateOption = None,
    miss_rate: MissRateOption = None,
    confidence: ConfidenceOption = None,
    unit: UnitOption = UnitName.auto,
    loss: LossOption = None,
    types: Annotated[str | None, typer.Option(help="Types to hide, such as PER,LOC; all if left out.")] = None,
    threshold: ThresholdOption = None,
    patterns: Patterns = None,
    dictionary: Dictionary = None,
    replace: ReplaceOption = ReplaceName.type,
    ledger: Annotated[Path | None, typer.Option(help="JSON lines to write: what was hidden where.")] = None,
    ledger_text: Annotated[bool, typer.Option("--ledger-text", help="Put the hidden text into the ledger.")] = False,
    check: CheckOption = None,
    input_format: InputFormat = "auto",
    token_column: Annotated[int, typer.Option(help="Column of the tokens in a column file.")] = 0,
    comment: Comment = None,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: AsJson = False,
) -> None:
    """Hide entities in files, missing at most a promised share of them; all else is kept to the byte.

    A promise is made once, from labelled data that the model was not trained on, and kept in the model folder:
    `--calibrate dev.conll --miss-rate 0.01`. It holds for text like that data, and is void once the model changes.
    Text, columns, JSON lines and Parquet (`text` or `tokens`) come out in the shape they went in, gzip unpacked.

    \b
    Example:
      maskedcrf redact model --calibrate dev.conll --miss-rate 0.02
      maskedcrf redact model letters.txt -o redacted.txt --replace name --ledger hidden.jsonl
      maskedcrf redact model letters.txt -o redacted.txt --patterns builtin --dictionary PER=clients.txt
      maskedcrf redact model --check test.conll
    """
    from maskedcrf.cli.streams import note
    from maskedcrf.tagger import Tagger

    wanted = {"miss_rate": miss_rate, "confidence": confidence, "loss": loss}
    _require_sense(
        (not (files or calibrate or check), "nothing to do: give files, or --calibrate or --check with labelled ones"),
        (as_json and files and output == "-", "--json and the text cannot both go to standard output: say -o FILE"),
        (calibrate and threshold is not None, "--threshold promises nothing: leave out one of it and --calibrate"),
        (ledger is not None and not files, "--ledger tells what was hidden in files: give some"),
        (ledger_text and ledger is None, "--ledger-text puts the hidden text into a ledger: say --ledger FILE"),
        (not calibrate and {*wanted.values()} != {None}, "--miss-rate, --confidence and --loss belong to --calibrate"),
    )
    tagger, chosen = Tagger.load(model, device=device), re.split(r"\s*,\s*", types.strip()) if types else None
    if calibrate:
        _promise(tagger, model, calibrate, types=chosen, unit=unit, **wanted)
    redactor = _redactor(tagger, threshold, chosen, replace.value, read_rules(patterns, dictionary))
    summary = _summary(redactor)
    if files:
        hidden = _redact(redactor, files, output, ledger, ledger_text, (input_format, token_column, comment))
        summary |= {"files": len(files), "hidden": dict(sorted(hidden.items()))}
    note(summary["sentence"])
    if check:
        summary["check"] = _check(redactor, check, unit)
    _finish(summary, as_json=as_json)


def _finish(summary: dict[str, Any], *, as_json: bool) -> None:
    """Print the summary if asked for; exit with 1 if a check contradicts the promise."""
    from maskedcrf.cli.streams import print_json

    if as_json:
        print_json(summary)
    if summary.get("check", {}).get("agrees") is False:
        raise typer.Exit(1)


def _require_sense(*cases: tuple[object, str]) -> None:
    for wrong, message in cases:
        if wrong:
            raise typer.BadParameter(message)


def _redactor(tagger: Tagger, threshold: float | None, types: list[str] | None, replace: Any, rules: Rules) -> Redactor:
    from maskedcrf.redaction.redactor import Redactor

    return Redactor(tagger, threshold=threshold, types=types, replace=replace, rules=rules)


def _promise(tagger: Tagger, model: Path, gold: str, **options: Any) -> None:
    """Promise, and keep it in the model folder."""
    from maskedcrf.errors import MaskedCRFError
    from maskedcrf.tagger import folder

    if folder.is_huggingface(model):
        raise MaskedCRFError(
            f"{model}: a folder in Hugging Face's form keeps no promise; maskedcrf adopt makes a model folder"
        )
    given = {name: getattr(value, "value", value) for name, value in options.items() if value is not None}
    tagger.promise(gold, **given)
    folder.update_record(model, tagger.record)


def _summary(redactor: Redactor) -> dict[str, Any]:
    promise = redactor.promise
    sentence = f"Hidden is what is at least {redactor.threshold:.3g} probable; no miss rate is promised."
    return {
        "sentence": sentence if promise is None else promise.sentence,
        "threshold": redactor.threshold,
        "promise": None if promise is None else promise.model_dump(mode="json", exclude={"curve", "sentence"}),
    }


def _redact(
    redactor: Redactor,
    files: list[str],
    output: str,
    ledger: Path | None,
    ledger_text: bool,
    reading: tuple[str, int, str | None],
) -> Counter[str]:
    """Write the redacted files and the ledger; how many entities of each type were hidden."""
    from maskedcrf.cli.streams import note, output_text

    hidden: Counter[str] = Counter()
    targets = _targets(files, output, ledger)
    with ExitStack() as stack:
        # A file appears whole or not at all, and none of them if one fails.
        book = stack.enter_context(output_text(str(ledger))) if ledger else None
        for name, target in zip(files, targets, strict=True):
            for entries in _write(redactor, name, target, stack, *reading):
                hidden.update(each.hidden.type for each in entries)
                for entry in entries if book is not None else ():
                    record = entry.to_json(with_text=ledger_text)
                    print(json.dumps(record, ensure_ascii=False), file=book)
    count, number = hidden.total(), len(files)
    note(f"{count:,} {'entity' if count == 1 else 'entities'} hidden in {number} file{'s' * (number != 1)}")
    return hidden


def _write(
    redactor: Redactor,
    name: str,
    target: str,
    stack: ExitStack,
    format: str,
    token_column: int,
    comment: str | None,
) -> Iterator[list[Entry]]:
    """Write one file; what was hidden, part by part."""
    from maskedcrf.cli.streams import output_text
    from maskedcrf.cli.terminal import standard_output
    from maskedcrf.data.formats import find_format
    from maskedcrf.errors import DataError
    from maskedcrf.files import atomic_file, file_name
    from maskedcrf.redaction.files import redact_columns, redact_jsonl, redact_text
    from maskedcrf.redaction.tables import redact_parquet

    found = find_format(name) if format == "auto" else format
    if found == "parquet":
        if "-" in (name, target):
            raise DataError(f"{file_name(name)}: a Parquet file is read from a file and written to one: say -o FILE")
        yield from redact_parquet(redactor, name, stack.enter_context(atomic_file(target)))
        return
    readers = {"text": redact_text, "jsonl": redact_jsonl}
    if found == "conll":
        parts = redact_columns(redactor, name, token_column=token_column, comment=comment)
    elif found in readers:
        parts = readers[found](redactor, name)
    else:
        raise DataError(
            f"{file_name(name)}: {found} is not redacted, only text, jsonl, conll and parquet; convert it first"
        )
    handle = standard_output() if target == "-" else stack.enter_context(output_text(target))
    for part in parts:
        handle.write(part.text)
        yield part.entries


def _targets(files: list[str], output: str, ledger: Path | None) -> list[str]:
    """What each file becomes; nothing is written over what is read."""
    from maskedcrf.errors import MaskedCRFError

    folder = Path(output)
    if len(files) == 1 and not folder.is_dir():
        targets = [output]
    elif output == "-" or not folder.is_dir():
        raise MaskedCRFError(
            f"{output}: several files are redacted into a folder that is there: mkdir it, and say -o FOLDER"
        )
    else:
        targets = [str(folder / ("stdin" if name == "-" else Path(name).name)) for name in files]
    paths = [Path(name).resolve() for name in [*targets, *([str(ledger)] if ledger else [])] if name != "-"]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice:
        raise MaskedCRFError(f"{twice}: two files would be written there; redact them one after the other")
    read = {Path(name).resolve() for name in files if name != "-"}
    same = next((path for path in paths if path in read), None)
    if same:
        raise MaskedCRFError(f"{same}: is read, and would be lost; write to another place")
    return targets


def _check(redactor: Redactor, gold: str, unit: UnitName) -> dict[str, Any]:
    from maskedcrf.cli.streams import note
    from maskedcrf.redaction.check_promise import check_promise

    tagger = redactor.tagger
    found = check_promise(redactor, tagger.read_gold(gold), scheme=tagger.output_scheme, unit=unit.value)
    note(str(found))
    for kind, own in found.types.items():
        note(f"{kind or 'entities'}: missed {own['missed']:,} of {own['entities']:,}")
    if found.is_own_sample:
        note("these are the sentences the promise was made on, so this check proves nothing; give others")
    return found.to_json()
