"""Tagging schemes as tables, and how a tag is cut into prefix and type.

A scheme says which prefix may follow which. It is data, so that it can be listed, printed and tested:

>>> Scheme.get("BIO").split("B-LOC")
('B', 'LOC')
>>> print(Scheme.get("BIO"))
BIO: a sentence starts with B O and ends with B I O
  same segment      B>I I>I
  new segment       B>B B>O I>B I>O O>B O>O
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedcrf.errors import SchemeError

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Pair = tuple[str, str]


class TagMatrices(NamedTuple):
    """A scheme spelt out for D tags; row and column D stand for the edge of the sentence."""

    legal: Bools
    """(D+1, D+1), [from, to]: the scheme allows this step."""
    continues: Bools
    """(D+1, D+1), [from, to]: both tags belong to one segment."""
    type_index: Ints
    """(D+1,): which of `types` a tag carries; -1 for outside and for the edge."""
    types: tuple[str, ...]


@dataclass(frozen=True)
class Scheme:
    """Which prefix may follow which, as (from, to) pairs. `get` a built-in scheme by name, or `define` your own."""

    name: str
    start: frozenset[str]
    """Prefixes a sentence may start with."""
    end: frozenset[str]
    """Prefixes a sentence may end with."""
    inside: frozenset[Pair]
    """Steps that stay in one segment; both tags have the same type."""
    between: frozenset[Pair]
    """Steps from one segment (or outside) to the next, whatever the types."""
    between_same: frozenset[Pair] = frozenset()
    """Steps to a new segment that need the same type on both sides."""
    between_other: frozenset[Pair] = frozenset()
    """Steps to a new segment that need different types."""
    write: tuple[str, str, str, str] | None = None
    """How a segment is written: prefix of a single token; of the first, a middle and the last of several."""
    write_after_same: tuple[str, str, str, str] | None = None
    """The same for a segment that touches one of its own type on its left (IOB1)."""
    write_before_same: tuple[str, str, str, str] | None = None
    """The same for a segment that touches one of its own type on its right (IOE1)."""
    outside: str = "O"
    delimiter: str = "-"
    prefix_last: bool = False
    """True for tags such as `LOC-B`."""

    @staticmethod
    def get(scheme: str | Scheme, *, delimiter: str = "-", prefix_last: bool = False) -> Scheme:
        """The scheme of this name (`BIO`, `iobes`, ...); a Scheme comes back as it is."""
        if isinstance(scheme, Scheme):
            return scheme
        if not isinstance(scheme, str):
            raise SchemeError(f"a scheme is a name such as 'BIO', or a Scheme; got {scheme!r:.60}")
        if not delimiter:
            raise SchemeError("an empty delimiter cannot part prefix and type; give one, such as '-'")
        name = ALIASES.get(scheme.upper(), scheme.upper())
        if name == "IOB":
            raise SchemeError("'IOB' is ambiguous: say IOB1 (B- only between neighbours) or IOB2 (every segment)")
        if name not in SCHEMES:
            near = get_close_matches(name, [*SCHEMES, *ALIASES], n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise SchemeError(f"unknown scheme {scheme!r}: {hint}known are {', '.join([*SCHEMES, *ALIASES])}")
        return replace(SCHEMES[name], delimiter=delimiter, prefix_last=prefix_last)

    @staticmethod
    def define(
        name: str,
        *,
        start: str,
        end: str,
        inside: str | Iterable[Pair],
        between: str | Iterable[Pair],
        between_same: str | Iterable[Pair] = "",
        between_other: str | Iterable[Pair] = "",
        write: Sequence[str] | None = None,
        write_after_same: Sequence[str] | None = None,
        write_before_same: Sequence[str] | None = None,
        outside: str = "O",
    ) -> Scheme:
        """A scheme of your own. Prefixes and pairs are separated by blanks: `inside="BI II"`.

        Prefixes longer than a letter are given as tuples: `inside=[("BEG", "IN")]`.
        `write` (four prefixes: single, first, middle, last) is needed only to write segments as tags.
        """
        scheme = Scheme(
            name,
            start=frozenset(start.split()),
            end=frozenset(end.split()),
            inside=_pairs(inside),
            between=_pairs(between),
            between_same=_pairs(between_same),
            between_other=_pairs(between_other),
            write=_four(write),
            write_after_same=_four(write_after_same),
            write_before_same=_four(write_before_same),
            outside=outside,
        )
        if any(outside in pair for pair in scheme.inside | scheme.between_same | scheme.between_other):
            raise SchemeError(f"scheme {name}: {outside!r} is outside every segment, so it belongs in `between` only")
        return scheme

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """All prefixes of the table, outside included, sorted."""
        pairs = self.inside | self.between | self.between_same | self.between_other
        return tuple(sorted(self.start | self.end | {prefix for pair in pairs for prefix in pair} | {self.outside}))

    def split(self, tag: str) -> tuple[str, str]:
        """Prefix and type: `B-LOC` -> `("B", "LOC")`; `O` and bare `B` have the type `""`."""
        if self.prefix_last:
            kind, _, prefix = tag.rpartition(self.delimiter)
        else:
            prefix, _, kind = tag.partition(self.delimiter)
        if prefix not in self.prefixes or tag != self.join(prefix, kind):
            form = f"X{self.delimiter}B" if self.prefix_last else f"B{self.delimiter}X"
            raise SchemeError(
                f"tag {tag!r} does not fit {self.name}: prefixes are {', '.join(self.prefixes)}, tags look like {form}"
            )
        return prefix, kind

    def join(self, prefix: str, kind: str) -> str:
        """The tag of this prefix and type; the inverse of `split`."""
        if prefix == self.outside or not kind:
            return prefix
        return f"{kind}{self.delimiter}{prefix}" if self.prefix_last else f"{prefix}{self.delimiter}{kind}"

    def tags(self, types: Iterable[str]) -> list[str]:
        """Every tag of these types, outside first: what a model of this scheme is built on."""
        inner = [prefix for prefix in self.prefixes if prefix != self.outside]
        return [self.outside, *(self.join(prefix, kind) for kind in types for prefix in inner)]

    def matrices(self, tags: Sequence[str]) -> TagMatrices:
        """What the scheme says of every pair of these D tags and the sentence's edge."""
        prefixes = self.prefixes
        code = {prefix: number for number, prefix in enumerate(prefixes)}
        pieces = [self.split(tag) for tag in tags]
        types = tuple(dict.fromkeys(kind for prefix, kind in pieces if prefix != self.outside))
        type_code = {kind: number for number, kind in enumerate(types)}
        prefix_index = np.array([code[prefix] for prefix, _ in pieces] + [len(prefixes)])
        type_index = np.array([-1 if p == self.outside else type_code[k] for p, k in pieces] + [-1])

        def table(*groups: frozenset[Pair]) -> Bools:
            cells = np.zeros((len(prefixes) + 1, len(prefixes) + 1), dtype=bool)
            for before, after in frozenset().union(*groups):
                cells[code[before], code[after]] = True
            return cells

        same = table(self.inside, self.between, self.between_same)
        other = table(self.between, self.between_other)
        for cells in (same, other):
            cells[-1, :-1] = [prefix in self.start for prefix in prefixes]
            cells[:-1, -1] = [prefix in self.end for prefix in prefixes]
            cells[-1, -1] = True  # an empty sentence is legal
        cell = np.ix_(prefix_index, prefix_index)
        same_type = type_index[:, None] == type_index[None, :]
        legal = np.where(same_type, same[cell], other[cell])
        continues = same_type & (type_index >= 0)[:, None] & table(self.inside)[cell]
        return TagMatrices(legal, continues, type_index, types)

    def __str__(self) -> str:
        def words(pairs: frozenset[Pair]) -> str:
            return " ".join(f"{before}>{after}" for before, after in sorted(pairs))

        rows = {
            "same segment": self.inside,
            "new segment": self.between,
            "new, same type": self.between_same,
            "new, other type": self.between_other,
        }
        first = f"{self.name}: a sentence starts with {' '.join(sorted(self.start))} and ends with "
        return "\n".join(
            [first + " ".join(sorted(self.end)), *(f"  {label:<17} {words(p)}" for label, p in rows.items() if p)]
        )


def _pairs(pairs: str | Iterable[Pair]) -> frozenset[Pair]:
    if not isinstance(pairs, str):
        return frozenset(pairs)
    if any(len(pair) != 2 for pair in pairs.split()):
        raise SchemeError(f"pairs are two letters each, separated by blanks, got {pairs!r}; give tuples otherwise")
    return frozenset((pair[0], pair[1]) for pair in pairs.split())


def _four(prefixes: Sequence[str] | None) -> tuple[str, str, str, str] | None:
    if prefixes is None:
        return None
    single, first, middle, last = prefixes
    return single, first, middle, last


def _five_letters(name: str, *, middle: str, last: str, single: str) -> Scheme:
    """BIOES and its twins, which differ in their letters only."""
    m, e, s = middle, last, single
    return Scheme.define(
        name,
        start=f"O B {s}",
        end=f"O {e} {s}",
        inside=f"B{m} B{e} {m}{m} {m}{e}",
        between=f"OO OB O{s} {e}O {e}B {e}{s} {s}O {s}B {s}{s}",
        write=(s, "B", m, e),
    )


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme.define("IO", start="O I", end="O I", inside="II", between="OO OI IO", between_other="II", write="IIII"),
        Scheme.define(
            "IOB1",
            start="O I",
            end="O I B",
            inside="II BI",
            between="OO OI IO BO",
            between_same="IB BB",
            between_other="II BI",
            write="IIII",
            write_after_same="BBII",
        ),
        Scheme.define("BIO", start="O B", end="O B I", inside="BI II", between="OO OB BO BB IO IB", write="BBII"),
        Scheme.define(
            "IOE1",
            start="O I E",
            end="O I",
            inside="II IE",
            between="OO OI OE IO",
            between_same="EI EE",
            between_other="II IE",
            write="IIII",
            write_before_same="EIIE",
        ),
        Scheme.define("IOE2", start="O I E", end="O E", inside="II IE", between="OO OI OE EO EI EE", write="EIIE"),
        _five_letters("BIOES", middle="I", last="E", single="S"),
        _five_letters("BILOU", middle="I", last="L", single="U"),
        _five_letters("BMES", middle="M", last="E", single="S"),
        _five_letters("BMEWO", middle="M", last="E", single="W"),
    )
}

ALIASES = {"IOB2": "BIO", "IOBES": "BIOES", "BIOUL": "BILOU", "BILUO": "BILOU", "BMESO": "BMES"}
