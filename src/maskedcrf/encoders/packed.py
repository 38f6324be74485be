"""BERT without padding: pieces of all rows in one, and rows apart only where pieces attend to each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

KINDS = frozenset(("bert", "camembert", "roberta", "xlm-roberta"))
"""Model types built of BERT's embeddings and layers, under BERT's names."""


def packs(model: Any) -> bool:
    """Whether `packed` can take the model's place."""
    return model.config.model_type in KINDS and not model.config.is_decoder


def packed(model: Any, pieces: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    """What `model` in evaluation makes of rows of pieces (R, P), read at flat places of any shape: (..., H).

    Nearly all the work is products with weights, which know nothing of rows. Rows of one length, side by side, attend
    at once, and none needs a mask. Above the last attention only pieces that are read go on.
    """
    hidden: Tensor = model.embeddings(input_ids=pieces)[mask]
    numbers = mask.flatten().cumsum(dim=0) - 1
    read, places = torch.unique(numbers[places], return_inverse=True)
    lengths, counts = torch.unique_consecutive(mask.sum(dim=1), return_counts=True)
    blocks = list(zip(counts.tolist(), lengths.tolist(), strict=True))
    for layer in model.encoder.layer:
        own = layer.attention.self
        parts = [product(hidden) for product in (own.query, own.key, own.value)]
        attended = _attended(parts, blocks, (own.num_attention_heads, own.attention_head_size))
        if layer is model.encoder.layer[-1]:
            attended, hidden = attended[read], hidden[read]
        hidden = layer.attention.output(attended, hidden)
        hidden = layer.output(layer.intermediate(hidden), hidden)
    return hidden[places]


def _attended(parts: list[Tensor], blocks: list[tuple[int, int]], heads: tuple[int, int]) -> Tensor:
    """Queries, keys and values (N, H) of blocks of (rows, length) to what each piece takes from its row, (N, H)."""
    sizes = [rows * length for rows, length in blocks]
    found = []
    for block, *own in zip(blocks, *(torch.split(part, sizes) for part in parts), strict=True):
        by_head = (part.view(*block, *heads).transpose(1, 2) for part in own)
        found.append(scaled_dot_product_attention(*by_head).transpose(1, 2).reshape(-1, parts[0].shape[1]))
    return torch.cat(found)
