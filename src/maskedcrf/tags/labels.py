"""Labels as people write them: `b-per`, `PER-B`, `B_PER`, bare `PER`, `[PAD]`; read into the tags of a scheme.

Nothing is guessed in silence: a report says what each label was taken for and which columns can never be predicted;
where two readings are possible, an error asks.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maskedcrf.errors import ConstraintError
from maskedcrf.tags.scheme import Scheme

if TYPE_CHECKING:
    from maskedcrf.tags.constraints import Constraints

Labels = Mapping[int, str] | Mapping[str, str] | Sequence[str]
"""Column -> label, as `id2label` of a Hugging Face config has it, or the labels in the order of their columns."""

AUTO = "auto"
MAX_LABELS = 4096
OUTSIDE = frozenset(("O", "OUT", "OUTSIDE"))
"""Labels of words outside every entity, in capitals."""
_MARKS = ("PAD", "CLS", "SEP", "MASK", "UNK", "START", "STOP", "END", "BOS", "EOS", "S", "/S", "IGNORE")
FILLERS = frozenset((*_MARKS, "START_TAG", "STOP_TAG", "START-TAG", "STOP-TAG", "-100"))
"""Labels of what is no word, in capitals and without brackets; the single letters need theirs."""
_BRACKETED = re.compile(r"(?:\[|<)(?P<name>.*)(?:\]|>)")
_SEPARATORS = "-_:/|. \N{EN DASH}"
_PREFIX_FIRST = re.compile(rf"(?P<prefix>[BIESLUMW])[{_SEPARATORS}]+(?P<type>.+)", re.IGNORECASE | re.DOTALL)
_PREFIX_LAST = re.compile(rf"(?P<type>.+?)[{_SEPARATORS}]+(?P<prefix>[BIESLUMW])", re.IGNORECASE | re.DOTALL)
_PREFIX_JOINED = re.compile(r"(?P<prefix>[BIESLUMW])(?P<type>\w.*)", re.DOTALL)
"""`BPER`."""
_NAMELESS = re.compile(r"(?:LABEL|CLASS|TAG)[_ -]?\d+", re.IGNORECASE)
BIO_NOTE = "B and I taken for BIO; say scheme='IOB1' if B- stands only between neighbours of one type"
_SCHEMES = (
    (frozenset("BIES"), "BIOES"),
    (frozenset("BILU"), "BILOU"),
    (frozenset("BMES"), "BMES"),
    (frozenset("BMEW"), "BMEWO"),
)
"""Five-letter schemes by the prefixes they have beside O; B, E and S alone mean the same in the first and the third."""
_SINGLE = frozenset("SUW")


@dataclass(frozen=True, slots=True)
class LabelReading:
    """What one column's label was taken for."""

    column: int
    label: str | None
    """None for a column that has no label."""
    tag: str | None
    """None for a column that is never predicted."""
    reason: str = ""

    def __str__(self) -> str:
        label = "(no label)" if self.label is None else repr(self.label)
        return f"{self.column:>4}  {label} -> {self.tag or 'never predicted'}{f'  ({self.reason})' * bool(self.reason)}"


@dataclass(frozen=True, slots=True)
class LabelReport:
    """How a list of labels was read."""

    scheme: str
    readings: tuple[LabelReading, ...]
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[int, ...]:
        """Columns that can be predicted."""
        return tuple(each.column for each in self.readings if each.tag is not None)

    @property
    def dropped(self) -> tuple[LabelReading, ...]:
        """Columns that can never be predicted."""
        return tuple(each for each in self.readings if each.tag is None)

    @property
    def renamed(self) -> tuple[LabelReading, ...]:
        """Labels that are written otherwise than the tags they were taken for."""
        return tuple(each for each in self.readings if each.tag is not None and each.tag != each.label)

    def to_json(self) -> dict[str, Any]:
        """Plain values: the scheme, tags by column, what was dropped and renamed, notes."""
        return {
            "scheme": self.scheme,
            "tags": {str(each.column): each.tag for each in self.readings},
            "dropped": {str(each.column): each.reason for each in self.dropped},
            "renamed": {each.label or "": each.tag for each in self.renamed},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        count = len(self.columns)
        lines = [f"{count} of {len(self.readings)} labels read as {self.scheme}"]
        notable = [*self.renamed, *self.dropped]
        lines += [str(each) for each in sorted(notable, key=lambda each: each.column)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True, slots=True)
class _ColumnLabel:
    """A column whose label is a tag: its prefix in capitals and its type."""

    column: int
    label: str
    prefix: str
    type: str


def read_labels(labels: Labels, scheme: str | Scheme = AUTO, *, columns: int | None = None) -> Constraints:
    """The rules over these labels, a column each; `columns` is the number of scores a word has, if there are more."""
    from maskedcrf.tags.constraints import Constraints

    named = _by_column(labels)
    size = len(named) if columns is None else columns
    if size < len(named):
        raise ConstraintError(f"{len(named)} labels for {size} columns of scores; give one label a column")
    fillers = {column: reason for column, label in enumerate(named) if (reason := _filler(label, named))}
    words = {column: label.strip() for column, label in enumerate(named) if column not in fillers}
    _require_names(words)
    parsed, notes = _parse(words)
    chosen = _scheme_of(parsed, notes) if scheme == AUTO else Scheme.get(scheme)
    tags = _tags(parsed, chosen)
    if not tags or (fillers and {each.prefix for each in parsed} == {"O"}):
        raise ConstraintError("no label is an entity's: give labels= with a name such as O or B-PER for each column")
    beyond = dict.fromkeys(range(len(named), size), "more scores than labels")
    readings = [
        LabelReading(column, named[column] if column < len(named) else None, tags.get(column), reason)
        for column in range(size)
        for reason in [fillers.get(column) or beyond.get(column) or ""]
    ]
    # A column that is never predicted needs a name that the scheme can read.
    single = chosen.write[0] if chosen.write else next(iter(chosen.start))
    names = [each.tag or chosen.join(single, f"[unused {each.column}]") for each in readings]
    kept = np.array([each.tag is not None for each in readings])
    legal = chosen.matrices(names).legal
    legal = legal & np.append(kept, True) & np.append(kept, True)[:, None]
    with warnings.catch_warnings():  # what no path can use stands in the report
        warnings.simplefilter("ignore")
        rules = Constraints(tuple(names), legal[:-1, :-1], legal[-1, :-1], legal[:-1, -1], chosen)
        typed = [each.column for each in parsed if each.prefix != "O"]
        if typed and not rules.alive[typed].any():
            raise ConstraintError(f"no legal path of {chosen.name} has an entity of these labels: say another scheme")
        for column in np.flatnonzero(kept & ~rules.alive).tolist():
            if scheme == AUTO:
                raise ConstraintError(
                    f"label {named[column]!r} is on no legal path of {chosen.name}, which its prefixes look like: say "
                    "the scheme, or '[PAD]' in labels= if it is never to be predicted"
                )
            readings[column] = replace(readings[column], tag=None, reason=f"no legal path of {chosen.name} can use it")
        return replace(rules, report=LabelReport(chosen.name, tuple(readings), tuple(notes)))


def _by_column(labels: Labels) -> list[str]:
    """The labels in the order of their columns, every column named once."""
    if isinstance(labels, str) or not isinstance(labels, Mapping | Sequence):
        raise ConstraintError(f"labels are a list, or a table from column to label; got {type(labels).__name__}")
    pairs: list[tuple[Any, Any]] = list(labels.items() if isinstance(labels, Mapping) else enumerate(labels))
    found: dict[int, str] = {}
    for key, label in pairs:
        column = _column(key, label)
        if column in found:
            raise ConstraintError(f"column {column} has two labels, {found[column]!r} and {label!r}; give it one")
        found[column] = label
    if not 0 < len(found) <= MAX_LABELS:
        raise ConstraintError(f"{len(found)} labels; give labels= with a name for each column, {MAX_LABELS} at most")
    missing = next((column for column in range(len(found)) if column not in found), None)
    if missing is not None:
        raise ConstraintError(
            f"no label for column {missing} while column {max(found)} has one; give labels= with a name for each, "
            "'[PAD]' for a column that is never to be predicted"
        )
    return [found[column] for column in range(len(found))]


def _column(key: Any, label: Any) -> int:
    if not isinstance(label, str):
        raise ConstraintError(f"label {key} is {label!r:.40}, not a name; give labels= with a name for each column")
    if isinstance(key, bool) or not re.fullmatch(r"[0-9]{1,9}", str(key)):
        raise ConstraintError(f"label {label!r} stands under {key!r:.40}, which is no column number; number from 0")
    return int(key)


def _require_names(words: Mapping[int, str]) -> None:
    columns: dict[str, int] = {}
    for column, label in words.items():
        first = columns.setdefault(label, column)
        if first != column:
            raise ConstraintError(
                f"label {label!r} names columns {first} and {column}; give labels= with a name for each"
            )
    nameless = nameless_labels(list(columns))
    if nameless:
        which = f"label {nameless[0]} says" if len(nameless) == 1 else f"labels {nameless[0]} to {nameless[-1]} say"
        raise ConstraintError(
            f"{which} nothing of tags; give labels= with the names the model was trained with, in the order of its "
            "columns"
        )


def nameless_labels(labels: Sequence[str]) -> list[str]:
    """Labels that are numbers of columns."""
    if all(label.isdecimal() for label in labels):
        return list(labels)
    return [label for label in labels if _NAMELESS.fullmatch(label)]


def _filler(label: str, labels: Sequence[str]) -> str:
    """Why a label is that of no word; empty if it is one."""
    name = label.strip().upper()
    if not name:
        return "an empty label"
    bracketed = _BRACKETED.fullmatch(name)
    if bracketed and bracketed["name"] in FILLERS:
        return "a special piece"
    if len(name) > 1 and name in FILLERS:
        return "no tag of a word"
    if name != "X":
        return ""
    if any(_PREFIX_FIRST.fullmatch(other) or _PREFIX_LAST.fullmatch(other) for other in labels):
        return "a mark for later pieces of a word"
    raise ConstraintError("label 'X' may be a type or stand for no tag: rename it 'I-X' or '[PAD]' in labels=")


def _parse(words: Mapping[int, str]) -> tuple[list[_ColumnLabel], list[str]]:
    """Prefix and type of every label, the same layout for all, and what is to be said of them."""
    notes: list[str] = []
    outside = [column for column, label in words.items() if label.upper() in OUTSIDE]
    if len(outside) > 1:
        raise ConstraintError(f"labels {words[outside[0]]!r} and {words[outside[1]]!r} both mean outside; keep one")
    inner = {column: label for column, label in words.items() if column not in outside}
    if not outside:
        notes.append("no label means outside: every word gets a type")
    parsed = [_ColumnLabel(column, words[column], "O", "") for column in outside]
    return parsed + _parse_inner(inner, notes), notes


def _parse_inner(inner: Mapping[int, str], notes: list[str]) -> list[_ColumnLabel]:
    letters = {column: label.strip(_SEPARATORS).upper() for column, label in inner.items()}
    if letters and set(letters.values()) <= set("BIESLUMW"):
        if not {"B", "I"} & set(letters.values()):
            example = next(iter(inner.values()))
            raise ConstraintError(
                f"label {example!r} may be a prefix or a type: rename it in labels=, such as 'S-{example}' or "
                f"'I-{example}'"
            )
        return [_ColumnLabel(column, inner[column], letter, "") for column, letter in letters.items()]
    layouts = []
    for pattern in (_PREFIX_FIRST, _PREFIX_LAST):
        matches = {column: pattern.fullmatch(label) for column, label in inner.items()}
        layouts.append({column: match for column, match in matches.items() if match})
    whole = [layout for layout in layouts if len(layout) == len(inner) and layout]
    if not whole:
        return _parse_bare(inner, layouts, notes)
    if len(whole) == 2:
        # `B-S`, `I-S`: the reading with fewer types is the one in which prefixes are prefixes.
        types = [len({match["type"] for match in layout.values()}) for layout in whole]
        if types[0] == types[1]:
            example = next(iter(inner.values()))
            raise ConstraintError(
                f"label {example!r} can be read from either end, and so can the others; rename the types in labels="
            )
        whole = [whole[types.index(min(types))]]
    chosen = whole[0]
    parsed = [_ColumnLabel(c, inner[c], match["prefix"].upper(), match["type"].strip()) for c, match in chosen.items()]
    _require_one_case(parsed)
    return parsed


def _parse_bare(inner: Mapping[int, str], layouts: Sequence[Mapping[int, Any]], notes: list[str]) -> list[_ColumnLabel]:
    """Labels that are types alone: IO."""
    layout = max(layouts, key=len)
    if layout:
        odd = next(label for column, label in inner.items() if column not in layout)
        example = inner[next(iter(layout))]
        raise ConstraintError(
            f"label {odd!r} has no prefix while {example!r} has one: rename it in labels=, 'O' if it means outside, "
            f"'[PAD]' if it is never to be predicted, else such as 'B-{odd}'"
        )
    joined = _parse_joined(inner)
    if joined:
        return joined
    if inner:
        notes.append("labels are bare types (IO): neighbouring words of one type are one entity")
    return [_ColumnLabel(column, label, "I", label) for column, label in inner.items()]


def _parse_joined(inner: Mapping[int, str]) -> list[_ColumnLabel]:
    """Labels such as `BPER` and `IPER`; none if they are types."""
    matches = {column: match for column, label in inner.items() if (match := _PREFIX_JOINED.fullmatch(label))}
    types = {match["type"] for match in matches.values()}
    begun = {match["type"] for match in matches.values() if match["prefix"] == "B"}
    if len(matches) == len(inner) > len(types) and types == begun:
        return [_ColumnLabel(c, inner[c], match["prefix"], match["type"]) for c, match in matches.items()]
    names = {label.strip("[](){}<>").upper(): label for label in inner.values()}
    for name, label in names.items():
        for letter, other in ((name[:1], f"I{name[1:]}"), (name[-1:], f"{name[:-1]}I")):
            if letter == "B" and other in names:
                raise ConstraintError(
                    f"labels {label!r} and {names[other]!r} look like B- and I- of one type: write them so in labels=, "
                    "such as 'B-PER' and 'I-PER', or as 'I-' and their name if they are two types"
                )
    return []


def _require_one_case(parsed: Sequence[_ColumnLabel]) -> None:
    first_spelling: dict[str, str] = {}
    for each in parsed:
        other = first_spelling.setdefault(each.type.casefold(), each.type)
        if other != each.type:
            raise ConstraintError(
                f"types {other!r} and {each.type!r} differ in capitals only; write them alike in labels="
            )


def _scheme_of(parsed: Sequence[_ColumnLabel], notes: list[str]) -> Scheme:
    """The scheme that these prefixes prove, or an error that asks for it."""
    prefixes = {each.prefix for each in parsed} - {"O"}
    by_type: dict[str, set[str]] = {}
    for each in parsed:
        if each.prefix != "O":
            by_type.setdefault(each.type, set()).add(each.prefix)
    if prefixes <= {"I"}:
        return Scheme.get("IO")
    if prefixes <= {"B", "I"}:
        return _bio_or_iob1(by_type, notes)
    if prefixes <= {"E", "I"}:
        raise ConstraintError("labels with E and I alone may be IOE1 or IOE2: say which, such as scheme='IOE2'")
    fitting = [name for letters, name in _SCHEMES if prefixes <= letters and prefixes & _SINGLE]
    if not fitting:
        raise ConstraintError(
            f"prefixes {', '.join(sorted(prefixes))} are of no one scheme: say it, such as scheme='BIOES', or rename "
            "the labels in labels="
        )
    return Scheme.get(fitting[0])


def _bio_or_iob1(by_type: Mapping[str, set[str]], notes: list[str]) -> Scheme:
    startless = [kind for kind, own in by_type.items() if own == {"I"}]
    if startless:
        notes.append(f"I-{startless[0]} has no B-{startless[0]}, so B- stands only between neighbours: IOB1")
        return Scheme.get("IOB1")
    single = [kind for kind, own in by_type.items() if own == {"B"}]
    if len(single) < len(by_type):
        notes.append(BIO_NOTE)
    if single:
        notes.append(f"no I- for {', '.join(kind or 'B' for kind in single)}: each entity is one word")
    return Scheme.get("BIO")


def _tags(parsed: Sequence[_ColumnLabel], scheme: Scheme) -> dict[int, str]:
    """The scheme's tag for each column."""
    tags: dict[int, str] = {}
    columns: dict[str, _ColumnLabel] = {}
    for each in parsed:
        prefix = scheme.outside if each.prefix == "O" else each.prefix
        if prefix not in scheme.prefixes:
            raise ConstraintError(
                f"label {each.label!r} has a prefix that {scheme.name} does not know; its prefixes are "
                f"{', '.join(scheme.prefixes)}: say another scheme"
            )
        tag = scheme.join(prefix, each.type)
        if tag in columns:
            raise ConstraintError(f"labels {columns[tag].label!r} and {each.label!r} are both {tag}; keep one of them")
        columns[tag] = each
        tags[each.column] = tag
    return tags
