"""What a terminal shows of a training: a bar that moves, and a line for each epoch that stays."""

from __future__ import annotations

import io
import re

import torch

from maskedcrf.training.loop import Epoch, Step
from maskedcrf.training.progress import LOSS_EVERY_STEPS, epoch_line, with_progress

ENTRY = {
    "epoch": 1,
    "loss": 0.5,
    "seconds": 2.0,
    "dev": {"retain": {"f1": 71.25}, "discard": {"f1": 72.5}, "illegal": 3.0},
}


class Terminal(io.StringIO):
    """Text that takes itself for a terminal."""

    def isatty(self) -> bool:
        return True


def watch_progress(monkeypatch, events) -> tuple[list[dict[str, object]], str]:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    found = list(with_progress(events))
    return found, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())


def test_a_terminal_sees_the_loss_the_epochs_and_the_scores_of_the_last(monkeypatch):
    steps = [
        Step(number, 2 * LOSS_EVERY_STEPS, torch.tensor(number / 8)) for number in range(1, 2 * LOSS_EVERY_STEPS + 1)
    ]
    found, text = watch_progress(monkeypatch, [*steps[:LOSS_EVERY_STEPS], Epoch(ENTRY), *steps[LOSS_EVERY_STEPS:]])
    assert found == [ENTRY]
    assert "epoch 1: loss 0.5000, dev F1 71.25 retain / 72.50 discard, illegal 3.00 %, 2.0 s" in text
    assert "loss 2.500  F1 71.25  illegal 3.00 %" in text
    assert "20/20" in text


def test_an_epoch_without_dev_has_no_scores(monkeypatch):
    bare = {"epoch": 1, "loss": 0.5, "seconds": 2.0}
    found, text = watch_progress(
        monkeypatch, [Epoch(bare), Step(LOSS_EVERY_STEPS, LOSS_EVERY_STEPS, torch.tensor(0.25))]
    )
    assert found == [bare]
    assert epoch_line(bare) in text
    assert "loss 0.250" in text
    assert "F1" not in text


def test_what_is_no_terminal_gets_log_lines_and_no_bar(caplog, capsys):
    caplog.set_level("INFO")
    assert list(with_progress([Step(1, 1, torch.tensor(1.0)), Epoch(ENTRY)])) == [ENTRY]
    assert caplog.messages == [epoch_line(ENTRY)]
    assert capsys.readouterr().err == ""
