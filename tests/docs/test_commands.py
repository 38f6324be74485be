"""Every command line that the documentation, the examples and the help texts show is one the program takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from maskedcrf.cli import COMMANDS, app

ROOT = Path(__file__).parents[2]
PAGES = [path for name in ("*.md", "docs/**/*.md", "examples/*", "src/maskedcrf/cli/*.py") for path in ROOT.glob(name)]
FENCE = re.compile(r"^```(?:bash|console|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HELP = re.compile(r"^    Example:\n(.*?)\n\n|^    Example:\n(.*?)\"\"\"", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`maskedcrf ([a-z]+[^`]*)`")


def command_lines(path: Path) -> Iterator[str]:
    """Whole command lines, from `maskedcrf` on, without comments and what they are piped into."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = (
        [found[0] or found[-1] for found in re.findall(HELP, text)] if path.suffix == ".py" else FENCE.findall(text)
    )
    for line in "\n".join(blocks).splitlines():
        for part in re.split(r"[|>]|&&", re.sub(r"(^|\s)#.*", "", line)):
            if found := re.match(r"\s*(?:\$ )?(?:.* -m )?maskedcrf (.*)", part):
                yield found[1].strip()


def command(name: str):
    group = typer.main.get_command(app)
    return group.get_command(None, name)


LINES = sorted({(path, line) for path in PAGES for line in command_lines(path)}, key=str)


def refusal(line: str) -> str | None:
    """Why the program does not take a command line."""
    name, *arguments = shlex.split(line)
    try:
        left = command(name).make_context(name, arguments).args if name in COMMANDS else [name]
    except Exception as error:  # typer has its own copy of click's errors
        return f"{type(error).__name__}: {error}"
    return f"unknown: {left}" if left else None


def test_every_command_line_is_taken() -> None:
    assert refusal("check --no-such-option") is not None
    assert refusal("no-such-command") == "unknown: ['no-such-command']"
    refused = {f"{path.relative_to(ROOT)}: {line}": refusal(line) for path, line in LINES}
    assert {line: why for line, why in refused.items() if why is not None} == {}


def unknown_words(line: str) -> set[str]:
    """The command or the options of a line that do not exist."""
    name, *arguments = line.split()
    if name == "COMMAND":
        return set()
    if name not in COMMANDS:
        return {name}
    options = {option for parameter in command(name).params for option in parameter.opts} | {"--help", "-h", "-"}
    return {word for word in arguments if word.startswith("-")} - options


def test_commands_and_options_named_in_passing_exist() -> None:
    assert unknown_words("check --no-such-option") == {"--no-such-option"}
    named = [(path, line) for path in PAGES for line in INLINE.findall(path.read_text(encoding="utf-8"))]
    assert len(named) > 20
    assert [(path.name, line) for path, line in named if unknown_words(line)] == []


def test_there_is_something_to_check() -> None:
    assert {line.split()[0] for _, line in LINES} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example(name: str) -> None:
    with_example = command(name).get_help(command(name).make_context(name, ["--help"], resilient_parsing=True))
    assert re.search(rf"Example:\n .*maskedcrf {name}", with_example)
