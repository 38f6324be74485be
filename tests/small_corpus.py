"""A corpus and settings so small that a model trains in a second."""

from __future__ import annotations

from random import Random

from maskedcrf.data.sentence import Sentence

NAMES = {"PER": ["ann", "bob lee", "eve"], "LOC": ["oslo", "new york", "rome"], "ORG": ["acme", "north bank"]}
FRAMES = ["{PER} flew to {LOC} .", "{ORG} hired {PER} .", "the rain in {LOC} stopped", "{PER} left {ORG} for {LOC} ."]
SMALL = {
    "encoder": {"words": 16, "characters": 0, "lstm_hidden": 16, "dropout": 0.1},
    "optim": {"head_rate": 1e-2, "crf_rate": 1e-2},
    "batch_sentences": 8,
    "epochs": 3,
    "device": "cpu",
}


def corpus(size: int, seed: int = 0) -> list[Sentence]:
    """Sentences in BIO, the same for the same seed."""
    random = Random(seed)
    return [_sentence(random) for _ in range(size)]


def _sentence(random: Random) -> Sentence:
    tokens: list[str] = []
    tags: list[str] = []
    for word in random.choice(FRAMES).split():
        kind = word.strip("{}")
        names = random.choice(NAMES[kind]).split() if kind in NAMES else [word]
        tokens += names
        tags += [f"{'I' if n else 'B'}-{kind}" for n in range(len(names))] if kind in NAMES else ["O"]
    return Sentence(tuple(tokens), tuple(tags))


def write_conll(path, sentences) -> None:
    path.write_text(
        "".join("".join(f"{a}\t{b}\n" for a, b in zip(s.tokens, s.tags, strict=True)) + "\n" for s in sentences)
    )
