"""The audit: the paper's Table 1, from tags."""

from __future__ import annotations

import pytest
from evaluation.tag_strategies import pairs_of
from hypothesis import given

from maskedcrf import audit
from maskedcrf.evaluation.audit import Audit, Cells


@given(pairs_of("BIO"))
def test_cells_equal_a_count_by_hand_of_bio_runs(pair):
    expected = {}
    for gold, predicted in zip(*pair, strict=True):
        wanted = {run[:3] for run in _runs(gold)}
        for *run, legal in _runs(predicted):
            cell = f"{'legal' if legal else 'illegal'}_{'tp' if tuple(run) in wanted else 'fp'}"
            cells = expected.setdefault(
                run[2], {name: 0 for name in ("legal_tp", "illegal_tp", "legal_fp", "illegal_fp")}
            )
            cells[cell] += 1
    assert audit(*pair).types == {kind: Cells(**cells) for kind, cells in expected.items()}


def _runs(tags):
    """(start, end, type, legal) of each run, an I- out of place beginning one."""
    found = []
    for position, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if prefix == "I" and found and found[-1][1] == position and found[-1][2] == kind:
            start, _, _, legal = found.pop()
            found.append((start, position + 1, kind, legal))
        elif prefix != "O":
            found.append((position, position + 1, kind, prefix == "B"))
    return found


def test_ratios_follow_from_the_papers_own_counts():
    # CoNLL2000 in Table 1; the paper's first ratio (3.9 %) divides by the wrong sum, 36 of 136 is right.
    cells = Cells(legal_tp=22957, illegal_tp=36, legal_fp=888, illegal_fp=100)
    assert cells.illegal_tp_over_illegal == pytest.approx(36 / 136)
    assert round(cells.illegal_fp_over_fp, 2) == 0.10
    assert round(cells.illegal_over_total, 3) == 0.006


def test_a_ratio_without_denominator_is_none():
    names = ("illegal_tp_over_illegal", "illegal_fp_over_fp", "illegal_over_total")
    answer = audit([["O"]], [["O"]]).to_dict()
    assert [answer[name] for name in names] == [None, None, None]
    assert [answer[name] for name in ("legal_tp", "illegal_tp", "legal_fp", "illegal_fp")] == [0, 0, 0, 0]


def test_audits_add_up_and_say_how_they_were_made():
    one, two = audit([["O", "B-X"]], [["O", "I-X"]]), audit([["B-Y"]], [["B-X"]])
    both = one + two
    assert both.types == audit([["O", "B-X"], ["B-Y"]], [["O", "I-X"], ["B-X"]]).types
    assert both.total == Cells(0, 1, 1, 0)
    assert both.to_dict()["types"] == {"X": Cells(0, 1, 1, 0).to_dict()}
    assert Audit({}, "BIO", "dev").signature.startswith("corpus:dev|scheme:BIO|")


@pytest.mark.parametrize(
    ("tags", "cells"),
    [
        (["B-X", "I-X"], Cells(illegal_fp=1)),
        (["S-X", "S-X"], Cells(legal_tp=1, legal_fp=1)),
        (["S-X", "E-X"], Cells(legal_tp=1, illegal_fp=1)),
    ],
)
def test_bioes_segments_are_legal_only_if_whole(tags, cells):
    assert audit([["S-X", "O"]], [tags], scheme="BIOES").total == cells
