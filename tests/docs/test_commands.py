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


def shown(path: Path) -> Iterator[str]:
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


LINES = sorted({(path, line) for path in PAGES for line in shown(path)}, key=str)


@pytest.mark.parametrize(("path", "line"), LINES, ids=lambda value: getattr(value, "name", value))
def test_a_command_line_is_taken(path: Path, line: str) -> None:
    name, *arguments = shlex.split(line)
    assert name in COMMANDS
    context = command(name).make_context(name, arguments)
    assert not context.args


@pytest.mark.parametrize(
    "path", [path for path in PAGES if INLINE.search(path.read_text(encoding="utf-8"))], ids=lambda path: path.name
)
def test_commands_and_options_named_in_passing_exist(path: Path) -> None:
    for line in INLINE.findall(path.read_text(encoding="utf-8")):
        name, *arguments = line.split()
        if name == "COMMAND":
            continue
        assert name in COMMANDS, line
        options = {option for parameter in command(name).params for option in parameter.opts} | {"--help", "-h"}
        assert {word for word in arguments if word.startswith("-") and word != "-"} <= options, line


def test_there_is_something_to_check() -> None:
    assert {line.split()[0] for _, line in LINES} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example(name: str) -> None:
    with_example = command(name).get_help(command(name).make_context(name, ["--help"], resilient_parsing=True))
    assert re.search(rf"Example:\n .*maskedcrf {name}", with_example)
