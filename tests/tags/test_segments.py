"""Segments: legality, retain and discard, conversion and suggestions, against schemes written by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tags.by_hand import LETTERS, Found, all_segmentations, all_sentences, all_tags, legal_paths, segmentations
from tags.by_hand import read as read_by_hand
from tags.by_hand import write as write_by_hand

from maskedcrf.errors import SchemeError, ShapeError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import (
    Segment,
    TagIds,
    Violation,
    convert,
    discard,
    encode,
    read,
    retain,
    segments,
    suggest_schemes,
    violations,
)

every_scheme = pytest.mark.parametrize("scheme", LETTERS)


@every_scheme
def test_a_path_is_legal_exactly_when_some_segmentation_is_written_so(scheme: str) -> None:
    tags = all_tags(scheme, "XY")
    index = {tag: number for number, tag in enumerate(tags)}
    rules = Constraints.from_scheme(tags, scheme)
    legal = {
        tuple(path) for path in all_sentences(scheme, "XY", 4) if not rules.violations([index[tag] for tag in path])
    }
    assert legal == set(legal_paths(scheme))


@every_scheme
def test_a_legal_path_reads_as_the_segmentation_it_was_written_from(scheme: str) -> None:
    for path, found in legal_paths(scheme).items():
        assert segments(path, scheme) == [Segment(*each, True) for each in found]
        assert violations(path, scheme) == []


@every_scheme
def test_any_path_is_cut_as_the_regular_expressions_cut_it(scheme: str) -> None:
    for path in all_sentences(scheme, "XY", 3):
        assert segments(path, scheme) == read_by_hand(path, scheme)


@every_scheme
def test_a_path_has_a_violation_exactly_when_it_has_an_illegal_segment(scheme: str) -> None:
    for path in all_sentences(scheme, "XY", 3):
        assert bool(violations(path, scheme)) == (not all(legal for *_, legal in read_by_hand(path, scheme)))


@every_scheme
def test_retain_and_discard_write_what_the_regular_expressions_keep(scheme: str) -> None:
    for path in all_sentences(scheme, "XY", 3):
        found = read_by_hand(path, scheme)
        everything, legal_ones = [each[:3] for each in found], [each[:3] for each in found if each[3]]
        assert retain(path, scheme) == write_by_hand(everything, len(path), scheme)
        assert discard(path, scheme) == write_by_hand(legal_ones, len(path), scheme)


@every_scheme
def test_a_corpus_reads_as_its_sentences_do(scheme: str) -> None:
    sentences = [*all_sentences(scheme, "XY", 2), []]
    random.Random(1).shuffle(sentences)
    corpus = TagIds.of(sentences)
    found = read(corpus, scheme)
    offset, expected, cell, steps = 0, [], 0, []
    for sentence in sentences:
        expected += [(offset + s, offset + e, kind, legal) for s, e, kind, legal in read_by_hand(sentence, scheme)]
        steps += [cell + violation.position for violation in violations(sentence, scheme)]
        offset += len(sentence)
        cell += len(sentence) + 1
    kinds = [found.types[number] for number in found.type_index]
    assert list(zip(found.start, found.end, kinds, found.legal, strict=True)) == expected
    assert found.violations.tolist() == steps
    assert len(corpus.ids) == cell + 1


@given(segmentations(), st.sampled_from(list(LETTERS)), st.sampled_from(list(LETTERS)))
def test_conversion_between_any_two_schemes_keeps_the_segments(
    drawn: tuple[list[Found], int], source: str, target: str
) -> None:
    found, length = drawn
    if source == "IO":
        return  # IO merges neighbours: the next test
    assert convert(write_by_hand(found, length, source), source, target) == write_by_hand(found, length, target)


@given(segmentations(touching=False), st.sampled_from(list(LETTERS)))
def test_conversion_through_io_keeps_segments_that_do_not_touch(drawn: tuple[list[Found], int], other: str) -> None:
    found, length = drawn
    tags = write_by_hand(found, length, other)
    assert convert(convert(tags, other, "IO"), "IO", other) == tags


def test_conversion_through_io_merges_neighbours_of_one_type() -> None:
    assert convert(["B-X", "B-X", "I-X", "B-Y"], "BIO", "IO") == ["I-X", "I-X", "I-X", "I-Y"]
    assert convert(["I-X", "I-X", "I-X", "I-Y"], "IO", "BIO") == ["B-X", "I-X", "I-X", "B-Y"]


@given(segmentations(), st.sampled_from(list(LETTERS)))
def test_encode_writes_segments_in_any_order(drawn: tuple[list[Found], int], scheme: str) -> None:
    found, length = drawn
    assert encode([Segment(*each) for each in reversed(found)], length, scheme) == write_by_hand(found, length, scheme)


@pytest.mark.parametrize(
    "found",
    [
        [Segment(0, 2, "X"), Segment(1, 3, "Y")],
        [Segment(0, 3, "X"), Segment(0, 3, "Y")],
        [Segment(1, 4, "X")],
        [Segment(-1, 1, "X")],
        [Segment(1, 1, "X")],
    ],
)
def test_segments_that_overlap_or_leave_the_sentence_are_refused(found: list[Segment]) -> None:
    with pytest.raises(SchemeError, match=r"segment .* overlaps another, is empty or leaves the 3 tokens"):
        encode(found, 3, "BIO")


@pytest.mark.parametrize("strategy", ["retain", "discard"])
@every_scheme
def test_repair_of_a_repair_changes_nothing(scheme: str, strategy: str) -> None:
    repair = {"retain": retain, "discard": discard}[strategy]
    for path in all_sentences(scheme, "XY", 2):
        once = repair(path, scheme)
        assert violations(once, scheme) == []
        assert repair(once, scheme) == once
        assert convert(path, scheme, scheme, strategy=strategy) == once


def test_an_unknown_strategy_is_refused_by_name() -> None:
    with pytest.raises(SchemeError, match="unknown strategy 'ratain': choose one of retain, discard"):
        convert(["O", "I-X"], "BIO", "BIOES", strategy="ratain")  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [None, 3, float("nan"), b"O"])
def test_a_tag_that_is_no_string_is_refused_and_shifts_nothing(odd: object) -> None:
    for ask in (segments, violations, retain, discard):
        with pytest.raises(ShapeError, match=f"tags must be strings, got {odd!r}: give one tag per token"):
            ask(["B-X", odd, "I-X"], "BIO")  # type: ignore[list-item]


@pytest.mark.parametrize("kinds", [1, 84, 85, 127, 200])
def test_any_number_of_tags_is_numbered_in_their_order(kinds: int) -> None:
    tags = ["O", *(f"{letter}-{kind}" for kind in range(kinds) for letter in "BI")]
    corpus = TagIds.of(sentence for sentence in (tags, [], reversed(tags)))
    edge, order = len(tags), list(range(len(tags)))
    assert corpus.tags == tuple(tags)
    assert corpus.ids.tolist() == [edge, *order, edge, edge, *reversed(order), edge]
    assert TagIds.of([]).ids.tolist() == [0]


# The paper's own examples, and what it leaves open for BIOES.


def test_the_paper_discards_i_misc_after_b_loc() -> None:
    assert discard(["B-LOC", "I-MISC"], "BIO") == ["B-LOC", "O"]
    assert retain(["B-LOC", "I-MISC"], "BIO") == ["B-LOC", "B-MISC"]


def test_the_paper_forbids_i_loc_after_o() -> None:
    path = "O O O I-LOC I-LOC O".split()
    assert violations(path, "BIO") == [Violation(3, "O", "I-LOC")]
    assert segments(path, "BIO") == [Segment(3, 5, "LOC", False)]
    assert discard(path, "BIO") == ["O"] * 6


@pytest.mark.parametrize(
    ("path", "kept", "dropped"),
    [
        ("B-X I-Y I-Y", "B-X B-Y I-Y", "B-X O O"),
        ("I-X I-X B-X", "B-X I-X B-X", "O O B-X"),
        ("B-X O I-X", "B-X O B-X", "B-X O O"),
        ("I-X I-Y", "B-X B-Y", "O O"),
    ],
)
def test_in_bio_a_whole_run_that_starts_with_i_is_illegal(path: str, kept: str, dropped: str) -> None:
    assert " ".join(retain(path.split(), "BIO")) == kept
    assert " ".join(discard(path.split(), "BIO")) == dropped


@pytest.mark.parametrize(
    ("path", "kept", "dropped"),
    [
        ("B-X I-X E-X S-X", "B-X I-X E-X S-X", "B-X I-X E-X S-X"),
        ("B-X I-X O", "B-X E-X O", "O O O"),  # no end
        ("O E-X", "O S-X", "O O"),  # no beginning
        ("S-X E-X", "S-X S-X", "S-X O"),
        ("B-X S-Y", "S-X S-Y", "O S-Y"),
        ("B-X I-Y E-Y", "S-X B-Y E-Y", "O O O"),
        ("B-X B-X E-X", "S-X B-X E-X", "O B-X E-X"),
        ("B-X E-X I-X", "B-X E-X S-X", "B-X E-X O"),
    ],
)
def test_in_bioes_a_segment_is_legal_when_it_is_s_or_b_to_e(path: str, kept: str, dropped: str) -> None:
    assert " ".join(retain(path.split(), "BIOES")) == kept
    assert " ".join(discard(path.split(), "BIOES")) == dropped


def test_violations_name_both_edges_of_the_sentence() -> None:
    assert violations(["I-X", "B-X"], "BIOES") == [
        Violation(0, None, "I-X"),
        Violation(1, "I-X", "B-X"),
        Violation(2, "B-X", None),
    ]
    assert violations([], "BIOES") == []
    assert segments([], "BIO") == []


# Suggestions.


def corpus_by_hand(scheme: str, *, seed: int, sentences: int = 60) -> list[list[str]]:
    """Random legal sentences over two types, many of them with neighbours that touch."""
    choose = random.Random(seed)
    return [
        write_by_hand(choose.choice(list(all_segmentations(length, "XY"))), length, scheme)
        for length in (choose.randint(1, 4) for _ in range(sentences))
    ]


@pytest.mark.parametrize("seed", range(5))
@every_scheme
def test_the_scheme_that_wrote_the_data_is_suggested_first(scheme: str, seed: int) -> None:
    first = suggest_schemes(corpus_by_hand(scheme, seed=seed))[0]
    assert (first.scheme, first.illegal) == (Scheme.get(scheme), 0)


@every_scheme
def test_a_few_errors_do_not_change_the_suggestion_and_are_counted(scheme: str) -> None:
    broken = {"IOB1": ["B-X"], "BIO": ["I-X"], "IOE1": ["E-X"], "IOE2": ["I-X"], "BILOU": ["L-X"]}.get(scheme, ["E-X"])
    if scheme == "IO":
        return  # every path of I and O is legal
    first = suggest_schemes([*corpus_by_hand(scheme, seed=0), broken, broken])[0]
    assert (first.scheme.name, first.illegal) == (scheme, 2)


def test_suggestions_count_the_illegal_steps_of_each_scheme() -> None:
    counts = {s.scheme.name: s.illegal for s in suggest_schemes([["O", "I-X", "I-Y"], ["B-X", "O"]])}
    # IOB1 forbids the B-X at the start; BIO forbids O I-X and I-X I-Y; BIOES also the I-Y and the B-X that never end
    assert counts == {"IOB1": 1, "BIO": 2, "BIOES": 4, "BILOU": 4}


def test_of_schemes_that_forbid_as_much_the_one_with_fewer_unused_letters_comes_first() -> None:
    # IOB1 forbids the B-X at the start, BIOES the one at the end and is the stricter of the two
    found = [(s.scheme.name, s.illegal) for s in suggest_schemes([["B-X"]])]
    assert found[:3] == [("BIO", 0), ("IOB1", 1), ("BIOES", 1)]


def test_tags_with_their_prefix_last_are_suggested_so() -> None:
    first = suggest_schemes([["PER-B", "PER-I", "O"], ["O", "LOC-B", "LOC-B"]])[0]
    assert first.scheme == Scheme.get("BIO", prefix_last=True)


def test_bare_tags_are_suggested_once() -> None:
    suggested = [s.scheme for s in suggest_schemes([["B", "I", "O"], ["O", "B", "B"]])]
    assert suggested[0] == Scheme.get("BIO")
    assert len({scheme.name for scheme in suggested}) == len(suggested)


def test_tags_of_no_known_scheme_get_no_suggestion() -> None:
    assert suggest_schemes([["NOUN", "VERB"]]) == []
