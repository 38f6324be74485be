"""Small taggers with random weights, and sentences to try them on."""

from __future__ import annotations

from pathlib import Path
from random import Random

import torch
from encoders.tiny import write_lexicon, write_model
from token_lists import sentences_of

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.constraints import Constraints

TAGS = ["O", *(f"{prefix}-{kind}" for kind in ("LOC", "PER") for prefix in "BIES")]
WORDS = [
    "The",
    "cat",
    "sat",
    "on",
    "the",
    "mat",
    "unbelievable",
    "U.S.",
    "1996",
    "北",
    "京",
    "😀",
    "\u200b",
    "Zug",
    "x" * 90,
]
KINDS = ["words", "lexicon", "bert", "roberta"]


def random_tagger(kind: str, folder: Path, **more: object) -> Tagger:
    """A tagger that knows nothing and is sure of everything, so that every tag and every rule comes up."""
    configs = {
        "words": {"words": 8, "characters": 6, "lstm_layers": 2, "lstm_hidden": 7},
        "lexicon": {"words": 4, "characters": 0, "lexicon": str(folder / "lexicon.npz"), "lstm_hidden": 7},
        "bert": {"transformer": str(folder)},
        "roberta": {"transformer": str(folder), "pooling": "mean", "words": 4, "lstm_layers": 1, "lstm_hidden": 7},
    }
    if kind == "lexicon":
        folder.mkdir(parents=True, exist_ok=True)
        write_lexicon(folder / "lexicon.npz")
    elif kind != "words":
        write_model(folder, kind, positions=24)  # so short that most sentences are read in windows
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        encoder = build_encoder(
            EncoderConfig.model_validate(configs[kind] | more), sentences_of(sentences(range(1, 9)))
        )
        model = TaggerModel(encoder, Constraints.from_scheme(TAGS, "BIOES"), dropout=0.1).eval()
        _spread(model)
    return Tagger(model)


@torch.no_grad()
def _spread(model: TaggerModel) -> None:
    """Scale the last layer so that each tag is the best one somewhere."""
    features = model.encoder.prepare(sentences_of(sentences(range(20, 40))))
    emissions = model.emissions(features)[features["mask"]]
    model.linear.weight *= 3 / emissions.std(dim=0)[:, None]
    model.linear.bias -= model.emissions(features)[features["mask"]].mean(dim=0)


def sentences(lengths: range) -> list[tuple[str, ...]]:
    """A sentence of each length."""
    random = Random(5)
    return [tuple(random.choice(WORDS) for _ in range(length)) for length in lengths]
