"""The rows of a batch divided among threads of our own; kernels release the GIL.

Numba's own threads crash when two Python threads enter them at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch

# Masses that a chunk of rows may have, which then fit the cache; and how many rows are enough.
_CHUNK_CELLS, _CHUNK_ROWS = 131_072, 32
_WORTH_A_THREAD = 2_000_000  # multiplications, below which another thread costs more than it saves


def share_out(mask: Any, size: int) -> tuple[int, int]:
    """How many rows make a chunk, which depends on the batch's shape alone, and how many threads are worth it."""
    rows, length = mask.shape
    chunk = max(1, min(_CHUNK_ROWS, max(4, _CHUNK_CELLS // max(1, length * size)), -(-rows // 2)))
    work = rows * length * (size + 8) * (size + 8) // _WORTH_A_THREAD
    return chunk, max(1, min(torch.get_num_threads(), -(-rows // chunk), work))


def run_on_rows(kernel: Callable[..., Any], lattice: Any, *arguments: Any) -> list[Any]:
    """Run a kernel over all rows, on threads where that pays; the result of each."""
    chunk, threads = share_out(lattice[1], len(lattice[3]))
    return run(kernel, [(lattice, *arguments, (chunk, first, threads)) for first in range(threads)])


def run(kernel: Callable[..., Any], jobs: list[Any]) -> list[Any]:
    """The result of each job. This thread does the first, and then all that no other thread has begun."""
    others = [_pool().submit(kernel, *job) for job in jobs[1:]]
    results = [kernel(*jobs[0])]
    for other, job in zip(others, jobs[1:], strict=True):
        results.append(kernel(*job) if other.cancel() else other.result())
    return results


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="maskedcrf")


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive one
