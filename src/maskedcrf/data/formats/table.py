"""The one table of formats: name, how it is recognised, reader, writer, extra."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from maskedcrf.data.formats import recognise
from maskedcrf.data.formats.brat import read_brat, write_brat
from maskedcrf.data.formats.conll import read_conll, write_columns
from maskedcrf.data.formats.conllu import read_conllu
from maskedcrf.data.formats.delimited import read_delimited, write_csv
from maskedcrf.data.formats.docbin import read_docbin, write_docbin
from maskedcrf.data.formats.doccano import read_doccano, write_doccano
from maskedcrf.data.formats.huggingface import read_saved
from maskedcrf.data.formats.jsonl import read_jsonl, write_jsonl
from maskedcrf.data.formats.label_studio import read_label_studio, write_label_studio
from maskedcrf.data.formats.opennlp import read_opennlp
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.parquet import read_parquet, write_parquet
from maskedcrf.data.formats.prodigy import read_prodigy
from maskedcrf.data.formats.recognise import Beginning, beginning_of
from maskedcrf.data.formats.text import read_text
from maskedcrf.data.formats.triples import read_triples
from maskedcrf.data.formats.webanno import read_webanno
from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.files import SUFFIXES, file_name

FormatName = Literal[
    "parquet", "spacy", "webanno", "conllu", "labelstudio", "prodigy", "doccano", "jsonl", "brat", "triples",
    "huggingface", "opennlp", "csv", "conll", "text",
]  # fmt: skip
Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Format:
    """How one format is recognised, read and written."""

    what: str
    """What it is, in a few words."""
    recognises: Callable[[Beginning], bool]
    read: Callable[[Path, ReadOptions], Records]
    suffixes: tuple[str, ...] = ()
    """How names end that decide where the content does not."""
    write: Callable[[Iterator[TaggedText]], Iterator[bytes]] | None = None
    write_files: Callable[[Iterator[TaggedText]], Iterator[tuple[str, bytes]]] | None = None
    """Of a format that is a folder: its files by name."""
    extra: str | None = None
    """What to install for it: maskedcrf[extra]."""


def _never(start: Beginning) -> bool:
    return False


def _read_columns(path: Path, options: ReadOptions) -> Records:
    columns = read_conll(
        path, token_column=options.token_column, tag_column=options.tag_column, comment=options.comment
    )
    return map(Sentence.with_first_characters, columns) if options.first_character else columns


FORMATS: dict[FormatName, Format] = {
    "parquet": Format(
        "a Parquet table", recognise.is_parquet, read_parquet, SUFFIXES["parquet"], write_parquet, extra="formats"
    ),
    "spacy": Format("spaCy's DocBin", recognise.is_docbin, read_docbin, (".spacy",), write_docbin, extra="spacy"),
    "webanno": Format("WebAnno TSV 3", recognise.is_webanno, read_webanno),
    "conllu": Format("CoNLL-U", recognise.is_conllu, read_conllu, (".conllu", ".conllup"), extra="formats"),
    "labelstudio": Format(
        "Label Studio's JSON", recognise.is_label_studio, read_label_studio, write=write_label_studio
    ),
    "prodigy": Format("Prodigy's JSON lines", recognise.is_prodigy, read_prodigy),
    "doccano": Format("doccano's JSON lines", recognise.is_doccano, read_doccano, write=write_doccano),
    "jsonl": Format("JSON lines", recognise.is_json_object, read_jsonl, SUFFIXES["jsonl"], write=write_jsonl),
    "brat": Format("BRAT's standoff", recognise.is_brat, read_brat, (".ann",), write_files=write_brat),
    "triples": Format("a folder of parallel files (seq.in)", recognise.is_triples, read_triples),
    "huggingface": Format("a saved dataset", recognise.is_huggingface, read_saved, extra="formats"),
    "opennlp": Format("OpenNLP's name finder format", recognise.is_opennlp, read_opennlp),
    "csv": Format("a table with a header", recognise.is_delimited, read_delimited, (".csv",), write_csv),
    "conll": Format(
        "columns",
        recognise.is_columns,
        _read_columns,
        SUFFIXES["conll"],
        write_columns,
    ),
    "text": Format("plain text", _never, read_text, (".txt", ".text")),
}
"""In the order in which they are tried: a format that others resemble stands after them."""
WRITABLE = tuple(name for name, each in FORMATS.items() if each.write or each.write_files)
assert set(FORMATS) == set(get_args(FormatName))


def find_format(path: Path) -> FormatName:
    """The format of a file, a folder or standard input, by its content, then by its name; else it is refused."""
    start = beginning_of(path)
    if found := recognise_format(start):
        return found
    name = file_name(path)
    if start.names is not None:
        raise DataError(
            f"{name}: a folder of no known format: no .ann files (BRAT), no seq.in and no saved dataset; give a file"
        )
    if not start.is_readable or not start.text.strip():
        return "conll"  # its reader says what is wrong with it; a pipe with a name cannot be looked into
    if name == "<stdin>":
        return "text"
    if start.raw.startswith(b"PK"):
        raise DataError(f"{name}: a zip archive; unpack it and give what is in it (of Excel, save as CSV)")
    is_array = start.text.lstrip().startswith("[")
    reason = "a JSON array: write one object a line (jq -c .[])" if is_array else "no known format fits what is in it"
    raise DataError(f"{name}: {reason}; say what it is (--input-format, data.format): {', '.join(FORMATS)}")


def recognise_format(start: Beginning) -> FormatName | None:
    """The format that content or name show, if any."""
    by_content = (name for name, each in FORMATS.items() if each.recognises(start))
    by_name = (name for name, each in FORMATS.items() if start.names is None and start.suffix in each.suffixes)
    return next(by_content, None) or next(by_name, None)


def require_columns(path: Path, format: str = "auto") -> None:
    """Refuse what is no column file, by what it is, unless `format` says that it is one."""
    found = find_format(path) if format == "auto" else format
    if found == "conll":
        return
    name = file_name(path)
    if found == "text":
        raise DataError(
            f"{name}: plain text, it seems; this command reads columns whose cells are tags: say --input-format conll"
        )
    what = FORMATS[found].what if found in FORMATS else f"unknown format {found!r}"
    raise DataError(f"{name}: {what}; this command reads columns: maskedcrf convert writes them")


__all__ = ["FORMATS", "WRITABLE", "Format", "FormatName", "find_format", "require_columns"]
