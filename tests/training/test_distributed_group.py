"""Several processes train the model that one would."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from itertools import chain
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from maskedcrf.training import distributed
from maskedcrf.training.distributed import ProcessGroup

PROGRAM = """
    import sys
    sys.path.insert(0, {tests!r})
    import torch
    torch.set_num_threads(1)
    from small_corpus import SMALL, corpus
    from maskedcrf.tagger import Tagger
    from maskedcrf.encoders import words
    words.RARE_WORD_DROPOUT = 0.0  # each process draws its own dropout; without any, the sums must agree
    Tagger.train(
        corpus(17), corpus(6, 1), output={output!r},
        **{{**SMALL, "encoder": {{"words": 8, "lstm_hidden": 8, "dropout": 0.0}}}},
    )
"""


def test_every_sentence_of_a_batch_has_one_process():
    batch = list(range(10))
    shares = [ProcessGroup(rank, 3).shard(batch) for rank in range(3)]
    assert sorted(chain.from_iterable(shares)) == batch
    assert ProcessGroup().shard(batch) == batch


def test_the_sum_of_all_gradients_leaves_the_own_one_alone(monkeypatch):
    monkeypatch.setattr(distributed.dist, "all_reduce", lambda tensor: tensor.add_(1))
    parameter = torch.nn.Parameter(torch.zeros(2))
    assert ProcessGroup(1, 2).all_reduced_gradient(parameter).tolist() == [1, 1], "without a share it counts as zero"
    parameter.grad = torch.tensor([2.0, 3.0])
    assert ProcessGroup(1, 2).all_reduced_gradient(parameter).tolist() == [3, 4]
    assert ProcessGroup().all_reduced_gradient(parameter).tolist() == [2, 3]
    assert parameter.grad.tolist() == [2, 3]


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for world in (1, 2):
        output = tmp_path / str(world)
        program = textwrap.dedent(PROGRAM).format(tests=str(Path(__file__).parent.parent), output=str(output))
        started = []
        for rank in range(world):
            ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
            environment = {**os.environ, **ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            started.append(subprocess.Popen([sys.executable, "-c", program], env=environment))
        assert [process.wait(timeout=500) for process in started] == [0] * world
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("1", "2"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
