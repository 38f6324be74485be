"""A bidirectional LSTM that padding cannot reach."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BiLSTM(nn.Module):
    """LSTM-n of the paper: each layer reads the sentence both ways; dropout before each layer."""

    def __init__(self, inputs: int, hidden: int, *, layers: int, dropout: float) -> None:
        super().__init__()
        self.width = 2 * hidden
        widths = [inputs] + [self.width] * (layers - 1)
        self.forwards = nn.ModuleList(nn.LSTM(width, hidden, batch_first=True) for width in widths)
        self.backwards = nn.ModuleList(nn.LSTM(width, hidden, batch_first=True) for width in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """(B, T, inputs), (B, T) -> (B, T, width); the words of a row stand first, its padding last.

        Padding comes after the words in both directions, since each row is turned round within its own
        length; so no packing is needed, and the lengths never leave the device.
        """
        # In full precision: under bfloat16 autocast cuDNN would compute in float16, whose gradients vanish unscaled.
        with torch.autocast(vectors.device.type, enabled=False):
            order, vectors = reversed_positions(mask)[..., None], vectors.float()
            for ahead, back in zip(self.forwards, self.backwards, strict=True):
                vectors = self.dropout(vectors)
                left, _ = ahead(vectors)
                right, _ = back(vectors.gather(1, order.expand_as(vectors)))
                vectors = torch.cat((left, right.gather(1, order.expand_as(right))), dim=-1)
        return vectors


def reversed_positions(mask: Tensor) -> Tensor:
    """Where each position of a row goes when its words are read backwards, (B, T); its own inverse."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - places, places)
