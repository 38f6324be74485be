"""Train on partial labels: most entities are marked, and nobody says that the rest is outside.

python examples/partial_labels.py
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import torch
from torch import Tensor, nn

from maskedcrf import Constraints, MaskedCRF, Scheme, evaluate
from maskedcrf.data.demo_corpus import TYPES, demo_corpus
from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder

RULES = Constraints.from_scheme(Scheme.get("BIO").tags(TYPES), "BIO")
INDEX = {tag: number for number, tag in enumerate(RULES.tags)}


def forgetful(sentences: Sequence[Sentence], share: float) -> list[list[str | None]]:
    """The tags, None where an annotator passed over an entity; this share of the outside words was looked at."""
    random = Random(0)
    marked: list[list[str | None]] = []
    for sentence in sentences:
        kept = True
        row: list[str | None] = []
        for tag in sentence.tags or ():
            kept = kept if tag.startswith("I-") else random.random() < share
            row.append(tag if kept else None)
        marked.append(row)
    return marked


def allowed_sets(marked: list[list[str | None]], length: int, *, unknown: str) -> Tensor:
    """(B, T, D): one tag where it is known; elsewhere every tag, or the outside tag if that is taken for granted."""
    allowed = torch.zeros(len(marked), length, len(RULES), dtype=torch.bool)
    for row, tags in enumerate(marked):
        for position, tag in enumerate(tags):
            if tag is None and unknown == "any":
                allowed[row, position] = True
            else:
                allowed[row, position, INDEX[tag or "O"]] = True
    return allowed


def f1(train: Sequence[Sentence], test: Sequence[Sentence], *, unknown: str) -> float:
    """F1 of a tagger trained on what is left of the labels."""
    torch.manual_seed(0)
    marked = forgetful(train, share=0.5)
    encoder = build_encoder(EncoderConfig(words=32, lstm_hidden=32, dropout=0.1), train)
    linear, crf = nn.Linear(encoder.width, len(RULES)), MaskedCRF(RULES)
    optimiser = torch.optim.Adam([*encoder.parameters(), *linear.parameters(), *crf.parameters()], lr=1e-2)
    for _ in range(3):
        for first in range(0, len(train), 16):
            features = encoder.prepare(train[first : first + 16])
            mask = features["mask"]
            allowed = allowed_sets(marked[first : first + 16], mask.shape[1], unknown=unknown)
            optimiser.zero_grad()
            crf.partial_loss(linear(encoder(features)), allowed, mask).backward()
            optimiser.step()
    encoder.eval()
    with torch.inference_mode():
        features = encoder.prepare(test)
        paths = crf.decode(linear(encoder(features)), features["mask"])
    predicted = [[RULES.tags[tag] for tag in path] for path in paths]
    return evaluate([one.tags or () for one in test], predicted, scheme="BIO").f1


def main() -> None:
    """The same labels, read in two ways."""
    corpus = demo_corpus()
    train, test = corpus.train[:1000], corpus.test[:300]
    print(f"half of the labels, the rest taken for O:  F1 {f1(train, test, unknown='O'):.1f}")
    print(f"half of the labels, the rest left open:    F1 {f1(train, test, unknown='any'):.1f}")


if __name__ == "__main__":
    main()
