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
    pairs = _pairs(corpus)
    last_open = np.maximum.accumulate(np.where(opens.take(pairs), np.arange(len(pairs)), 0))
    last = np.flatnonzero(closes.take(pairs))
    # A segment begins at the latest opening before its end, even where another has ended in between.
    return _reading(corpus, pieces, begins=last_open[last - 1] + 1, ends=last, kinds=corpus.ids[last])


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
    pairs = _pairs(corpus)
    opens, inside, closes = (pieces.steps(patterns).take(pairs) for patterns in STRICT[scheme.name])
    steps = np.arange(len(pairs), dtype=np.int32)
    last_open = np.maximum.accumulate(np.where(opens, steps, -1))
    last_break = np.maximum.accumulate(np.where(inside, -1, steps))
    running = last_open >= np.maximum(last_break, 0)  # from an opening on, every step so far stayed inside
    consumed = inside[1:] & running[:-1]
    opens[1:] &= ~consumed
    begins, breaks = np.flatnonzero(opens), np.flatnonzero(~inside)
    ends = breaks[np.searchsorted(breaks, begins, side="right")]
    whole = closes[ends]
    return _reading(corpus, pieces, begins=begins[whole] + 1, ends=ends[whole], kinds=corpus.ids[begins[whole] + 1])


def _pairs(corpus: TagIds) -> Ints:
    """Each step of the corpus as one number: the cell of a raveled (D+1, D+1) table."""
    return corpus.ids[:-1] * (len(corpus.tags) + 1) + corpus.ids[1:]


def _reading(corpus: TagIds, pieces: _Pieces, *, begins: Ints, ends: Ints, kinds: Ints) -> Reading:
    """Cells of the id array (first and last of each segment, and the id of one of its tags) as tokens."""
    edges = np.flatnonzero(corpus.ids == len(corpus.tags))
    return Reading(
        start=begins - np.searchsorted(edges, begins),
        end=ends + 1 - np.searchsorted(edges, ends),
        type_index=pieces.type_index[kinds],
        legal=np.ones(len(begins), dtype=bool),
        types=pieces.types,
        violations=np.zeros(0, dtype=np.int64),
    )
