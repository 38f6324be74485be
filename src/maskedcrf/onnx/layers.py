"""Layers as ONNX's own operators, for what torch's exporter would unroll or cannot say."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_TINY = 1e-20
"""In place of 0 as the largest of a row of zeros."""
_MOST = 64
"""Weights go from -64 to 64: with 8-bit activations, a sum of two products still fits into 16 bits.

Processors without VNNI add them up so, and would clip a larger sum: the same file then gave other tags there.
"""
SMALL_TABLE = 1024
"""Embeddings with fewer rows are left as they are: nothing is saved."""


class OnnxLSTM(nn.Module):
    """One direction of one layer; torch's tracer would unroll it to a fixed length."""

    def __init__(self, lstm: nn.Module) -> None:
        super().__init__()
        weights = {name: _to_onnx_gate_order(weight) for name, weight in lstm.named_parameters()}
        self.hidden = len(weights["weight_hh_l0"]) // 4
        self.input_weight = nn.Parameter(weights["weight_ih_l0"][None])
        self.state_weight = nn.Parameter(weights["weight_hh_l0"][None])
        self.bias = nn.Parameter(torch.cat((weights["bias_ih_l0"], weights["bias_hh_l0"]))[None])

    def forward(self, vectors: Tensor) -> tuple[Tensor, None]:
        """(B, T, H) -> (B, T, hidden)."""
        rows, length, _ = vectors.shape
        output = torch.onnx.ops.symbolic(
            "LSTM",
            (vectors.transpose(0, 1), self.input_weight, self.state_weight, self.bias),
            {"hidden_size": self.hidden},
            dtype=vectors.dtype,
            shape=(length, 1, rows, self.hidden),
        )
        return output.squeeze(1).transpose(0, 1), None


def _to_onnx_gate_order(weights: Tensor) -> Tensor:
    """The gates in ONNX's order: input, output, forget, cell; torch has the output gate last."""
    given, forget, cell, out = weights.detach().chunk(4)
    return torch.cat((given, out, forget, cell))


class Int8Linear(nn.Module):
    """A linear layer in 8 bits: each column of weights and each row of activations has a scale of its own.

    A row is scaled by its own largest value, never by its neighbours', so no answer depends on the batch.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        codes, scale = _quantize_rows(linear.weight.detach(), _MOST)
        self.codes = nn.Buffer(codes.t().contiguous())
        self.scale = nn.Buffer(scale.squeeze(1))
        self.bias = linear.bias
        self.middle = nn.Buffer(torch.tensor(128, dtype=torch.uint8))

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., H) -> (..., W)."""
        symbolic = torch.onnx.ops.symbolic
        rows = vectors.flatten(0, -2)
        largest = torch.maximum(rows.amax(dim=1), -rows.amin(dim=1)).clamp_min(_TINY)  # without a copy, as abs would be
        step = largest / 127
        given = (rows, step, torch.full_like(step, 128, dtype=torch.uint8))
        codes = symbolic("QuantizeLinear", given, {"axis": 0}, dtype=torch.uint8, shape=rows.shape)
        shape = (len(rows), self.codes.shape[1])
        sums = symbolic("MatMulInteger", (codes, self.codes, self.middle), dtype=torch.int32, shape=shape)
        product = sums.float() * self.scale * step[:, None]
        if self.bias is not None:
            product = product + self.bias
        return product.view(*vectors.shape[:-1], self.codes.shape[1])


class Int8Embedding(nn.Module):
    """A table in 8 bits, each row with a scale of its own."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        codes, scale = _quantize_rows(table.weight.detach(), 127)
        self.codes, self.scale = nn.Buffer(codes), nn.Buffer(scale)

    def forward(self, numbers: Tensor) -> Tensor:
        """(...) -> (..., W)."""
        codes, scale = (functional.embedding(numbers, table) for table in (self.codes, self.scale))
        return codes.float() * scale


def _quantize_rows(weights: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Rows of whole numbers from -most to most, and the scale of each row, (N, 1)."""
    scale = weights.abs().amax(dim=1, keepdim=True).clamp_min(_TINY) / most
    return (weights / scale).round().to(torch.int8), scale


def quantize_(module: nn.Module) -> int:
    """Put the module's linear layers and large tables into 8 bits, in place; returns how many these are."""
    changed = 0
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
            changed += 1
        elif isinstance(child, nn.Embedding) and child.num_embeddings >= SMALL_TABLE:
            setattr(module, name, Int8Embedding(child))
            changed += 1
        else:
            changed += quantize_(child)
    return changed
