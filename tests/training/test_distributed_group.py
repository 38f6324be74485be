"""How several processes share a batch and add up its gradients."""

from __future__ import annotations

from itertools import chain

import torch

from maskedcrf.training import distributed
from maskedcrf.training.distributed import ProcessGroup


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
