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
"""What `experiments.tune` tries; it takes the best on dev with a plain CRF, so that ours is not favoured."""

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
    "parts": ("uer+lstm1", "uer", "uer+words+lstm1", "uer+lstm2"),
    "dropout": (0.3, 0.1, 0.5),
    "hidden": (200, 300),
    "average": (0.99, None, 0.998),
    "encoder_rate": (3e-4, 1e-4, 2e-4, 5e-4),
    "layer_decay": (0.9, 1.0, 0.8),
    "head_rate": (1e-3, 2e-3, 3e-3),
    "crf_rate": (1e-3, 1e-2),
    "weight_decay": (0.01, 0.1),
}
ENGLISH: Choices = {
    **CHINESE,
    # MiniLM without the word vectors stayed two points below on CoNLL2003, with an LSTM and without.
    "parts": ("minilm+glove+chars+lstm1", "minilm+glove+chars+lstm2"),
    "layer_decay": (0.9, 1.0, 0.95),
    "head_rate": (2e-3, 1e-3, 3e-3),
}


def drawn(count: int, choices: Choices) -> tuple[dict[str, Any], ...]:
    """So many recipes put together by chance, each value of a choice as often as the next; the longest first."""
    random = Random(0)
    columns = [random.sample((values * count)[:count], count) for values in choices.values()]
    recipes = [whole_recipe(**dict(zip(choices, row, strict=True))) for row in zip(*columns, strict=True)]
    return tuple(sorted(recipes, key=lambda each: each["batch"] / each["epochs"]))


def whole_recipe(
    parts: str, passes: tuple[int, int], *, dropout: float, hidden: int, average: float | None, **rates: float
) -> dict[str, Any]:
    """Settings of one encoder and one way to train it; `passes` are sentences a step and epochs."""
    more = {"dropout": dropout} | ({"lstm_hidden": hidden} if "lstm" in parts else {})
    batch, epochs = passes
    return {"batch": batch, "epochs": epochs, "average": average, "encoder": together(parts) | more, "optim": rates}


def together(parts: str) -> dict[str, Any]:
    """The encoder of a name such as `minilm+glove+chars+lstm1`."""
    return {key: value for name in parts.split("+") for key, value in PARTS[name].items()}


def parts_of(encoder: dict[str, Any]) -> str:
    """The name of an encoder: the inverse of `together`."""
    return "+".join(name for name, part in PARTS.items() if part.items() <= encoder.items())


BEST_SO_FAR: dict[str, tuple[str, dict[str, Any]]] = {
    "conll2003": ("minilm+glove+chars+lstm1", recipe(64, 10, 3e-4, 0.9, head_rate=2e-3)),
    "msra": ("uer", recipe(64, 4, 3e-4, 0.9)),
    "conll2000": ("minilm+glove+chars+lstm1", recipe(64, 10, 3e-4, 0.9)),
    "resume": ("uer", recipe(32, 12, 3e-4, 0.9)),
    "weibo": ("uer", recipe(32, 20, 1e-4, 2 / 3)),
}
"""Of the encoders above: what a new recipe has to beat."""

MORE: Choices = {"parts": (*ENGLISH["parts"], "minilm+lstm1", "minilm+glove+chars")}
DRAWN = {
    "conll2003": drawn(11, ENGLISH | {"passes": ((64, 8), (128, 12), (64, 6), (128, 10))}),
    "msra": drawn(9, CHINESE | {"passes": ((128, 8), (64, 4), (128, 6))}),
    "conll2000": drawn(9, ENGLISH | MORE | {"passes": ((64, 8), (32, 5), (128, 12))}),
    "resume": drawn(16, CHINESE | {"passes": ((32, 15), (16, 8), (64, 30))}),
    "weibo": drawn(20, CHINESE | {"passes": ((16, 20), (32, 40), (16, 15))}),
}
CANDIDATES |= {
    (corpus, "tuned"): ({**BEST_SO_FAR[corpus][1], "encoder": together(BEST_SO_FAR[corpus][0])}, *recipes)
    for corpus, recipes in DRAWN.items()
}
