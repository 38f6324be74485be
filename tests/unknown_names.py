"""The small corpus with some names that no model has seen, so that some are missed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from small_corpus import corpus

from maskedcrf.data.sentence import Sentence


def unknown_names(size: int, seed: int, share: float = 0.3) -> list[Sentence]:
    """Sentences in BIO in which this share of the names' words is made up."""
    random = Random(seed)
    sentences = []
    for sentence in corpus(size, seed):
        tokens = tuple(
            "zork" if tag != "O" and random.random() < share else token
            for token, tag in zip(sentence.tokens, sentence.tags or (), strict=True)
        )
        sentences.append(replace(sentence, tokens=tokens))
    return sentences
