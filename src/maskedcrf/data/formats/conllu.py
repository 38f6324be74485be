"""CoNLL-U and CoNLL-U Plus: words with numbers, their entities in a column of their own or in MISC.

Multiword ranges (1-2) and empty nodes (2.1) are no words. `SpaceAfter=No` gives the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError, MissingExtraError
from maskedcrf.files import file_name, numbered_lines

UD_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
PLUS = re.compile(r"#\s*global\.columns\s*=\s*(.*)")
ENTITY_NAMES = ("NER", "NE", "ENTITY", "NE_TAG", "NER_TAG")
"""Names of a column, or of a key in MISC, that hold entities where nobody says which does."""


def read_conllu(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of a file; a `# newdoc` line begins a document."""
    name = file_name(path)
    columns: Sequence[str] = UD_COLUMNS
    chosen = _Entities(options.entity_column)
    document = 0
    for block in _blocks(path):
        for number, line in block:
            if plus := PLUS.match(line):
                columns = tuple(plus[1].split())
                _require_columns(columns, f"{name}:{number}")
            document += line.startswith("# newdoc")
        rows = [(number, line) for number, line in block if not line.startswith("#")]
        if rows:
            yield _sentence(rows, columns, name, document, chosen, options)
    if options.tag_column is not None and not chosen.found:
        where = repr(options.entity_column) if options.entity_column else "NER or NE as a column or in MISC"
        raise DataError(f"{name}: no entities in it ({where}); name their column with entity_column, such as MISC:NER")


class _Entities:
    """Where the tags stand: a column, or a key of MISC; and whether any was found."""

    def __init__(self, wanted: str | None) -> None:
        self.column, _, self.key = (wanted or "").partition(":")
        if wanted and self.column != "MISC":
            self.column, self.key = wanted, ""
        self.found = False

    def of(self, token: dict[str, Any], columns: Sequence[str]) -> str | None:
        """The tag of a word; None where it has none."""
        names = [self.column] if self.column and not self.key else [c for c in columns if self._is_entity(c)]
        for name in [] if self.key else names:
            value = token.get(name.lower())
            if value not in (None, ""):
                return str(value)
        misc = token.get("misc")
        if not isinstance(misc, dict) or (self.column and not self.key):
            return None
        keys = [self.key] if self.key else [key for key in misc if key.upper() in ENTITY_NAMES]
        return next((misc[key] for key in keys if misc.get(key)), None)

    @staticmethod
    def _is_entity(column: str) -> bool:
        return column.rpartition(":")[2].upper() in ENTITY_NAMES


def _require_columns(columns: Sequence[str], where: str) -> None:
    if not {"ID", "FORM"} <= set(columns) or len(set(columns)) < len(columns):
        raise DataError(
            f"{where}: global.columns needs ID and FORM, and each column once; got {' '.join(columns)!r:.80}"
        )


def _blocks(path: str | os.PathLike[str]) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines between empty lines."""
    block: list[tuple[int, str]] = []
    for number, line in numbered_lines(path):
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _sentence(
    rows: list[tuple[int, str]],
    columns: Sequence[str],
    name: str,
    document: int,
    chosen: _Entities,
    options: ReadOptions,
) -> Sentence:
    parsed = [_parse(line, columns, f"{name}:{number}") for number, line in rows]
    words = [token for token in parsed if isinstance(token["id"], int)]
    lines = [number for (number, _), token in zip(rows, parsed, strict=True) if isinstance(token["id"], int)]
    if not words:
        raise DataError(f"{name}:{rows[0][0]}: a sentence without words; give it one, numbered 1")
    for place, (number, word) in enumerate(zip(lines, words, strict=True), 1):
        if word["id"] != place:
            raise DataError(f"{name}:{number}: word {word['id']} where {place} is next; number them again")
    tags: tuple[str, ...] | None = None
    if options.tag_column is not None:
        given = [chosen.of(word, columns) for word in words]
        chosen.found |= any(given)
        for number, tag in zip(lines, given, strict=True):
            if tag and tag[0] in "()":
                reason = "is a bracket of coreference and no tag; name another key or column with entity_column"
                raise DataError(f"{name}:{number}: {tag!r:.40} {reason}")
        # A key of MISC stands only where there is something to say.
        tags = tuple(tag if tag not in (None, "_", "*") else "O" for tag in given)
    text, offsets = _text(parsed, words) if "MISC" in columns else (None, None)
    tokens = tuple(str(word["form"]) for word in words)
    return Sentence(tokens, tags, name, lines[0], document=document, text=text, offsets=offsets, one_line=True)


def _parse(line: str, columns: Sequence[str], where: str) -> dict[str, Any]:
    try:
        from conllu.exceptions import ParseException
        from conllu.parser import parse_line
    except ImportError as error:
        raise MissingExtraError("reading CoNLL-U needs conllu: pip install 'maskedcrf[formats]'") from error
    cells = line.count("\t") + 1
    if cells != len(columns):
        raise DataError(f"{where}: {cells} cells separated by tabs where CoNLL-U has {len(columns)} here")
    try:
        token = dict(parse_line(line, fields=[column.lower() for column in columns]))
    except (ParseException, ValueError) as error:
        reason = str(error).split("\n")[0][:80]
        raise DataError(f"{where}: {reason} Is this CoNLL-U, with tabs between its columns?") from error
    if not isinstance(token.get("id"), int | tuple):
        raise DataError(f"{where}: a word without a number; write it in the column ID")
    if not str(token.get("form") or "").strip():
        raise DataError(f"{where}: a word without a form; write it in the column FORM")
    return token


def _text(
    parsed: list[dict[str, Any]], words: list[dict[str, Any]]
) -> tuple[str | None, tuple[tuple[int, int], ...] | None]:
    """The text that the words spell; None if a range is written otherwise than its words are."""
    spaces = [_has_space(word) for word in words]
    for token in parsed:
        if isinstance(token["id"], tuple) and token["id"][1] == "-":
            first, _, last = token["id"]
            if "".join(word["form"] for word in words[first - 1 : last]) != token["form"]:
                return None, None
            spaces[first - 1 : last] = [False] * (last - first) + [_has_space(token)]
    text, offsets = "", []
    for word, space in zip(words, spaces, strict=True):
        offsets.append((len(text), len(text) + len(word["form"])))
        text += word["form"] + " " * space
    return text.rstrip(" "), tuple(offsets)


def _has_space(token: dict[str, Any]) -> bool:
    misc = token.get("misc")
    return not (isinstance(misc, dict) and misc.get("SpaceAfter") == "No")
