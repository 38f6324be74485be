"""Killed at any moment, a run resumes and ends with the very bytes of an unbroken one; a full disk loses nothing."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from small_corpus import SMALL, corpus

from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.training import checkpoint

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def digests(folder: Path, moments: list[float]) -> list[str]:
    """The digests of an unbroken run and of runs killed at these moments and resumed, all in a process of their own."""
    command = [sys.executable, str(Path(__file__).parent / "kill_and_resume.py"), str(folder), *map(str, moments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_fork
def test_killed_runs_resume_to_the_same_bytes_and_another_process_gives_them_too(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    found = digests(first, [0.5, 0.95])
    assert len(found) == 3
    assert set(found) == {*digests(second, [])}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@needs_fork
def test_twenty_kills_at_random_file_operations_lose_nothing(tmp_path):
    chance = random.Random(0)
    found = digests(tmp_path, [chance.random() for _ in range(20)])
    assert len(found) == 21
    assert len(set(found)) == 1


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    save = checkpoint.save_weights

    def until_full(tensors, path):
        save(tensors, path)
        if "step-000000006" in str(path) and path.name == "optimiser.safetensors":
            path.write_bytes(path.read_bytes()[:100])  # as far as the disk went
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_weights", until_full)
    options = {**SMALL, "output": tmp_path / "model", "checkpoint_steps": 1}
    with pytest.raises(MaskedCRFError, match="No space left on device"):
        Tagger.train(corpus(40), corpus(8, 1), **options)
    work = tmp_path / "model.training"
    assert sorted(path.name for path in work.iterdir() if path.is_dir()) == ["step-000000005"]
    assert not (tmp_path / "model").exists()
    monkeypatch.undo()
    Tagger.train(corpus(40), corpus(8, 1), **options)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
