"""Somebody's ONNX graph with the legal Viterbi behind its logits; the rest of it stays as it is.

The graph's own outputs stay, and two are added: `tags` (B, T), columns of the logits or -100 where no tag stands, and
`log_probability` (B,) of that path. The lattice runs where `word_mask` is on, an input that is added: first pieces of
words, say. With `positions="all"` it runs wherever the graph's attention mask is on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from maskedcrf import __version__
from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.errors import ConstraintError, MaskedCRFError, MissingExtraError
from maskedcrf.onnx.crf_graph import OPSET, OUTPUTS, PREFIX, append_crf, crf_model
from maskedcrf.onnx.export import write_file
from maskedcrf.onnx.file import LARGEST, OnnxFileError
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.labels import LabelReport, Labels
from maskedcrf.tags.scheme import Scheme

Positions = Literal["words", "all"]
WORD_MASK = "word_mask"
RESERVED = (WORD_MASK, *OUTPUTS)
"""Names of the input and the outputs that are added."""
KEY = "maskedcrf.adopted"
"""Under this key the file's metadata says what its labels were read as."""
OLDEST_OPSET = 13
EXAMPLE_SHAPE = 2, 6
TOLERANCE = 1e-4
_EDGES = ("start", "end")


@dataclass(frozen=True, slots=True)
class AdoptedFile:
    """What was understood, and how the file compares with the graph it was made from."""

    path: str
    report: LabelReport
    logits: str
    """The output whose scores the paths are over."""
    inputs: tuple[str, ...]
    """Of the new file."""
    example_tags: int
    """Tags of a made-up example, each equal to what the layer decodes."""


def adopt_onnx(
    source: str | Path,
    target: str | Path,
    *,
    labels: Labels,
    scheme: str | Scheme = "auto",
    positions: Positions = "words",
    transitions: ArrayLike | None = None,
    logits: str | None = None,
) -> AdoptedFile:
    """Write the graph of `source` with the Viterbi over legal paths behind its logits, checked on a made-up example.

    Args:
        source: an ONNX file one of whose outputs is (batch, positions, columns).
        target: the file to write, whole or not at all.
        labels: the label of each column.
        scheme: the labels' scheme; "auto" reads it off their prefixes.
        positions: "words" adds the input `word_mask`; "all" takes the positions of `attention_mask`, or every one.
        transitions: scores [from, to] of a CRF that the graph's maker has, over all columns; 0 if left out.
        logits: the output's name, if more than one could be it.
    """
    if positions not in get_args(Positions):
        raise MaskedCRFError(f"positions are {' or '.join(get_args(Positions))}, got {positions!r}")
    model = _read(Path(source))
    output = _logits_of(model, source, logits)
    width = output.type.tensor_type.shape.dim[2].dim_value
    try:
        rules = Constraints.from_labels(labels, scheme, columns=width or None)
    except ConstraintError as error:
        raise OnnxFileError(f"{source}: {error}") from error
    scores = _scores(rules, transitions, source)
    used_names = {value.name for value in (*model.graph.input, *model.graph.output, *model.graph.initializer)}
    used_names |= {name for node in model.graph.node for name in node.output}
    clash = sorted(name for name in used_names if name in RESERVED or name.startswith(PREFIX))
    if clash:
        raise OnnxFileError(f"{source}: it has a tensor {clash[0]!r} already, a name the Viterbi needs; rename it")
    original = model.SerializeToString()
    inputs = _append(model, output, rules, scores, positions)
    assert rules.report is not None, "rules read from labels have a report"
    description = {"version": __version__, "labels": rules.report.to_json()}
    model.metadata_props.add(key=KEY, value=json.dumps(description, ensure_ascii=False))
    compared = _check(original, model.SerializeToString(), output.name, rules, scores, str(source))
    write_file(model, Path(target))
    return AdoptedFile(str(target), rules.report, output.name, inputs, compared)


def _read(path: Path) -> Any:
    """The model, checked as bytes: whole, of a readable size, with all its weights inside."""
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("adopting an ONNX file needs ONNX: pip install 'maskedcrf[onnx]'") from error
    if not path.is_file():
        raise OnnxFileError(f"{path}: no such file; give an ONNX file")
    if path.stat().st_size >= LARGEST:
        raise OnnxFileError(f"{path}: larger than 2 GiB, the most an ONNX file can hold")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf's and onnx's errors have no common base
        raise OnnxFileError(f"{path}: not a sound ONNX file ({str(error).strip().splitlines()[0]})") from error
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise OnnxFileError(f"{path}: its weights are in other files; save it as one file, with all weights inside")
    if _opset(model) < OLDEST_OPSET:
        raise OnnxFileError(
            f"{path}: of opset {_opset(model)}; convert it to {OLDEST_OPSET} or later (onnx.version_converter)"
        )
    return model


def _opset(model: Any) -> int:
    return max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)


def _logits_of(model: Any, source: str | Path, name: str | None) -> Any:
    """The output that holds a score for each position and column."""
    import onnx

    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    found = [each for each in model.graph.output if name in (None, each.name)]
    found = [each for each in found if each.type.tensor_type.elem_type in floats]
    found = [each for each in found if len(each.type.tensor_type.shape.dim) == 3]
    if len(found) != 1:
        names = ", ".join(each.name for each in model.graph.output)
        raise OnnxFileError(
            f"{source}: {len(found) or 'no'} output{'s' * (len(found) != 1)} of (batch, positions, columns) among "
            f"{names}; name the logits with --logits"
        )
    return found[0]


def _scores(rules: Constraints, transitions: ArrayLike | None, source: str | Path) -> dict[str, NDArray[np.float64]]:
    """Transition, start and end scores of the kept columns, -inf where illegal."""
    assert rules.report is not None, "rules read from labels have a report"
    kept, size = list(rules.report.columns), len(rules)
    given = np.zeros((size, size)) if transitions is None else np.asarray(transitions, dtype=np.float64)
    if given.shape != (size, size):
        raise OnnxFileError(f"{source}: transitions must be {(size, size)}, as many as columns, got {given.shape}")
    cut = np.ix_(kept, kept)
    if not np.isfinite(given[cut][rules.legal[cut]]).all():
        raise OnnxFileError(f"{source}: transitions of legal steps must be finite")
    scores = {"transitions": np.where(rules.legal[cut], given[cut], -np.inf)}
    return scores | {name: np.where(getattr(rules, name)[kept], 0.0, -np.inf) for name in _EDGES}


def _append(
    model: Any, output: Any, rules: Constraints, scores: Mapping[str, NDArray[np.float64]], positions: Positions
) -> tuple[str, ...]:
    """Put the Viterbi behind the logits, in place; returns the names of the inputs."""
    import onnx
    from onnx import helper, numpy_helper

    graph = model.graph
    assert rules.report is not None, "rules read from labels have a report"
    kept = np.array(rules.report.columns)
    outputs = list(graph.output)
    constants = {"columns": kept, "not_labelled": np.array(-100), "first_column": np.array(0)}
    graph.initializer.extend(numpy_helper.from_array(value, PREFIX + name) for name, value in constants.items())
    if positions == "words":
        shape = [_axis(output, 0, "batch"), _axis(output, 1, "positions")]
        graph.input.append(helper.make_tensor_value_info(WORD_MASK, onnx.TensorProto.BOOL, shape))
        graph.node.append(helper.make_node("Identity", [WORD_MASK], [PREFIX + "mask"]))
    else:
        graph.node.extend(_position_mask(graph, output.name))
    scored = [
        helper.make_node("Cast", [output.name], [PREFIX + "logits"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Gather", [PREFIX + "logits", PREFIX + "columns"], [PREFIX + "emissions"], axis=2),
    ]
    graph.node.extend(scored)
    crf = _for_opset(crf_model(*(scores[name] for name in ("transitions", *_EDGES))), _opset(model))
    append_crf(model, crf, kept=OUTPUTS)
    # The path is over the kept columns; what goes out are columns of the logits.
    path = PREFIX + "kept_tags"
    for node in graph.node:
        node.output[:] = [path if name == "tags" else name for name in node.output]
    named = [
        helper.make_node("Max", [path, PREFIX + "first_column"], [PREFIX + "tag_or_first"]),
        helper.make_node("Gather", [PREFIX + "columns", PREFIX + "tag_or_first"], [PREFIX + "tag_columns"]),
        helper.make_node("Less", [path, PREFIX + "first_column"], [PREFIX + "no_tag"]),
        helper.make_node("Where", [PREFIX + "no_tag", PREFIX + "not_labelled", PREFIX + "tag_columns"], ["tags"]),
    ]
    graph.node.extend(named)
    added = list(graph.output)
    del graph.output[:]
    graph.output.extend([*outputs, *added])
    return tuple(each.name for each in graph.input)


def _axis(output: Any, number: int, name: str) -> int | str:
    dimension = output.type.tensor_type.shape.dim[number]
    return dimension.dim_value or dimension.dim_param or name


def _position_mask(graph: Any, logits: str) -> list[Any]:
    """Every position that the attention mask has, or every one."""
    import onnx
    from onnx import helper, numpy_helper

    if any(each.name == "attention_mask" for each in graph.input):
        return [helper.make_node("Cast", ["attention_mask"], [PREFIX + "mask"], to=onnx.TensorProto.BOOL)]
    constants = {"begin": np.array([0]), "two": np.array([2]), "on": np.array(True)}
    graph.initializer.extend(numpy_helper.from_array(value, f"{PREFIX}all_{n}") for n, value in constants.items())
    own = [PREFIX + name for name in ("all_begin", "all_two", "all_on", "all_shape", "all_sizes")]
    begin, two, on, shape, sizes = own
    return [
        helper.make_node("Shape", [logits], [shape]),
        helper.make_node("Slice", [shape, begin, two], [sizes]),
        helper.make_node("Expand", [on, sizes], [PREFIX + "mask"]),
    ]


def _for_opset(crf: Any, opset: int) -> Any:
    """The Viterbi in the words of an older opset, so that the graph before it need not be converted."""
    if opset >= OPSET:
        return crf
    import onnx
    from onnx import helper, numpy_helper

    constants = {each.name: numpy_helper.to_array(each) for each in crf.graph.initializer}
    bodies = [each.g for node in crf.graph.node for each in node.attribute if each.name == "body"]
    for graph in [*bodies, crf.graph]:  # bodies first: the nodes that hold them are copied
        nodes = []
        for node in graph.node:
            if node.op_type in ("ReduceMax", "ReduceLogSumExp") and opset < 18:
                axes = helper.make_attribute("axes", constants[node.input[1]].tolist())
                del node.input[1:]
                node.attribute.append(axes)
            if node.op_type == "Shape" and opset < 15:
                (name,) = node.output
                whole = helper.make_node("Shape", [node.input[0]], [f"{name}_whole"])
                first = np.array([0]), np.array([1])
                for end, value in zip(("begin", "end"), first, strict=True):
                    crf.graph.initializer.append(numpy_helper.from_array(value, f"{name}_{end}"))
                nodes += [whole, helper.make_node("Slice", [f"{name}_whole", f"{name}_begin", f"{name}_end"], [name])]
                continue
            nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
        del graph.node[:]
        graph.node.extend(nodes)
    return crf


def _check(
    original: bytes,
    adopted: bytes,
    logits: str,
    rules: Constraints,
    scores: Mapping[str, NDArray[np.float64]],
    where: str,
) -> int:
    """Run both on a made-up example: the same logits, and the path that the layer decodes from them."""
    import onnxruntime

    def run(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        fed = {each.name: _example(each) for each in session.get_inputs()}
        names = [each.name for each in session.get_outputs()]
        return fed, dict(zip(names, session.run(names, fed), strict=True))

    try:
        _, before = run(original)
        fed, after = run(adopted)
    except Exception as error:  # onnxruntime's errors have no common base of their own
        reason = str(error).strip().splitlines()[0]
        raise OnnxFileError(f"{where}: a made-up example cannot be run ({reason}); nothing was written") from error
    if not np.allclose(before[logits], after[logits], atol=TOLERANCE):
        raise OnnxFileError(f"{where}: its logits changed, which must not happen; nothing was written")
    emissions = torch.from_numpy(np.asarray(after[logits], dtype=np.float64))
    mask = torch.from_numpy(fed.get(WORD_MASK, np.ones(emissions.shape[:2], dtype=bool)))
    expected = _decode(emissions, mask, rules, scores)
    found = np.asarray(after["tags"])
    if found.shape != expected.shape or (found != expected).any():
        raise OnnxFileError(f"{where}: the file decodes otherwise than the layer; nothing was written")
    return int((found >= 0).sum())


def _decode(
    emissions: torch.Tensor, mask: torch.Tensor, rules: Constraints, scores: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.int64]:
    assert rules.report is not None, "rules read from labels have a report"
    assert rules.scheme is not None, "rules read from labels have a scheme"
    kept = torch.tensor(rules.report.columns)
    own = Constraints.from_scheme([rules.tags[column] for column in rules.report.columns], rules.scheme)
    with torch.random.fork_rng(devices=[]):
        crf = MaskedCRF(own, mask="decode").double()
    with torch.no_grad():
        for name, target in (
            ("transitions", crf.transitions),
            ("start", crf.start_transitions),
            ("end", crf.end_transitions),
        ):
            target.copy_(torch.from_numpy(np.nan_to_num(scores[name], neginf=0.0)))
        ids = crf.decode_tensor(emissions[..., kept], mask)
    found: NDArray[np.int64] = torch.where(ids < 0, ids, kept[ids.clamp(min=0)]).numpy()
    return found


def _example(given: Any) -> NDArray[Any]:
    """Small numbers of the shape an input asks for; what is one number a row are its lengths."""
    rows, length = EXAMPLE_SHAPE
    if len(given.shape) == 1:
        return np.full(rows, length, dtype=np.int64)
    sizes = [size if isinstance(size, int) else (rows, length)[min(axis, 1)] for axis, size in enumerate(given.shape)]
    if given.type == "tensor(bool)":
        mask = np.ones(sizes, dtype=bool)
        mask[:, 1::3] = False
        return mask
    kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32}
    kind = kinds.get(given.type)
    if kind is None:
        raise ValueError(f"input {given.name} is a {given.type}")
    if "mask" in given.name:
        return np.ones(sizes, dtype=kind)
    if "type" in given.name:
        return np.zeros(sizes, dtype=kind)
    return (np.arange(int(np.prod(sizes))) % 5 + 1).reshape(sizes).astype(kind)
