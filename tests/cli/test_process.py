"""The command as its own process: start-up, imports, pipes and signals."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

import pytest

COMMAND = [sys.executable, "-m", "maskedcrf"]


def test_help_imports_neither_torch_nor_numpy():
    code = (
        "import sys; from maskedcrf.cli import main; main(['--help']); main(['evaluate', '--help']);"
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_help_starts_in_under_400_milliseconds():
    used = []
    for _ in range(5):
        before = os.times()
        subprocess.run([*COMMAND, "--help"], capture_output=True, check=True)
        after = os.times()
        # Time on the processor, not on the wall: a busy machine must not fail the test.
        used.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(used) < 0.4


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
    assert process.wait(timeout=30) == 141


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
        assert "1 sentences, 1 tokens" in process.communicate(timeout=60)[0]


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
        process.stdin.write(b"w O O\n")
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while _unread(process.stdin) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)  # an interrupt while modules are imported is not the command's to answer
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (130, b"", b"")


def _heeds_interrupts():
    """What a shell starts with `&` ignores them, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _unread(pipe):
    """How many of the bytes that were sent the process has not read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    path = tmp_path / "a"
    path.write_text("w O O\n")
    path.chmod(0)
    result = subprocess.run([*COMMAND, "evaluate", str(path)], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Permission denied" in result.stderr


def test_other_alphabets_are_printed_in_any_locale(tmp_path):
    path = tmp_path / "a"
    path.write_text("大 B-組織 B-組織\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run([*COMMAND, "evaluate", str(path)], capture_output=True, env=environment)
    assert result.returncode == 0
    assert "組織: precision: 100.00%".encode() in result.stdout
