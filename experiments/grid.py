"""Every run of the reproduction, as data: which corpus, encoder, head, seed, scheme and share of the training data.

Three trainings a seed (softmax, CRF, MCRF) give the paper's six rows: the softmax and CRF models serve both retain
and discard, and the CRF's serves MCRF-decoding too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

HeadName = Literal["softmax", "crf", "mcrf"]
HEADS: dict[HeadName, dict[str, str]] = {
    "softmax": {"head": "softmax", "mask": "off"},
    "crf": {"head": "crf", "mask": "off"},
    "mcrf": {"head": "crf", "mask": "train"},
}


@dataclass(frozen=True, order=True, slots=True)
class Run:
    """One training; its name is the key of its line in the results."""

    corpus: str
    encoder: str
    head: HeadName
    seed: int
    scheme: str = "BIO"
    share: float = 1.0

    @property
    def name(self) -> str:
        """Corpus, encoder, scheme, share, head and seed in one word."""
        return f"{self.corpus}/{self.encoder}/{self.scheme}/{self.share:g}/{self.head}/{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


# What an encoder is made of, and how it is trained. `{folder}` is where the pretrained ones lie.
TRANSFORMER = {"batch": 32, "optim": {"encoder_rate": 1e-4, "layer_decay": 2 / 3, "head_rate": 1e-3, "crf_rate": 1e-3}}
RECURRENT = {"batch": 32, "epochs": 40, "patience": 8}
ENCODERS: dict[str, dict[str, Any]] = {
    "minilm": {**TRANSFORMER, "encoder": {"transformer": "{folder}/minilm-l6-en"}},
    "minilm+lstm1": {**TRANSFORMER, "encoder": {"transformer": "{folder}/minilm-l6-en", "lstm_layers": 1}},
    "minilm+lstm2": {**TRANSFORMER, "encoder": {"transformer": "{folder}/minilm-l6-en", "lstm_layers": 2}},
    "minilm+glove+chars": {
        **TRANSFORMER,
        "encoder": {
            "transformer": "{folder}/minilm-l6-en",
            "vectors": "{folder}/glove-100d.npz",
            "characters": 50,
            "lstm_layers": 1,
        },
    },
    "uer": {**TRANSFORMER, "encoder": {"transformer": "{folder}/uer-zh-L2-H512"}},
    "lstm1": {**RECURRENT, "encoder": {"words": 100, "lstm_layers": 1}},
    "lstm2": {**RECURRENT, "encoder": {"words": 100, "lstm_layers": 2}},
    "glove+chars+lstm1": {
        **RECURRENT,
        "encoder": {"vectors": "{folder}/glove-100d.npz", "characters": 50, "lstm_layers": 1},
    },
    "glove+chars+lstm2": {
        **RECURRENT,
        "encoder": {"vectors": "{folder}/glove-100d.npz", "characters": 50, "lstm_layers": 2},
    },
    "demo": {"epochs": 2, "encoder": {"words": 32, "lstm_hidden": 32}},
}
# The paper's encoders that need weights which are not to be had here; a user with them runs these names.
ENCODERS["bert"] = {**TRANSFORMER, "encoder": {"transformer": "{folder}/bert-base"}}
ENCODERS["bert+lstm1"] = {**TRANSFORMER, "encoder": {"transformer": "{folder}/bert-base", "lstm_layers": 1}}
ENCODERS["bert+lstm2"] = {**TRANSFORMER, "encoder": {"transformer": "{folder}/bert-base", "lstm_layers": 2}}
ENCODERS["elmo+lstm1"] = {**RECURRENT, "encoder": {"elmo": "{folder}/elmo", "lstm_layers": 1}}
ENCODERS["elmo+lstm2"] = {**RECURRENT, "encoder": {"elmo": "{folder}/elmo", "lstm_layers": 2}}

EPOCHS: dict[tuple[str, str], int] = {("msra", "uer"): 6}
"""Where the encoder's own number of epochs is not the one."""

MAIN: dict[str, str] = {
    "weibo": "uer",
    "resume": "uer",
    "msra": "uer",
    "atis": "minilm",
    "snips": "minilm",
    "conll2000": "minilm",
    "conll2003": "minilm",
}
"""The encoder of each corpus's main table."""

ENCODER_ABLATION = (
    "lstm1",
    "lstm2",
    "glove+chars+lstm1",
    "glove+chars+lstm2",
    "minilm",
    "minilm+lstm1",
    "minilm+lstm2",
)


def main_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """Tables of the main results: every corpus, all three heads."""
    for seed in seeds:
        for corpus, encoder in MAIN.items():
            for head in HEADS:
                yield Run(corpus, encoder, head, seed)


def bioes_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """BIO against BIOES: the Chinese corpora again, in BIOES."""
    for seed in seeds:
        for corpus in ("weibo", "resume", "msra"):
            for head in HEADS:
                yield Run(corpus, MAIN[corpus], head, seed, scheme="BIOES")


def tenth_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """Ten per cent of the training data."""
    for seed in seeds:
        for corpus in ("msra", "conll2003", "snips"):
            for head in HEADS:
                yield Run(corpus, MAIN[corpus], head, seed, share=0.1)


def encoder_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """The encoders on CoNLL2003, CRF against MCRF."""
    for seed in seeds:
        for encoder in ENCODER_ABLATION:
            for head in ("crf", "mcrf"):
                yield Run("conll2003", encoder, head, seed)


def small_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """Corpora small enough for a CPU, with an encoder that needs no weights: is it the encoder or the corpus?"""
    for seed in seeds:
        for corpus in ("weibo", "resume", "atis", "snips"):
            for head in HEADS:
                yield Run(corpus, "lstm1", head, seed)


GROUPS = {
    "small": small_runs(range(1, 4)),
    "main": main_runs(range(1, 6)),
    "encoders": encoder_runs(range(1, 4)),
    "bioes": bioes_runs(range(1, 4)),
    "tenth": tenth_runs(range(1, 4)),
    "demo": (Run("demo", "demo", head, seed) for seed in (1, 2) for head in HEADS),
}
GROUPS = {name: tuple(runs) for name, runs in GROUPS.items()}


def informative_order(runs: Sequence[Run]) -> list[Run]:
    """Low seeds first: one run of everything says more than ten of one thing."""
    return sorted(dict.fromkeys(runs), key=lambda run: run.seed)
