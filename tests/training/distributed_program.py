"""`maskedcrf train` as `torchrun` or `accelerate launch` starts it several times; each process notes what it wrote.

python distributed_program.py OUTPUT NOTES
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from small_corpus import corpus, write_conll

from maskedcrf.cli import main as run_command
from maskedcrf.encoders import words
from maskedcrf.tagger import Tagger
from maskedcrf.training import loop
from maskedcrf.training.distributed import ProcessGroup

SETTINGS = """
epochs = 3
batch_sentences = 8
checkpoint_steps = 2
adversarial = 0.1
device = "cpu"
encoder = {words = 8, lstm_hidden = 8, dropout = 0.0}
optim = {head_rate = 1e-2, crf_rate = 1e-2}
"""


def main(output: str, notes: str) -> int:
    """Train, and leave a line a step and a line a checkpoint in the notes of this process."""
    torch.set_num_threads(1)
    words.RARE_WORD_DROPOUT = 0.0  # each process draws its own dropout; without any, the sums must agree
    own = Path(notes, os.environ.get("RANK", "0"))
    own.mkdir()
    (own / "settings.toml").write_text(SETTINGS)
    write_conll(own / "train.conll", corpus(17))
    write_conll(own / "dev.conll", corpus(6, 1))
    with (own / "notes").open("w") as handle:
        noted(loop, "save_checkpoint", lambda _, state, **__: handle.write(f"checkpoint {state.loss_sum}\n"))
        noted(Tagger, "save", lambda *_, **__: handle.write("model\n"))
        noted(ProcessGroup, "shard", lambda processes, batch: handle.write(f"share {processes.world} {len(batch)}\n"))
        files = ["--train", str(own / "train.conll"), "--dev", str(own / "dev.conll"), "-o", output]
        return run_command(["train", str(own / "settings.toml"), *files])


def noted(owner, name, note) -> None:
    """Have every call of this function noted before it is made."""
    function = getattr(owner, name)

    def wrapped(*arguments, **options):
        note(*arguments, **options)
        return function(*arguments, **options)

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
