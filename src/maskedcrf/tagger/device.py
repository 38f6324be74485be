"""Which device a model is on: one rule for training, prediction and every command."""

from __future__ import annotations

import os

import torch

from maskedcrf.errors import MaskedCRFError


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device of this name, if this machine has it; `auto` is this process's GPU, or the CPU without one."""
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        # torchrun and accelerate tell each of a machine's processes its GPU.
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise MaskedCRFError(f"unknown device {str(name)!r}: say auto, cpu, cuda or cuda:1") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MaskedCRFError(f"no device {name}: this machine has {torch.cuda.device_count()} GPUs that torch can use")
    return device
