"""What `experiments.tune` tries: of each corpus and encoder a few ways to train it, and for `tuned` whole recipes."""

from __future__ import annotations

from typing import Any, NamedTuple


def recipe(batch: int, epochs: int, rate: float, decay: float, *, head_rate: float = 1e-3) -> dict[str, Any]:
    """Settings of one way to fine-tune."""
    rates = {"encoder_rate": rate, "layer_decay": decay, "head_rate": head_rate, "crf_rate": 1e-3}
    return {"batch": batch, "epochs": epochs, "optim": rates}


def recurrent(batch: int, epochs: int, rate: float) -> dict[str, Any]:
    """Settings of one way to train an LSTM: straight down to 0, so that no patience is needed."""
    return {"batch": batch, "epochs": epochs, "patience": 0, "optim": {"head_rate": rate, "schedule": "linear"}}


CANDIDATES: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {
    ("msra", "uer"): (recipe(64, 4, 3e-4, 0.9), recipe(128, 6, 5e-4, 0.9)),
    ("conll2003", "lstm1"): (recurrent(64, 20, 2e-3), recurrent(32, 15, 1e-3)),
    ("conll2003", "glove+chars+lstm1"): (recurrent(64, 20, 2e-3), recurrent(32, 15, 1e-3)),
    ("conll2003", "minilm"): (recipe(64, 10, 3e-4, 0.9), recipe(64, 12, 5e-4, 0.9)),
    ("conll2003", "minilm+glove+chars"): (recipe(64, 10, 3e-4, 0.9), recipe(64, 10, 3e-4, 0.9, head_rate=2e-3)),
    ("conll2000", "minilm"): (recipe(64, 10, 3e-4, 0.9), recipe(32, 8, 3e-4, 0.9)),
    ("conll2000", "minilm+glove+chars"): (recipe(64, 10, 3e-4, 0.9), recipe(64, 10, 3e-4, 0.9, head_rate=2e-3)),
    ("snips", "minilm"): (recipe(64, 10, 3e-4, 0.9), recipe(64, 10, 5e-4, 0.9)),
    ("atis", "minilm"): (recipe(32, 20, 1e-4, 2 / 3), recipe(32, 15, 3e-4, 0.9), recipe(64, 25, 5e-4, 0.9)),
    ("resume", "uer"): (recipe(32, 20, 1e-4, 2 / 3), recipe(32, 12, 3e-4, 0.9), recipe(64, 20, 5e-4, 0.9)),
    ("conll2003", "mpnet"): (recipe(32, 6, 5e-5, 0.9), recipe(32, 6, 1e-4, 0.9)),
    ("conll2000", "mpnet"): (recipe(32, 8, 5e-5, 0.9), recipe(32, 8, 1e-4, 0.9)),
    ("snips", "mpnet"): (recipe(32, 6, 5e-5, 0.9), recipe(32, 6, 1e-4, 0.9)),
    ("msra", "bert-zh"): (recipe(64, 4, 5e-5, 0.9),),
    ("resume", "bert-zh"): (recipe(32, 10, 5e-5, 0.9), recipe(16, 8, 3e-5, 0.9)),
    ("weibo", "bert-zh"): (recipe(32, 20, 5e-5, 0.9), recipe(16, 15, 3e-5, 0.9), recipe(16, 15, 1e-4, 0.9)),
    ("weibo", "uer"): (
        recipe(32, 20, 1e-4, 2 / 3),
        recipe(32, 20, 3e-4, 0.9),
        recipe(16, 20, 3e-4, 0.9),
        recipe(32, 40, 2e-4, 0.9),
    ),
}
"""What `experiments.tune` tries; of these it takes the best on dev with a plain CRF, so that ours is not favoured."""

# What a recipe of `tuned` can be put together from; `{folder}` is where the pretrained ones lie.
PARTS: dict[str, dict[str, Any]] = {
    "minilm": {"transformer": "{folder}/minilm-l6-en"},
    "minilm-adapted": {"transformer": "{folder}/minilm-en-adapted"},
    "minilm-adapted60": {"transformer": "{folder}/minilm-en-adapted60"},
    "minilm-wide": {"transformer": "{folder}/minilm-en-wide"},
    "minilm-deep": {"transformer": "{folder}/minilm-en-deep"},
    "mpnet": {"transformer": "{folder}/mpnet-base-en"},
    "mpnet-wide": {"transformer": "{folder}/mpnet-base-en-wide"},
    "uer": {"transformer": "{folder}/uer-zh-L2-H512"},
    "uer-adapted": {"transformer": "{folder}/uer-zh-adapted"},
    "uer-adapted60": {"transformer": "{folder}/uer-zh-adapted60"},
    "uer-wide": {"transformer": "{folder}/uer-zh-wide"},
    "uer-deep": {"transformer": "{folder}/uer-zh-deep"},
    "bert": {"transformer": "{folder}/bert-base-zh"},
    "bert-wide": {"transformer": "{folder}/bert-base-zh-wide"},
    "lexicon": {"lexicon": "{folder}/lexicon-zh.npz"},
    "context32": {"context": 32},
    "context64": {"context": 64},
    "context128": {"context": 128},
    "glove": {"vectors": "{folder}/glove-100d.npz"},
    "words": {"words": 100},
    "chars": {"characters": 50},
    "lstm1": {"lstm_layers": 1},
    "lstm2": {"lstm_layers": 2},
}


class Adaptation(NamedTuple):
    """The encoder to begin with, the corpora whose train it reads without tags, how many times, and its layers then."""

    encoder: str
    texts: tuple[str, ...]
    epochs: int = 20
    layers: int = 0
    """0: those it has."""
    rate: float = 2e-4
    """Of the encoder."""


CHINESE_TEXTS, ENGLISH_TEXTS = ("msra", "weibo", "resume"), ("conll2003", "conll2000")
MORE_TEXTS, MORE_ENGLISH_TEXTS = (*CHINESE_TEXTS, "people", "reviews"), (*ENGLISH_TEXTS, "sentences")
ADAPTED: dict[str, Adaptation] = {
    "uer-zh-wide": Adaptation("uer-zh-L2-H512", MORE_TEXTS),
    "uer-zh-deep": Adaptation("uer-zh-L2-H512", MORE_TEXTS, layers=6),
    "bert-base-zh-wide": Adaptation("bert-base-zh", MORE_TEXTS, 5, rate=5e-5),
    "uer-zh-adapted": Adaptation("uer-zh-L2-H512", CHINESE_TEXTS),
    "uer-zh-adapted60": Adaptation("uer-zh-L2-H512", CHINESE_TEXTS, 60),
    "minilm-en-adapted": Adaptation("minilm-l6-en", ENGLISH_TEXTS),
    "minilm-en-adapted60": Adaptation("minilm-l6-en", ENGLISH_TEXTS, 60),
    "minilm-en-wide": Adaptation("minilm-l6-en", MORE_ENGLISH_TEXTS, 30),
    "minilm-en-deep": Adaptation("minilm-l6-en", MORE_ENGLISH_TEXTS, layers=12),
    "mpnet-base-en-wide": Adaptation("mpnet-base-en", MORE_ENGLISH_TEXTS, 15, rate=1e-4),
}
"""What `experiments.adapt` makes."""

RATES = ("encoder_rate", "layer_decay", "head_rate", "crf_rate", "weight_decay")


def together(parts: str) -> dict[str, Any]:
    """The encoder of a name such as `minilm+glove+chars+lstm1`."""
    return {key: value for name in parts.split("+") for key, value in PARTS[name].items()}


def parts_of(encoder: dict[str, Any]) -> str:
    """The name of an encoder: the inverse of `together`."""
    return "+".join(name for name, part in PARTS.items() if part.items() <= encoder.items())


def whole_recipe(
    parts: str,
    passes: tuple[int, int],
    rates: tuple[float, ...],
    *,
    dropout: float,
    average: float | None,
    word_dropout: float,
    hidden: int = 300,
) -> dict[str, Any]:
    """Settings of one encoder and one way to train it; `passes` are sentences a step and epochs."""
    encoder = {**together(parts), "dropout": dropout, "lstm_hidden": hidden}
    batch, epochs = passes
    training = {"batch": batch, "epochs": epochs, "average": average, "word_dropout": word_dropout}
    return {**training, "encoder": encoder, "optim": dict(zip(RATES, rates, strict=True))}


def varied(
    base: dict[str, Any], parts: str = "", rates: tuple[float, ...] | None = None, **settings: Any
) -> dict[str, Any]:
    """The same recipe with other parts, rates (as many as are given) or settings."""
    encoder = {**base["encoder"], **(together(parts) if parts else {})}
    return {
        **base,
        **settings,
        "encoder": encoder,
        "optim": base["optim"] | dict(zip(RATES, rates or (), strict=False)),
    }


ENGLISH = "minilm+glove+chars+lstm1"
BEST_DRAWN: dict[str, dict[str, Any]] = {
    "conll2003": whole_recipe(
        ENGLISH, (64, 10), (1e-4, 0.9, 2e-3, 1e-2, 0.01), dropout=0.1, average=0.998, word_dropout=0.1
    ),
    "msra": whole_recipe(
        "uer+lstm1", (128, 10), (3e-4, 0.8, 3e-3, 1e-2, 0.01), dropout=0.3, average=None, word_dropout=0.1
    ),
    "conll2000": whole_recipe(
        ENGLISH, (64, 8), (2e-4, 0.9, 2e-3, 1e-2, 0.01), dropout=0.1, average=None, word_dropout=0.1
    ),
    "resume": whole_recipe(
        "uer+lstm1", (32, 15), (1e-4, 0.9, 3e-3, 1e-2, 0.01), dropout=0.5, average=None, word_dropout=0.0
    ),
    "weibo": whole_recipe(
        "uer+words+lstm1", (16, 20), (2e-4, 0.9, 3e-3, 1e-2, 0.01), dropout=0.3, average=0.99, word_dropout=0.1
    ),
}
"""What a new recipe has to beat: the best on dev of 50, most of them put together by chance; `tuned.json` has them all.
They had been drawn from where a first sweep of 70, with a plain CRF, was best: an LSTM on top, a high rate of the
transitions, a low one of the encoder; with and without averaging and hidden words."""

PEOPLE = whole_recipe(
    "uer-wide+lexicon+lstm1", (64, 4), (3e-4, 0.8, 3e-3, 1e-2, 0.01), dropout=0.3, average=None, word_dropout=0.1
)
BERT: dict[str, dict[str, Any]] = {
    "msra": whole_recipe(
        "bert+lstm1", (64, 5), (5e-5, 0.9, 2e-3, 1e-2, 0.01), dropout=0.3, average=None, word_dropout=0.1
    ),
    "resume": whole_recipe(
        "bert+lstm1", (32, 8), (5e-5, 0.9, 2e-3, 1e-2, 0.01), dropout=0.5, average=None, word_dropout=0.0
    ),
    "weibo": whole_recipe(
        "bert+lstm1", (16, 12), (5e-5, 0.9, 1e-3, 1e-2, 0.01), dropout=0.3, average=0.99, word_dropout=0.1
    ),
    "conll2000": whole_recipe(
        "mpnet+glove+chars+lstm1", (64, 6), (1e-4, 0.9, 2e-3, 1e-2, 0.01), dropout=0.1, average=None, word_dropout=0.1
    ),
}
"""Recipes of encoders of BERT-base's size, with what the small ones were found to like."""
AFTER_PEOPLE = varied(BEST_DRAWN["msra"], "uer-wide+lexicon", epochs=6, start="{folder}/people-tagger")
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "msra-tagger": ("msra", BEST_DRAWN["msra"]),
    "msra-tagger-adapted": ("msra", varied(BEST_DRAWN["msra"], "uer-adapted")),
    "people-tagger": ("people", PEOPLE),
    "people-tagger-deep": ("people", varied(PEOPLE, "uer-deep")),
    "people-msra-tagger": ("msra", AFTER_PEOPLE),
    "people-msra-tagger-deep": ("msra", varied(AFTER_PEOPLE, "uer-deep", start="{folder}/people-tagger-deep")),
    "bert-people-tagger": ("people", varied(BERT["msra"], "bert-wide+lexicon", epochs=3)),
    "bert-msra-tagger": (
        "msra",
        varied(BERT["msra"], "bert-wide+lexicon", epochs=4, start="{folder}/bert-people-tagger"),
    ),
    "pos-tagger": ("pos", varied(BEST_DRAWN["conll2000"], "minilm-adapted60", epochs=5)),
    "pos-tagger-wide": ("pos", varied(BEST_DRAWN["conll2000"], "minilm-wide", epochs=5)),
    "pos-tagger-deep": ("pos", varied(BEST_DRAWN["conll2000"], "minilm-deep", epochs=5)),
    "pos-tagger-mpnet": ("pos", varied(BERT["conll2000"], "mpnet-wide", epochs=4)),
    "chunk-tagger": (
        "chunks",
        varied(BEST_DRAWN["conll2000"], "minilm-adapted60", epochs=3, start="{folder}/pos-tagger"),
    ),
}
"""Taggers for others to begin with, which `experiments.first` makes: the corpus, whose train each has seen with its
tags, and the recipe, which may begin with another."""

PLAIN: dict[str, Any] = {"start": "{folder}/msra-tagger"}
READ: dict[str, Any] = {"start": "{folder}/msra-tagger-adapted", "parts": "uer-adapted"}
NEWS: dict[str, Any] = {"start": "{folder}/people-tagger", "parts": "uer-wide+lexicon"}
DEEP_NEWS: dict[str, Any] = {"start": "{folder}/people-tagger-deep", "parts": "uer-deep+lexicon"}
BOTH: dict[str, Any] = {"start": "{folder}/people-msra-tagger", "parts": "uer-wide+lexicon"}
DEEP_BOTH: dict[str, Any] = {"start": "{folder}/people-msra-tagger-deep", "parts": "uer-deep+lexicon"}
BERT_NEWS: dict[str, Any] = {"start": "{folder}/bert-people-tagger", "parts": "bert-wide+lexicon"}
BERT_BOTH: dict[str, Any] = {"start": "{folder}/bert-msra-tagger", "parts": "bert-wide+lexicon"}
POS: dict[str, Any] = {"start": "{folder}/pos-tagger", "parts": "minilm-adapted60"}
WIDE_POS: dict[str, Any] = {"start": "{folder}/pos-tagger-wide", "parts": "minilm-wide"}
DEEP_POS: dict[str, Any] = {"start": "{folder}/pos-tagger-deep", "parts": "minilm-deep"}
BASE_POS: dict[str, Any] = {"start": "{folder}/pos-tagger-mpnet", "parts": "mpnet-wide"}
CHUNKS: dict[str, Any] = {"start": "{folder}/chunk-tagger", "parts": "minilm-adapted60"}
LOW, LOWEST = (1e-4, 0.9, 1e-3), (5e-5, 0.9, 1e-3)
# The LSTM of the MSRA tagger fits where nothing stands beside the transformer.
WEIBO = varied(BEST_DRAWN["weibo"]) | {"encoder": {**together("uer+lstm1"), "dropout": 0.3, "lstm_hidden": 300}}

# An adversarial step costs two, so that there are fewer of them; of each corpus the long runs stand first.
VARIATIONS: dict[tuple[str, str], tuple[dict[str, Any], tuple[dict[str, Any], ...]]] = {
    ("conll2003", "tuned"): (
        BEST_DRAWN["conll2003"],
        (
            {"parts": "minilm-adapted+context64", "epochs": 8},
            {"parts": "context64", "adversarial": 0.3, "epochs": 5},
            {"parts": "context64"},
            {"parts": "context32"},
            {"adversarial": 0.3, "epochs": 7},
            {"parts": "minilm-adapted"},
        ),
    ),
    ("msra", "tuned"): (
        BEST_DRAWN["msra"],
        (
            {"parts": "uer-adapted+context64", "adversarial": 0.3, "epochs": 5},
            {"parts": "uer-adapted+context64", "epochs": 8},
            {"parts": "context64", "epochs": 8},
            {"parts": "uer-adapted60", "adversarial": 0.3, "epochs": 7},
            {"adversarial": 0.3, "epochs": 7},
            {"adversarial": 1.0, "epochs": 7},
            {"parts": "uer-adapted", "adversarial": 0.3, "epochs": 7},
            {"parts": "uer-adapted"},
        ),
    ),
    ("msra", "tuned+more"): (
        BEST_DRAWN["msra"],
        (
            {**DEEP_NEWS, "adversarial": 0.3, "epochs": 7},
            {**DEEP_NEWS, "epochs": 8},
            {**NEWS, "adversarial": 0.3, "epochs": 7},
            {"parts": "uer-deep+lexicon", "adversarial": 0.3, "epochs": 7},
            {"parts": "uer-deep+lexicon"},
            {"parts": "uer-wide+lexicon", "adversarial": 0.3, "epochs": 7},
            {"parts": "lexicon"},
        ),
    ),
    ("msra", "tuned+bert"): (
        BERT["msra"],
        ({**BERT_NEWS, "adversarial": 0.3, "epochs": 4}, BERT_NEWS, {"parts": "bert-wide+lexicon"}, {}),
    ),
    ("resume", "tuned+bert"): (
        BERT["resume"],
        (
            {**BERT_BOTH, "adversarial": 0.3},
            {**BERT_BOTH, "adversarial": 1.0, "rates": (3e-5, 0.9, 1e-3)},
            {"parts": "bert-wide+lexicon+context64", "adversarial": 0.3, "scheme": "BIOES"},
            {"parts": "bert-wide+lexicon+context64", "adversarial": 0.3},
            {"parts": "bert-wide+lexicon", "adversarial": 0.3, "scheme": "BIOES"},
            {"parts": "bert-wide+lexicon", "adversarial": 0.3, "average": 0.998, "epochs": 12},
            {"parts": "bert-wide+lexicon", "adversarial": 0.3},
            {},
        ),
    ),
    ("weibo", "tuned+bert"): (
        BERT["weibo"],
        (
            {**BERT_BOTH, "adversarial": 1.0, "scheme": "BIOES"},
            {**BERT_BOTH, "adversarial": 0.3, "rates": (3e-5,), "scheme": "BIOES"},
            {**BERT_BOTH, "adversarial": 1.0},
            {**BERT_BOTH, "adversarial": 0.3, "rates": (3e-5,)},
            {"parts": "bert-wide+lexicon", "adversarial": 1.0},
            {},
        ),
    ),
    ("conll2000", "tuned+bert"): (
        BERT["conll2000"],
        (
            {**BASE_POS, "adversarial": 0.3, "scheme": "BIOES"},
            {**BASE_POS, "adversarial": 0.3, "scheme": "BIOES", "rates": LOWEST},
            {"parts": "mpnet-wide", "adversarial": 0.3, "scheme": "BIOES"},
            {"adversarial": 0.3, "scheme": "BIOES"},
            {},
        ),
    ),
    ("conll2000", "tuned"): (
        BEST_DRAWN["conll2000"],
        (
            {"parts": "minilm-adapted60", "adversarial": 0.3, "epochs": 6},
            {"parts": "minilm-adapted60"},
            {"parts": "minilm-adapted+context32"},
            {"parts": "context32"},
            {"adversarial": 0.3, "epochs": 6},
            {"parts": "minilm-adapted", "adversarial": 0.3, "epochs": 6},
            {"parts": "minilm-adapted"},
        ),
    ),
    ("conll2000", "tuned+more"): (
        BEST_DRAWN["conll2000"],
        (
            {**DEEP_POS, "adversarial": 0.3, "epochs": 6, "scheme": "BIOES"},
            {**DEEP_POS, "adversarial": 0.3, "epochs": 6, "scheme": "BIOES", "rates": LOW},
            {**WIDE_POS, "adversarial": 0.3, "epochs": 6, "scheme": "BIOES"},
            {**CHUNKS, "adversarial": 0.3, "epochs": 6},
            {**CHUNKS, "rates": LOW},
            {**POS, "adversarial": 1.0, "epochs": 6, "scheme": "BIOES"},
            {**POS, "adversarial": 0.3, "epochs": 6, "scheme": "BIOES"},
            {**POS, "adversarial": 1.0, "epochs": 6},
            {**POS, "adversarial": 0.3, "epochs": 6},
            POS,
            {**POS, "rates": LOW},
        ),
    ),
    ("weibo", "tuned"): (
        BEST_DRAWN["weibo"],
        (
            {"parts": "uer-adapted60", "adversarial": 1.0, "epochs": 15},
            {"adversarial": 3.0, "epochs": 15},
            {"adversarial": 0.3, "epochs": 15},
            {"adversarial": 1.0, "epochs": 15},
            {"parts": "uer-adapted", "adversarial": 0.3, "epochs": 15},
            {"parts": "uer-adapted", "adversarial": 1.0, "epochs": 15},
            {"batch": 8, "epochs": 12},
            {"parts": "uer-adapted"},
        ),
    ),
    ("weibo", "tuned+more"): (
        WEIBO,
        (
            {**DEEP_BOTH, "adversarial": 0.3, "epochs": 15},
            {**DEEP_BOTH, "adversarial": 1.0, "epochs": 12, "rates": LOW},
            {**BOTH, "adversarial": 0.3, "epochs": 15},
            {**NEWS, "adversarial": 0.3, "epochs": 15},
            {"parts": "uer-deep+lexicon+words", "adversarial": 1.0, "epochs": 15},
            {"parts": "uer-wide+lexicon+words", "adversarial": 1.0, "epochs": 15},
            {"parts": "lexicon+words"},
        ),
    ),
    ("weibo", "tuned+msra"): (
        WEIBO,
        (
            {**PLAIN, "adversarial": 0.3, "epochs": 15},
            {**READ, "adversarial": 0.3, "epochs": 15},
            {**PLAIN, "adversarial": 1.0, "epochs": 12, "rates": LOW},
            {**READ, "adversarial": 1.0, "epochs": 12, "rates": LOW},
            {**PLAIN, "parts": "words"},
            PLAIN,
            READ,
            {**PLAIN, "epochs": 10, "rates": LOW},
        ),
    ),
    ("resume", "tuned"): (
        BEST_DRAWN["resume"],
        (
            {"parts": "uer-adapted+context64", "adversarial": 0.3, "epochs": 11},
            {"parts": "uer-adapted+context128"},
            {"parts": "uer-adapted+context64"},
            {"parts": "context64"},
            {"parts": "uer-adapted60"},
            {"adversarial": 0.3, "epochs": 11},
            {"adversarial": 1.0, "epochs": 11},
            {"parts": "uer-adapted", "adversarial": 0.3, "epochs": 11},
            {"parts": "uer-adapted", "epochs": 20, "rates": (2e-4,)},
            {"parts": "uer-adapted"},
        ),
    ),
    ("resume", "tuned+more"): (
        BEST_DRAWN["resume"],
        (
            {**DEEP_BOTH, "adversarial": 1.0, "epochs": 11, "rates": LOWEST},
            {**DEEP_BOTH, "adversarial": 0.3, "epochs": 11},
            {**BOTH, "adversarial": 0.3, "epochs": 11},
            {"parts": "uer-deep+lexicon", "adversarial": 0.3, "epochs": 11},
            {"parts": "uer-wide+lexicon"},
            {"parts": "lexicon"},
        ),
    ),
    ("resume", "tuned+msra"): (
        BEST_DRAWN["resume"],
        (
            {**READ, "parts": "uer-adapted+context64", "adversarial": 0.3, "epochs": 11},
            {**READ, "parts": "uer-adapted+context64"},
            {**PLAIN, "adversarial": 0.3, "epochs": 11},
            {**READ, "adversarial": 0.3, "epochs": 11},
            {**READ, "adversarial": 1.0, "epochs": 11, "rates": LOWEST},
            {**READ, "average": 0.998},
            PLAIN,
            READ,
        ),
    ),
}
"""What is tried about the best so far: adversarial steps, an encoder that has read the texts, the sentences around,
another scheme inside.
Apart from these, since they know more than the corpora say: beginning with a tagger of MSRA; and `more`, a lexicon, an
encoder that has read other texts too or was made deeper, beginning with a tagger of words or parts of speech."""

CANDIDATES |= {
    name: (*(varied(base, **change) for change in changes), *((base,) if name[1] == "tuned" else ()))
    for name, (base, changes) in VARIATIONS.items()
}
