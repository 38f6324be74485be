"""The command as its own process: start-up, imports, pipes and signals."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from maskedcrf.cli import main

COMMAND = [sys.executable, "-m", "maskedcrf"]


# What help can do without; each takes a tenth of a second or more to import.
HEAVY = {"torch", "numpy", "numba", "safetensors", "transformers", "fastapi", "ray", "onnx", "onnxruntime"}


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from maskedcrf.cli import main; main(['--help']); main(['evaluate', '--help']);"
        f"sys.exit(' '.join({HEAVY!r} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", [["evaluate"], ["audit"], ["check"], ["convert", "--from", "BIO", "--to", "BIOES"], ["repair"]], ids=min
)
def test_no_command_on_files_imports_torch(tmp_path, command):
    path = tmp_path / "a"
    path.write_text("w B-X B-X\nw O O\n")
    run = f"code = main({[*command, str(path)]!r})"
    code = f"import sys; from maskedcrf.cli import main; {run}; sys.exit(code or 7 * ('torch' in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, "X" in result.stdout) == (0, True), result.stderr


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    path = tmp_path / "a"
    path.write_text("w B-X\n\n" * 50_000)
    process = subprocess.Popen([*COMMAND, "repair", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"w B-X\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_closed_stream_is_no_failure(tmp_path, closed):
    (tmp_path / "a").write_text("w B-X B-X\n")
    for command in ("evaluate", "repair"):
        line = f"{sys.executable} -m maskedcrf {command} a {closed}"
        result = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True)
        assert (result.returncode, "Traceback" in result.stderr, "maskedcrf" in result.stdout) == (0, False, False)


def test_on_a_terminal_one_end_of_file_is_enough(tmp_path):
    ours, theirs = os.openpty()
    command = [*COMMAND, "check", "-"]
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    with process, os.fdopen(ours, "w+b", buffering=0) as terminal:
        terminal.write(b"ann B-PER\n\n\x04")
        assert "1 sentences, 1 tokens" in process.communicate()[0]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("command", ["repair", "check"])
@pytest.mark.parametrize("times", [1, 20_000])
def test_an_output_without_room_is_named(tmp_path, command, times):
    path = tmp_path / "a"
    path.write_text("w I-X\n\n" * times)
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        options = ["--scheme", "BIO", str(path)]
        result = subprocess.run([*COMMAND, command, *options], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2
    last = result.stderr.splitlines()[-1]
    assert last == "maskedcrf: standard output: No space left on device; make room, or send it elsewhere"


def test_an_interrupt_ends_it_quietly_with_130():
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*COMMAND, "evaluate", "-"], **streams, preexec_fn=_heeds_interrupts) as process:
        # More than a pipe holds: once it is written, the command is reading. An interrupt while modules are imported
        # would not be the command's to answer.
        process.stdin.write(b"w O O\n" * 50_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    assert (process.returncode, output, errors) == (130, b"", b"")


def _heeds_interrupts():
    """What a shell starts with `&` ignores them, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch, capsys):
    def refuse(self, *options, **named):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    path = tmp_path / "a"
    path.write_text("w O O\n")
    monkeypatch.setattr(Path, "open", refuse)  # root may read everything, so permissions would show nothing
    assert main(["evaluate", str(path)]) == 2
    assert capsys.readouterr() == (
        "",
        f"maskedcrf: {path}: Permission denied; give a readable file, or - for standard input\n",
    )


def test_other_alphabets_are_printed_in_any_locale(tmp_path):
    path = tmp_path / "a"
    path.write_text("大 B-組織 B-組織\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run([*COMMAND, "evaluate", str(path)], capture_output=True, env=environment)
    assert result.returncode == 0
    assert "組織: precision: 100.00%".encode() in result.stdout
