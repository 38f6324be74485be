"""BERT without padding: pieces of all rows in one, and rows apart only where pieces attend to each other.

On a core nearly all the time goes to products with weights. They are asked of oneDNN where torch has it: it adds biases
and applies activations as it goes, and on processors that torch's own library does not favour it takes half the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

KINDS = frozenset(("bert", "camembert", "roberta", "xlm-roberta"))
"""Model types built of BERT's embeddings and layers, under BERT's names."""
PRODUCTS = ("query", "key", "value", "dense")
FUSED = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}
"""Activations that oneDNN applies with a product, and how."""
ONEDNN: bool = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")  # type: ignore[no-untyped-call]
"""Whether torch has oneDNN's product, which torch's compiler calls, too, and offers nobody by a public name."""
MIN_SUM, MAX_SUM = 1e-20, 1e20
"""Sums of exponentials between these are as exact as if a maximum had been taken off first."""
MAX_SCORES_PER_BLOCK = 1 << 18
"""Scores between pieces at a time, unless one row has more: they stay in the core's cache."""
SHORT = 512
"""Pieces in a row whose scores are all kept at once."""


def can_pack(model: Any) -> bool:
    """Whether `forward_unpadded` can replace the model: a known type, in 32 bits, no part exchanged for another."""
    config = model.config
    if config.model_type not in KINDS or config.is_decoder or model.dtype != torch.float32:
        return False
    return all(type(part) is nn.Linear for name, part in model.encoder.named_modules() if name.endswith(PRODUCTS))


def forward_unpadded(model: Any, pieces: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    """What `model` in evaluation makes of rows of pieces (R, P), read at flat places of any shape: (..., H).

    Products with weights know nothing of rows. Rows of one length, side by side, attend at once, and none needs a
    mask. Above the last attention only pieces that are read go on.
    """
    hidden = _embed(model.embeddings, pieces, mask)
    numbers = mask.flatten().cumsum(dim=0) - 1
    read, places = torch.unique(numbers[places], return_inverse=True)
    lengths, counts = torch.unique_consecutive(mask.sum(dim=1), return_counts=True)
    blocks = _blocks(counts.tolist(), lengths.tolist(), model.config.num_attention_heads)
    attended = torch.empty_like(hidden)
    for layer in model.encoder.layer:
        own = layer.attention.self
        parts = [_product(part, hidden) for part in (own.query, own.key, own.value)]
        _attend(parts, blocks, own.num_attention_heads, attended)
        if layer is model.encoder.layer[-1]:
            attended, hidden = attended[read], hidden[read]
        hidden = _residual_norm(layer.attention.output, attended, hidden)
        hidden = _residual_norm(layer.output, _activated(layer.intermediate, hidden, model.config.hidden_act), hidden)
    return hidden[places]


def _embed(embeddings: Any, pieces: Tensor, mask: Tensor) -> Tensor:
    """What a model begins with, (N, H); RoBERTa's positions begin behind the number of its padding."""
    first = getattr(embeddings, "padding_idx", -1) + 1
    there, columns = pieces[mask][None], mask.nonzero()[None, :, 1]
    found: Tensor = embeddings(input_ids=there, position_ids=columns + first, token_type_ids=torch.zeros_like(there))
    return found[0]


def _product(layer: nn.Linear, vectors: Tensor, activation: tuple[str, str] = ("none", "")) -> Tensor:
    """What the layer makes of vectors (N, H)."""
    if not ONEDNN:
        return linear(vectors, layer.weight, layer.bias)
    name, kind = activation
    return torch.ops.mkldnn._linear_pointwise(vectors, layer.weight, layer.bias, name, [], kind)  # type: ignore[no-any-return]


def _activated(intermediate: Any, hidden: Tensor, name: str) -> Tensor:
    """The wide part of a layer: a product and its activation."""
    if ONEDNN and name in FUSED:
        return _product(intermediate.dense, hidden, FUSED[name])
    return intermediate.intermediate_act_fn(_product(intermediate.dense, hidden))  # type: ignore[no-any-return]


def _residual_norm(output: Any, vectors: Tensor, hidden: Tensor) -> Tensor:
    """What a part of a layer gives, added to what it was given, normed."""
    return output.LayerNorm(_product(output.dense, vectors).add_(hidden))  # type: ignore[no-any-return]


def _blocks(counts: list[int], lengths: list[int], heads: int) -> list[tuple[int, int]]:
    """So many rows of each length as (rows, length): one row, or at most `MAX_SCORES_PER_BLOCK` scores in each."""
    blocks = []
    for count, length in zip(counts, lengths, strict=True):
        most = max(1, MAX_SCORES_PER_BLOCK // (heads * length**2))
        blocks += [(min(most, count - start), length) for start in range(0, count, most)]
    return blocks


def _attend(parts: Sequence[Tensor], blocks: list[tuple[int, int]], heads: int, out: Tensor) -> None:
    """Queries, keys and values (N, H) of blocks of (rows, length) to what each piece takes from its row, (N, H).

    Weights are exponentials of the scores as they are, divided by their sum at the end: on rows as short as text is, a
    softmax costs three times that. Where sums leave the bounds, torch's own attention does it.
    """
    sums = out.new_empty(len(out), heads)
    by_block = list(zip(*(_by_head(part, blocks, heads) for part in (*parts, out, sums)), strict=True))
    for block, (_, length) in zip(by_block, blocks, strict=True):
        (_attend_unnormalised if length <= SHORT else _attend_sdpa)(*block)
    low, high = torch.aminmax(sums)
    if not (low > MIN_SUM and high < MAX_SUM):
        for block in by_block:
            _attend_sdpa(*block)
    out.view(len(out), heads, -1).div_(sums[..., None])


def _by_head(part: Tensor, blocks: list[tuple[int, int]], heads: int) -> list[Tensor]:
    """Views (rows, heads, length, ...) of the blocks of (N, heads * ...)."""
    split = torch.split(part, [rows * length for rows, length in blocks])
    return [own.view(*block, heads, -1).transpose(1, 2) for own, block in zip(split, blocks, strict=True)]


def _attend_unnormalised(query: Tensor, key: Tensor, value: Tensor, found: Tensor, total: Tensor) -> None:
    """Values times exponentials of scores, and these alone, summed over keys: (rows, heads, length, ...)."""
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    weights = torch.baddbmm(query.new_empty(()), query, key.mT, beta=0, alpha=query.shape[2] ** -0.5).exp_()
    found.copy_(torch.bmm(weights, value).view(found.shape))
    total.copy_(weights.sum(dim=2).view(total.shape))


def _attend_sdpa(query: Tensor, key: Tensor, value: Tensor, found: Tensor, total: Tensor) -> None:
    """The same for scores of any size and number, by torch: divided by their sum already."""
    found.copy_(scaled_dot_product_attention(query, key, value))
    total.fill_(1)
