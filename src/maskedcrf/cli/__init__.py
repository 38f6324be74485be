"""The command line: one small file per command, imported on use.

A new command is a file `cli/NAME.py` with a function `run`, and its line in COMMANDS. `run` imports what is heavy
inside itself, raises a MaskedCRFError for input it cannot take, and `typer.Exit(1)` where the answer is "no". Help that
needs heavy imports is filled in by a function `describe` beside it.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from maskedcrf.cli.terminal import printable, printable_messages
from maskedcrf.errors import MaskedCRFError

COMMANDS = {
    "demo": "softmax, CRF and masked CRF on a built-in corpus, compared fairly",
    "train": "train a tagger on labelled files",
    "predict": "tag text, columns or JSON lines with a trained model",
    "adopt": "make a token classifier legal: folder, hub name or ONNX file",
    "export": "write a model as one ONNX file with the Viterbi inside",
    "serve": "answer over HTTP, with a page that shows the tag lattice",
    "tag": "tag many files (Parquet, JSON lines, columns) in parallel",
    "evaluate": "score predicted tags against gold tags, as conlleval does",
    "redact": "hide entities in files, with a miss rate that was promised",
    "inspect": "what is wrong with a model or its labels, as one page",
    "audit": "how many predicted segments, and how many errors, are illegal",
    "check": "which scheme a file follows, and every illegal transition in it",
    "convert": "rewrite labelled data in another format or scheme",
    "repair": "rewrite illegal tags into legal ones",
    "warm-up": "compile the CRF for this processor now rather than at its first use",
}

# Newer typers bring a click of their own, older ones use the installed one: this is the one typer raises.
_UsageError: Any = typer.BadParameter.__base__
BAD_INPUT, BROKEN_PIPE, INTERRUPTED = 2, 141, 130
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
WRITERS = {"demo", "train", "adopt", "export", "serve", "tag", "inspect"}
"""Commands that write files of their own, which may be what a disk has no room for."""


_KIND = re.compile(r"<(?:list\[)?(str|path|int|float)(?: range)?\]?>", re.IGNORECASE)
_KINDS = {"str": "text", "path": "path", "int": "number", "float": "number"}


class _ReaderGoneError(Exception):
    """Whoever read our output has left; click would take the plain error for a failure."""


def _report_stdout_errors(run: Callable[..., None], *, writes_files: bool) -> Callable[..., None]:
    """The command, with errors of standard output, which have no name of their own, told apart from all others."""

    @wraps(run)
    def wrapped(*arguments: object, **options: object) -> None:
        try:
            run(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise _ReaderGoneError from error
        except OSError as error:
            if error.errno not in FULL or error.filename is not None or writes_files:
                raise
            raise MaskedCRFError(f"standard output: {error.strerror}; make room, or send it elsewhere") from error

    return wrapped


def _module_of(command: str) -> Any:
    return import_module(f"maskedcrf.cli.{command.replace('-', '_')}")


class _Command(TyperCommand):
    """A command whose help says the kinds of values in words."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        describe = getattr(_module_of(str(self.name)), "describe", None)
        if describe is not None:
            describe(self.params)
        rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                name = _KIND.sub(lambda found: f"<{_KINDS[found[1].lower()]}>", record[0])
                rows[parameter.param_type_name].append((name, record[1]))
        for kind, found in rows.items():
            if found:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(found)


class _LazyGroup(TyperGroup):
    """Commands of the table; a command's file is imported only when it runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        near = get_close_matches(args[0], COMMANDS, 1)
        if args[0] not in COMMANDS and near:
            ctx.fail(f"No such command '{args[0]}': did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        run = _module_of(cmd_name).run
        app.command(cmd_name, cls=_Command)(_report_stdout_errors(run, writes_files=cmd_name in WRITERS))
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=_LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from maskedcrf import __version__

        print(f"maskedcrf {__version__}")
        raise typer.Exit


@app.callback()
def _callback(
    version: bool = typer.Option(False, "--version", help="Show the version.", callback=_show_version, is_eager=True),
) -> None:
    """Sequence labelling without illegal tag paths: train, tag, serve, and audit anybody's output.

    \b
    Example:
      maskedcrf evaluate predictions.conll
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 the answer is no, 2 bad input or usage."""
    _reopen_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with printable_messages():
            code = typer.main.get_command(app).main(given or ["--help"], prog_name="maskedcrf", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except _UsageError as error:
        return _fail(error.format_message().removesuffix(".") + _see_help(error))
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except _ReaderGoneError:
        # What is left in the buffer must not be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (MaskedCRFError, OSError) as error:
        return _fail(str(error))


def _reopen_closed_streams() -> None:
    """Point standard streams that were closed (`>&-`) at the null device, so that printing does not fail."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115


def _fail(message: str) -> int:
    print("maskedcrf: " + printable(" ".join(message.split("\n"))), file=sys.stderr)
    return BAD_INPUT


def _see_help(error: Any) -> str:
    context = error.ctx
    return f"; see {context.command_path} --help" if context else ""
