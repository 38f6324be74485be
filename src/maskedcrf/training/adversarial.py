"""Adversarial training (FGM, Miyato et al. 2017): each step also learns the batch with its embeddings made worse.

The tables of pieces, words and characters take a step up the gradient of the loss, the batch is learnt once more from
there, and the tables go back to where they were before the optimiser sees any of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from maskedcrf.training.distributed import ProcessGroup

_NOT_OF_THE_TEXT = ("position_embeddings", "token_type_embeddings")
"""Tables of a transformer that every text shares: moving one of them would move all words at once."""


def embedding_tables(encoder: nn.Module) -> list[Tensor]:
    """The embeddings of the encoder's vocabularies that are trained."""
    named = [(name, module.weight) for name, module in encoder.named_modules() if isinstance(module, nn.Embedding)]
    return [weight for name, weight in named if weight.requires_grad and not name.endswith(_NOT_OF_THE_TEXT)]


@contextmanager
def perturbed(encoder: nn.Module, size: float, processes: ProcessGroup) -> Iterator[None]:
    """While this lasts a table lies `size` up its gradient, in all processes alike; afterwards as before, to the bit.

    Only the gradient's direction counts, so that one scaled for half precision does as well.
    """
    found = embedding_tables(encoder)
    own = [table.detach().clone() for table in found]
    with torch.no_grad():
        for table in found:
            table += ascent_step(processes.all_reduced_gradient(table), size)
    try:
        yield
    finally:
        with torch.no_grad():
            for table, value in zip(found, own, strict=True):
                table.copy_(value)


def ascent_step(gradient: Tensor, size: float) -> Tensor:
    """A step of this size up the gradient; none where the gradient has no direction."""
    norm = torch.linalg.vector_norm(gradient)
    # Decided on the device: to ask would have the host wait for the GPU.
    return torch.where((norm > 0) & norm.isfinite(), gradient / norm * size, 0)
