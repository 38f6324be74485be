"""What the commands of the experiments say of bad input: one line and exit code 2, whichever command it is."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from experiments import page, run
from experiments.command import Main, command


@pytest.fixture(autouse=True)
def _no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASKEDCRF_CORPORA", "MASKEDCRF_ENCODERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("main", "given", "message"),
    [
        (run.main, ["small", "--corpora", "/nowhere"], "--corpora: /nowhere: no such folder"),
        (run.main, ["small", "--encoders", "/nowhere"], "--encoders: /nowhere: no such folder"),
        (run.main, ["small", "--jobs", "0"], "--jobs: 0: give a whole number from 1 on"),
        (run.main, ["small", "--budget", "nan"], "--budget: nan: give minutes, 0 or more"),
        (page.main, ["--results", "/nowhere"], "--results: /nowhere: no such folder"),
    ],
    ids=["corpora", "encoders", "jobs", "budget", "page"],
)
def test_an_option_that_cannot_be_is_refused_before_anything_is_done(
    main: Main, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_folder_may_be_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MASKEDCRF_CORPORA", "/nowhere")
    with pytest.raises(SystemExit):
        run.main(["small"])
    assert "/nowhere: no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [(KeyboardInterrupt(), 130, ""), (BrokenProcessPool(), 2, "error: a run was killed, perhaps for memory")],
    ids=["stopped by hand", "a worker killed"],
)
def test_what_stops_a_command_leaves_no_traceback(
    raised: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @command
    def main(given: object) -> int:
        raise raised

    assert main(None) == code
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == bool(message)


OUTLIVING = """
import time
from experiments.command import workers
from experiments.run import prepare_worker
if __name__ == "__main__":
    with workers(1, prepare_worker) as pool:
        pool.submit(time.time).result()
        waiting = pool.submit(time.sleep, 3600)
        print("begun", flush=True)
        waiting.result()
"""


def test_workers_end_when_the_command_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "outliving.py"
    script.write_text(OUTLIVING)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.kill()
        process.communicate(timeout=300)  # its end comes when the last process that could write has ended
