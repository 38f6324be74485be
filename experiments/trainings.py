"""Every training of the trial, as data: corpus, encoder, head, rate of the transitions, seed.

A head is trained at every rate of one grid, so that each row of a table can take the rate that suits it best
(`experiments.choice`). The paper took one rate for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Head = Literal["softmax", "crf", "mcrf"]
Encoder = Literal["lstm1", "lstm1-words", "uer", "uer-decay-0.4", "uer-decay-1", "defaults", "defaults-words"]
HEADS: dict[Head, dict[str, str]] = {
    "softmax": {"head": "softmax", "mask": "off"},
    "crf": {"head": "crf", "mask": "off"},
    "mcrf": {"head": "crf", "mask": "train"},
}
RATES = (1e-3, 1e-2, 1e-1)
"""The grid of `crf_rate`. A softmax head has no transitions, so that one training serves every rate."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: the training that serves it and how its paths are read.

    Best epoch and best rate are those with the highest dev F1 read in the same way.
    """

    head: Head
    reading: Literal["retain", "discard", "masked"]


ROWS: dict[str, Row] = {
    "softmax-retain": Row("softmax", "retain"),
    "softmax-discard": Row("softmax", "discard"),
    "softmax-masked": Row("softmax", "masked"),
    "CRF-retain": Row("crf", "retain"),
    "CRF-discard": Row("crf", "discard"),
    "MCRF-decoding": Row("crf", "masked"),
    "MCRF-training": Row("mcrf", "masked"),
}
CRF_ROWS = tuple(name for name, row in ROWS.items() if row.head != "softmax")


@dataclass(frozen=True, slots=True)
class Corpus:
    """How much of a corpus is learnt, and for how long."""

    title: str
    epochs: int
    sentences: int | None = None
    """Training sentences, drawn once for all seeds; None for all."""
    dev: int | None = None
    """Dev sentences, drawn likewise."""
    characters: int = 0
    """Width of the character features; Chinese tokens are single characters already."""


CORPORA: dict[str, Corpus] = {
    "weibo": Corpus("Weibo", epochs=40),
    "resume": Corpus("Resume", epochs=15),
    "atis": Corpus("ATIS", epochs=20, characters=30),
    "snips": Corpus("SNIPS", epochs=15, sentences=2000, characters=30),
    "conll2003": Corpus("CoNLL2003", epochs=15, sentences=2000, dev=1000, characters=30),
    "conll2000": Corpus("CoNLL2000", epochs=15, sentences=2000, characters=30),
}
LSTM = {"words": 100, "lstm_layers": 1, "lstm_hidden": 100}
PRETRAINED: Encoder = "uer"
LAYER_DECAYS = {"uer-decay-0.4": 0.4, PRETRAINED: 2 / 3, "uer-decay-1": 1.0}
"""Each layer below the top one has this times the rate of the layer above it."""
BARE: Encoder = "defaults"
"""No encoder of the trial: what a user gets who gives data and no setting."""
BARE_WORDS: Encoder = "defaults-words"
"""The same without character features."""
UER = "{folder}/uer-zh-L2-H512"
"""`{folder}` is where pretrained encoders lie."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training; its name is the key of its line in the results."""

    corpus: str
    head: Head
    crf_rate: float | None
    """None of a softmax head."""
    seed: int
    encoder: Encoder = "lstm1"

    @property
    def name(self) -> str:
        """Corpus, encoder, head, rate and seed in one word."""
        rate = "-" if self.crf_rate is None else f"{self.crf_rate:g}"
        return f"{self.corpus}/{self.encoder}/{self.head}/{rate}/{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def settings(self) -> dict[str, Any]:
        """What the training is told, files and folders aside."""
        corpus = CORPORA[self.corpus]
        optim: dict[str, float] = {} if self.crf_rate is None else {"crf_rate": self.crf_rate}
        scheme = {"scheme": "BIO", "output_scheme": "BIO", **HEADS[self.head], "seed": self.seed}
        if self.encoder in (BARE, BARE_WORDS):
            return scheme if self.encoder == BARE else {**scheme, "encoder": {"characters": 0}}
        common = {**scheme, "batch_sentences": 32}
        if self.encoder in LAYER_DECAYS:
            rates = {"encoder_rate": 1e-4, "layer_decay": LAYER_DECAYS[self.encoder], "head_rate": 1e-3}
            how = {"epochs": 10, "precision": "bf16", "encoder": {"transformer": UER}}
            return {**common, **how, "optim": {**rates, **optim}}
        encoder = {**LSTM, "characters": corpus.characters if self.encoder == "lstm1" else 0}
        return {**common, "epochs": corpus.epochs, "encoder": encoder, "optim": {"head_rate": 2e-3, **optim}}


def trainings_of(corpora: Sequence[str], seeds: Sequence[int], encoder: Encoder = "lstm1") -> Iterator[Training]:
    """Every head at every rate: one seed of each corpus before the next seed of any."""
    for seed in seeds:
        for corpus in corpora:
            for head in HEADS:
                for rate in (None,) if head == "softmax" else RATES:
                    yield Training(corpus, head, rate, seed, encoder)


SMALL, LARGE = ("weibo", "resume", "atis"), ("snips", "conll2003", "conll2000")
GROUPS: dict[str, tuple[Training, ...]] = {
    "small": tuple(trainings_of(SMALL, (1, 2, 3))),
    "large": tuple(trainings_of(LARGE, (1, 2, 3))),
    "more": tuple(trainings_of((*SMALL, *LARGE), (4, 5))),
    "words": tuple(
        Training(corpus, "mcrf", 1e-2, seed, "lstm1-words") for seed in (1, 2, 3) for corpus in ("atis", *LARGE)
    ),
    "defaults": tuple(
        Training(corpus, "mcrf", 1e-2, seed, encoder)
        for seed in (1, 2, 3)
        for encoder in (BARE, BARE_WORDS)
        for corpus in CORPORA
    ),
    "transformer": tuple(trainings_of(("weibo",), (1, 2, 3), PRETRAINED)),
    "layers": tuple(
        Training("weibo", "mcrf", 1e-2, seed, encoder)
        for seed in (1, 2, 3)
        for encoder in ("uer-decay-0.4", "uer-decay-1")
    ),
}
