"""WebAnno's TSV 3, which INCEpTION exports too: tokens with their characters, and a column for each layer's feature.

#FORMAT=WebAnno TSV 3.3
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value

#Text=Ann Lee left.
1-1	0-3	Ann	*[1]	PER[1]
1-2	4-7	Lee	*[1]	PER[1]
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from maskedcrf.data.annotation import AnnotatedText, Span, require_span
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.errors import DataError
from maskedcrf.files import file_name, numbered_lines

_ROW = re.compile(r"[0-9]{1,9}-[0-9]{1,9}(\.[0-9]{1,9})?")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_VALUE = re.compile(r"(.*?)(?:\[([0-9]{1,9})\])?", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_REMEDY = "export the file again"


@dataclass(slots=True)
class _Block:
    """One sentence as it is gathered."""

    line: int = 0
    text: list[str] = field(default_factory=list)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)


def read_webanno(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of a file; annotations that overlap or cover a part of a token are kept as spans."""
    name = file_name(path)
    features: list[str] = []
    column: int | None = None
    before: set[tuple[str, str]] = set()
    for block in _blocks(path, name, features):
        if column is None:
            column = _column(features, name, options)
        text = _text(block, name, 3 + column, 3 + len(features), options)
        first, last = (_chains(block.rows[place][1], 3 + column) for place in (0, -1))
        for label, chain in before & first:
            where = f"{name}:{block.rows[0][0]}"
            raise DataError(f"{where}: {label}[{chain}] goes on from the sentence before; cut it in two, or remove it")
        before = last
        yield text


def _chains(cells: list[str], column: int) -> set[tuple[str, str]]:
    """The numbered annotations of a row."""
    return {(label, chain) for label, chain in _values(cells[column] if column < len(cells) else "_") if chain}


def _blocks(path: str | os.PathLike[str], name: str, features: list[str]) -> Iterator[_Block]:
    """The sentences of a file; the features that its header names are added to `features`."""
    block = _Block()
    number = 0
    for number, line in numbered_lines(path):
        where = f"{name}:{number}"
        if number == 1 and not line.startswith("#FORMAT=WebAnno TSV 3"):
            raise DataError(f"{where}: {line!r:.60} is not the first line of WebAnno TSV 3; {_REMEDY}")
        if line:
            _add_line(block, number, line, where, features)
        elif block.text:
            yield _with_rows(block, where)
            block = _Block()
    if block.text:
        yield _with_rows(block, f"{name}:{number}")


def _add_line(block: _Block, number: int, line: str, where: str, features: list[str]) -> None:
    if line.startswith("#Text="):
        if block.rows:
            raise DataError(f"{where}: no empty line before this sentence; {_REMEDY}")
        block.line = block.line or number
        block.text.append(line.removeprefix("#Text="))
    elif line.startswith(("#T_SP=", "#T_CH=", "#T_RL=")):
        features += _features(line)
    elif not line.startswith("#") or "\t" in line:
        if not block.text:
            raise DataError(f"{where}: tokens without their #Text= line; {_REMEDY}")
        block.rows.append((number, line.split("\t")))


def _features(line: str) -> list[str]:
    """A name for each column of a layer; an empty one where it links annotations: relations, chains and slots."""
    layer, *names = line[len("#T_SP=") :].split("|")
    if not line.startswith("#T_SP="):
        return [""] * len(names)
    links = [name.startswith("ROLE_") or before.startswith("ROLE_") for before, name in pairwise(["", *names])]
    return ["" if link else f"{layer}|{name}" for link, name in zip(links, names, strict=True)]


def _with_rows(block: _Block, where: str) -> _Block:
    if not block.rows:
        raise DataError(f"{where}: a sentence without tokens; {_REMEDY}")
    return block


def _column(features: Sequence[str], name: str, options: ReadOptions) -> int:
    """Which feature holds the entities: the one named, or the only one that is called value or label."""
    wanted = options.entity_column
    fitting = [
        number
        for number, feature in enumerate(features)
        if feature
        and (
            wanted in (feature, feature.rpartition(".")[2], *feature.rpartition(".")[2].split("|")) if wanted else True
        )
    ]
    likely = [number for number in fitting if features[number].endswith(("|value", "|label"))] or fitting
    entities = [number for number in likely if "NamedEntity" in features[number]] or likely
    if len(entities) != 1:
        there = ", ".join(feature.rpartition(".")[2] for feature in features if feature)[:120] or "none"
        raise DataError(f"{name}:1: which layer holds the entities ({there})? name it with entity_column")
    return entities[0]


def _text(block: _Block, name: str, column: int, width: int, options: ReadOptions) -> AnnotatedText:
    text = _unescape("\n".join(block.text))
    units = _utf16(text)
    first: int | None = None
    tokens: list[tuple[int, int]] = []
    spans: list[Span] = []
    opened: dict[tuple[str, str], tuple[int, int]] = {}
    unlabelled: set[str] = set()
    for number, cells in block.rows:
        where = f"{name}:{number}"
        begin, after = _characters(cells, width, where)
        first = begin - _blanks_before(text) if first is None else first
        start, end = units.get(begin - first, -1), units.get(after - first, -1)
        if not 0 <= start <= end or text[start:end] != _unescape(cells[2]):
            raise DataError(f"{where}: {cells[2]!r:.40} is not what stands at {cells[1]} of its document; {_REMEDY}")
        if "." not in cells[0]:
            tokens.append((start, end))
        for label, chain in _values(cells[column] if column < len(cells) else "_"):
            if label == "*":
                unlabelled.add(chain or cells[0])
            elif chain:
                opened[label, chain] = (opened.get((label, chain), (start, end))[0], end)
            else:
                spans.append(require_span(start, end, label, text, where))
    if any(before[1] > later[0] for before, later in pairwise(tokens)):
        raise DataError(f"{name}:{block.line}: tokens of this sentence overlap; {_REMEDY}")
    spans += [require_span(*place, label, text, f"{name}:{block.line}") for (label, _), place in opened.items()]
    kept = None if options.tag_column is None else tuple(spans)
    options.report.count("annotations without a label left out", len(unlabelled) * (kept is not None))
    return AnnotatedText(text, kept, name, block.line, tokens=tuple(tokens))


def _blanks_before(text: str) -> int:
    return len(text) - len(text.lstrip())


def _characters(cells: list[str], width: int, where: str) -> tuple[int, int]:
    """The characters of a row of its document, in UTF-16 units; a part of a token (1-1.1) has a row of its own."""
    place = _RANGE.fullmatch(cells[1]) if len(cells) > 2 and _ROW.fullmatch(cells[0]) else None
    if place is None:
        raise DataError(f"{where}: a row is 1-1, a tab, 0-3, a tab, the token; got {' '.join(cells)!r:.60}")
    if len(cells) != width:
        raise DataError(f"{where}: {len(cells)} cells where the layers ask for {width}; {_REMEDY}")
    return int(place[1]), int(place[2])


def _values(cell: str) -> Iterator[tuple[str, str]]:
    """Labels, `*` where there is none, and the numbers that join a span's tokens; empty where it is one token long."""
    if cell in ("_", ""):
        return
    for part in re.split(r"(?<!\\)\|", cell):
        found = _VALUE.fullmatch(part)
        label = _unescape(found[1]) if found else part
        if label != "_":
            yield label, (found[2] or "") if found else ""


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


def _utf16(text: str) -> dict[int, int]:
    """From UTF-16 units, which Java counts, to code points."""
    places, unit = {}, 0
    for number, character in enumerate(text):
        places[unit] = number
        unit += 2 if character > "\uffff" else 1
    return {**places, unit: len(text)}
