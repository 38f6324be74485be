"""audit: how many of a tagger's segments are illegal, and how many of its errors they are (the paper's Table 1).

>>> audit([["O", "B-LOC"]], [["O", "I-LOC"]]).total
Cells(legal_tp=0, illegal_tp=1, legal_fp=0, illegal_fp=0)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from maskedcrf.evaluation.compare import signature
from maskedcrf.evaluation.counts import Pair, Tags
from maskedcrf.tags.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Cells:
    """Predicted segments by legality and correctness; the gold is read leniently."""

    legal_tp: int = 0
    illegal_tp: int = 0
    legal_fp: int = 0
    illegal_fp: int = 0

    def __add__(self, other: Cells) -> Cells:
        return Cells(
            self.legal_tp + other.legal_tp,
            self.illegal_tp + other.illegal_tp,
            self.legal_fp + other.legal_fp,
            self.illegal_fp + other.illegal_fp,
        )

    @property
    def illegal(self) -> int:
        """Illegal segments."""
        return self.illegal_tp + self.illegal_fp

    @property
    def predicted(self) -> int:
        """All predicted segments."""
        return self.legal_tp + self.legal_fp + self.illegal

    @property
    def illegal_tp_over_illegal(self) -> float | None:
        """Share of the illegal segments that are right; None if there are none."""
        return _share(self.illegal_tp, self.illegal)

    @property
    def illegal_fp_over_fp(self) -> float | None:
        """Share of the wrong segments that are illegal; None if none is wrong."""
        return _share(self.illegal_fp, self.legal_fp + self.illegal_fp)

    @property
    def illegal_over_total(self) -> float | None:
        """Share of all predicted segments that are illegal; None if nothing was predicted."""
        return _share(self.illegal, self.predicted)

    def to_dict(self) -> dict[str, float | None]:
        """The four counts and the three ratios (fractions of 1)."""
        names = ("illegal_tp_over_illegal", "illegal_fp_over_fp", "illegal_over_total")
        return {**asdict(self), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class Audit:
    """Table 1 of one output; add two to get that of both."""

    types: Mapping[str, Cells] = field(default_factory=dict)
    scheme: str = "BIO"
    corpus: str | None = None

    def __add__(self, other: Audit) -> Audit:
        kinds = [*self.types, *(kind for kind in other.types if kind not in self.types)]
        types = {kind: self.types.get(kind, Cells()) + other.types.get(kind, Cells()) for kind in kinds}
        return Audit(types, self.scheme, self.corpus)

    @property
    def total(self) -> Cells:
        """All types together."""
        return sum(self.types.values(), Cells())

    @property
    def signature(self) -> str:
        """How these numbers were made, in one line."""
        return signature(corpus=self.corpus, scheme=self.scheme, illegal="audit")

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        types = {kind: self.types[kind].to_dict() for kind in sorted(self.types)}
        return {**self.total.to_dict(), "types": types, "scheme": self.scheme, "signature": self.signature}


def audit(gold: Iterable[Tags], predicted: Iterable[Tags], *, scheme: str | Scheme = "BIO") -> Audit:
    """How many predicted segments are legal or illegal, right or wrong, per type and in `total`."""
    scheme = Scheme.get(scheme)
    match = Pair.of(gold, predicted, scheme).match(scheme, "retain")
    kinds, legal, right = match.predicted.type_index, match.predicted.legal, match.correct
    columns = [
        np.bincount(kinds[chosen], minlength=len(match.types)).tolist()
        for chosen in (legal & right, ~legal & right, legal & ~right, ~legal & ~right)
    ]
    rows = zip(match.types, zip(*columns, strict=True), strict=True)
    return Audit({kind: Cells(*cells) for kind, cells in rows if any(cells)}, scheme.name)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
