"""Tags a user fixes and names a gazetteer knows, as per-position sets of allowed tags."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, repeat

import numpy as np

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import TextInput, to_sentence
from maskedcrf.data.tokenizers import Tokenizer
from maskedcrf.errors import DataError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Bools
from maskedcrf.tags.segments import Segment, encode

FixedTags = Mapping[int, str | Collection[str]]
"""Token position -> the tag, or the tags, it may carry."""


class Gazetteer:
    """Names whose type is known: wherever one occurs it is tagged so, the longest first, from left to right."""

    def __init__(self, names: Mapping[Sequence[str], str]) -> None:
        self._names = {tuple(name): kind for name, kind in names.items()}
        self._sizes: dict[str, list[int]] = {}
        """By first token, the lengths of names, the longest first."""
        for size, first in sorted({(len(name), name[0]) for name in self._names if name}, reverse=True):
            self._sizes.setdefault(first, []).append(size)

    def segments(self, tokens: Sequence[str]) -> list[Segment]:
        """Where its names occur, without overlap."""
        found, start = [], 0
        while start < len(tokens):
            sizes = (size for size in self._sizes.get(tokens[start], ()) if size <= len(tokens) - start)
            size = next((size for size in sizes if tuple(tokens[start : start + size]) in self._names), 0)
            if size:
                name = tuple(tokens[start : start + size])
                found.append(Segment(start, start + size, self._names[name]))
            start += size or 1
        return found


def allowed_tags(
    constraints: Constraints,
    tokens: Sequence[str],
    *,
    fixed: FixedTags | None,
    gazetteer: Gazetteer | None,
    breaks: Sequence[int] = (),
) -> Bools | None:
    """(T, D): True where a tag may stand; None where nothing is narrowed. What the user fixes wins.

    No name of the gazetteer crosses a break, where a sentence begins.
    """
    edges = list(pairwise((0, *breaks, len(tokens)))) if gazetteer else []
    known = [gazetteer.segments(tokens[first:last]) for first, last in edges] if gazetteer else []
    if not any(known) and not fixed:
        return None
    cells = np.ones((len(tokens), len(constraints)), dtype=bool)
    index = {tag: number for number, tag in enumerate(constraints.tags)}
    for (first, last), names in zip(edges, known, strict=True):
        kept = [each for each in names if not any(first + at in (fixed or {}) for at in range(each.start, each.end))]
        if kept:
            _fix_gazetteer_segments(cells[first:last], kept, constraints, index)
    _fix_users_tags(cells, fixed or {}, index)
    return cells


def _fix_users_tags(cells: Bools, fixed: FixedTags, index: Mapping[str, int]) -> None:
    """Only these tags at their positions."""
    for position, tags in fixed.items():
        if not isinstance(position, int | np.integer) or not isinstance(tags, Collection):
            raise DataError(f"fixed is {{token position: tag or tags}}, {{0: 'O'}} say; got {{{position!r}: {tags!r}}}")
        if not 0 <= position < len(cells):
            raise DataError(f"a tag is fixed at position {position} of {len(cells)} tokens; positions begin at 0")
        chosen = [tags] if isinstance(tags, str) else list(tags)
        for tag in chosen:
            if tag not in index:
                raise DataError(f"{tag!r} cannot be fixed: it is not one of the model's tags {', '.join(index)}")
        cells[position] = False
        cells[position, [index[tag] for tag in chosen]] = True


def with_fixed_tags(
    texts: Iterable[TextInput],
    fixed: FixedTags | Iterable[FixedTags | None] | None,
    names: Mapping[str, str] | None,
    constraints: Constraints,
    tokenizer: Tokenizer,
) -> Iterator[Sentence]:
    """Each text as a sentence whose tags are narrowed to its own entry of `fixed` and to the types of known names."""
    if isinstance(fixed, Mapping):
        raise DataError("fixed is a list with one entry a text, each {position: tag} or None; got one mapping")
    gazetteer = _gazetteer(names, tokenizer)
    known = iter(fixed) if fixed is not None else repeat(None)
    number = 0
    for number, text in enumerate(texts, start=1):
        sentence = to_sentence(text, tokenizer)
        try:
            own = next(known)
        except StopIteration:
            raise DataError(
                f"fixed ends before text {number - 1}; give one entry a text, None where nothing is fixed"
            ) from None
        allowed = allowed_tags(constraints, sentence.tokens, fixed=own, gazetteer=gazetteer, breaks=sentence.breaks)
        yield replace(sentence, allowed=allowed)
    if fixed is not None and any(True for _ in known):
        raise DataError(f"fixed goes on after the last of {number} texts; give one entry a text, no more")


def _gazetteer(names: Mapping[str, str] | None, tokenizer: Tokenizer) -> Gazetteer | None:
    """Names are cut into tokens as raw text is, and by blanks as columns are: both forms are looked for."""
    if not names:
        return None
    forms: dict[Sequence[str], str] = {}
    for name, kind in names.items():
        forms[tuple(token.text for token in tokenizer.tokens(name))] = kind
        forms[tuple(name.split())] = kind
    return Gazetteer({form: kind for form, kind in forms.items() if form})


def _fix_gazetteer_segments(
    cells: Bools, found: list[Segment], constraints: Constraints, index: dict[str, int]
) -> None:
    """Only these segments' own tags on their tokens, and no neighbour that would lengthen them."""
    assert constraints.scheme is not None, "a tagger is built from a scheme"
    continues = constraints.matrices.continues[:-1, :-1]
    tags = encode(found, len(cells), constraints.scheme)
    inside = {position for segment in found for position in range(segment.start, segment.end)}
    for start, end, kind, _ in found:
        for position in range(start, end):
            if tags[position] not in index:
                known = ", ".join(constraints.matrices.types)
                raise DataError(f"the gazetteer's type {kind!r} is not one of the model's: {known}")
            cells[position] = False
            cells[position, index[tags[position]]] = True
        if start and start - 1 not in inside:
            cells[start - 1] &= ~continues[:, index[tags[start]]]
        if end < len(cells) and end not in inside:
            cells[end] &= ~continues[index[tags[end - 1]]]
