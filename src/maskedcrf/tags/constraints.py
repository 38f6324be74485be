"""Constraints: which tag may start, follow and end, as three Boolean arrays."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedcrf.errors import ConstraintError
from maskedcrf.tags.labels import LabelReport, Labels, read_labels
from maskedcrf.tags.scheme import Bools, Pair, Scheme, TagMatrices

MaskMode = Literal["train", "decode", "off"]
"""Where a CRF keeps to its constraints: in training and decoding, in decoding only, nowhere."""


MAX_TAGS = 4096
"""Of a model that is saved or loaded: rules are tables of tags by tags, in memory and in every step."""


@dataclass(frozen=True, eq=False, repr=False)
class Constraints:
    """Which tag paths are legal. Combine two with `&`; exclude more transitions with `forbid`.

    >>> print(Constraints.from_scheme(["O", "B-LOC", "I-LOC"], "BIO"))
    from \\ to  O  B-LOC  I-LOC  end
    start      .      .      x
    O          .      .      x    .
    B-LOC      .      .      .    .
    I-LOC      .      .      .    .

    A tag that no legal path can use is named in a warning and excluded; rules without any legal path are refused.
    """

    tags: tuple[str, ...]
    legal: Bools
    """(D, D), [from, to]."""
    start: Bools
    """(D,): tags a sentence may start with."""
    end: Bools
    """(D,): tags a sentence may end with."""
    scheme: Scheme | None = None
    """Where the rules came from; needed to speak of segments (`MaskedCRF.span_probability`)."""
    report: LabelReport | None = None
    """How the labels were read that `from_labels` was given."""

    def __post_init__(self) -> None:
        size = len(self.tags)
        _require_names(self.tags)
        for name, shape in (("legal", (size, size)), ("start", (size,)), ("end", (size,))):
            cells = np.array(getattr(self, name))
            if cells.shape != shape:
                raise ConstraintError(f"{name} must be {shape} for {size} tags, got {cells.shape}")
            if not np.isin(cells, (0, 1)).all():
                raise ConstraintError(f"{name} must be Boolean (True is legal), got {cells.dtype} that are not 0 or 1")
            object.__setattr__(self, name, _frozen(cells))
        alive = self.alive
        if not alive.any():
            listed = ", ".join(self.tags) or "none"
            raise ConstraintError(f"no legal path: no tag leads from a start to an end; tags are {listed}; allow more")
        if not alive.all():
            message = f"no legal path can use {', '.join(self.dead_tags)}: these tags get zero probability"
            warnings.warn(message, stacklevel=4)  # past __init__ and the method that called it
            for name, cells in (("legal", alive[:, None] & alive), ("start", alive), ("end", alive)):
                object.__setattr__(self, name, _frozen(getattr(self, name) & cells))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy is as frozen as what it is a copy of."""
        self.__dict__.update(state)
        for cells in (self.legal, self.start, self.end):
            cells.setflags(write=False)

    @classmethod
    def from_scheme(cls, tags: Sequence[str], scheme: str | Scheme) -> Constraints:
        """The rules of a scheme for these tags; a type may lack some of its tags."""
        scheme = Scheme.get(scheme)
        legal = scheme.matrices(tags).legal
        return cls(tuple(tags), legal[:-1, :-1], legal[-1, :-1], legal[:-1, -1], scheme)

    @classmethod
    def from_labels(cls, labels: Labels, scheme: str | Scheme = "auto", *, columns: int | None = None) -> Constraints:
        """The rules over labels as people write them, a column of scores each; `report` says what each was taken for.

        Args:
            labels: `id2label`, or labels in the order of their columns: B-PER, b-per, B_PER, PER-B, bare PER, [PAD].
            scheme: "auto" reads it off the prefixes, and asks where two schemes have the same.
            columns: scores a word has, where these are more than there are labels; the rest is never predicted.
        """
        return read_labels(labels, scheme, columns=columns)

    @classmethod
    def from_arrays(
        cls, tags: Sequence[str], legal: ArrayLike, *, start: ArrayLike | None = None, end: ArrayLike | None = None
    ) -> Constraints:
        """Rules given as Boolean arrays: `legal` (D, D) with [from, to]; `start` and `end` (D,), default all."""
        first, last = (np.ones(len(tags), dtype=bool) if edge is None else edge for edge in (start, end))
        return cls(tuple(tags), np.asarray(legal), np.asarray(first), np.asarray(last))

    @classmethod
    def from_pairs(
        cls,
        tags: Sequence[str],
        pairs: Iterable[Pair],
        *,
        start: Iterable[str] | None = None,
        end: Iterable[str] | None = None,
    ) -> Constraints:
        """Rules given as the list of legal (from, to) tags; `start` and `end` list tags, default all."""
        index = _index(tags)
        legal = np.zeros((len(index), len(index)), dtype=bool)
        for before, after in pairs:
            legal[_look_up(index, before), _look_up(index, after)] = True
        return cls(tuple(tags), legal, _edge(index, start), _edge(index, end))

    @classmethod
    def from_allennlp(cls, tags: Sequence[str], constraints: Iterable[tuple[int, int]]) -> Constraints:
        """Rules given as AllenNLP's list of (from, to) ids, where D is the start and D+1 the end."""
        size = len(tags)
        cells = np.zeros((size + 2, size + 2), dtype=bool)
        for before, after in constraints:
            if not (0 <= before < size + 2 and 0 <= after < size + 2):
                raise ConstraintError(f"({before}, {after}) names no tag: ids run from 0 to {size + 1} (start, end)")
            cells[before, after] = True
        return cls(tuple(tags), cells[:size, :size], cells[size, :size], cells[:size, size + 1])

    @classmethod
    def free(cls, tags: Sequence[str]) -> Constraints:
        """No rules: every path over these tags is legal."""
        return cls.from_arrays(tags, np.ones((len(tags), len(tags)), dtype=bool))

    def __and__(self, other: Constraints) -> Constraints:
        """Paths legal under both; the tags must be the same, in the same order.

        Two schemes may read the same path as different segments, so the rules of both together belong to neither.
        """
        if self.tags != other.tags:
            raise ConstraintError(
                f"cannot combine constraints over different tags, or in another order: {self.tags} and {other.tags}"
            )
        schemes = {self.scheme, other.scheme} - {None}
        return Constraints(
            self.tags,
            self.legal & other.legal,
            self.start & other.start,
            self.end & other.end,
            schemes.pop() if len(schemes) == 1 else None,
        )

    def forbid(self, pairs: Iterable[tuple[str | None, str | None]]) -> Constraints:
        """The same rules less these (from, to) pairs; None stands for the sentence's edge."""
        index = _index(self.tags)
        legal, start, end = self.legal.copy(), self.start.copy(), self.end.copy()
        for before, after in pairs:
            if before is not None and after is not None:
                legal[_look_up(index, before), _look_up(index, after)] = False
            elif after is not None:
                start[_look_up(index, after)] = False
            elif before is not None:
                end[_look_up(index, before)] = False
        return Constraints(self.tags, legal, start, end, self.scheme)

    def open(self, *, start: bool = True, end: bool = True) -> Constraints:
        """The same rules for a window cut out of a longer text, which may start or end inside a segment."""
        alive = self.alive  # a tag that no whole text can use stays dead in its windows
        return Constraints(
            self.tags, self.legal, alive if start else self.start, alive if end else self.end, self.scheme
        )

    @property
    def alive(self) -> Bools:
        """(D,): tags that lie on some legal path."""
        return _reach(self.start, self.legal) & _reach(self.end, self.legal.T)

    @property
    def dead_tags(self) -> tuple[str, ...]:
        """Tags that no legal path can use."""
        return tuple(tag for tag, lives in zip(self.tags, self.alive, strict=True) if not lives)

    @cached_property
    def matrices(self) -> TagMatrices:
        """The scheme's matrices for these tags, which say where segments begin and end."""
        if self.scheme is None:
            raise ConstraintError(
                "these constraints know no scheme, or combine two, so no segments: build them with from_scheme"
            )
        return self.scheme.matrices(self.tags)

    def violations(self, path: Sequence[int]) -> list[tuple[int, str | None, str | None]]:
        """Every illegal step of a path of tag ids, as (position, from, to); None is the sentence's edge."""
        if not len(path):
            return []
        ids = np.asarray(path)
        found: list[tuple[int, str | None, str | None]] = []
        if not self.start[ids[0]]:
            found.append((0, None, self.tags[ids[0]]))
        for step in np.flatnonzero(~self.legal[ids[:-1], ids[1:]]):
            found.append((int(step) + 1, self.tags[ids[step]], self.tags[ids[step + 1]]))
        if not self.end[ids[-1]]:
            found.append((len(ids), self.tags[ids[-1]], None))
        return found

    def has_path(self, allowed: Bools) -> bool:
        """Whether a legal path stays inside the `allowed` (T, D) tags."""
        reached = self.start
        for position, tags in enumerate(allowed):
            reached = (self.legal[reached].any(axis=0) if position else reached) & tags
        return not len(allowed) or bool((reached & self.end).any())

    def __len__(self) -> int:
        return len(self.tags)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraints):
            return NotImplemented
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in ("legal", "start", "end"))
        return self.tags == other.tags and all(same)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rules = self.scheme.name if self.scheme else "own rules"
        return (
            f"Constraints({len(self.tags)} tags, {rules}, {int((~self.legal).sum())} of {self.legal.size} steps masked)"
        )

    def __str__(self) -> str:
        """The masked matrix of the paper's Figure 2: `x` is illegal."""
        mark = {True: ".", False: "x"}
        rows = [["from \\ to", *self.tags, "end"], ["start", *(mark[bool(cell)] for cell in self.start), ""]]
        for tag, cells, last in zip(self.tags, self.legal, self.end, strict=True):
            rows.append([tag, *(mark[bool(cell)] for cell in cells), mark[bool(last)]])
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.tags) + 2)]
        return "\n".join(
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
            ).rstrip()
            for row in rows
        )


def _frozen(cells: NDArray[Any]) -> Bools:
    """A Boolean copy that nobody can write to."""
    frozen = cells.astype(bool)
    frozen.setflags(write=False)
    return frozen


def _reach(edge: Bools, steps: Bools) -> Bools:
    """Tags reached from the edge by any number of steps."""
    reached = edge.copy()
    while True:
        further = reached | (reached[:, None] & steps).any(axis=0)
        if np.array_equal(further, reached):
            return reached
        reached = further


def _index(tags: Sequence[str]) -> dict[str, int]:
    return {tag: number for number, tag in enumerate(tags)}


def _look_up(index: dict[str, int], tag: str) -> int:
    if tag not in index:
        raise ConstraintError(f"{tag!r} is not one of the tags: {', '.join(index)}")
    return index[tag]


def _edge(index: dict[str, int], tags: Iterable[str] | None) -> Bools:
    """(D,): the tags listed, or all of them for None."""
    cells = np.full(len(index), tags is None)
    cells[[_look_up(index, tag) for tag in tags or ()]] = True
    return cells


def _require_names(tags: Sequence[str]) -> None:
    """Each tag has a name of its own, which a file can keep."""
    if len(set(tags)) != len(tags):
        twice = sorted({tag for tag in tags if tags.count(tag) > 1})
        raise ConstraintError(f"each tag may be listed once, listed twice: {', '.join(twice)}")
    broken = next((tag for tag in tags if any("\ud800" <= letter <= "\udfff" for letter in tag)), None)
    if broken is not None:
        raise ConstraintError(f"tag {broken!a} holds half a character (a lone surrogate), which no file can keep")
