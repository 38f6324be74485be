"""Small encoders are trained on one thread, and what the caller had set comes back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from small_corpus import SMALL, corpus
from torch.optim.optimizer import register_optimizer_step_pre_hook

from maskedcrf import Tagger
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.training.threads import step_threads


@pytest.fixture(autouse=True)
def _four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("config", "device", "threads"),
    [
        ({"words": 8}, "cpu", 1),
        ({"words": 8, "characters": 8, "lstm_layers": 0}, "cpu", 1),
        ({"transformer": "any"}, "cpu", 4),
        ({"elmo": "any", "lstm_layers": 1}, "cpu", 4),
        ({"words": 8}, "cuda", 4),
    ],
)
def test_only_a_small_encoder_on_a_cpu_steps_on_one_thread(config, device, threads):
    encoder = SimpleNamespace(config=EncoderConfig.model_validate(config))
    with step_threads(SimpleNamespace(encoder=encoder, device=torch.device(device))):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 4


def test_the_optimiser_too_steps_on_one_thread():
    seen = []
    hook = register_optimizer_step_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    try:
        Tagger.train(corpus(8), **{**SMALL, "epochs": 1, "dev_fraction": 0.0})
    finally:
        hook.remove()
    assert seen == [1]
