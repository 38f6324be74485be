"""Options that several commands share, so that they look and mean the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.errors import MaskedCRFError

if TYPE_CHECKING:
    from maskedcrf.redaction.rules import Rules


def read_threshold(text: str) -> float | str:
    """A number, or the name of a threshold, which the tagger knows."""
    try:
        return float(text)
    except ValueError:
        return text


Files = Annotated[list[str], typer.Argument(help="Files; - is standard input, gzip is unpacked.", metavar="FILE...")]
SchemeName = Annotated[str, typer.Option("--scheme", help="Tag scheme: BIO, IOB1, BIOES, BILOU, BMES, ...")]
Delimiter = Annotated[str, typer.Option(help="Separator between prefix and type.")]
PrefixLast = Annotated[bool, typer.Option("--prefix-last", help="The prefix comes last, as in LOC-B.")]
TagColumn = Annotated[int, typer.Option("--column", help="Column of the tags, from 0; -1 is the last.")]
GoldColumn = Annotated[int, typer.Option("--gold-column", help="Column of the gold tags, from 0; -1 is the last.")]
PredictedColumn = Annotated[int, typer.Option("--predicted-column", help="Column of the predicted tags.")]
Comment = Annotated[str | None, typer.Option(help="Lines before a sentence that begin with this are comments.")]
InputFormat = Annotated[str, typer.Option(help="Format of the files, such as conll or brat; auto recognises it.")]
EntityColumn = Annotated[
    str | None, typer.Option(help="Name of the tags' column or layer, where a file names them (CoNLL-U, WebAnno, CSV).")
]
TokenizerName = Annotated[str, typer.Option(help="Tokenizer for raw text: unicode, simple, spacy:en, ...")]
SentenceSplitter = Annotated[
    str, typer.Option(help="Sentence splitter for raw text: line, blank_line, spacy:LANGUAGE or none.")
]
OwnTokenizer = Annotated[
    str | None,
    typer.Option("--tokenizer", help="Tokenizer for raw text, in place of the model's: unicode, MODULE:FUNCTION."),
]
OwnSplitter = Annotated[
    str | None,
    typer.Option(
        "--sentences", help="Sentence splitter, in place of the model's: line, blank_line, spacy:LANGUAGE or none."
    ),
]
DEVICE = "Device to run on, such as cpu or cuda; auto is the GPU if there is one."
Trust = Annotated[
    bool, typer.Option("--trust", help="Run an .onnx file without checking its operators or limiting its memory.")
]
SegmentThreshold = Annotated[
    Any,
    typer.Option(
        parser=read_threshold,
        metavar="NUMBER|f1|expected",
        help="Threshold of decoding by segments: a number, f1 (chosen on dev) or expected (best by the model itself).",
    ),
]
Beta = Annotated[float, typer.Option(help="For the threshold `expected`: weight of recall relative to precision.")]
Patterns = Annotated[
    list[str] | None,
    typer.Option(help="Also hide what patterns find: builtin, or a TOML or JSON file; may be repeated."),
]
Dictionary = Annotated[
    list[str] | None,
    typer.Option(help="Also hide the names in a file, one per line: PER=clients.txt; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[
    str, typer.Option("--output", "-o", help="File to write, whole or not at all; - is standard output.")
]


class Repair(StrEnum):
    """What becomes of an illegal segment."""

    retain = "retain"
    discard = "discard"


class Rule(StrEnum):
    """What a scorer does with an illegal segment."""

    retain = "retain"
    discard = "discard"
    both = "both"
    seqeval = "seqeval"
    strict = "strict"


class DecodingName(StrEnum):
    """How a model decodes."""

    path = "path"
    segments = "segments"


class Misfit(StrEnum):
    """What becomes of a span that fits no tokens."""

    error = "error"
    snap = "snap"
    drop = "drop"


class Overlap(StrEnum):
    """Which of two spans that share a token is kept."""

    error = "error"
    longest = "longest"
    first = "first"


MISFITS = "Spans that begin or end inside a token: refuse, snap outwards, or drop."
OVERLAPS = "Spans that share a token: refuse, or keep the longest or the first."
Misfits = Annotated[Misfit, typer.Option(help=MISFITS)]
Overlaps = Annotated[Overlap, typer.Option(help=OVERLAPS)]
OwnMisfits = Annotated[
    Misfit | None, typer.Option("--misfits", help="Spans that begin or end inside a token, if not as in training.")
]
OwnOverlaps = Annotated[
    Overlap | None, typer.Option("--overlaps", help="Spans that share a token, if not as in training.")
]
DecodingChoice = Annotated[
    DecodingName | None, typer.Option(help="Best path, or segments by probability; the model's own if left out.")
]


def policies(misfits: Misfit | None, overlaps: Overlap | None) -> dict[str, str | None]:
    """Keywords of the readers; None leaves them as in training."""
    return {"misfits": misfits and misfits.value, "overlaps": overlaps and overlaps.value}


def read_rules(patterns: list[str] | None, dictionaries: list[str] | None) -> Rules:
    """The rules of these two options."""
    from maskedcrf.redaction.rules import Rules

    pairs = [name.partition("=") if "=" in name else ("", "", name) for name in dictionaries or ()]
    return Rules.read(patterns or (), [(kind, file) for kind, _, file in pairs])


def stream_decoding(decoding: DecodingName | None, threshold: float | str | None) -> dict[str, Any]:
    """Keywords of `threshold_for`, where texts come without end."""
    if threshold == "expected":
        raise MaskedCRFError("the threshold `expected` needs all texts at once, as predict has them; give a number")
    return {"decoding": decoding and decoding.value, "segment_threshold": threshold}


def decoding_options(decoding: DecodingName | None, threshold: float | str | None, beta: float) -> dict[str, Any]:
    """Keywords of `stream`."""
    return {"decoding": decoding and decoding.value, "segment_threshold": threshold, "beta": beta}
