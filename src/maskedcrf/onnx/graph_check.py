"""The graph of a model.onnx: its Viterbi is ours byte for byte, its rules are those of its tags, the rest is plain.

A file from elsewhere may name any operator: a loop of 2^62 rounds, a tensor of 2^30 zeros. Only those that encoders of
ours are exported with are let through, every weight must be a number, and the rules are read back from the constants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedcrf.onnx.crf_graph import PREFIX, crf_constants
from maskedcrf.onnx.protobuf import DamagedError, fields, numbers
from maskedcrf.tags.constraints import Constraints

CRF_NODES = 22
"""How many nodes the CRF has in the graph: the last ones."""
CRF_DIGEST = "3ff6b93f0b005ad3cef678ec9595252be6b4438804c3a47b01e80f88d6bcf12f"
"""Of these nodes as they stand in a file."""
MAX_NODES = 50_000
OPERATORS = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "ArgMax",
        "Cast",
        "Ceil",
        "Clip",
        "Concat",
        "ConstantOfShape",
        "Conv",
        "Cos",
        "CumSum",
        "Div",
        "Equal",
        "Erf",
        "Exp",
        "Expand",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Gelu",
        "Gemm",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "IsNaN",
        "LSTM",
        "LayerNormalization",
        "Less",
        "LessOrEqual",
        "Log",
        "MatMul",
        "MatMulInteger",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Pad",
        "Pow",
        "QuantizeLinear",
        "Range",
        "Reciprocal",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceSum",
        "Relu",
        "Reshape",
        "Round",
        "ScatterND",
        "Shape",
        "Sigmoid",
        "Sign",
        "Sin",
        "Slice",
        "Softmax",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tanh",
        "Tile",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
    ]
)
"""What encoders are exported as. None of them has a graph inside, so none can loop."""
_TRUST = "if you know who made it, say --trust, or trusted=True"
Scores = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Transitions (D, D), start and end (D,), -inf where illegal."""
_DTYPES: dict[int, Any] = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_}
_DTYPES |= {10: np.float16, 11: np.float64}
_BFLOAT16 = 16
_OTHER_FORMS = {4, 5, 6, 7, 10, 11}
"""Fields of a tensor that hold its values one by one, not as raw bytes."""


class GraphError(Exception):
    """What is wrong with a graph, as a sentence that a file's name goes before."""


@dataclass
class _Node:
    operator: str = ""
    domain: str = ""
    inputs: list[str] = field(default_factory=list)
    has_graph: bool = False


def check_graph(content: bytes, rules: Constraints | None, *, states: int) -> Scores:
    """Check the graph of a model of so many tags, and give its scores; `rules` are None if its mask is off."""
    graph = _graph(memoryview(content))
    nodes = [bytes(value) for number, value in fields(graph) if number == 1 and isinstance(value, memoryview)]
    tensors = _tensors(graph)
    if len(nodes) > MAX_NODES:
        raise GraphError(f"more than {MAX_NODES:,} operators; {_TRUST}")
    if hashlib.sha256(b"".join(nodes[-CRF_NODES:])).hexdigest() != CRF_DIGEST:
        raise GraphError("the search for the best path in it is not that of maskedcrf; export the model again")
    for node in nodes[:-CRF_NODES]:
        _check_node(_node(memoryview(node)), tensors.keys())
    for name, tensor in tensors.items():
        _check_numbers(name, tensor)
    return _check_rules(tensors, rules, states)


def read_scores(content: bytes, *, states: int) -> Scores:
    """The scores in the graph of a model of so many tags, which is trusted to be one of ours otherwise."""
    return _check_rules(_tensors(_graph(memoryview(content))), None, states)


def digest_rules(tags: Sequence[str], scores: Scores) -> str:
    """Equal for equal tags in the same order under the same rules."""
    rules = b"".join(np.packbits(np.isfinite(part)).tobytes() for part in scores)
    return hashlib.sha256("\n".join(tags).encode() + b"\0" + rules).hexdigest()


def _graph(model: memoryview) -> memoryview:
    parts = list(fields(model))
    if any(number == 25 for number, _ in parts):
        raise GraphError(f"it defines operators of its own; {_TRUST}")
    graphs = [value for number, value in parts if number == 7 and isinstance(value, memoryview)]
    if len(graphs) != 1:  # a library would merge several
        raise GraphError("it has no graph, or several; export the model again")
    return graphs[0]


def _node(message: memoryview) -> _Node:
    node = _Node()
    for number, value in fields(message):
        if not isinstance(value, memoryview):
            continue
        if number == 1:
            node.inputs.append(bytes(value).decode("utf-8", "replace"))
        elif number == 4:
            node.operator = bytes(value).decode("utf-8", "replace")
        elif number == 7:
            node.domain = bytes(value).decode("utf-8", "replace")
        elif number == 5:
            node.has_graph |= any(part in (6, 11) for part, _ in fields(value))
    return node


def _check_node(node: _Node, constants: Any) -> None:
    if node.domain not in ("", "ai.onnx") or node.operator not in OPERATORS or node.has_graph:
        raise GraphError(f"it has an operator {node.operator!r:.40}, which no model of maskedcrf has; {_TRUST}")
    if all(name in constants for name in node.inputs if name):
        raise GraphError(f"it computes {node.operator} of constants alone, which no export leaves to do; {_TRUST}")


def _tensors(graph: memoryview) -> dict[str, NDArray[Any]]:
    """All weights by name."""
    tensors = dict[str, NDArray[Any]]()
    for number, value in fields(graph):
        if number == 15:
            raise GraphError(f"it has sparse weights, which no model of maskedcrf has; {_TRUST}")
        if number == 5 and isinstance(value, memoryview):
            name, tensor = _tensor(value)
            if name in tensors:  # which of them counts is the library's choice
                raise GraphError(f"it has two weights {name!r:.60}; export the model again")
            tensors[name] = tensor
    return tensors


def _tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    """Name and values of a tensor."""
    parts, dims = dict[int, Any](), list[int]()
    for number, value in fields(message):
        parts[number] = value
        dims += numbers(value) if number == 1 and value is not None else []
    name = bytes(parts.get(8, b"")).decode("utf-8", "replace")
    kind, raw = parts.get(2, 0), parts.get(9, b"")
    if parts.keys() & _OTHER_FORMS:
        raise GraphError(f"weights {name!r:.60} are not written as export writes them; {_TRUST}")
    dtype = np.dtype(np.uint16 if kind == _BFLOAT16 else _DTYPES.get(kind, np.uint8))
    if kind not in _DTYPES and kind != _BFLOAT16:
        raise GraphError(f"weights {name!r:.60} are of a type that no model of maskedcrf has; {_TRUST}")
    if len(raw) != dtype.itemsize * int(np.prod(dims, dtype=object)):
        raise DamagedError("cut short or no ONNX file; fetch it again or export the model again")
    try:
        values = np.frombuffer(raw, dtype.newbyteorder("<")).reshape(dims)
    except (ValueError, OverflowError) as error:  # nothing, in 65 dimensions or of size 2^62
        raise DamagedError(f"weights {name!r:.60} have a shape that no array has") from error
    return name, (values.astype(np.uint32) << 16).view(np.float32) if kind == _BFLOAT16 else values


def _check_numbers(name: str, tensor: Any) -> None:
    """No NaN; infinities in the rules and as one number to fill with, never among weights."""
    with np.errstate(over="ignore", invalid="ignore"):
        if tensor.dtype.kind != "f" or np.isfinite(tensor.sum()):  # a sum is finite only if all its parts are
            return
    if np.isnan(tensor).any() or (tensor.size > 1 and not name.startswith(PREFIX) and np.isinf(tensor).any()):
        raise GraphError(f"weights {name!r:.60} hold NaN or infinity; export the model again")


def _check_rules(tensors: dict[str, Any], rules: Constraints | None, states: int) -> Scores:
    """The rules in the constants are those of the tags; all other constants are those of the search."""
    steps, end = (tensors.get(PREFIX + name) for name in ("steps", "end"))
    if steps is None or end is None or steps.shape != (states + 1, states + 1) or end.shape != (states + 1,):
        raise GraphError("it has more or fewer tags than its description says; export the model again")
    transitions, start = steps[:states, :states].T, steps[:states, states]
    for name, expected in crf_constants(transitions, start, end[:states]):
        found = tensors.get(PREFIX + name)
        if found is None or found.dtype != expected.dtype or not np.array_equal(found, expected):
            raise GraphError(f"its constant {name!r} is not that of maskedcrf; export the model again")
    scores = (transitions, start, end[:states])
    if any(np.isposinf(part).any() for part in scores):
        raise GraphError("its rules hold infinite scores; export the model again")
    if rules is not None:
        for found, wanted in zip(scores, (rules.legal, rules.start, rules.end), strict=True):
            if not np.array_equal(np.isfinite(found), wanted):
                raise GraphError("its tags and the rules in its graph are not of one model; export the model again")
    return scores
