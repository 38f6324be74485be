"""Swap the CRF in an existing PyTorch model: three lines change, and no path can leave the scheme.

python examples/swap_the_layer.py
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from maskedcrf import MaskedCRF, audit  # was: from torchcrf import CRF
from maskedcrf.data.demo_corpus import TYPES, demo_corpus
from maskedcrf.data.sentence import Sentence

TAGS = ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")]


class LSTMTagger(nn.Module):
    """The model people write: embeddings, a bidirectional LSTM, a linear layer, a CRF."""

    def __init__(self, words: int, *, masked: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 32)
        self.lstm = nn.LSTM(32, 32, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(64, len(TAGS))
        # was: self.crf = CRF(len(TAGS), batch_first=True)
        self.crf = MaskedCRF(TAGS, scheme="BIO", mask="train" if masked else "off")

    def emissions(self, words: Tensor) -> Tensor:
        """(B, T) word ids -> (B, T, D) scores."""
        hidden: Tensor = self.linear(self.lstm(self.embedding(words))[0])
        return hidden

    def loss(self, words: Tensor, tags: Tensor) -> Tensor:
        """Labels are -100 where there is no word."""
        # was: return -self.crf(self.emissions(words), tags.clamp(min=0), tags != -100, reduction="mean")
        loss: Tensor = self.crf(self.emissions(words), tags, tags != -100)
        return loss


class Numbers:
    """Sentences as tensors of word and tag ids."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        words = sorted({token for sentence in sentences for token in sentence.tokens})
        self.words = {word: number for number, word in enumerate(["<unknown>", *words])}

    def batch(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """(B, T) word ids and (B, T) tag ids, padded with 0 and -100."""
        words = [torch.tensor([self.words.get(token, 0) for token in one.tokens]) for one in sentences]
        tags = [torch.tensor([TAGS.index(tag) for tag in one.tags or ()]) for one in sentences]
        return pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=-100)


def trained(numbers: Numbers, sentences: Sequence[Sentence], *, masked: bool) -> LSTMTagger:
    """Two passes over the sentences, the same in both cases."""
    torch.manual_seed(0)
    model = LSTMTagger(len(numbers.words), masked=masked)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        for first in range(0, len(sentences), 16):
            optimiser.zero_grad()
            model.loss(*numbers.batch(sentences[first : first + 16])).backward()
            optimiser.step()
    return model


def main() -> None:
    """Train with and without the mask, and count what is illegal."""
    corpus = demo_corpus()
    train, test = corpus.train[:1000], corpus.test[:300]
    numbers = Numbers(train)
    words, tags = numbers.batch(test)
    gold = [list(sentence.tags or ()) for sentence in test]
    for name, masked in (("CRF", False), ("masked CRF", True)):
        model = trained(numbers, train, masked=masked)
        with torch.inference_mode():
            paths = model.crf.decode(model.emissions(words), tags != -100)
        found = audit(gold, [[TAGS[tag] for tag in path] for path in paths], scheme="BIO").total
        print(f"{name}: {found.illegal} of {found.predicted} predicted entities are illegal")


if __name__ == "__main__":
    main()
