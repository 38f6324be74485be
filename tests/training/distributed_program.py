"""A training run that `torchrun` or `accelerate launch` starts several times; each process notes what it wrote.

python distributed_program.py OUTPUT NOTES
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from small_corpus import SMALL, corpus

from maskedcrf.encoders import words
from maskedcrf.tagger import Tagger
from maskedcrf.training import loop
from maskedcrf.training.distributed import ProcessGroup


def main(output: str, notes: str) -> None:
    """Train, and leave a line a step and a line a checkpoint in the notes of this process."""
    torch.set_num_threads(1)
    words.RARE_WORD_DROPOUT = 0.0  # each process draws its own dropout; without any, the sums must agree
    rank = os.environ.get("RANK", "0")
    with Path(notes, rank).open("w") as handle:
        noted(loop, "save_checkpoint", lambda _, state, **__: handle.write(f"checkpoint {state.loss_sum}\n"))
        noted(Tagger, "save", lambda *_, **__: handle.write("model\n"))
        noted(ProcessGroup, "shard", lambda processes, batch: handle.write(f"share {processes.world} {len(batch)}\n"))
        Tagger.train(
            corpus(17),
            corpus(6, 1),
            output=output,
            progress=False,
            **{
                **SMALL,
                "encoder": {"words": 8, "lstm_hidden": 8, "dropout": 0.0},
                "checkpoint_steps": 2,
                "adversarial": 0.1,
            },
        )


def noted(owner, name, note) -> None:
    """Have every call of this function noted before it is made."""
    function = getattr(owner, name)

    def wrapped(*arguments, **options):
        note(*arguments, **options)
        return function(*arguments, **options)

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    main(*sys.argv[1:])
