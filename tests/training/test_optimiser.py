"""Rates: a layer's parameters really move at the layer's rate."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.constraints import Constraints
from maskedcrf.training.optimiser import build_optimiser, layer_rates, rate_factor, set_rates
from maskedcrf.training.settings import OptimSettings


class Layered(nn.Module):
    """Three pretrained layers and one new one."""

    width = 4

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.new = nn.Linear(4, 4)

    def forward(self, features):
        hidden = features["vectors"]
        for layer in [*self.stack, self.new]:
            hidden = hidden + layer(hidden)
        return hidden

    def layers(self):
        return [list(layer.parameters()) for layer in self.stack]


@pytest.fixture
def model() -> TaggerModel:
    torch.manual_seed(0)
    rules = Constraints.from_scheme(["O", "B-X", "I-X"], "BIO")
    return TaggerModel(Layered(), rules, dropout=0.0)


def test_layer_rates_fall_by_eta_from_the_top():
    assert layer_rates(8e-5, 0.5, 4) == pytest.approx([1e-5, 2e-5, 4e-5, 8e-5])


def test_each_layer_moves_at_its_own_rate(model):
    """The first step of Adam moves a parameter by its rate, whatever the gradient's size."""
    settings = OptimSettings(encoder_rate=1e-4, layer_decay=0.5, head_rate=2e-3, crf_rate=5e-3, weight_decay=0.0)
    optimiser = build_optimiser(model, settings)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    features = {"vectors": torch.randn(2, 3, 4), "mask": torch.ones(2, 3, dtype=torch.bool)}
    model(features, torch.tensor([[0, 1, 2], [1, 2, 2]])).sum().backward()
    optimiser.step()
    moved = {name: (value - before[name]).abs().max().item() for name, value in model.named_parameters()}
    expected = {
        "encoder.stack.0.weight": 2.5e-5,
        "encoder.stack.1.bias": 5e-5,
        "encoder.stack.2.weight": 1e-4,
        "encoder.new.weight": 2e-3,
        "linear.weight": 2e-3,
        "crf.transitions": 5e-3,
    }
    for name, rate in expected.items():
        assert moved[name] == pytest.approx(rate, rel=1e-2), name


def test_weight_decay_leaves_biases_and_transitions_alone(model):
    settings = OptimSettings(weight_decay=0.01).resolved(pretrained=True)
    decayed = {
        p: group["weight_decay"] for group in build_optimiser(model, settings).param_groups for p in group["params"]
    }
    assert decayed[model.linear.weight] == 0.01
    assert decayed[model.linear.bias] == decayed[model.crf.transitions] == 0


def test_a_softmax_head_trains_no_transitions():
    rules = Constraints.from_scheme(["O", "B-X", "I-X"], "BIO")
    model = TaggerModel(Layered(), rules, head="softmax", mask="off", dropout=0.0)
    optimiser = build_optimiser(model, OptimSettings().resolved(pretrained=False))
    assert not {id(p) for group in optimiser.param_groups for p in group["params"]} & {
        id(p) for p in model.crf.parameters()
    }


def test_a_linear_schedule_rises_then_falls_towards_zero():
    settings = OptimSettings(schedule="linear", warm_up=0.2)
    assert [rate_factor(step, 10, settings) for step in range(10)] == pytest.approx(
        [0.5, 1.0, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    )
    constant = OptimSettings(schedule="constant", warm_up=0.2)
    assert {rate_factor(step, 10, constant) for step in range(10)} == {1.0}


def test_the_schedule_scales_every_group(model):
    optimiser = build_optimiser(model, OptimSettings().resolved(pretrained=True))
    set_rates(optimiser, 0.5)
    set_rates(optimiser, 0.25)
    assert all(group["lr"] == 0.25 * group["base"] for group in optimiser.param_groups)
