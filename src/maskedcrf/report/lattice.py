"""The tag lattice of one sentence, as data and as a picture: the paper's Figure 1 for any model and sentence."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from html import escape
from math import exp
from typing import Any, Literal

import torch
from torch import Tensor

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.tags.constraints import MaskMode
from maskedcrf.tags.segments import segments

Row = tuple[float, ...]
Comparison = Literal["unmasked", "per_token"]
COMPARISONS: dict[Comparison, str] = {"unmasked": "unmasked path", "per_token": "best tag per token"}
"""What the best legal path is compared with, in words."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path into `position`; `start` and `end` stand for the sentence's edges."""

    position: int
    previous: str
    tag: str


@dataclass(frozen=True, slots=True)
class Path:
    """A path of tag ids and its exact probability."""

    tags: tuple[int, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class LatticeEntity:
    """A segment of the best legal path: tokens [start, end), its type, and its exact probability."""

    start: int
    end: int
    type: str
    probability: float


@dataclass(frozen=True, slots=True)
class Lattice:
    """What a CRF sees in one sentence of T tokens and D tags, and what its best legal path is compared with.

    A model trained without the mask (`mask` is "off" or "decode") is compared with the path that it takes unmasked.
    Trained with it, its illegal transitions never got a gradient, so an unmasked path would say nothing about a CRF:
    such a model is compared with the encoder's best tag for each token alone.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    emissions: tuple[Row, ...]
    """(T, D)."""
    marginals: tuple[Row, ...]
    """(T, D): probability of each tag among the legal paths."""
    transitions: tuple[Row, ...]
    """(D, D), [from, to]: the scores as learnt, illegal steps included."""
    legal: tuple[tuple[bool, ...], ...]
    """(D, D), [from, to]."""
    start: tuple[bool, ...]
    """(D,): may the tag begin a sentence."""
    end: tuple[bool, ...]
    """(D,): may the tag end one."""
    path: tuple[int, ...]
    """The best legal path."""
    comparison: Comparison
    comparison_path: tuple[int, ...]
    """The unmasked path, or the tag with the highest emission at each position, as `comparison` says."""
    broken: tuple[Step, ...]
    """The illegal steps of that path."""
    illegal_mass: float | None
    """Probability that the unmasked model spends on illegal paths; None for a model trained with the mask."""
    nbest: tuple[Path, ...]
    """The best legal paths, as many as asked for."""
    entities: tuple[LatticeEntity, ...]
    """The segments of the best legal path."""

    def as_dict(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return asdict(self)


@torch.no_grad()
def lattice(
    crf: MaskedCRF, emissions: Tensor, tokens: Sequence[str], *, allowed: Tensor | None = None, nbest: int = 1
) -> Lattice:
    """The lattice of one sentence: emissions (T, D), and `allowed` (T, D) where tags are fixed or forbidden."""
    masked = _with_mask_mode(crf, "decode")
    comparison: Comparison = "per_token" if crf.mask_mode == "train" else "unmasked"
    batch = emissions[None]
    narrowed = None if allowed is None else allowed[None]
    path: list[int] = masked.decode(batch, allowed=narrowed)[0] if len(tokens) else []
    comparison_path = _comparison_path(crf, emissions, allowed, comparison) if len(tokens) else []
    broken = crf.constraints.violations(comparison_path)
    rules = crf.constraints
    return Lattice(
        tokens=tuple(tokens),
        tags=crf.tags,
        emissions=_rows(batch[0]),
        marginals=_rows(masked.marginals(batch, allowed=narrowed)[0]) if path else (),
        transitions=_rows(crf.transitions),
        legal=tuple(map(tuple, rules.legal.tolist())),
        start=tuple(rules.start.tolist()),
        end=tuple(rules.end.tolist()),
        path=tuple(path),
        comparison=comparison,
        comparison_path=tuple(comparison_path),
        broken=tuple(Step(at, before or "start", after or "end") for at, before, after in broken),
        illegal_mass=_illegal_mass(masked, batch, narrowed) if comparison == "unmasked" else None,
        nbest=_ranked(masked, batch, narrowed, nbest) if path else (),
        entities=_entities(masked, batch, narrowed, path),
    )


def _with_mask_mode(crf: MaskedCRF, mode: MaskMode) -> MaskedCRF:
    """The same weights under another mask."""
    twin = copy(crf)
    twin.mask_mode = mode
    return twin


def _comparison_path(
    crf: MaskedCRF, emissions: Tensor, allowed: Tensor | None, comparison: Comparison
) -> Sequence[int]:
    if comparison == "unmasked":
        path: Sequence[int] = _with_mask_mode(crf, "off").decode(
            emissions[None], allowed=None if allowed is None else allowed[None]
        )[0]
        return path
    scores = emissions if allowed is None else emissions.masked_fill(~allowed, -torch.inf)
    best: list[int] = scores.argmax(-1).tolist()
    return best


def _illegal_mass(masked: MaskedCRF, batch: Tensor, allowed: Tensor | None) -> float:
    return float(masked.illegal_mass(batch, allowed=allowed)[0]) if batch.shape[1] else 0.0


def _rows(scores: Tensor) -> tuple[Row, ...]:
    return tuple(map(tuple, scores.double().tolist()))


def _ranked(masked: MaskedCRF, batch: Tensor, allowed: Tensor | None, count: int) -> tuple[Path, ...]:
    best = masked.nbest(batch, k=count, allowed=allowed)[0]
    return tuple(Path(tuple(tags), min(1.0, exp(log_probability))) for tags, log_probability in best)


def _entities(
    masked: MaskedCRF, batch: Tensor, allowed: Tensor | None, path: Sequence[int]
) -> tuple[LatticeEntity, ...]:
    scheme = masked.constraints.scheme
    if scheme is None or not path:
        return ()
    spans = [(s.start, s.end, s.type) for s in segments([masked.tags[tag] for tag in path], scheme)]
    shares = masked.span_probability(batch, [spans], allowed=allowed)[0].clamp(0, 1).tolist()
    return tuple(LatticeEntity(*span, share) for span, share in zip(spans, shares, strict=True))


COLUMN, ROW, LEFT, TOP, RADIUS = 92, 38, 92, 24, 9


def draw(found: Lattice, *, most_rows: int = 11, comparison: str | None = None) -> str:
    """The lattice as SVG: the best legal path solid, the other dashed, its illegal steps crossed out.

    `comparison` names the dashed path in the key, where the reader knows it by another name.

    Nodes are filled by their probability. Of many tags, those on a path and the likeliest are shown.
    """
    rows = _shown_tags(found, most_rows)
    height, width = TOP + ROW * len(rows) + 64, LEFT + COLUMN * len(found.tokens) + 8
    place = {
        (position, tag): (LEFT + COLUMN * position + COLUMN // 2, TOP + ROW * row)
        for position in range(len(found.tokens))
        for row, tag in enumerate(rows)
    }
    labels = [
        f'<text x="{LEFT}" y="{TOP + ROW * row + 4}" text-anchor="end" class="tag">{escape(found.tags[tag])}</text>'
        for row, tag in enumerate(rows)
    ]
    nodes = [
        f'<circle cx="{x}" cy="{y}" r="{RADIUS}" class="node" style="--p:{found.marginals[position][tag]:.3f}">'
        f"<title>{escape(found.tokens[position])} {escape(found.tags[tag])}: "
        f"P = {found.marginals[position][tag]:.4f}, score {found.emissions[position][tag]:.2f}</title></circle>"
        for (position, tag), (x, y) in place.items()
    ]
    words = [
        f'<text x="{LEFT + COLUMN * position + COLUMN // 2}" y="{height - 34}" text-anchor="middle" class="token">'
        f"{escape(_short(token))}</text>"
        for position, token in enumerate(found.tokens)
    ]
    summary = (
        "; ".join(f"illegal step from {step.previous} to {step.tag}" for step in found.broken) or "no illegal step"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" class="lattice"><title>Tag lattice: {escape(summary)}</title><style>{STYLE}</style>'
        + "".join(labels)
        + _edges(found, place)
        + "".join(nodes + words)
        + _key(height, comparison or COMPARISONS[found.comparison])
        + "</svg>"
    )


def _shown_tags(found: Lattice, most: int) -> list[int]:
    """Ids of the rows, in tag order: every tag on a path first, then the likeliest."""
    on_path = set(found.path) | set(found.comparison_path)
    by_mass = sorted(range(len(found.tags)), key=lambda tag: -max((row[tag] for row in found.marginals), default=0))
    return sorted([*on_path, *(tag for tag in by_mass if tag not in on_path)][: max(most, len(on_path))])


def _edges(found: Lattice, place: dict[tuple[int, int], tuple[int, int]]) -> str:
    """The steps of both paths; a cross on each illegal one, an illegal start or end included."""
    broken = {step.position for step in found.broken}
    parts = []
    for name, path in (("free", found.comparison_path), ("masked", found.path)):
        for position in range(1, len(path)):
            (x1, y1), (x2, y2) = place[position - 1, path[position - 1]], place[position, path[position]]
            illegal = name == "free" and position in broken
            style = "illegal" if illegal else name
            parts.append(f'<line x1="{x1 + RADIUS}" y1="{y1}" x2="{x2 - RADIUS}" y2="{y2}" class="{style}"/>')
            if illegal:
                parts.append(_cross((x1 + x2) / 2, (y1 + y2) / 2))
    for position, side in ((0, -1), (len(found.tokens), 1)):
        if position in broken and found.comparison_path:
            x, y = place[min(position, len(found.tokens) - 1), found.comparison_path[0 if side < 0 else -1]]
            parts.append(_cross(x + side * 2.2 * RADIUS, y))
    return "".join(parts)


def _cross(x: float, y: float) -> str:
    return f'<path d="M{x - 6} {y - 6}L{x + 6} {y + 6}M{x - 6} {y + 6}L{x + 6} {y - 6}" class="cross"/>'


def _key(height: int, comparison: str) -> str:
    y, cross = height - 4, 205 + 7 * len(comparison)
    return (
        f'<line x1="8" y1="{y - 4}" x2="34" y2="{y - 4}" class="masked"/>'
        f'<text x="40" y="{y}" class="key">masked path</text>'
        f'<line x1="140" y1="{y - 4}" x2="166" y2="{y - 4}" class="free"/>'
        f'<text x="172" y="{y}" class="key">{escape(comparison)}</text>'
        + _cross(cross, y - 4)
        + f'<text x="{cross + 12}" y="{y}" class="key">illegal step</text>'
    )


def _short(token: str, most: int = 12) -> str:
    return token if len(token) <= most else token[: most - 1] + "…"


# Colours that hold on white and on dark paper; `--p` is the node's probability.
STYLE = (
    ".lattice text{font:12px system-ui,sans-serif;fill:#777}"
    ".lattice .token{font-weight:600;font-size:13px}"
    ".lattice .node{stroke:#888;fill:color-mix(in srgb,#1b7f5c calc(var(--p)*100%),#8883)}"
    ".lattice line{fill:none;stroke-width:2.4}"
    ".lattice .masked{stroke:#1b7f5c}"
    ".lattice .free{stroke:#888;stroke-dasharray:5 4}"
    ".lattice .illegal{stroke:#d33c3c;stroke-dasharray:5 4}"
    ".lattice .cross{stroke:#d33c3c;stroke-width:3;fill:none}"
)
