"""Tags drawn at random, legal or not."""

from __future__ import annotations

from hypothesis import strategies as st

TYPES = ("LOC", "PER", "a-b", "0", "組織")


def tags_of(prefixes, types=TYPES, bare=True):
    inner = [prefix for prefix in prefixes if prefix != "O"]
    names = [f"{prefix}-{kind}" for prefix in inner for kind in types]
    return st.sampled_from(["O", *names, *(inner if bare else [])])


def pairs_of(prefixes, **options):
    """Gold and predicted tags of the same few sentences; the two agree often, or nothing would ever be right."""
    tag = tags_of(prefixes, **options)
    token = st.one_of(tag.map(lambda one: (one, one)), st.tuples(tag, tag))
    sentences = st.lists(st.lists(token, max_size=7), max_size=4)
    return sentences.map(lambda drawn: tuple([[pair[side] for pair in each] for each in drawn] for side in (0, 1)))
