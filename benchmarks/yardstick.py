"""python-crfsuite, a CRF in C, as a yardstick: what an iteration of its own training takes on a lattice of that size.

It is not the same computation, and so no peer: features are binary, one for each token; there is no encoder that
wants gradients, no constraint and no padding; its iteration is one step of L-BFGS, on one thread.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from torch import Tensor

NAME = "python-crfsuite"
WORDS = 100  # so few that L-BFGS itself takes no time to speak of
FEW = 3


def seconds_an_iteration(mask: Tensor, size: int, enough: float) -> float:
    """Seconds for an evaluation of the objective and its gradient on sentences as long as the mask's, `size` tags."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    draw = random.Random(size)
    lengths = mask.sum(1).tolist()
    tags = [str(n % size) for n in range(sum(lengths))]  # every tag, or its lattice would have fewer
    draw.shuffle(tags)
    for length in lengths:
        trainer.append([[f"w{draw.randrange(WORDS)}"] for _ in range(length)], [tags.pop() for _ in range(length)])
    first, _ = _train(trainer, FEW)
    many = FEW + max(FEW, min(300, int(enough / first * FEW)))
    short, long = ([_train(trainer, number) for _ in range(3)] for number in (FEW, many))
    # Setting up takes the same time for both.
    return (min(long)[0] - min(short)[0]) / (min(long)[1] - min(short)[1])


def _train(trainer: Any, iterations: int) -> tuple[float, int]:
    """Seconds of a training run, and how often it evaluated."""
    everything = {"feature.possible_states": True, "feature.possible_transitions": True}
    trainer.set_params({**everything, "max_iterations": iterations, "c2": 1e-6, "delta": 0.0, "epsilon": 0.0})
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        trainer.train(str(Path(folder) / "model"))
        seconds = time.perf_counter() - begin
    return seconds, sum(one["linesearch_trials"] or 1 for one in trainer.logparser.iterations)
