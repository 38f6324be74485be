"""Adam(W) with a rate for every layer: discriminative fine-tuning by true rates, not by scaled gradients.

Adam divides each gradient by its own size, so that multiplying gradients changes next to nothing: each layer needs a
parameter group with its own rate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from maskedcrf.tagger.model import TaggerModel
from maskedcrf.training.settings import OptimSettings


def layer_rates(top: float, decay: float, layers: int) -> list[float]:
    """The rate of each layer from the bottom up: r_{L-n} = r_L * eta^n."""
    return [top * decay ** (layers - 1 - number) for number in range(layers)]


def parameter_groups(model: TaggerModel, settings: OptimSettings) -> list[dict[str, Any]]:
    """Parameters with their rate and weight decay; `base` keeps the rate that the schedule scales."""
    assert settings.encoder_rate is not None, "settings are resolved"
    assert settings.weight_decay is not None, "settings are resolved"
    layers = model.encoder.layers()
    rates: dict[nn.Parameter, float] = {}
    for layer, rate in zip(layers, layer_rates(settings.encoder_rate, settings.layer_decay, len(layers)), strict=True):
        rates.update(dict.fromkeys(layer, rate))
    for parameter in model.crf.parameters():
        rates[parameter] = settings.crf_rate
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = parameter.ndim > 1 and not name.startswith("crf.")
            key = rates.get(parameter, settings.head_rate), settings.weight_decay if decays else 0.0
            groups.setdefault(key, []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "base": rate, "weight_decay": decay}
        for (rate, decay), parameters in groups.items()
    ]


def build_optimiser(model: TaggerModel, settings: OptimSettings) -> torch.optim.AdamW:
    """AdamW over the model's groups; without weight decay it is Adam."""
    # A GPU takes one kernel a group instead of a dozen; on a CPU the bytes of earlier versions stay.
    return torch.optim.AdamW(parameter_groups(model, settings), fused=model.device.type == "cuda")


def rate_factor(step: int, total: int, settings: OptimSettings) -> float:
    """What all rates are multiplied by at this step (from 0) of `total`."""
    if settings.schedule == "constant":
        return 1.0
    rise = round(settings.warm_up * total)
    if step < rise:
        return (step + 1) / rise
    return (total - step) / max(1, total - rise)


def set_rates(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Scale every group's rate."""
    for group in optimiser.param_groups:
        group["lr"] = group["base"] * factor
