"""What the runner shows while it runs."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from experiments.board import Board
from experiments.grid import Run

RUNS = [Run("weibo", "uer", head, seed) for seed in (1, 2) for head in ("crf", "mcrf")]


def result(f1: float) -> dict[str, Any]:
    return {"test": {"views": {"retain": {"f1": f1}}}, "seconds": 3.0}


def printed(board: Board) -> str:
    console = Console(width=120, record=True)
    console.print(board.table())
    return console.export_text()


def test_the_table_counts_what_is_done_under_way_and_failed() -> None:
    board = Board(RUNS, {RUNS[0].name: result(60.0)})
    for run in RUNS[1:]:
        board.note(run, None)
    board.note(RUNS[2], result(70.0))
    board.note(RUNS[3], RuntimeError("no memory"))
    text = printed(board)
    assert "weibo/uer/BIO/1" in text
    assert "2/2, F1 65.0" in text
    assert "0/2, 1 under way, 1 failed" in text
    assert "2 of 4 runs done" in text
    assert board.failed == 1


def test_without_a_terminal_each_finished_run_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    board = Board(RUNS, {})
    with board.shown():
        board.note(RUNS[0], None)
        board.note(RUNS[0], result(61.25))
        board.note(RUNS[1], None)
        board.note(RUNS[1], RuntimeError("no memory [left]"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "4 runs to do, 0 in the results"
    assert "1/4 weibo/uer/BIO/1/crf/1: retain 61.25  (3 s)" in lines[1]
    assert "2/4 weibo/uer/BIO/1/mcrf/1: failed: no memory [left]" in lines[2]
    assert lines[3] == "2 runs are left: the same command goes on with them"
