"""The built-in corpus holds what its description promises."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from maskedcrf.data.demo_corpus import GRAMMAR, NAMES, TYPES, demo_corpus
from maskedcrf.data.sentence import Sentence

CORPUS = demo_corpus()


def entities(part: Iterable[Sentence]) -> list[tuple[str, tuple[str, ...]]]:
    """Type and words of every entity, read by hand from BIO tags."""
    found: list[tuple[str, list[str]]] = []
    for sentence in part:
        for token, tag in zip(sentence.tokens, sentence.tags or (), strict=True):
            if tag.startswith("B-"):
                found.append((tag[2:], [token]))
            elif tag.startswith("I-"):
                found[-1][1].append(token)
    return [(kind, tuple(words)) for kind, words in found]


def test_it_has_the_promised_size_and_types() -> None:
    assert tuple(map(len, CORPUS)) == (3000, 500, 1000)
    for part in CORPUS:
        counts = Counter(kind for kind, _ in entities(part))
        assert set(counts) == set(TYPES)
        assert min(counts.values()) > 30
        assert sum(len(words) > 1 for _, words in entities(part)) > 0.4 * sum(counts.values())


def test_gold_is_legal() -> None:
    for part in CORPUS:
        for sentence in part:
            before = "O"
            for tag in sentence.tags or ():
                assert not tag.startswith("I-") or before[2:] == tag[2:]
                before = tag


def test_sentences_differ_within_each_part() -> None:
    for part in CORPUS:
        assert len({sentence.tokens for sentence in part}) == len(part)


def test_america_stands_alone_in_test_only() -> None:
    def words_before(part: Iterable[Sentence]) -> set[str]:
        return {
            ("", *sentence.tokens)[number]
            for sentence in part
            for number, token in enumerate(sentence.tokens)
            if token == "america"
        }

    assert words_before(CORPUS.train) == {"north", "south", "east", "west", "central"}
    assert not words_before(CORPUS.test) <= words_before(CORPUS.train)
    assert ("LOC", ("america",)) in entities(CORPUS.test)


def test_train_alone_is_noisy() -> None:
    def tags_of_monday(part: Iterable[Sentence]) -> set[str]:
        marked = (zip(s.tokens, s.tags or (), strict=True) for s in part)
        return {tag for pairs in marked for token, tag in pairs if token == "monday"}

    assert tags_of_monday(CORPUS.test) == {"B-DATE", "I-DATE"}
    assert tags_of_monday(CORPUS.train) > {"B-DATE", "I-DATE"}


def test_a_part_of_the_words_of_test_is_new() -> None:
    known = {token for sentence in CORPUS.train for token in sentence.tokens}
    tokens = [token for sentence in CORPUS.test for token in sentence.tokens]
    new = sum(token not in known for token in tokens) / len(tokens)
    assert 0.02 < new < 0.15


def test_words_change_their_type() -> None:
    types: dict[str, set[str]] = {}
    for kind, words in entities(CORPUS.test):
        for word in words:
            types.setdefault(word, set()).add(kind)
    assert {"PER", "LOC"} <= types["florence"]
    assert sum(len(kinds) > 2 for kinds in types.values()) > 50


def test_every_symbol_of_the_grammar_is_written_down() -> None:
    text = " ".join(GRAMMAR.values())
    used = {symbol.strip("<>[]") for symbol in text.replace("|", " ").replace("*", " ").split() if symbol[0] in "<["}
    assert used | {"sentence"} == set(GRAMMAR) | set(NAMES)


def test_it_is_the_same_everywhere() -> None:
    """A fingerprint, so that no change of Python or of the grammar alters published figures unnoticed."""
    text = "\n".join(f"{' '.join(s.tokens)}\t{' '.join(s.tags or ())}" for part in CORPUS for s in part)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7db9e512e3968236"
    assert demo_corpus(seed=1).test != CORPUS.test
