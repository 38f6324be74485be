"""Every training of the trial, as data: corpus, encoder, head, rate of the transitions, seed.

A head is trained at every rate of one grid, so that each row of a table can take the rate that suits it best
(`experiments.choice`). The paper took one rate for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Head = Literal["softmax", "crf", "mcrf"]
Encoder = Literal[
    "lstm1",
    "lstm1-words",
    "pretrained",
    "pretrained-bioes",
    "pretrained-tenth",
    "pretrained-decay-0.4",
    "pretrained-decay-0.67",
    "pretrained-decay-0.9",
    "pretrained-decay-1",
    "pretrained-defaults",
    "base",
    "defaults",
    "defaults-words",
]
"""The encoder, and what else tells it from others: tag scheme, share of train, a setting."""
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


UER, MINILM, MPNET = "uer-zh-L2-H512", "minilm-l6-en", "mpnet-base-en"
"""Folders of pretrained encoders: two layers for Chinese, six for English, twelve for English."""


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
    pretrained: str = MINILM
    """Folder of the small pretrained encoder of the corpus's language."""


CORPORA: dict[str, Corpus] = {
    "weibo": Corpus("Weibo", epochs=40, pretrained=UER),
    "resume": Corpus("Resume", epochs=15, pretrained=UER),
    "atis": Corpus("ATIS", epochs=20, characters=30),
    "snips": Corpus("SNIPS", epochs=15, sentences=2000, characters=30),
    "conll2003": Corpus("CoNLL2003", epochs=15, sentences=2000, dev=1000, characters=30),
    "conll2000": Corpus("CoNLL2000", epochs=15, sentences=2000, characters=30),
}
LSTM = {"words": 100, "lstm_layers": 1, "lstm_hidden": 100}
PRETRAINED: Encoder = "pretrained"
BIOES: Encoder = "pretrained-bioes"
TENTH: Encoder = "pretrained-tenth"
"""A tenth of train, with four times the epochs."""
BASE: Encoder = "base"
"""An English encoder of the size of BERT-base."""
LAYER_DECAYS: dict[float, Encoder] = {
    0.4: "pretrained-decay-0.4",
    2 / 3: "pretrained-decay-0.67",
    0.9: "pretrained-decay-0.9",
    1.0: "pretrained-decay-1",
}
"""Each layer below the top one has this times the rate of the layer above it."""
TRIAL_DECAYS = {UER: 2 / 3, MINILM: 1.0, MPNET: 0.9}
"""What each encoder is trained with; dev likes no other that was tried clearly better, and MPNet's was not tuned."""
BARE_PRETRAINED: Encoder = "pretrained-defaults"
"""What a user gets who gives data and an encoder."""
BARE: Encoder = "defaults"
"""No encoder of the trial: what a user gets who gives data and no setting."""
BARE_WORDS: Encoder = "defaults-words"
"""The same without character features."""


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

    @property
    def scheme(self) -> str:
        """Of the tags, in training and in scoring."""
        return "BIOES" if self.encoder == BIOES else "BIO"

    def sentences(self, available: int) -> int | None:
        """How many training sentences are drawn; None for all."""
        return available // 10 if self.encoder == TENTH else CORPORA[self.corpus].sentences

    def settings(self) -> dict[str, Any]:
        """What the training is told, files and folders aside; `{folder}` is where pretrained encoders lie."""
        corpus = CORPORA[self.corpus]
        optim: dict[str, float] = {} if self.crf_rate is None else {"crf_rate": self.crf_rate}
        scheme = {"scheme": self.scheme, "output_scheme": self.scheme, **HEADS[self.head], "seed": self.seed}
        if self.encoder in (BARE, BARE_WORDS):
            return scheme if self.encoder == BARE else {**scheme, "encoder": {"characters": 0}}
        name = MPNET if self.encoder == BASE else corpus.pretrained
        pretrained = {**scheme, "encoder": {"transformer": f"{{folder}}/{name}"}}
        if self.encoder == BARE_PRETRAINED:
            return pretrained
        if self.encoder.startswith(PRETRAINED) or self.encoder == BASE:
            named = {encoder: decay for decay, encoder in LAYER_DECAYS.items()}
            rates = {
                "encoder_rate": 1e-4,
                "layer_decay": named.get(self.encoder, TRIAL_DECAYS[name]),
                "head_rate": 1e-3,
            }
            how: dict[str, Any] = {"batch_sentences": 32, "epochs": 10, "precision": "bf16"}
            how["epochs"] *= 4 if self.encoder == TENTH else 1
            return {**pretrained, **how, "optim": {**rates, **optim}}
        encoder = {**LSTM, "characters": corpus.characters if self.encoder == "lstm1" else 0}
        how = {"batch_sentences": 32, "epochs": corpus.epochs, "encoder": encoder}
        return {**scheme, **how, "optim": {"head_rate": 2e-3, **optim}}


def trainings_of(corpora: Iterable[str], seeds: Sequence[int], encoder: Encoder = "lstm1") -> Iterator[Training]:
    """Every head at every rate: one seed of each corpus before the next seed of any."""
    for seed in seeds:
        for corpus in corpora:
            for head in HEADS:
                for rate in (None,) if head == "softmax" else RATES:
                    yield Training(corpus, head, rate, seed, encoder)


SMALL, LARGE = ("weibo", "resume", "atis"), ("snips", "conll2003", "conll2000")
CHINESE = ("weibo", "resume")
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
    "pretrained": tuple(trainings_of(CORPORA, (1, 2, 3, 4, 5), PRETRAINED)),
    "bioes": tuple(trainings_of(CHINESE, (1, 2, 3, 4, 5), BIOES)),
    "tenth": tuple(trainings_of(CHINESE, (1, 2, 3, 4, 5), TENTH)),
    "base": tuple(trainings_of(("snips", "conll2003"), (1, 2, 3, 4, 5), BASE)),
    "layers": tuple(
        Training(corpus, "mcrf", 1e-2, seed, encoder)
        for seed in (1, 2, 3)
        for decay, encoder in LAYER_DECAYS.items()
        for corpus in CORPORA
        if decay != TRIAL_DECAYS[CORPORA[corpus].pretrained]
    ),
    "pretrained-defaults": tuple(Training(corpus, "mcrf", 1e-2, 1, BARE_PRETRAINED) for corpus in CORPORA),
}
