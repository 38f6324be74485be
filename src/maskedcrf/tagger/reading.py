"""Segments of many sentences at once, and the same sentences in another scheme."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, TagIds, encode, read


def segments_of_paths(paths: Sequence[Sequence[int]], tags: Sequence[str], scheme: Scheme) -> list[list[Segment]]:
    """The segments of each path of tag ids."""
    edge = len(tags)
    ids = np.fromiter(chain([edge], chain.from_iterable(chain(path, [edge]) for path in paths)), dtype=np.int64)
    return _by_sentence(TagIds(ids, tuple(tags)), [len(path) for path in paths], scheme)


def segments_of(sentences: Sequence[Sequence[str]], scheme: Scheme) -> list[list[Segment]]:
    """The segments of each list of tags."""
    return _by_sentence(TagIds.of(sentences), [len(tags) for tags in sentences], scheme)


def converted(sentences: Sequence[Sequence[str]], source: Scheme, target: Scheme) -> list[list[str]]:
    """The same segments in another scheme, illegal ones retained; as they are where both schemes are one."""
    if source == target:
        return [list(tags) for tags in sentences]
    found = segments_of(sentences, source)
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
