"""The help of every command."""

from __future__ import annotations

import re

import pytest

from maskedcrf.cli import COMMANDS, main
from maskedcrf.cli.options import DEVICE


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(capsys, command):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example:\n" in out
    assert f"maskedcrf {command} " in out.split("Example:\n")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_says_kinds_of_values_in_words(capsys, command):
    main([command, "--help"])
    kinds = set(re.findall(r"<(\w[^|>]*)>", capsys.readouterr().out))
    assert kinds or command == "warm-up"  # which takes none
    assert kinds <= {"text", "path", "number"}


def test_every_device_is_described_alike(capsys):
    for command in ("train", "predict", "serve", "tag"):
        main([command, "--help"])
        assert DEVICE in " ".join(capsys.readouterr().out.split())


def test_help_and_version(capsys):
    from maskedcrf import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"maskedcrf {__version__}\n"
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)
