"""Tags -> segments with their legality; retain, discard, conversion; which scheme a file seems to follow.

A segment is a longest run of tags of one type that the scheme's table joins. It is *illegal* when it starts
or ends as no segment may: in BIO when it starts with I-, in BIOES when it is neither S nor B I* E.
The whole corpus is read at once, as one array of tag ids.

>>> segments(["O", "I-LOC", "B-PER", "I-PER"], "BIO")
[Segment(start=1, end=2, type='LOC', legal=False), Segment(start=2, end=4, type='PER', legal=True)]
>>> discard(["O", "I-LOC", "B-PER", "I-PER"], "BIO")
['O', 'O', 'B-PER', 'I-PER']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple, get_args

import numpy as np

from maskedcrf.errors import SchemeError, ShapeError
from maskedcrf.tags.scheme import SCHEMES, Bools, Ints, Scheme, TagMatrices

Strategy = Literal["retain", "discard"]


class Segment(NamedTuple):
    """Tokens start to end (exclusive) carry this type."""

    start: int
    end: int
    type: str
    legal: bool = True


class Violation(NamedTuple):
    """An illegal step into `position`; None is the sentence's edge."""

    position: int
    previous: str | None
    tag: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The segments of a corpus as parallel arrays, in order; positions count tokens over the whole corpus."""

    start: Ints
    end: Ints
    type_index: Ints
    legal: Bools
    types: tuple[str, ...]
    violations: Ints
    """Illegal steps, sentence edges included: step n leads from cell n of `TagIds.ids` to cell n + 1."""


@dataclass(frozen=True, slots=True)
class TagIds:
    """Sentences as one array of tag ids with the id D between them, and the D tags themselves."""

    ids: Ints
    tags: tuple[str, ...]

    @staticmethod
    def of(sentences: Iterable[Sequence[str]]) -> TagIds:
        """Number the tags of these sentences, in one pass that stays in C: scoring spends most of its time here."""
        numbers = _Numbers({None: 0})
        flat: list[object] = [None]
        sides = 1
        for sentence in sentences:
            flat.extend(sentence)
            flat.append(None)
            sides += 1
        try:
            ids = np.frombuffer(bytes(map(numbers.__getitem__, flat)), dtype=np.uint8).astype(np.int64)
        except ValueError:  # more than 255 tags
            ids = np.fromiter(map(numbers.__getitem__, flat), dtype=np.int64, count=len(flat))
        tags = tuple(tag for tag in numbers if isinstance(tag, str))
        edges = ids == 0
        if len(tags) + 1 != len(numbers) or np.count_nonzero(edges) != sides:
            odd = next((tag for tag in numbers if tag is not None and not isinstance(tag, str)), None)
            raise ShapeError(f"tags must be strings, got {odd!r}: give one tag per token")
        ids -= 1
        ids[edges] = len(tags)
        return TagIds(ids, tags)


class _Numbers(dict[object, int]):
    """Gives every new key the next number."""

    def __missing__(self, key: object) -> int:
        self[key] = number = len(self)
        return number


def read(corpus: TagIds, scheme: str | Scheme) -> Reading:
    """Every segment of the corpus, cut leniently (an I- out of place starts one), with its legality."""
    matrices, outside = _rules(corpus.tags, Scheme.get(scheme))
    before, after = corpus.ids[:-1], corpus.ids[1:]
    tagged = matrices.type_index >= 0
    cut = ~matrices.continues[before, after]
    legal_step = matrices.legal[before, after]
    begins = np.flatnonzero(cut & tagged[after])
    ends = np.flatnonzero(cut & tagged[before])
    # A broken step is blamed on the side that could not stand next to "outside": on I-Y in `B-X I-Y`,
    # on B-X in BIOES `B-X S-Y`.
    starts_well = legal_step[begins] | outside.may_open[after[begins]]
    ends_well = legal_step[ends] | outside.may_close[before[ends]]
    token = np.cumsum(corpus.ids != len(corpus.tags)) - 1  # of each cell; an edge counts as the token before it
    return Reading(
        start=token[begins + 1],
        end=token[ends] + 1,
        type_index=matrices.type_index[after[begins]],
        legal=starts_well & ends_well,
        types=matrices.types,
        violations=np.flatnonzero(~legal_step),
    )


class _Outside(NamedTuple):
    may_open: Bools
    may_close: Bools


@lru_cache(maxsize=64)
def _rules(tags: tuple[str, ...], scheme: Scheme) -> tuple[TagMatrices, _Outside]:
    """What the scheme says of these tags: found once for all the batches of a model."""
    return scheme.matrices(tags), _beside_outside(tags, scheme)


def _beside_outside(tags: Sequence[str], scheme: Scheme) -> _Outside:
    """(D+1,) each: may this tag stand right after, and right before, an outside tag?"""
    legal = scheme.matrices([*(tag for tag in tags if tag != scheme.outside), scheme.outside]).legal
    inner = np.array([tag != scheme.outside for tag in tags] + [False], dtype=bool)
    may_open, may_close = np.ones(len(inner), dtype=bool), np.ones(len(inner), dtype=bool)
    may_open[inner], may_close[inner] = legal[-2, :-2], legal[:-2, -2]
    return _Outside(may_open, may_close)


class UnknownTagError(SchemeError):
    """A SchemeError that knows in which sentence, and where in it, the tag stands."""

    def __init__(self, message: str, sentence: int, position: int, reason: SchemeError) -> None:
        super().__init__(message)
        self.sentence, self.position, self.reason = sentence, position, reason


def require_known(
    sentences: Sequence[Sequence[str]], scheme: Scheme, *, tags: Iterable[str], name: str = "tags"
) -> None:
    """Raise an error that says where a tag stands that the scheme does not know; `tags` are those that occur."""
    for tag in tags:
        try:
            scheme.split(tag)
        except SchemeError as error:
            for number, sentence in enumerate(sentences):
                if tag in sentence:
                    position = list(sentence).index(tag)
                    raise UnknownTagError(f"{name}[{number}][{position}]: {error}", number, position, error) from error


def read_known(sentences: Sequence[Sequence[str]], scheme: Scheme) -> Reading:
    """The segments of these sentences; a tag the scheme does not know is reported with its place."""
    corpus = TagIds.of(sentences)
    require_known(sentences, scheme, tags=corpus.tags)
    return read(corpus, scheme)


def segments(tags: Sequence[str], scheme: str | Scheme) -> list[Segment]:
    """The segments of one sentence, in order, legal or not."""
    found = read(TagIds.of([tags]), scheme)
    return [
        Segment(start, end, found.types[kind], legal)
        for start, end, kind, legal in zip(
            found.start.tolist(), found.end.tolist(), found.type_index.tolist(), found.legal.tolist(), strict=True
        )
    ]


def violations(tags: Sequence[str], scheme: str | Scheme) -> list[Violation]:
    """Every step of one sentence that the scheme forbids, sentence start and end included."""
    return [step for _, step in all_violations([tags], read(TagIds.of([tags]), scheme))]


def all_violations(sentences: Sequence[Sequence[str]], found: Reading) -> list[tuple[int, Violation]]:
    """Every illegal step in the reading of these sentences, with the number of its sentence."""
    # The cell before a sentence's first tag in the id array, where one cell stands between sentences.
    edges = np.cumsum([0, *(len(tags) + 1 for tags in sentences)])
    owners = np.searchsorted(edges, found.violations, side="right") - 1
    steps = []
    for owner, position in zip(owners.tolist(), (found.violations - edges[owners]).tolist(), strict=True):
        tags = sentences[owner]
        before = tags[position - 1] if position else None
        steps.append((owner, Violation(position, before, tags[position] if position < len(tags) else None)))
    return steps


def encode(found: Iterable[Segment], length: int, scheme: str | Scheme) -> list[str]:
    """Write segments as the tags of a scheme; the inverse of `segments` for legal tags."""
    scheme = Scheme.get(scheme)
    tags = [scheme.outside] * length
    ordered = sorted(found)
    for number, (start, end, kind, _) in enumerate(ordered):
        if not (ordered[number - 1].end if number else 0) <= start < end <= length:
            raise SchemeError(
                f"segment {start}:{end} {kind} overlaps another, is empty or leaves the {length} tokens; drop it"
            )
        left = number and ordered[number - 1].end == start and ordered[number - 1].type == kind
        right = number + 1 < len(ordered) and ordered[number + 1].start == end and ordered[number + 1].type == kind
        single, first, middle, last = _prefixes(scheme, touches_left=bool(left), touches_right=right)
        size = end - start
        shape = [single] if size == 1 else [first, *[middle] * (size - 2), last]
        tags[start:end] = [scheme.join(prefix, kind) for prefix in shape]
    return tags


def _prefixes(scheme: Scheme, *, touches_left: bool, touches_right: bool) -> tuple[str, str, str, str]:
    if scheme.write is None:
        raise SchemeError(
            f"scheme {scheme.name} cannot write segments: define it with write=(single, first, middle, last)"
        )
    if touches_left and scheme.write_after_same:
        return scheme.write_after_same
    if touches_right and scheme.write_before_same:
        return scheme.write_before_same
    return scheme.write


def retain(tags: Sequence[str], scheme: str | Scheme) -> list[str]:
    """Keep illegal segments, written legally: what conlleval's reading amounts to."""
    return encode(segments(tags, scheme), len(tags), scheme)


def discard(tags: Sequence[str], scheme: str | Scheme) -> list[str]:
    """Drop illegal segments: the paper's better baseline."""
    return encode((found for found in segments(tags, scheme) if found.legal), len(tags), scheme)


def convert(
    tags: Sequence[str], source: str | Scheme, target: str | Scheme, *, strategy: Strategy = "retain"
) -> list[str]:
    """The same segments in another scheme; illegal ones are retained or discarded."""
    if strategy not in get_args(Strategy):
        raise SchemeError(f"unknown strategy {strategy!r}: choose one of {', '.join(get_args(Strategy))}")
    kept = [found for found in segments(tags, source) if found.legal or strategy == "retain"]
    return encode(kept, len(tags), target)


class Suggestion(NamedTuple):
    """A scheme these tags could be in, and how many of their steps it forbids."""

    scheme: Scheme
    illegal: int


def suggest_schemes(sentences: Iterable[Sequence[str]]) -> list[Suggestion]:
    """Schemes whose prefixes cover these tags, likeliest first: a suggestion to check, never a decision.

    Fewest illegal steps first; among equals the scheme whose own letters are all in use, then the strictest.
    """
    corpus = TagIds.of(sentences)
    suggestions: list[tuple[tuple[int, int, float], Suggestion]] = []
    for scheme in chain.from_iterable((Scheme.get(name), Scheme.get(name, prefix_last=True)) for name in SCHEMES):
        try:
            matrices = scheme.matrices(corpus.tags)
        except SchemeError:
            continue
        if scheme.prefix_last and not any(matrices.types):
            continue  # bare tags look the same both ways
        used = {scheme.split(tag)[0] for tag in corpus.tags}
        illegal = int((~matrices.legal[corpus.ids[:-1], corpus.ids[1:]]).sum())
        rank = (illegal, len(set(scheme.prefixes) - used), float(matrices.legal.mean()))
        suggestions.append((rank, Suggestion(scheme, illegal)))
    return [suggestion for _, suggestion in sorted(suggestions, key=lambda item: item[0])]


def read_paths(paths: Sequence[Sequence[int]], tags: Sequence[str], scheme: Scheme) -> list[list[Segment]]:
    """The segments of each path of tag ids."""
    edge = len(tags)
    ids = np.fromiter(chain([edge], chain.from_iterable(chain(path, [edge]) for path in paths)), dtype=np.int64)
    return _by_sentence(TagIds(ids, tuple(tags)), [len(path) for path in paths], scheme)


def read_batch(sentences: Sequence[Sequence[str]], scheme: Scheme) -> list[list[Segment]]:
    """The segments of each list of tags."""
    return _by_sentence(TagIds.of(sentences), [len(tags) for tags in sentences], scheme)


def convert_batch(sentences: Sequence[Sequence[str]], source: Scheme, target: Scheme) -> list[list[str]]:
    """The same segments in another scheme, illegal ones retained; as they are where both schemes are one."""
    if source == target:
        return [list(tags) for tags in sentences]
    found = read_batch(sentences, source)
    return [encode(segments, len(tags), target) for segments, tags in zip(found, sentences, strict=True)]


def _by_sentence(corpus: TagIds, lengths: Sequence[int], scheme: Scheme) -> list[list[Segment]]:
    found = read(corpus, scheme)
    begins = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    # An empty sentence begins where the next one does: of equal begins the last owns the tokens.
    rows = np.searchsorted(begins, found.start, side="right") - 1
    segments: list[list[Segment]] = [[] for _ in lengths]
    columns = (rows, found.start - begins[rows], found.end - begins[rows], found.type_index, found.legal)
    for row, start, end, kind, legal in zip(*(column.tolist() for column in columns), strict=True):
        segments[row].append(Segment(start, end, found.types[kind], legal))
    return segments
