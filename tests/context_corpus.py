"""Documents of two sentences, of which one alone does not tell its tags, and settings that learn them in seconds."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from encoders.tiny import write_model

from maskedcrf.data.sentence import Sentence

TYPES = {"cat": "B-X", "mat": "B-Y"}


def documents(size: int, seed: int = 0) -> list[Sentence]:
    """`a` is an X in a document about a cat and a Y in one about a mat, whichever comes first."""
    random = Random(seed)
    found: list[Sentence] = []
    for number in range(size):
        about = random.choice(list(TYPES))
        pair = [Sentence(("the", about), ("O", "O")), Sentence(("a", "sat"), (TYPES[about], "O"))]
        random.shuffle(pair)
        found += [Sentence(sentence.tokens, sentence.tags, document=number) for sentence in pair]
    return found


def settings(folder: Path, *, context: int = 3, **encoder: Any) -> dict[str, Any]:
    """Settings for a tiny BERT, which is written into the folder if there is none."""
    if not (folder / "config.json").exists():
        write_model(folder)
    rates = {"encoder_rate": 5e-3, "layer_decay": 1.0, "head_rate": 1e-2, "crf_rate": 1e-2, "schedule": "constant"}
    return {
        "encoder": {"transformer": str(folder), "context": context, **encoder},
        "optim": rates,
        "batch_sentences": 4,
        "epochs": 6,
        "device": "cpu",
    }


def text_of(sentences: list[Sentence]) -> str:
    """The documents as columns, a mark before each."""
    lines: list[str] = []
    for before, sentence in zip([None, *sentences], sentences, strict=False):
        if before is None or before.document != sentence.document:
            lines += ["-DOCSTART- -X- O", ""]
        lines += [f"{word} NN {tag}" for word, tag in zip(sentence.tokens, sentence.tags or (), strict=True)] + [""]
    return "\n".join(lines) + "\n"
