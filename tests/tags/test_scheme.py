"""Schemes: names, splitting tags, and tables of one's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tags.by_hand import LETTERS, all_tags

from maskedcrf.errors import MaskedCRFError, SchemeError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import SCHEMES, Scheme
from maskedcrf.tags.segments import Segment, convert, encode, segments, violations


def test_every_designed_scheme_is_known() -> None:
    assert set(SCHEMES) == set(LETTERS)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("IOB2", "BIO"),
        ("IOBES", "BIOES"),
        ("BIOUL", "BILOU"),
        ("BILUO", "BILOU"),
        ("BMESO", "BMES"),
        ("bio", "BIO"),
        ("iobes", "BIOES"),
    ],
)
def test_aliases_mean_the_same_scheme(alias: str, name: str) -> None:
    assert Scheme.get(alias) == SCHEMES[name]


def test_a_scheme_comes_back_as_it_is() -> None:
    own = Scheme.get("BIO", delimiter="_")
    assert Scheme.get(own) is own


@pytest.mark.parametrize("name", ["IOB", "iob"])
def test_iob_is_refused_as_ambiguous(name: str) -> None:
    with pytest.raises(SchemeError, match="ambiguous: say IOB1 .* or IOB2"):
        Scheme.get(name)


def test_an_unknown_scheme_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SchemeError, match="unknown scheme 'BIOS': did you mean BIOES"):
        Scheme.get("BIOS")
    with pytest.raises(MaskedCRFError, match="unknown scheme 'zzz': known are IO, IOB1, BIO"):
        Scheme.get("zzz")
    with pytest.raises(SchemeError, match="a scheme is a name such as 'BIO'"):
        Scheme.get(object)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LETTERS)
def test_the_tags_of_a_scheme_are_outside_and_every_prefix_of_every_type(name: str) -> None:
    tags = Scheme.get(name).tags(["X", "Y"])
    assert tags[0] == "O"
    assert sorted(tags) == sorted(all_tags(name, "XY"))


@pytest.mark.parametrize(
    ("tag", "pieces"),
    [
        ("O", ("O", "")),
        ("B", ("B", "")),
        ("I", ("I", "")),
        ("B-LOC", ("B", "LOC")),
        ("B-date-time", ("B", "date-time")),
        ("I-fromloc.city_name", ("I", "fromloc.city_name")),
        ("B-O", ("B", "O")),
        ("I-人名", ("I", "人名")),
        ("B--", ("B", "-")),
    ],
)
def test_only_the_first_hyphen_cuts_a_tag(tag: str, pieces: tuple[str, str]) -> None:
    assert Scheme.get("BIO").split(tag) == pieces
    assert Scheme.get("BIO").join(*pieces) == tag


@pytest.mark.parametrize(
    ("tag", "pieces"),
    [("O", ("O", "")), ("B", ("B", "")), ("PER-B", ("B", "PER")), ("date-time-I", ("I", "date-time"))],
)
def test_only_the_last_hyphen_cuts_a_tag_with_its_prefix_last(tag: str, pieces: tuple[str, str]) -> None:
    scheme = Scheme.get("BIO", prefix_last=True)
    assert scheme.split(tag) == pieces
    assert scheme.join(*pieces) == tag


@pytest.mark.parametrize("delimiter", ["_", ".", "|", "::", "/"])
def test_any_delimiter_cuts_a_tag(delimiter: str) -> None:
    scheme = Scheme.get("BIOES", delimiter=delimiter)
    assert scheme.split(f"S{delimiter}PER-SON") == ("S", "PER-SON")
    assert segments([f"B{delimiter}A", f"E{delimiter}A", "O"], scheme) == [Segment(0, 2, "A")]


@given(
    st.sampled_from(list(LETTERS)),
    st.text(max_size=6),
    st.sampled_from(["-", "_", "::"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_split_undoes_join(name: str, kind: str, delimiter: str, prefix_last: bool, random) -> None:
    scheme = Scheme.get(name, delimiter=delimiter, prefix_last=prefix_last)
    prefix = random.choice(LETTERS[name])
    overlapping = delimiter == "::" and (kind.endswith(":") if prefix_last else kind.startswith(":"))
    if not overlapping:  # `B` + `::` + `:x` can be cut in two ways
        assert scheme.split(scheme.join(prefix, kind)) == (prefix, kind)


@pytest.mark.parametrize("tag", ["E-LOC", "LOC", "b-LOC", "", "-", "-LOC", "O-LOC", "B-", "O-", " B-LOC", "BI-LOC"])
def test_a_tag_that_does_not_fit_is_refused_by_name(tag: str) -> None:
    with pytest.raises(SchemeError, match=f"tag {tag!r} does not fit BIO: prefixes are B, I, O, tags look like B-X"):
        Scheme.get("BIO").split(tag)


def test_a_prefix_on_the_wrong_side_is_refused() -> None:
    with pytest.raises(SchemeError, match="tag 'B-PER' does not fit BIO: .* tags look like X-B"):
        Scheme.get("BIO", prefix_last=True).split("B-PER")
    with pytest.raises(SchemeError, match="tag 'PER-B' does not fit BIO"):
        segments(["O", "PER-B"], "BIO")


def test_bare_tags_are_segments_without_a_type() -> None:
    assert segments(["B", "I", "O", "B", "B"], "BIO") == [Segment(0, 2, ""), Segment(3, 4, ""), Segment(4, 5, "")]
    assert convert(["B", "I", "O", "B"], "BIO", "BIOES") == ["B", "E", "O", "S"]


def test_tags_with_the_prefix_last_read_and_convert() -> None:
    last = Scheme.get("BIO", prefix_last=True)
    assert segments(["PER-B", "PER-I", "O", "a-b-I"], last) == [Segment(0, 2, "PER"), Segment(3, 4, "a-b", False)]
    assert convert(["PER-B", "PER-I", "O"], last, "BIOES") == ["B-PER", "E-PER", "O"]
    assert convert(["S-PER"], "BIOES", last) == ["PER-B"]


BEGIN_IN = Scheme.define(
    "BEGIN-IN",
    start="_ BEG",
    end="_ BEG IN",
    inside=[("BEG", "IN"), ("IN", "IN")],
    between=[("_", "_"), ("_", "BEG"), ("BEG", "_"), ("BEG", "BEG"), ("IN", "_"), ("IN", "BEG")],
    write=["BEG", "BEG", "IN", "IN"],
    outside="_",
)


def test_a_scheme_of_ones_own_behaves_like_its_twin() -> None:
    tags = ["_", "BEG-X", "IN-X", "BEG-X", "IN-Y"]
    assert segments(tags, BEGIN_IN) == [Segment(1, 3, "X"), Segment(3, 4, "X"), Segment(4, 5, "Y", False)]
    assert [violation.position for violation in violations(tags, BEGIN_IN)] == [4]
    assert convert(tags, BEGIN_IN, "BIO") == ["O", "B-X", "I-X", "B-X", "B-Y"]
    own = Constraints.from_scheme(BEGIN_IN.tags(["X", "Y"]), BEGIN_IN)
    twin = Constraints.from_scheme(Scheme.get("BIO").tags(["X", "Y"]), "BIO")
    assert (own.legal == twin.legal).all()


def test_a_scheme_of_ones_own_may_have_its_prefix_last() -> None:
    scheme = replace(BEGIN_IN, delimiter="/", prefix_last=True)
    assert segments(["X/BEG", "X/IN", "_"], scheme) == [Segment(0, 2, "X")]


def test_a_scheme_that_never_ends_a_segment_before_two_tokens_can_be_defined() -> None:
    pairs_only = Scheme.define("PAIRS", start="O B", end="O E", inside="BE", between="OO OB EO EB")
    assert [s.legal for s in segments(["B-X", "E-X", "O", "B-X", "O"], pairs_only)] == [True, False]
    with pytest.raises(SchemeError, match="PAIRS cannot write segments: define it with write="):
        encode([Segment(0, 2, "X")], 2, pairs_only)


def test_pairs_of_longer_prefixes_need_tuples() -> None:
    with pytest.raises(SchemeError, match="two letters each, separated by blanks, got 'BI III'"):
        Scheme.define("BAD", start="O B", end="O B", inside="BI III", between="OO")


def test_outside_cannot_be_inside_a_segment() -> None:
    with pytest.raises(SchemeError, match="scheme BAD: 'O' is outside every segment"):
        Scheme.define("BAD", start="O B", end="O B", inside="BO", between="OO")


def test_a_scheme_prints_its_table() -> None:
    assert str(Scheme.get("IOB1")) == (
        "IOB1: a sentence starts with I O and ends with B I O\n"
        "  same segment      B>I I>I\n"
        "  new segment       B>O I>O O>I O>O\n"
        "  new, same type    B>B I>B\n"
        "  new, other type   B>I I>I"
    )
