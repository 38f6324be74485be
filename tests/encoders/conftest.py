"""One small encoder of each kind, built once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from encoders.bilm import write_bilm
from encoders.tiny import write_lexicon, write_model
from token_lists import sentences_of

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import Encoder, build_encoder

TRAINING = [["The", "cat", "sat", "on", "the", "mat"], ["北", "京", "U.S.", "1996", "1997", "😀"], ["unbelievable"]]

KINDS = ["words", "lstm", "cnn", "bert", "roberta", "distilbert", "albert", "mean", "lexicon", "everything"]


def configs(folder: Path) -> dict[str, EncoderConfig]:
    """A config of each kind."""
    models = {kind: str(write_model(folder / kind, kind, positions=24)) for kind in KINDS[3:7]}
    plain = {kind: EncoderConfig(transformer=model) for kind, model in models.items()}
    lexicon = str(write_lexicon(folder / "lexicon.npz"))
    return plain | {
        "lexicon": EncoderConfig(words=0, characters=0, lexicon=lexicon, lstm_hidden=5),
        "words": EncoderConfig(words=8, characters=0, lstm_layers=0),
        "lstm": EncoderConfig(words=8, characters=0, lstm_layers=2, lstm_hidden=5),
        "cnn": EncoderConfig(words=8, characters=6, lstm_hidden=5),
        "mean": EncoderConfig(transformer=models["roberta"], pooling="mean", lstm_layers=1, lstm_hidden=5),
        "everything": EncoderConfig(
            words=4,
            characters=6,
            lexicon=lexicon,
            transformer=models["bert"],
            pooling="max",
            elmo=str(write_bilm(folder / "elmo")),
            lstm_layers=1,
            lstm_hidden=5,
        ),
    }


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Encoder]:
    """Encoders by kind, ready to predict."""
    torch.manual_seed(0)
    chosen = configs(tmp_path_factory.mktemp("models"))
    return {kind: build_encoder(config, sentences_of(TRAINING)).eval() for kind, config in chosen.items()}


@pytest.fixture(params=KINDS)
def encoder(request: pytest.FixtureRequest, encoders: dict[str, Encoder]) -> Encoder:
    """Each encoder in turn."""
    return encoders[request.param]
