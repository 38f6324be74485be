"""Killed at any moment, a run resumes and ends with the very bytes of an unbroken one; a full disk loses nothing."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PROGRAM = """
    import sys, time
    sys.path.insert(0, {tests!r})
    import torch
    torch.set_num_threads(1)
    from pathlib import Path
    from small_corpus import SMALL, corpus
    from maskedcrf.tagger import Tagger, atomic
    from maskedcrf.training.checkpoint import save_checkpoint
    {patch}
    Path({mark!r}).touch()
    Tagger.train(
        corpus(40), corpus(8, 1), output={output!r},
        **{{**SMALL, "epochs": 6, "checkpoint_steps": 1, "encoder": {{"words": 16, "lstm_hidden": 16}}}},
    )
"""
# Makes every save slow at each of its stages, so that a kill at a random moment is likely to fall inside one.
SLOW_SAVES = """
    flush, replace = atomic._flush, atomic._replace
    def slow_flush(path): time.sleep(0.01); flush(path)
    def slow_replace(*paths): time.sleep(0.02); replace(*paths)
    atomic._flush, atomic._replace = slow_flush, slow_replace
"""


def start(folder: Path, *, slow_saves: bool = False) -> subprocess.Popen:
    patch = textwrap.dedent(SLOW_SAVES) if slow_saves else ""
    mark = folder / "started"
    mark.unlink(missing_ok=True)
    program = textwrap.dedent(PROGRAM).replace("{patch}", patch)
    program = program.format(tests=str(TESTS), output=str(folder / "model"), mark=str(mark))
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    while not mark.exists() and process.poll() is None:
        time.sleep(0.01)
    return process


def finish(folder: Path) -> str:
    process = start(folder)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return hashlib.sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> tuple[str, float]:
    """The digest of a run that nobody stopped, and how long it takes after its imports."""
    folder = tmp_path_factory.mktemp("unbroken")
    process = start(folder)
    began = time.monotonic()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    digest = hashlib.sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()
    return digest, time.monotonic() - began


def killed_and_resumed(folder: Path, moment: float, *, slow_saves: bool) -> str:
    process = start(folder, slow_saves=slow_saves)
    time.sleep(moment)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return finish(folder)


def test_the_same_seed_gives_the_same_bytes_in_another_process(unbroken, tmp_path):
    assert finish(tmp_path) == unbroken[0]


@pytest.mark.parametrize(("share", "slow_saves"), [(0.5, False), (0.9, True)])
def test_a_killed_run_resumes_to_the_same_bytes(unbroken, tmp_path, share, slow_saves):
    digest, seconds = unbroken
    assert killed_and_resumed(tmp_path, share * seconds, slow_saves=slow_saves) == digest


@pytest.mark.slow
def test_twenty_kills_at_random_moments_half_of_them_inside_saves_lose_nothing(unbroken, tmp_path):
    digest, seconds = unbroken
    chance = random.Random(0)
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        slow_saves = number % 2 == 1
        moment = chance.uniform(0, seconds * (3 if slow_saves else 1))
        assert killed_and_resumed(folder, moment, slow_saves=slow_saves) == digest, moment


FULL_DISK = """
    import resource, sys
    sys.path.insert(0, {tests!r})
    import torch
    torch.set_num_threads(1)
    from small_corpus import SMALL, corpus
    from maskedcrf.errors import MaskedCRFError
    from maskedcrf.tagger import Tagger
    from maskedcrf.training import checkpoint
    save = checkpoint.save_file
    def save_until_full(tensors, path):
        if "step-000000006" in str(path) and path.name == "optimiser.safetensors":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        save(tensors, path)
    checkpoint.save_file = save_until_full
    try:
        Tagger.train(corpus(40), corpus(8, 1), output={output!r}, **{{**SMALL, "checkpoint_steps": 1}})
    except MaskedCRFError as error:
        print(error)
"""


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    program = textwrap.dedent(FULL_DISK).format(tests=str(TESTS), output=str(tmp_path / "model"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "could not be written" in done.stdout
    work = tmp_path / "model.training"
    assert sorted(path.name for path in work.iterdir() if path.is_dir()) == ["step-000000005"]
    assert not (tmp_path / "model").exists()
