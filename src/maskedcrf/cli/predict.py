"""maskedcrf predict."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

import typer

from maskedcrf.cli.options import (
    DEVICE,
    Beta,
    Comment,
    DecodingChoice,
    Files,
    InputFormat,
    Output,
    OwnSplitter,
    OwnTokenizer,
    SegmentThreshold,
    Trust,
    decoding_options,
)
from maskedcrf.cli.terminal import printable, standard_output

if TYPE_CHECKING:
    from maskedcrf.data.annotation import AnnotatedText
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.onnx.tagger import OnnxTagger
    from maskedcrf.tagger import Tagger
    from maskedcrf.tagger.prediction import Entity, Prediction


JSON_LINES = ("jsonl", "doccano", "prodigy")
"""Formats whose lines keep all of their fields."""


class Record(NamedTuple):
    """A line of JSON: what is tagged, and all of its fields, which the answer joins."""

    words: str | Sentence
    fields: dict[str, Any]


class OutputFormat(StrEnum):
    """What is written."""

    conll = "conll"
    jsonl = "jsonl"
    text = "text"


ThresholdOption = Annotated[
    float | None, typer.Option(help="All entities at least this probable, on the best path or not.")
]


def run(
    model: Annotated[Path, typer.Argument(help="Model folder, as `maskedcrf train` writes it, or .onnx file.")],
    files: Files,
    format: Annotated[
        OutputFormat | None, typer.Option(help="Format of the output; text on a terminal, else conll.")
    ] = None,
    input_format: InputFormat = "auto",
    token_column: Annotated[int, typer.Option(help="Column of the tokens in a column file.")] = 0,
    comment: Comment = None,
    nbest: Annotated[int, typer.Option(help="Also the n best paths (jsonl).")] = 0,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Exact probability of each entity.")] = False,
    threshold: ThresholdOption = None,
    decoding: DecodingChoice = None,
    segment_threshold: SegmentThreshold = None,
    beta: Beta = 1.0,
    tokenizer: OwnTokenizer = None,
    sentences: OwnSplitter = None,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    trust: Trust = False,
    output: Output = "-",
) -> None:
    """Tag text, columns or JSON lines with a trained model; output has as many tags as there are tokens.

    A column file keeps its columns and gets the predicted tag as a last one (-DOCSTART- lines get O, comments stay as
    they are), so that `maskedcrf evaluate` reads it.
    A JSON line keeps its fields if JSON lines are written; where it has gold `tags`, the answer's are `predicted_tags`.
    The format of a file is found as in training: by its content, then by its name (.conll, .bio, .bioes, .bmes, .iob,
    .tsv, .col are columns, .jsonl, .ndjson, .json are JSON lines, .txt is text, a text per line). Standard input of no
    known format is read as text; a file of no known format is refused unless --input-format names one.

    \b
    Example:
      echo "Ann flew to Oslo." | maskedcrf predict model -
      maskedcrf predict model test.conll | maskedcrf evaluate -
      maskedcrf predict model news.txt --format jsonl --threshold 0.2 > entities.jsonl
    """
    from maskedcrf.cli.streams import note, output_text
    from maskedcrf.data.formats.conll import DocumentMark
    from maskedcrf.data.tokenizers import change_tokenizer

    terminal = output == "-" and sys.stdout.isatty()
    shape = format or (OutputFormat.text if terminal else OutputFormat.conll)
    options: dict[str, Any] = {"probabilities": probabilities, "nbest": nbest, "threshold": threshold}
    _require_room(shape, **options)
    options |= decoding_options(decoding, segment_threshold, beta)
    tagger = _tagger(model, device, trust=trust)
    change_tokenizer(tagger, tokenizer, sentences)
    inputs, kept = tee(_as_trained(_inputs(files, input_format, token_column, comment), tagger))
    texts = (_words(given) for given in inputs if not isinstance(given, DocumentMark))
    answers = tagger.stream(texts, **options)
    if files == ["-"] and sys.stdin.isatty() and terminal and input_format != "conll":
        note("a text a line, answered one by one; Ctrl-D ends")
        answers = (answer for text in texts for answer in tagger.stream([text], **options))
    # Standard output is a stream: what is tagged is written. A file appears whole or not at all.
    with (
        nullcontext(sys.stdout if shape is OutputFormat.text else standard_output())
        if output == "-"
        else output_text(output) as handle
    ):
        _write(kept, answers, handle, shape, terminal=terminal)


def _require_room(shape: OutputFormat, *, probabilities: bool, nbest: int, threshold: float | None) -> None:
    """Refuse what the written form cannot hold."""
    if shape is OutputFormat.conll and (probabilities or nbest or threshold is not None):
        raise typer.BadParameter("columns have no room for probabilities and n-best paths: say --format jsonl")
    if shape is OutputFormat.text and nbest:
        raise typer.BadParameter("marked text has no room for n-best paths: say --format jsonl")


def _has_colours() -> bool:
    """Whether this terminal shows colours and its user wants them (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _tagger(model: Path, device: str, *, trust: bool) -> Tagger | OnnxTagger:
    """The model of a folder, or of an ONNX file, for which torch need not be installed."""
    if model.suffix == ".onnx":
        from maskedcrf.onnx.tagger import OnnxTagger

        return OnnxTagger.load(model, trusted=trust)
    from maskedcrf.tagger import Tagger

    return Tagger.load(model, device=device)


def _as_trained(
    inputs: Iterator[str | Sentence | Record], tagger: Tagger | OnnxTagger
) -> Iterator[str | Sentence | Record]:
    """Tokens of columns cut to their first character where the model learnt them so."""
    for each in inputs:
        cut = tagger.first_character and not isinstance(each, str | Record) and each.columns
        yield each.with_first_characters() if cut else each  # type: ignore[union-attr]


def _words(given: str | Sentence | Record) -> str | Sentence:
    return given.words if isinstance(given, Record) else given


def _inputs(
    files: Sequence[str], format: str, token_column: int, comment: str | None
) -> Iterator[str | Sentence | Record]:
    """Texts as strings, JSON as records, all else as sentences, document marks and comments of columns among them."""
    from maskedcrf.data.annotation import AnnotatedText
    from maskedcrf.data.formats import ReadOptions, read_records
    from maskedcrf.data.formats.conll import read_conll
    from maskedcrf.files import numbered_lines

    options = ReadOptions(token_column=token_column, tag_column=None, comment=comment)
    for name in files:
        found = _format_of(name) if format == "auto" else format
        if found == "conll":
            yield from read_conll(name, token_column=token_column, tag_column=None, comment=comment, marks=True)
        elif found in JSON_LINES:
            lines = ((number, line) for number, line in numbered_lines(name) if line.strip())
            yield from (_json_input(name, number, line, found) for number, line in lines)
        else:
            for record in read_records(name, format=found, options=options):  # type: ignore[arg-type]
                yield _words_of(record) if isinstance(record, AnnotatedText) else record


def _format_of(name: str) -> str:
    """A terminal is not looked into: what is typed there is text."""
    from maskedcrf.data.formats import find_format

    return "text" if name == "-" and sys.stdin.isatty() else find_format(name)


def _words_of(text: AnnotatedText) -> str | Sentence:
    """The text itself, or its tokens where the file gives them."""
    from maskedcrf.data.sentence import Sentence

    if text.tokens is None:
        return text.text
    tokens = tuple(text.text[start:end] for start, end in text.tokens)
    return Sentence(tokens, None, text.file, text.line, text=text.text, offsets=text.tokens, one_line=True)


def _json_input(name: str, number: int, line: str, format: str) -> Record:
    """The text of a line of JSON as it stands, or its tokens, and its fields."""
    from maskedcrf.data.formats.values import json_record, require_strings, require_text, tokens_or_text
    from maskedcrf.data.sentence import Sentence
    from maskedcrf.files import file_name

    where = f"{file_name(name)}:{number}"
    fields = json_record(line, where)
    text = {"prodigy": fields.get("text"), "doccano": fields.get("data")}.get(format)  # Prodigy's tokens are objects
    words = tokens_or_text(fields, where) if text is None else require_text(text, where)
    require_strings([json.dumps(fields, ensure_ascii=False)], "fields", where)  # all of them can be written
    if isinstance(words, str):
        return Record(words, fields)
    return Record(Sentence(tuple(words), None, file_name(name), number, one_line=True), fields)


def _write(
    inputs: Iterable[str | Sentence | Record],
    answers: Iterator[Prediction],
    handle: TextIO,
    shape: OutputFormat,
    *,
    terminal: bool,
) -> None:
    """Each answer in the wanted shape; document marks and comments have none and are written in columns alone."""
    from maskedcrf.data.formats.conll import DocumentMark, write_conll

    for given in inputs:
        if isinstance(given, DocumentMark):
            if shape is OutputFormat.conll:
                added = "" if given.is_comment else f"{given.separator}O" * (given.missing + 1)
                write_conll([replace(given, mark=given.mark + added)], handle)
            continue
        answer = next(answers)
        if shape is OutputFormat.jsonl:
            fields = given.fields if isinstance(given, Record) else {}
            handle.write(json.dumps(_with_fields(fields, answer), ensure_ascii=False) + "\n")
        elif shape is OutputFormat.text:
            handle.write(_highlight(answer, terminal=terminal) + "\n")
        elif answer.tokens:
            write_conll(_with_tags(_words(given), answer).parts(), handle)


def _with_fields(fields: dict[str, Any], answer: Prediction) -> dict[str, Any]:
    """A record's own fields, such as gold tags, as they were; the answer's of the same name as `predicted_...`."""
    joined = dict(fields)
    for key, value in answer.to_json().items():
        repeated = key in ("text", "tokens") and fields.get(key) == value  # what was tagged stands there already
        joined[f"predicted_{key}" if key in fields and not repeated else key] = value
    return joined


def _with_tags(given: str | Sentence, answer: Prediction) -> Sentence:
    from maskedcrf.data.sentence import Sentence

    if isinstance(given, str) or not given.columns:
        return Sentence(answer.tokens, answer.tags, breaks=answer.sentence.breaks)
    return replace(given, tags=answer.tags, columns=(*given.columns, answer.tags))


def _highlight(answer: Prediction, *, terminal: bool) -> str:
    """The text with its entities marked: [Oslo LOC], with the probability where it is known."""
    pieces, at = [], 0
    colours, clean = terminal and _has_colours(), printable if terminal else str
    text = answer.text
    for entity in _without_overlaps(answer.entities):
        share = "" if entity.probability is None else f" {entity.probability:.2f}"
        mark = clean(f"[{entity.text} {entity.type}{share}]")
        pieces += [clean(text[at : entity.start]), f"\033[1;36m{mark}\033[0m" if colours else mark]
        at = entity.end
    return "".join([*pieces, clean(text[at:])])


def _without_overlaps(entities: Iterable[Entity]) -> list[Entity]:
    """Of entities above a threshold that overlap, the most probable, by their place in the text."""
    chosen: list[Entity] = []
    covered: set[int] = set()
    for entity in sorted(entities, key=lambda each: -(each.probability or 0.0)):
        if covered.isdisjoint(range(*entity.tokens)):
            chosen.append(entity)
            covered.update(range(*entity.tokens))
    return sorted(chosen, key=lambda each: each.start)
