"""Checkpoints: everything a run needs to go on as if it had never stopped, in safetensors and JSON.

Random numbers are not among it: those of a step follow from seed, step and rank alone (`randomness`), and so does
the order of the data. A checkpoint is a folder that appears whole or not at all.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from maskedcrf.errors import MaskedCRFError
from maskedcrf.folders import atomic_folder
from maskedcrf.tagger.folder import cpu_state_dict, read_json, save_weights, write_json
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.weights import digest_weights

_NAME = re.compile(r"step-(\d{9})")


@dataclass
class State:
    """Where a run stands."""

    step: int = 0
    """Optimiser steps done; with the steps an epoch has, also the place in the data's order."""
    best: list[float] = field(default_factory=lambda: [-1.0, 0.0])
    """Best dev F1, and minus the dev loss, which decides between epochs of equal F1."""
    best_epoch: int = 0
    """That epoch, from 1; 0 while there is none."""
    lowest_loss: float | None = None
    """Of dev, over the epochs so far."""
    bad_epochs: int = 0
    """Epochs without a better F1 or a lower loss on dev."""
    loss_sum: float = 0.0
    """Of the epoch under way."""
    finished: bool = False
    scaler: dict[str, Any] = field(default_factory=dict)
    """Of the gradient scaler, in fp16 only."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry an epoch: loss, dev scores."""


def save_checkpoint(
    work: Path,
    state: State,
    *,
    model: TaggerModel,
    optimiser: torch.optim.Optimizer,
    best: dict[str, Tensor] | None,
    average: dict[str, Tensor],
    fingerprint: str,
) -> None:
    """Write the checkpoint of this step, then delete older ones; if it cannot be written the last good one stays."""
    target = work / f"step-{state.step:09d}"
    tensors, groups = flat_optimiser(optimiser)
    parts = {"model": cpu_state_dict(model), "optimiser": tensors}
    parts |= {} if best is None else {"best": {name: value.cpu() for name, value in best.items()}}
    parts |= {"average": {name: value.cpu() for name, value in average.items()}} if average else {}
    saved = {"fingerprint": fingerprint, "groups": groups, "state": asdict(state)}
    with atomic_folder(target) as aside:
        for name, weights in parts.items():
            save_weights(weights, aside / f"{name}.safetensors")
        digests = {name: digest_weights(weights) for name, weights in parts.items()}
        write_json(aside / "state.json", {**saved, "digests": digests})
    for older in checkpoints(work)[:-1]:
        shutil.rmtree(older, ignore_errors=True)


def load_checkpoint(
    work: Path,
    *,
    model: TaggerModel,
    optimiser: torch.optim.Optimizer,
    average: dict[str, Tensor],
    fingerprint: str,
) -> tuple[State, dict[str, Tensor] | None]:
    """Put model, optimiser and average back to the newest checkpoint; a fresh state where there is none."""
    found = checkpoints(work)
    if not found:
        return State(), None
    newest = found[-1]
    saved = read_json(newest / "state.json")
    if not isinstance(saved, dict) or not saved.keys() >= {"fingerprint", "groups", "state"}:
        raise MaskedCRFError(f"{newest}: damaged checkpoint (state.json is not whole); overwrite the run")
    if saved["fingerprint"] != fingerprint:
        raise MaskedCRFError(
            f"{work}: a run with other settings or data was stopped here; overwrite it, or give another output folder"
        )
    try:
        parts = _read_parts(newest, saved.get("digests", {}))
        model.load_state_dict(parts["model"])
        restore_optimiser(optimiser, parts["optimiser"], saved["groups"])
        for name, value in average.items():
            value.copy_(parts["average"][name])
        return State(**saved["state"]), parts.get("best")
    except (SafetensorError, RuntimeError, TypeError, AttributeError, KeyError, ValueError, OSError) as error:
        raise MaskedCRFError(
            f"{newest}: damaged checkpoint ({str(error).splitlines()[0]}); overwrite the run"
        ) from error


def _read_parts(checkpoint: Path, digests: dict[str, str]) -> dict[str, dict[str, Tensor]]:
    """The tensors of each file, as they were saved; checkpoints of older versions have no digests to compare."""
    parts = {path.stem: load_file(path) for path in checkpoint.glob("*.safetensors")}
    for name, digest in digests.items():
        if digest_weights(parts.get(name, {})) != digest:
            raise ValueError(f"{name}.safetensors is not the one that state.json was saved with")
    return parts


def checkpoints(work: Path) -> list[Path]:
    """The checkpoints in a folder, the newest last."""
    return sorted(path for path in work.glob("step-*") if _NAME.fullmatch(path.name))


def flat_optimiser(optimiser: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The optimiser's state as flat tensors, `exp_avg.3`, and its groups as plain values."""
    state = optimiser.state_dict()
    tensors = {
        f"{name}.{number}": value.detach().cpu().clone().contiguous()
        for number, values in state["state"].items()
        for name, value in values.items()
    }
    return tensors, state["param_groups"]


def restore_optimiser(
    optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], groups: list[dict[str, Any]]
) -> None:
    """The inverse of `flat_optimiser`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, number = key.rsplit(".", 1)
        state.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": groups})
