"""Constraints: where they come from, how they combine, and what they refuse."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tags.by_hand import LETTERS, all_tags, legal_paths

from maskedcrf.errors import ConstraintError, SchemeError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme

FIGURE_2_TAGS = ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER"]
# The red cells of the paper's Figure 2, as it numbers them: row (from), column (to).
FIGURE_2_MASKED = {13, 15, 17, 25, 27, 35, 37, 43, 47, 53, 57, 63, 65, 73, 75}


def test_the_mask_is_that_of_figure_2() -> None:
    rules = Constraints.from_scheme(FIGURE_2_TAGS, "BIO")
    rows, columns = np.nonzero(~rules.legal)
    assert {10 * (row + 1) + column + 1 for row, column in zip(rows, columns, strict=True)} == FIGURE_2_MASKED


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rules: pickle.loads(pickle.dumps(rules))])
def test_nobody_writes_to_a_copy_either(copied: Callable[[Constraints], Constraints]) -> None:
    twin = copied(Constraints.from_scheme(FIGURE_2_TAGS, "BIO"))
    for cells in (twin.legal, twin.start, twin.end):
        with pytest.raises(ValueError, match="read-only"):
            cells[0] = False


def test_constraints_print_figure_2_with_the_sentence_edges() -> None:
    assert str(Constraints.from_scheme(FIGURE_2_TAGS, "BIO")) == (
        "from \\ to  O  B-LOC  I-LOC  B-ORG  I-ORG  B-PER  I-PER  end\n"
        "start      .      .      x      .      x      .      x\n"
        "O          .      .      x      .      x      .      x    .\n"
        "B-LOC      .      .      .      .      x      .      x    .\n"
        "I-LOC      .      .      .      .      x      .      x    .\n"
        "B-ORG      .      .      x      .      .      .      x    .\n"
        "I-ORG      .      .      x      .      .      .      x    .\n"
        "B-PER      .      .      x      .      x      .      .    .\n"
        "I-PER      .      .      x      .      x      .      .    ."
    )


def test_repr_says_how_much_is_masked() -> None:
    assert repr(Constraints.from_scheme(FIGURE_2_TAGS, "BIO")) == "Constraints(7 tags, BIO, 15 of 49 steps masked)"
    assert repr(Constraints.free(["a", "b"])) == "Constraints(2 tags, own rules, 0 of 4 steps masked)"


def test_the_order_of_tags_is_the_callers() -> None:
    tags = ["I-X", "O", "B-X"]
    rules = Constraints.from_scheme(tags, "BIO")
    assert rules.tags == tuple(tags)
    assert rules.start.tolist() == [False, True, True]
    assert rules.legal.tolist() == [[True, True, True], [False, True, True], [True, True, True]]


def test_bioes_holds_at_both_ends_of_the_sentence() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")
    assert rules.start.tolist() == [True, True, False, False, True]
    assert rules.end.tolist() == [True, False, False, True, True]


def test_types_that_never_continue_need_no_i() -> None:
    tags = ["O", "B-fromloc.city_name", "I-fromloc.city_name", "B-day_name", "B-flight_stop"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules = Constraints.from_scheme(tags, "BIO")
    assert rules.dead_tags == ()
    only_b = rules.legal[3:]
    assert only_b.tolist() == [[True, True, False, True, True]] * 2


def test_unknown_prefixes_are_named() -> None:
    with pytest.raises(SchemeError, match="tag 'E-X' does not fit BIO"):
        Constraints.from_scheme(["O", "B-X", "E-X"], "BIO")


def test_pairs_list_what_is_legal() -> None:
    rules = Constraints.from_pairs(["a", "b", "c"], [("a", "b"), ("b", "c"), ("b", "b")], start=["a"], end=["b", "c"])
    assert rules.legal.tolist() == [[False, True, False], [False, True, True], [False, False, False]]
    assert rules.start.tolist() == [True, False, False]
    assert rules.end.tolist() == [False, True, True]


def test_pairs_and_arrays_leave_the_edges_open_unless_told() -> None:
    for rules in (
        Constraints.from_pairs(["a", "b"], [("a", "b")]),
        Constraints.from_arrays(["a", "b"], [[False, True], [False, False]]),
        Constraints.from_arrays(["a", "b"], np.array([[0, 1], [0, 0]])),
    ):
        assert rules.legal.tolist() == [[False, True], [False, False]]
        assert rules.start.all()
        assert rules.end.all()


def test_pairs_of_unknown_tags_are_refused_by_name() -> None:
    with pytest.raises(ConstraintError, match="'z' is not one of the tags: a, b"):
        Constraints.from_pairs(["a", "b"], [("a", "z")])
    with pytest.raises(ConstraintError, match="'z' is not one of the tags: a, b"):
        Constraints.from_pairs(["a", "b"], [("a", "b")], end=["z"])


def allennlp_bio(tags: list[str]) -> list[tuple[int, int]]:
    """AllenNLP's list for BIO, restated: ids, with D the start and D + 1 the end."""
    size = len(tags)
    pairs = [
        (before, after)
        for before in range(size)
        for after in range(size)
        if tags[after][0] != "I" or tags[before] in ("B" + tags[after][1:], tags[after])
    ]
    pairs += [(size, after) for after in range(size) if tags[after][0] != "I"]
    return pairs + [(before, size + 1) for before in range(size)]


def test_allennlp_lists_give_the_same_rules_as_the_scheme() -> None:
    rules = Constraints.from_allennlp(FIGURE_2_TAGS, allennlp_bio(FIGURE_2_TAGS))
    assert rules == Constraints.from_scheme(FIGURE_2_TAGS, "BIO")


def test_allennlp_ids_out_of_range_are_refused() -> None:
    with pytest.raises(ConstraintError, match=r"\(0, 4\) names no tag: ids run from 0 to 3"):
        Constraints.from_allennlp(["a", "b"], [(0, 1), (0, 4)])
    with pytest.raises(ConstraintError, match=r"\(-1, 0\) names no tag"):
        Constraints.from_allennlp(["a", "b"], [(-1, 0)])


def test_allennlp_lists_without_a_start_have_no_legal_path() -> None:
    with pytest.raises(ConstraintError, match="no legal path"):
        Constraints.from_allennlp(["a", "b"], [(0, 1), (1, 3)])


def test_and_keeps_what_both_allow() -> None:
    left = Constraints.from_arrays(["a", "b"], [[1, 1], [0, 1]], start=[1, 1], end=[0, 1])
    right = Constraints.from_arrays(["a", "b"], [[1, 1], [1, 0]], start=[1, 0], end=[1, 1])
    both = left & right
    assert both.legal.tolist() == [[True, True], [False, False]]
    assert both.start.tolist() == [True, False]
    assert both.end.tolist() == [False, True]


def test_and_remembers_the_scheme_from_either_side() -> None:
    rules, free = Constraints.from_scheme(["O", "B-X"], "BIO"), Constraints.free(["O", "B-X"])
    assert (rules & free).scheme == (free & rules).scheme == Scheme.get("BIO")


def test_different_tags_cannot_be_combined() -> None:
    with pytest.raises(ConstraintError, match="different tags"):
        Constraints.free(["a", "b"]) & Constraints.free(["b", "a"])


def test_constraints_that_share_no_path_cannot_be_combined() -> None:
    first = Constraints.from_pairs(["a", "b"], [("a", "b")], start=["a"], end=["b"])
    second = Constraints.from_pairs(["a", "b"], [("b", "a")], start=["b"], end=["a"])
    with pytest.raises(ConstraintError, match="no legal path: no tag leads from a start to an end; tags are a, b"):
        first & second


def test_forbid_takes_steps_starts_and_ends_away() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X"], "BIO").forbid([("I-X", "B-X"), (None, "B-X"), ("O", None)])
    assert rules.legal.tolist() == [[True, True, False], [True, True, True], [True, False, True]]
    assert rules.start.tolist() == [True, False, False]
    assert rules.end.tolist() == [False, True, True]
    assert rules.scheme == Scheme.get("BIO")
    with pytest.raises(ConstraintError, match="'I-Y' is not one of the tags"):
        rules.forbid([("O", "I-Y")])


def test_open_lets_a_window_start_and_end_inside_a_segment() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")
    both, left, right = rules.open(), rules.open(end=False), rules.open(start=False)
    assert both.start.all()
    assert both.end.all()
    assert left.start.all()
    assert left.end.tolist() == rules.end.tolist()
    assert right.start.tolist() == rules.start.tolist()
    assert right.end.all()
    assert (both.legal == rules.legal).all()


@pytest.mark.filterwarnings("ignore:no legal path can use")
def test_open_does_not_bring_dead_tags_back() -> None:
    rules = Constraints.from_scheme(["O", "B-X"], "BIOES").open()
    assert rules.dead_tags == ("B-X",)
    assert rules.start.tolist() == rules.end.tolist() == [True, False]


def test_a_dead_tag_is_named_and_taken_out() -> None:
    tags = ["O", "B-X", "I-X", "S-X", "B-Y", "E-Y"]
    with pytest.warns(UserWarning, match="no legal path can use B-X, I-X: these tags get zero probability") as caught:
        rules = Constraints.from_scheme(tags, "BIOES")
    assert caught[0].filename == __file__
    assert rules.dead_tags == ("B-X", "I-X")
    assert not rules.legal[[1, 2]].any()
    assert not rules.legal[:, [1, 2]].any()
    assert rules.start.tolist() == [True, False, False, True, True, False]
    assert rules.end.tolist() == [True, False, False, True, False, True]


def test_a_constraint_with_no_legal_path_is_refused() -> None:
    with pytest.raises(ConstraintError, match="no legal path: .* tags are I-X, E-X"):
        Constraints.from_scheme(["I-X", "E-X"], "BIOES")
    with pytest.raises(ConstraintError, match="no legal path: .* tags are none"):
        Constraints.from_scheme([], "BIO")
    with pytest.raises(ConstraintError, match="no legal path"):
        Constraints.from_arrays(["a"], [[True]], start=[False])


def test_tags_listed_twice_are_refused() -> None:
    with pytest.raises(ConstraintError, match="listed twice: B-X"):
        Constraints.from_scheme(["O", "B-X", "I-X", "B-X"], "BIO")


def test_arrays_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ConstraintError, match=r"legal must be \(2, 2\) for 2 tags, got \(3, 3\)"):
        Constraints.from_arrays(["a", "b"], np.ones((3, 3), dtype=bool))
    with pytest.raises(ConstraintError, match=r"end must be \(2,\) for 2 tags, got \(1,\)"):
        Constraints.from_arrays(["a", "b"], np.ones((2, 2), dtype=bool), end=[True])


def test_scores_in_place_of_booleans_are_refused() -> None:
    with pytest.raises(ConstraintError, match="legal must be Boolean"):
        Constraints.from_arrays(["a", "b"], [[0.0, -10000.0], [0.0, 0.0]])


def test_arrays_are_copied_and_cannot_be_written_to() -> None:
    given_cells = np.ones((2, 2), dtype=bool)
    rules = Constraints.from_arrays(["a", "b"], given_cells)
    given_cells[:] = False
    assert rules.legal.all()
    with pytest.raises(ValueError, match="read-only"):
        rules.legal[0, 0] = False


@pytest.mark.parametrize("length", [1, 2, 3])
def test_has_path_is_true_where_listing_finds_one(length) -> None:
    rules = Constraints.from_scheme(["O", "B-X", "E-X"], "BIOES")
    for cells in itertools.product([False, True], repeat=3 * length):
        allowed = np.array(cells).reshape(length, 3)
        paths = itertools.product(range(3), repeat=length)
        listed = any(allowed[range(length), path].all() and not rules.violations(path) for path in paths)
        assert rules.has_path(allowed) == listed
    assert rules.has_path(np.ones((0, 3), dtype=bool))


def test_violations_give_position_and_both_tags() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")
    assert rules.violations([2, 0, 0, 3, 1]) == [
        (0, None, "I-X"),
        (1, "I-X", "O"),
        (3, "O", "E-X"),
        (5, "B-X", None),
    ]
    assert rules.violations([0, 1, 3, 4]) == []
    assert rules.violations([]) == []


def test_own_rules_know_no_segments() -> None:
    with pytest.raises(ConstraintError, match="build them with from_scheme"):
        _ = Constraints.free(["a"]).matrices
    assert Constraints.from_scheme(["O", "B-X"], "BIO").matrices.types == ("X",)


def test_equality_compares_tags_and_rules() -> None:
    rules = Constraints.from_scheme(["O", "B-X"], "BIO")
    assert rules == Constraints.free(["O", "B-X"])
    assert rules != Constraints.free(["B-X", "O"])
    assert rules != Constraints.from_scheme(["O", "B-X"], "BIO").forbid([("B-X", "B-X")])
    assert rules != "BIO"
    assert len(rules) == 2


@given(st.sampled_from(list(LETTERS)), st.data())
@pytest.mark.filterwarnings("ignore:no legal path can use")
def test_alive_tags_are_those_that_some_segmentation_uses(scheme: str, data: st.DataObject) -> None:
    tags = data.draw(st.lists(st.sampled_from(all_tags(scheme, "XY")), unique=True, min_size=1))
    used = {tag for path in legal_paths(scheme) if set(path) <= set(tags) for tag in path}
    if used:
        rules = Constraints.from_scheme(tags, scheme)
        assert set(tags) - set(rules.dead_tags) == used
    else:
        with pytest.raises(ConstraintError, match="no legal path"):
            Constraints.from_scheme(tags, scheme)


def test_rules_of_two_schemes_belong_to_neither_whichever_comes_first() -> None:
    tags = ["O", "I-X"]
    io, iob1 = (Constraints.from_scheme(tags, scheme) for scheme in ("IO", "IOB1"))
    assert (io & iob1) == (iob1 & io)
    assert (io & iob1).scheme is (iob1 & io).scheme is None
    assert (io & Constraints.from_scheme(tags, "IO")).scheme == Scheme.get("IO")
    with pytest.raises(ConstraintError, match="know no scheme, or combine two"):
        _ = (io & iob1).matrices
