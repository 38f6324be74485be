"""What `experiments.tune` tries: of each corpus and encoder a few ways to train it, and for `tuned` whole recipes."""

from __future__ import annotations

from random import Random
from typing import Any


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
    "uer": {"transformer": "{folder}/uer-zh-L2-H512"},
    "glove": {"vectors": "{folder}/glove-100d.npz"},
    "words": {"words": 100},
    "chars": {"characters": 50},
    "lstm1": {"lstm_layers": 1},
    "lstm2": {"lstm_layers": 2},
}


Choices = dict[str, tuple[Any, ...]]
CHINESE: Choices = {
    "parts": ("uer+lstm1", "uer+lstm2", "uer+words+lstm1"),
    "dropout": (0.3, 0.5, 0.1),
    "word_dropout": (0.05, 0.0, 0.1),
    "hidden": (300, 200),
    "average": (0.998, None, 0.99),
    "encoder_rate": (1e-4, 2e-4, 3e-4),
    "layer_decay": (0.9, 0.8),
    "head_rate": (3e-3, 1e-3, 2e-3),
    "crf_rate": (1e-2,),
    "weight_decay": (0.1, 0.01),
}
ENGLISH: Choices = {
    **CHINESE,
    # MiniLM without the word vectors stayed two points below on CoNLL2003, with an LSTM and without.
    "parts": ("minilm+glove+chars+lstm1",),
    "dropout": (0.1, 0.3, 0.2),
    "encoder_rate": (1e-4, 5e-5, 2e-4),
    "layer_decay": (1.0, 0.9),
    "head_rate": (3e-3, 2e-3),
}
"""A first sweep of 70 recipes with a plain CRF showed where to look: an LSTM on top, a high rate of the transitions,
a low one of the encoder; its best are candidates again, in `BEST_SO_FAR`."""


def drawn(count: int, choices: Choices) -> tuple[dict[str, Any], ...]:
    """So many recipes put together by chance, each value of a choice as often as the next; the longest first."""
    random = Random(0)
    columns = [random.sample((values * count)[:count], count) for values in choices.values()]
    recipes = [whole_recipe(**dict(zip(choices, row, strict=True))) for row in zip(*columns, strict=True)]
    return tuple(sorted(recipes, key=lambda each: each["batch"] / each["epochs"]))


def whole_recipe(
    parts: str,
    passes: tuple[int, int],
    *,
    dropout: float,
    hidden: int,
    average: float | None,
    word_dropout: float = 0.0,
    **rates: float,
) -> dict[str, Any]:
    """Settings of one encoder and one way to train it; `passes` are sentences a step and epochs."""
    encoder = {**together(parts), "dropout": dropout, "lstm_hidden": hidden}
    batch, epochs = passes
    training = {"batch": batch, "epochs": epochs, "average": average, "word_dropout": word_dropout}
    return {**training, "encoder": encoder, "optim": rates}


def together(parts: str) -> dict[str, Any]:
    """The encoder of a name such as `minilm+glove+chars+lstm1`."""
    return {key: value for name in parts.split("+") for key, value in PARTS[name].items()}


def parts_of(encoder: dict[str, Any]) -> str:
    """The name of an encoder: the inverse of `together`."""
    return "+".join(name for name, part in PARTS.items() if part.items() <= encoder.items())


RATES = ("encoder_rate", "layer_decay", "head_rate", "crf_rate", "weight_decay")


def known(
    parts: str, passes: tuple[int, int], dropout: float, hidden: int, average: float | None, rates: tuple[float, ...]
) -> dict[str, Any]:
    """A recipe of the first sweep."""
    named = dict(zip(RATES, rates, strict=True))
    return whole_recipe(parts, passes, dropout=dropout, hidden=hidden, average=average, **named)


ENGLISH_PARTS = "minilm+glove+chars+lstm1"
BEST_SO_FAR: dict[str, tuple[dict[str, Any], ...]] = {
    "conll2003": (
        known(ENGLISH_PARTS, (64, 6), 0.1, 300, None, (1e-4, 1.0, 3e-3, 1e-2, 0.01)),
        known(ENGLISH_PARTS, (64, 8), 0.1, 300, 0.998, (1e-4, 0.9, 3e-3, 1e-3, 0.1)),
    ),
    "msra": (
        known("uer+lstm1", (128, 6), 0.3, 300, 0.998, (3e-4, 0.8, 3e-3, 1e-2, 0.1)),
        known("uer+lstm2", (128, 6), 0.3, 300, 0.99, (3e-4, 0.8, 3e-3, 1e-2, 0.01)),
    ),
    "conll2000": (
        known(ENGLISH_PARTS, (128, 12), 0.3, 300, 0.998, (3e-4, 0.95, 3e-3, 1e-2, 0.1)),
        known("minilm+glove+chars+lstm2", (32, 5), 0.1, 200, 0.998, (1e-4, 0.95, 2e-3, 1e-3, 0.1)),
    ),
    "resume": (
        known("uer+words+lstm1", (32, 15), 0.1, 300, 0.998, (3e-4, 0.9, 3e-3, 1e-2, 0.01)),
        known("uer+lstm2", (32, 15), 0.3, 300, None, (1e-4, 0.9, 2e-3, 1e-2, 0.1)),
        known("uer+lstm1", (64, 30), 0.5, 200, 0.99, (2e-4, 1.0, 1e-3, 1e-2, 0.01)),
    ),
    "weibo": (
        known("uer+lstm1", (16, 15), 0.3, 200, None, (1e-4, 0.9, 1e-3, 1e-2, 0.1)),
        known("uer+lstm2", (16, 15), 0.3, 300, 0.998, (2e-4, 0.8, 2e-3, 1e-2, 0.1)),
        known("uer+lstm1", (32, 40), 0.5, 200, 0.998, (1e-4, 0.8, 1e-3, 1e-2, 0.01)),
    ),
}
"""What a new recipe has to beat."""

DRAWN = {
    "conll2003": drawn(7, ENGLISH | {"passes": ((64, 10), (32, 6), (64, 8))}),
    "msra": drawn(4, CHINESE | {"parts": ("uer+lstm1",), "passes": ((128, 10), (128, 8))}),
    "conll2000": drawn(4, ENGLISH | {"passes": ((64, 8), (128, 14))}),
    "resume": drawn(8, CHINESE | {"passes": ((32, 15), (16, 10), (32, 25))}),
    "weibo": drawn(10, CHINESE | {"passes": ((16, 20), (32, 40), (16, 30))}),
}


def longer(recipe: dict[str, Any]) -> dict[str, Any]:
    """The same for five epochs where there were three, with some words hidden."""
    return {**recipe, "epochs": recipe["epochs"] * 5 // 3, "word_dropout": 0.05}


CANDIDATES |= {(corpus, "tuned"): (longer(best[0]), *DRAWN[corpus], *best) for corpus, best in BEST_SO_FAR.items()}
