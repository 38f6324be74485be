"""Control characters in tags, tokens and names are shown on a terminal and kept in files."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import pytest
from service_helpers import build_tagger

from maskedcrf.cli import main
from maskedcrf.cli.terminal import printable, printable_messages

TITLE = "\x1b]0;owned\x07"
SHOWN = "\\x1b]0;owned\\x07"


def use_terminal(monkeypatch: pytest.MonkeyPatch, *, yes: bool = True) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: yes)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """Columns whose gold and predicted tags have a type with control characters, and an illegal step."""
    path = tmp_path / "tagged.conll"
    path.write_text(f"Ann{TITLE} B-{TITLE} B-{TITLE}\nLee O I-{TITLE}\nflew I-{TITLE} O\n\n")
    return path


def test_only_line_ends_and_tabs_reach_a_terminal() -> None:
    every = "".join(map(chr, range(0x20))) + "\x7f\x85\x9b\u202e\u2066"
    assert [letter for letter in printable(every) if not letter.isprintable()] == ["\t", "\n"]
    assert printable("Zoë 北京 😀\tx\n") == "Zoë 北京 😀\tx\n"
    assert printable(TITLE) == SHOWN


@pytest.mark.parametrize(
    "command",
    [
        ["check", "--scheme", "BIO", "{}"],
        ["check", "{}"],
        ["audit", "--scheme", "BIO", "{}"],
        ["evaluate", "--scheme", "BIO", "{}"],
        ["evaluate", "--scheme", "BIO", "--json", "{}"],
        ["convert", "--from", "BIO", "--to", "BIOES", "{}"],
    ],
    ids=" ".join,
)
def test_a_tag_is_shown_on_a_terminal_and_kept_in_a_pipe(
    tagged: Path, capsys: pytest.CaptureFixture[str], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal(monkeypatch)
    given = [part.format(tagged) for part in command]
    main(given)
    captured = capsys.readouterr()
    assert "\x1b]" not in captured.out + captured.err
    assert "\x07" not in captured.out + captured.err
    assert "owned" in captured.out + captured.err
    use_terminal(monkeypatch, yes=False)
    main(given)
    piped = capsys.readouterr()
    assert "\x1b]" in piped.out or "--json" in command
    assert "\x1b]" not in piped.err


@pytest.mark.parametrize("shape", ["text", "conll", "jsonl"])
def test_a_token_is_shown_on_a_terminal_and_kept_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal(monkeypatch)
    model = build_tagger().save(tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text(f"Ann\x9b{TITLE} flew to Oslo.\n")
    assert main(["predict", str(model), str(text), "--format", shape]) == 0
    captured = capsys.readouterr().out
    assert not [letter for letter in captured if not letter.isprintable() and letter not in "\n\t"]
    output = tmp_path / "out"
    assert main(["predict", str(model), str(text), "--format", shape, "--output", str(output)]) == 0
    assert "\x9b" in output.read_text()


def test_an_error_shows_what_it_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / f"no{TITLE}file.conll")]) == 2
    message = capsys.readouterr().err
    assert "\x1b" not in message
    assert f"no{SHOWN}file.conll" in message


def test_warnings_and_log_lines_are_made_printable_while_a_command_runs() -> None:
    plain, fallback = warnings.formatwarning, logging.lastResort
    assert fallback is not None
    record = logging.makeLogRecord({"msg": "tag %s", "args": (TITLE,)})
    with printable_messages():
        assert SHOWN in warnings.formatwarning(f"tag {TITLE}", UserWarning, "file.py", 1)
        assert fallback.format(record) == f"tag {SHOWN}"
    assert warnings.formatwarning is plain
    assert fallback.format(record) == f"tag {TITLE}"


def test_what_training_says_of_files_and_tags_is_shown(
    tagged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal(monkeypatch)
    dev = tmp_path / "dev.conll"
    dev.write_text(f"Ann B-X{TITLE}\n")
    model = tmp_path / f"model{TITLE}"
    files = ["--train", str(tagged), "--dev", str(dev), "--output", str(model)]
    assert main(["train", *files, "--illegal-gold", "repair", "--epochs", "1"]) == 0
    captured = capsys.readouterr()
    assert f"types that train lacks (X{SHOWN})" in captured.err
    assert f"saved to {tmp_path / 'model'}{SHOWN}" in captured.out
    assert "\x1b]" not in captured.out + captured.err
