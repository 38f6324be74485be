"""How many threads a training step takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from maskedcrf.tagger.model import TaggerModel


@contextmanager
def step_threads(model: TaggerModel) -> Iterator[None]:
    """One thread on a CPU unless the encoder is pretrained; afterwards as many as before.

    An LSTM of the usual width makes a small product for every word of a sentence. Threads that share one wait for
    each other at its end, and on a busy machine they wait for whole time slices: an epoch of 5 s took 126 s so.
    """
    config, threads = model.encoder.config, torch.get_num_threads()
    if model.device.type != "cpu" or config.transformer or config.elmo or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
