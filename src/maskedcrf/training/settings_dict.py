"""The settings as keyword arguments, so that an editor completes them and a type checker refuses a typo.

What each one means stands in `settings` and `encoders.config`, whose fields a test holds these to.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from maskedcrf.data.gold import Policy
from maskedcrf.data.labelled import DataDict
from maskedcrf.encoders.config import EncoderConfig, Head
from maskedcrf.tags.constraints import MaskMode
from maskedcrf.training.settings import DataSettings, DecodingSetting, OptimSettings, Precision, Schedule


class EncoderDict(TypedDict, total=False):
    """The fields of `EncoderConfig`."""

    words: int
    vectors: str | None
    characters: int
    lexicon: str | None
    transformer: str | None
    pooling: Literal["first", "last", "mean", "max", "surest"]
    context: int
    elmo: str | None
    lstm_layers: int
    lstm_hidden: int
    dropout: float


class OptimDict(TypedDict, total=False):
    """The fields of `OptimSettings`."""

    encoder_rate: float | None
    layer_decay: float
    head_rate: float
    crf_rate: float
    weight_decay: float | None
    schedule: Schedule | None
    warm_up: float
    clip: float


class SettingsDict(TypedDict, total=False):
    """The fields of `Settings`."""

    file_scheme: str | None
    scheme: str
    output_scheme: str | None
    delimiter: str
    prefix_last: bool
    illegal_gold: Policy
    head: Head
    mask: MaskMode
    dropout: float | None
    word_dropout: float
    adversarial: float
    encoder: EncoderConfig | EncoderDict
    encoder_from: str | None
    optim: OptimSettings | OptimDict
    data: DataSettings | DataDict
    epochs: int | None
    minimum_steps: int
    patience: int | None
    batch_sentences: int
    forward_tokens: int
    ema_decay: float | None
    dev_fraction: float
    split_seed: int
    decoding: DecodingSetting
    beta: float
    seed: int
    device: str
    precision: Precision
    checkpoint_steps: int | None
    tracker: str | None
