"""Started by torchrun or by accelerate, two processes train what one does, and one of them writes and speaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

PROGRAM = str(Path(__file__).parent / "distributed_program.py")
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
# What accelerate does for GPUs, here without: its way for CPUs needs MPI.
ACCELERATE = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
ACCELERATE += ["--mixed_precision", "no", "--dynamo_backend", "no", "--num_cpu_threads_per_process", "1"]
ACCELERATE += ["--main_process_port", "0"]  # any free one


def train(folder: Path, launcher: list[str]) -> tuple[dict[str, list[str]], str, str]:
    """The notes of each process, by its rank, and what all of them printed and logged."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HOME": str(folder)}  # with no settings of accelerate
    command = [sys.executable, *launcher, PROGRAM, str(folder / "model"), str(notes)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return {own.name: (own / "notes").read_text().splitlines() for own in notes.iterdir()}, done.stdout, done.stderr


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    notes, _, _ = train(folder, [])
    return folder / "model", notes["0"]


@pytest.mark.parametrize(
    "launcher",
    [pytest.param(TORCHRUN, id="torchrun"), pytest.param(ACCELERATE, id="accelerate", marks=pytest.mark.slow)],
)
def test_two_launched_processes_train_what_one_does_and_the_first_alone_writes_and_speaks(launcher, alone, tmp_path):
    if launcher is ACCELERATE:
        pytest.importorskip("accelerate")
    notes, printed, logged = train(tmp_path, launcher)
    assert sorted(notes) == ["0", "1"]
    kinds = {rank: {line.split()[0] for line in lines} for rank, lines in notes.items()}
    assert kinds == {"0": {"share", "checkpoint", "model"}, "1": {"share"}}
    shares = {rank: [line for line in lines if line.startswith("share")] for rank, lines in notes.items()}
    assert shares["0"] == shares["1"]
    assert (printed.count("dev: F1"), printed.count("saved to "), logged.count("epoch 1: loss")) == (1, 1, 1)
    assert set(shares["0"]) == {"share 2 8", "share 2 1"}  # of 17 sentences in batches of 8, the last has one
    models = alone[0], tmp_path / "model"
    one, two = (load_file(model / "model.safetensors") for model in models)
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-4)
    scores = [json.loads((model / "config.json").read_text())["record"]["scores"]["dev"] for model in models]
    assert scores[1]["retain"] == scores[0]["retain"]
    assert not (tmp_path / "model.training").exists()
    metrics = [(model / "metrics.jsonl").read_text().splitlines() for model in models]
    losses = [[json.loads(line)["loss"] for line in lines] for lines in metrics]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    written = alone[1], notes["0"]
    kept = [[float(line.split()[1]) for line in lines if line.startswith("checkpoint")] for lines in written]
    assert any(kept[0])
    assert kept[1] == pytest.approx(kept[0], rel=1e-3)
