"""Several processes as one: each takes its share of every batch, and the gradients add up to the whole batch's.

Whoever starts the processes (`accelerate launch`, `torchrun`) tells each its rank in the environment; alone, there
is nothing to do.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


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

    def replicate(self, module: nn.Module) -> nn.Module:
        """The module with its gradients summed over all processes by each `backward`; alone, the module itself."""
        if self.world == 1:
            return module
        # Some encoders have parameters that no loss uses. Where there are none, DistributedDataParallel would warn of
        # being told to look for them, in every process: so there is always one.
        module.register_parameter("unused", nn.Parameter(torch.zeros((), device=next(module.parameters()).device)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # what replaces `broadcast_buffers` sends them all once
            replica = DistributedDataParallel(
                module, broadcast_buffers=False, init_sync=False, find_unused_parameters=True
            )
        # A lambda, since torch compares annotations with classes, and ours are strings.
        replica.register_comm_hook(None, lambda _, bucket: _sum_bucket(bucket))
        return replica

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


def keep_local(module: nn.Module) -> AbstractContextManager[None]:
    """While this lasts `backward` leaves the gradients of a replicated module with this process, to add up there."""
    return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()


def _sum_bucket(bucket: Any) -> torch.futures.Future[Tensor]:
    """The sum over all processes, where DistributedDataParallel by itself would take the mean."""
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0])  # type: ignore[no-any-return]


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
