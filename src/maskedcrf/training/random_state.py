"""Random numbers that follow from seed, step and rank alone, so that nothing random needs saving."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_all(*parts: int | str) -> None:
    """Seed Python, numpy and torch (all devices) from these parts."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    number = int.from_bytes(digest[:8], "little") >> 1
    random.seed(number)
    np.random.seed(number % (1 << 32))
    torch.manual_seed(number)


@contextmanager
def preserve_rng() -> Iterator[None]:
    """Inside, seed as you like: afterwards the caller's generators are where they were."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
