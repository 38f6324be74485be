"""Several processes as one: each takes its share of every batch, and the gradients add up to the whole batch's.

Whoever starts the processes (`accelerate launch`, `torchrun`) tells each its rank in the environment; alone, there
is nothing to do.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Which of how many processes this is."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """True on rank 0, which alone writes files and logs."""
        return self.rank == 0

    def shard(self, batch: list[int]) -> list[int]:
        """This process's part of a batch."""
        return batch[self.rank :: self.world]

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Make every process's gradients the sum over all; a process without a share counts as zero."""
        if self.world == 1:
            return
        for parameter in parameters:
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)

    def all_reduced_gradient(self, parameter: Tensor) -> Tensor:
        """The sum of a parameter's gradient over all processes; this one's stays as it is."""
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if self.world > 1:
            gradient = gradient.clone()
            dist.all_reduce(gradient)
        return gradient

    def all_reduce(self, value: Tensor) -> Tensor:
        """The sum of a value over all processes, in its place."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def wait(self) -> None:
        """Go on when all processes have come this far."""
        if self.world > 1:
            dist.barrier()

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite these tensors with the first process's."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)


@contextmanager
def join_process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the other processes, if there are any, and leave them at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield ProcessGroup()
        return
    already = dist.is_initialized()
    if not already:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    finally:
        if not already:
            dist.destroy_process_group()
            # Gloo's threads end with the group's last reference; if they outlive the interpreter, they abort it.
            gc.collect()


def is_main_process() -> bool:
    """Whether this process is the one that writes files, known also while they are not joined."""
    return os.environ.get("RANK", "0") == "0"
