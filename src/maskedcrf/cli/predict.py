"""maskedcrf predict."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from maskedcrf.cli.options import DEVICE, Comment, Output
from maskedcrf.errors import DataError

if TYPE_CHECKING:
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.deploy.runtime import OnnxTagger
    from maskedcrf.tagger import Tagger
    from maskedcrf.tagger.results import Entity, Prediction


class InputFormat(StrEnum):
    """What the input is."""

    auto = "auto"
    conll = "conll"
    jsonl = "jsonl"
    triples = "triples"
    text = "text"


class OutputFormat(StrEnum):
    """What is written."""

    conll = "conll"
    jsonl = "jsonl"
    text = "text"


def run(
    model: Annotated[Path, typer.Argument(help="Model folder, as `maskedcrf train` writes it, or .onnx file.")],
    files: Annotated[
        list[str], typer.Argument(help="Files; - is standard input, gzip is unpacked.", metavar="FILE...")
    ],
    format: Annotated[OutputFormat | None, typer.Option(help="Written form; text on a terminal, else conll.")] = None,
    input_format: Annotated[
        InputFormat, typer.Option(help="Form of the input; by its name if auto.")
    ] = InputFormat.auto,
    token_column: Annotated[int, typer.Option(help="Column of the tokens in a column file.")] = 0,
    comment: Comment = None,
    nbest: Annotated[int, typer.Option(help="Also the n best paths (jsonl).")] = 0,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Exact probability of each entity.")] = False,
    threshold: Annotated[
        float | None, typer.Option(help="All entities at least this probable, on the best path or not.")
    ] = None,
    device: Annotated[str, typer.Option(help=DEVICE)] = "cpu",
    output: Output = "-",
) -> None:
    """Tag text, columns or JSON lines with a trained model; output has as many tags as there are tokens.

    A column file keeps its columns and gets the predicted tag as a last one (-DOCSTART- lines get O, comments stay as
    they are), so that `maskedcrf evaluate` reads it.
    In text one line is one text. Files named .conll, .bio, .bioes, .bmes, .iob, .tsv, .col are columns, .jsonl,
    .ndjson, .json are JSON lines, a folder holds triples (seq.in), everything else is text, unless --input-format says
    otherwise.

    \b
    Example:
      echo "Ann flew to Oslo." | maskedcrf predict model -
      maskedcrf predict model test.conll | maskedcrf evaluate -
      maskedcrf predict model news.txt --format jsonl --threshold 0.2 > entities.jsonl
    """
    from maskedcrf.cli.streams import written
    from maskedcrf.data.conll import DocumentMark

    terminal = output == "-" and sys.stdout.isatty()
    shape = format or (OutputFormat.text if terminal else OutputFormat.conll)
    if shape is OutputFormat.conll and (probabilities or nbest or threshold is not None):
        raise typer.BadParameter("columns have no room for probabilities and n-best paths: say --format jsonl")
    if shape is OutputFormat.text and nbest:
        raise typer.BadParameter("marked text has no room for n-best paths: say --format jsonl")
    tagger = _tagger(model, device)
    inputs, kept = tee(_as_trained(_inputs(files, input_format, token_column, comment), tagger))
    texts = (given for given in inputs if not isinstance(given, DocumentMark))
    answers = tagger.stream(texts, probabilities=probabilities, nbest=nbest, threshold=threshold)
    # Standard output is a stream: what is tagged is written. A file appears whole or not at all.
    with nullcontext(sys.stdout) if output == "-" else written(output) as handle:
        _write(kept, answers, handle, shape, colours=terminal)


def _tagger(model: Path, device: str) -> Tagger | OnnxTagger:
    """The model of a folder, or of an ONNX file, for which torch need not be installed."""
    if model.suffix == ".onnx":
        from maskedcrf.deploy.runtime import OnnxTagger

        return OnnxTagger.load(model)
    from maskedcrf.tagger import Tagger

    return Tagger.load(model, device=device)


def _as_trained(inputs: Iterator[str | Sentence], tagger: Tagger | OnnxTagger) -> Iterator[str | Sentence]:
    """Tokens of columns cut to their first character where the model learnt them so."""
    if not tagger.first_character:
        return inputs
    return (each.with_first_characters() if not isinstance(each, str) and each.columns else each for each in inputs)


def _inputs(
    files: Sequence[str], form: InputFormat, token_column: int, comment: str | None
) -> Iterator[str | Sentence]:
    """Texts as strings, everything else as sentences, with the document marks and comments of columns among them."""
    from maskedcrf.data.conll import read_conll
    from maskedcrf.data.files import numbered_lines
    from maskedcrf.data.triples import read_triples

    for name in files:
        chosen = _guess(name) if form is InputFormat.auto else form
        if chosen is InputFormat.conll:
            yield from read_conll(name, token_column=token_column, tag_column=None, comment=comment, marks=True)
        elif chosen is InputFormat.triples:
            yield from read_triples(name)
        elif chosen is InputFormat.jsonl:
            yield from (_json_input(name, number, line) for number, line in numbered_lines(name) if line.strip())
        else:
            yield from (line for _, line in numbered_lines(name))


def _guess(name: str) -> InputFormat:
    from maskedcrf.cli.streams import note
    from maskedcrf.data.files import file_name, form_of
    from maskedcrf.data.reading import looks_like_columns

    if Path(name).is_dir():
        return InputFormat.triples
    form = form_of(name)
    if form == "parquet":
        raise DataError(f"{name}: a Parquet file by its name; tag it with maskedcrf tag, or say --input-format")
    if form is None and looks_like_columns(name):
        note(f"{file_name(name)} looks like columns; it is tagged as text: say --input-format conll")
    return InputFormat(form or "text")


def _json_input(name: str, number: int, line: str) -> str | Sentence:
    """The text of a line of JSON as it stands, or its tokens."""
    from maskedcrf.data.files import file_name
    from maskedcrf.data.jsonl import LineSentence, json_record, tokens_or_text

    where = f"{file_name(name)}:{number}"
    words = tokens_or_text(json_record(line, where), where)
    return words if isinstance(words, str) else LineSentence(tuple(words), None, file_name(name), number)


def _write(
    inputs: Iterable[str | Sentence],
    answers: Iterator[Prediction],
    handle: TextIO,
    shape: OutputFormat,
    *,
    colours: bool,
) -> None:
    """Each answer in the wanted shape; document marks and comments have none and are written in columns alone."""
    from maskedcrf.data.conll import DocumentMark, write_conll

    for given in inputs:
        if isinstance(given, DocumentMark):
            if shape is OutputFormat.conll:
                added = "" if given.is_comment else f"{given.separator}O" * (given.missing + 1)
                handle.write(given.mark + added + "\n" * (1 + given.alone))
            continue
        answer = next(answers)
        if shape is OutputFormat.jsonl:
            handle.write(json.dumps(answer.to_json(), ensure_ascii=False) + "\n")
        elif shape is OutputFormat.text:
            handle.write(_marked(answer, colours=colours) + "\n")
        elif answer.tokens:
            write_conll([_with_tags(given, answer)], handle)


def _with_tags(given: str | Sentence, answer: Prediction) -> Sentence:
    from maskedcrf.data.sentence import Sentence

    if isinstance(given, str) or not given.columns:
        return Sentence(answer.tokens, answer.tags)
    return replace(given, tags=answer.tags, columns=(*given.columns, answer.tags))


def _marked(answer: Prediction, *, colours: bool) -> str:
    """The text with its entities marked: [Oslo LOC], with the probability where it is known."""
    pieces, at = [], 0
    text = answer.text
    for entity in _apart(answer.entities):
        share = "" if entity.probability is None else f" {entity.probability:.2f}"
        mark = f"[{entity.text} {entity.type}{share}]"
        pieces += [text[at : entity.start], f"\033[1;36m{mark}\033[0m" if colours else mark]
        at = entity.end
    return "".join([*pieces, text[at:]])


def _apart(entities: Iterable[Entity]) -> list[Entity]:
    """Of entities above a threshold that overlap, the most probable, by their place in the text."""
    taken: list[Entity] = []
    covered: set[int] = set()
    for entity in sorted(entities, key=lambda each: -(each.probability or 0.0)):
        if covered.isdisjoint(range(*entity.tokens)):
            taken.append(entity)
            covered.update(range(*entity.tokens))
    return sorted(taken, key=lambda each: each.start)
