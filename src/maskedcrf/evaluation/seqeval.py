"""seqeval's two ways of cutting tags into segments, on arrays: the same segments, errors included.

They are kept apart from `tags.segments` because they are other people's rules. What is known to be wrong in them:

- default: letters other than B I E S O are not known, so that `U-X U-X` (BILOU) and `S-X` under BMEWO's W merge or
  go astray; `discard` and `retain` read every scheme by its own table.
- strict: IOB1 takes `I-X` for a segment of its own after a `B-X` that may not stand there; IOE1 does not see
  a single-token segment `E-X` before its neighbour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maskedcrf.errors import SchemeError
from maskedcrf.tags.scheme import Bools, Ints, Scheme
from maskedcrf.tags.segments import Reading, TagIds


class _Pieces(NamedTuple):
    """Letter and type of each of the D tags and, last, of the sentence's edge, which counts as outside."""

    letters: list[str]
    type_index: Ints
    types: tuple[str, ...]

    @staticmethod
    def of(corpus: TagIds, scheme: Scheme, strip: str) -> _Pieces:
        pairs = [scheme.split(tag) for tag in corpus.tags] + [(scheme.outside, "")]
        letters = ["O" if prefix == scheme.outside else prefix for prefix, _ in pairs]
        names = [kind.strip(strip) or "_" for _, kind in pairs]  # seqeval's name for "no type"
        types = tuple(dict.fromkeys(names))
        return _Pieces(letters, np.array([types.index(name) for name in names]), types)

    def steps(self, patterns: str) -> Bools:
        """(D+1, D+1), [from, to]: steps that fit a pattern: two letters, * for any, then = (same type) or ! (other)."""
        fits = np.zeros((len(self.letters), len(self.letters)), dtype=bool)
        same = self.type_index[:, None] == self.type_index
        kinds = {"": np.ones_like(same), "=": same, "!": ~same}
        for pattern in patterns.split():
            before, after = (np.array([wanted in ("*", letter) for letter in self.letters]) for wanted in pattern[:2])
            fits |= before[:, None] & after & kinds[pattern[2:]]
        return fits


def read_default(corpus: TagIds, scheme: Scheme) -> Reading:
    """Segments as seqeval cuts them by default: conlleval's rules with E and S made right."""
    pieces = _Pieces.of(corpus, scheme, "")
    inner = np.array([letter != "O" for letter in pieces.letters])
    other = pieces.type_index[:, None] != pieces.type_index
    opens = pieces.steps("*B *S EE EI SE SI OE OI") | (other & inner)
    closes = pieces.steps("E* S* BB BS BO IB IS IO") | (other & inner[:, None])
    steps, (opening, closing) = _steps(corpus, pieces, opens, closes)
    last_open = np.maximum.accumulate(np.where(opening, steps, 0))
    last = np.flatnonzero(closing)
    # A segment begins at the latest opening before its end, even where another has ended in between.
    return _reading(corpus, pieces, begins=last_open[last - 1] + 1, ends=steps[last], kinds=corpus.ids[steps[last]])


class _Strict(NamedTuple):
    opens: str
    inside: str
    closes: str


_FIVE = "B{m}= B{e}= {m}{m}= {m}{e}="
STRICT: dict[str, _Strict] = {
    "IOB1": _Strict("OI II! BI IB= BB=", "BI= II=", "II! IO IB BO BI! BB="),
    "BIO": _Strict("*B", "BI= II=", "IO II! IB BO BI! BB"),
    "IOE1": _Strict("OI II! EI EE=", "II= IE=", "II! IO IE! EI= EE="),
    "IOE2": _Strict("OI OE EI EE II! IE!", "II= IE=", "E*"),
    "BIOES": _Strict("*B *S", _FIVE.format(m="I", e="E"), "S* E*"),
    "BILOU": _Strict("*B *U", _FIVE.format(m="I", e="L"), "U* L*"),
}


def read_strict(corpus: TagIds, scheme: Scheme) -> Reading:
    """Segments as seqeval cuts them in strict mode: only those that open and close as its scheme says."""
    if scheme.name not in STRICT:
        raise SchemeError(
            f"strategy 'strict' is seqeval's, which knows {', '.join(STRICT)} but not {scheme.name}: use 'discard'"
        )
    pieces = _Pieces.of(corpus, scheme, scheme.delimiter)
    tables = [pieces.steps(patterns) for patterns in STRICT[scheme.name]]
    steps, (opens, inside, closes) = _steps(corpus, pieces, *tables)
    number = np.arange(len(steps), dtype=np.int32)
    last_open = np.maximum.accumulate(np.where(opens, number, -1))
    last_break = np.maximum.accumulate(np.where(inside, -1, number))
    running = last_open >= np.maximum(last_break, 0)  # from an opening on, every step so far stayed inside
    opens[1:] &= ~(inside[1:] & running[:-1])
    begins, breaks = np.flatnonzero(opens), np.flatnonzero(~inside)
    ends = breaks[np.searchsorted(breaks, begins, side="right")]
    whole = closes[ends]
    begins, ends = steps[begins[whole]] + 1, steps[ends[whole]]
    return _reading(corpus, pieces, begins=begins, ends=ends, kinds=corpus.ids[begins])


def _steps(corpus: TagIds, pieces: _Pieces, *tables: Bools) -> tuple[Ints, list[Bools]]:
    """The steps that touch a segment, and of each table (D+1, D+1) whether they fit it.

    Most steps of a text lead from O to O and take no part in any segment: each is left out by one look-up.
    """
    inner = np.array([letter != "O" for letter in pieces.letters])
    marks = (inner[:, None] | inner).astype(np.uint8)
    for bit, table in enumerate(tables, start=1):
        marks |= table.astype(np.uint8) << bit
    found = marks.take(corpus.ids[:-1] * len(pieces.letters) + corpus.ids[1:])
    steps = np.flatnonzero(found)
    found = found[steps]
    return steps, [(found & (1 << bit)).astype(bool) for bit in range(1, len(tables) + 1)]


def _reading(corpus: TagIds, pieces: _Pieces, *, begins: Ints, ends: Ints, kinds: Ints) -> Reading:
    """Cells of the id array (first and last of each segment, and the id of one of its tags) as tokens."""
    edges = np.cumsum(corpus.ids == len(corpus.tags), dtype=np.int32)  # up to and with each cell
    return Reading(
        start=begins - edges[begins],
        end=ends + 1 - edges[ends],
        type_index=pieces.type_index[kinds],
        legal=np.ones(len(begins), dtype=bool),
        types=pieces.types,
        violations=np.zeros(0, dtype=np.int64),
    )
