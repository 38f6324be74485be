"""A graph of a stranger gives no illegal path, no NaN, and takes no time and memory that ours would not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_models import TAGS, random_tagger  # noqa: E402

from maskedcrf.bulk.rows import Options  # noqa: E402
from maskedcrf.bulk.run import load_tagger  # noqa: E402
from maskedcrf.errors import MaskedCRFError  # noqa: E402
from maskedcrf.onnx.export import export  # noqa: E402
from maskedcrf.onnx.file import KEY, OnnxFileError  # noqa: E402
from maskedcrf.onnx.graph_check import CRF_NODES, OPERATORS  # noqa: E402
from maskedcrf.onnx.tagger import OnnxTagger  # noqa: E402

Change = Callable[[Any], object]
NUMPY = onnx.numpy_helper


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger with words, characters and an LSTM, as a file."""
    folder = tmp_path_factory.mktemp("exported")
    return export(random_tagger("words", folder / "words"), folder / "model.onnx")


def changed(source: Path, target: Path, change: Change) -> Path:
    made = onnx.load(source)
    change(made)
    target.write_bytes(made.SerializeToString())
    return target


def described(change: Callable[[dict[str, Any]], object]) -> Change:
    def apply(made: Any) -> None:
        (entry,) = [entry for entry in made.metadata_props if entry.key == KEY]
        description = json.loads(entry.value)
        change(description)
        entry.value = json.dumps(description)

    return apply


def tags(order: list[str], *, honest: bool) -> Change:
    def apply(description: dict[str, Any]) -> None:
        description["tags"] = order
        if not honest:
            description["digest"] = None

    return described(apply)


SWAPPED = [{"B": "I", "I": "B"}.get(tag[0], tag[0]) + tag[1:] for tag in TAGS]
OTHER_TYPES = [tag.replace("LOC", "X").replace("PER", "LOC").replace("X", "PER") for tag in TAGS]


@pytest.mark.parametrize("honest", [True, False], ids=["with its digest", "without"])
@pytest.mark.parametrize(
    "order",
    [TAGS[::-1], TAGS[1:] + TAGS[:1], SWAPPED, [*TAGS[:-1], TAGS[0]], TAGS[:-1]],
    ids=["reversed", "rotated", "B and I swapped", "one twice", "one fewer"],
)
def test_tags_that_are_not_those_of_the_graph_are_refused(
    exported: Path, tmp_path: Path, order: list[str], honest: bool
) -> None:
    path = changed(exported, tmp_path / "model.onnx", tags(order, honest=honest))
    with pytest.raises(OnnxFileError) as refused:
        OnnxTagger.load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_tags_in_another_order_that_are_as_legal_are_found_by_the_digest(exported: Path, tmp_path: Path) -> None:
    path = changed(exported, tmp_path / "model.onnx", tags(OTHER_TYPES, honest=True))
    with pytest.raises(OnnxFileError, match="its tags are not those it was exported with"):
        OnnxTagger.load(path)


def test_nan_in_any_weight_is_refused(exported: Path, tmp_path: Path) -> None:
    names = [one.name for one in onnx.load(exported).graph.initializer if NUMPY.to_array(one).dtype.kind == "f"]
    assert len(names) > 10
    for name in names:

        def spoil(made: Any, name: str = name) -> None:
            (tensor,) = [one for one in made.graph.initializer if one.name == name]
            values = NUMPY.to_array(tensor).copy()
            values.flat[-1] = np.nan
            tensor.CopyFrom(NUMPY.from_array(values, name))

        with pytest.raises(OnnxFileError, match="hold NaN or infinity") as refused:
            OnnxTagger.load(changed(exported, tmp_path / "model.onnx", spoil))
        assert "\n" not in str(refused.value)


def node(operator: str, inputs: list[str], **attributes: Any) -> Change:
    return lambda made: made.graph.node.insert(0, onnx.helper.make_node(operator, inputs, ["new"], **attributes))


def constant_of_shape(made: Any) -> None:
    made.graph.initializer.append(NUMPY.from_array(np.array([1 << 30]), "size"))
    node("ConstantOfShape", ["size"])(made)


def loop(made: Any) -> None:
    parsed = onnx.parser.parse_graph("body (int64 i, bool on) => (bool on_after) { on_after = Identity (on) }")
    made.graph.initializer.append(NUMPY.from_array(np.array(1 << 62), "rounds"))
    node("Loop", ["rounds"], body=parsed)(made)


def plain_operator_with_a_graph(made: Any) -> None:
    parsed = onnx.parser.parse_graph("body (int64 i) => (int64 o) { o = Identity (i) }")
    node("Identity", ["mask"], body=parsed)(made)


def function(made: Any) -> None:
    made.functions.append(onnx.helper.make_function("d", "f", ["a"], ["b"], [], [onnx.helper.make_opsetid("", 20)]))


def other_search(made: Any) -> None:
    (last,) = [one for one in made.graph.node if "last_tag" in one.output[0]]
    last.op_type = "ArgMin"


def infinite_step(made: Any) -> None:
    (tensor,) = [one for one in made.graph.initializer if one.name == "crf.steps"]
    steps = NUMPY.to_array(tensor).copy()
    steps[0, 0] = np.inf
    tensor.CopyFrom(NUMPY.from_array(steps, tensor.name))


def other_constant(made: Any) -> None:
    (tensor,) = [one for one in made.graph.initializer if one.name == "crf.stay"]
    tensor.CopyFrom(NUMPY.from_array(NUMPY.to_array(tensor) * 0, tensor.name))


HOSTILE: dict[str, tuple[Change, str]] = {
    "a loop": (loop, "operator 'Loop'"),
    "a large constant": (constant_of_shape, "ConstantOfShape of constants alone"),
    "an operator of another domain": (node("Add", ["mask", "mask"], domain="com.microsoft"), "operator 'Add'"),
    "an operator that only has a graph": (plain_operator_with_a_graph, "operator 'Identity'"),
    "a function": (function, "operators of its own"),
    "a search of its own": (other_search, "search for the best path in it is not that of maskedcrf"),
    "an infinite step": (infinite_step, "infinite scores"),
    "another constant": (other_constant, "constant 'stay' is not that"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_export_of_ours_has_is_refused_in_one_line(exported: Path, tmp_path: Path, name: str) -> None:
    change, message = HOSTILE[name]
    path = changed(exported, tmp_path / "model.onnx", change)
    with pytest.raises(OnnxFileError, match=message) as refused:
        OnnxTagger.load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def varint(number: int) -> bytes:
    rest = number >> 7
    return bytes([number & 127 | 128]) + varint(rest) if rest else bytes([number])


def part(number: int, content: bytes, *, key: int = 0) -> bytes:
    """A field of a protobuf message; of a key beyond 32 bits libraries read the lower ones."""
    return varint(key | number << 3 | 2) + varint(len(content)) + content


def four_bytes(number: int, content: bytes) -> bytes:
    """A field of fixed width, which libraries skip where the format has a text."""
    return varint(number << 3 | 5) + content


def free_steps(exported: Path) -> bytes:
    """The weights of the CRF's steps, with every step legal."""
    (tensor,) = [one for one in onnx.load(exported).graph.initializer if one.name == "crf.steps"]
    steps = NUMPY.to_array(tensor).copy()
    inner = steps[:-1, :-1]
    inner[np.isneginf(inner)] = 50.0
    return bytes(NUMPY.from_array(steps, "crf.steps").SerializeToString())


def sparse(steps: bytes) -> bytes:
    """The same as a sparse tensor of one value."""
    named = onnx.TensorProto(name="crf.steps", data_type=11, dims=[1], raw_data=bytes(8))
    place = onnx.TensorProto(data_type=7, dims=[1], raw_data=bytes(8))
    dims = onnx.TensorProto.FromString(steps).dims
    return bytes(onnx.SparseTensorProto(values=named, indices=place, dims=dims).SerializeToString())


RANDOM = onnx.helper.make_node("RandomNormal", [], ["new"], shape=[1 << 20]).SerializeToString()
SHAPELESS = onnx.TensorProto(name="none", data_type=1, dims=[0, 1 << 62]).SerializeToString()
AMBIGUOUS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a weight twice": (lambda steps: part(5, steps), "two weights 'crf.steps'"),
    "a weight of two names": (lambda steps: part(5, steps + four_bytes(8, b"none")), "not an ONNX file"),
    "a weight behind a long key": (lambda steps: part(5, steps, key=1 << 32), "not an ONNX file"),
    "a weight whose name is a number": (lambda steps: part(5, steps + varint(8 << 3) + varint(1 << 40)), "not an ONNX"),
    "a weight whose values are a number": (lambda steps: part(5, varint(9 << 3) + varint(4)), "not an ONNX file"),
    "sparse weights": (lambda steps: part(15, sparse(steps)), "sparse weights"),
    "weights of no shape": (lambda steps: part(5, SHAPELESS), "'none' have a shape that no array has"),
    "an operator of two names": (lambda steps: part(1, RANDOM + four_bytes(4, b"Relu")), "not an ONNX file"),
    "an input that is none": (lambda steps: part(1, RANDOM + four_bytes(1, b"mask")), "not an ONNX file"),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_two_libraries_could_read_in_two_ways_is_refused(exported: Path, tmp_path: Path, name: str) -> None:
    make, message = AMBIGUOUS[name]
    made = onnx.load(exported)
    graph = make(free_steps(exported)) + made.graph.SerializeToString()
    made.ClearField("graph")
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString() + part(7, graph))
    with pytest.raises(OnnxFileError, match=message) as refused:
        OnnxTagger.load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_file_has_one_graph(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(exported.read_bytes() + part(7, part(5, free_steps(exported))))
    with pytest.raises(OnnxFileError, match="no graph, or several"):
        OnnxTagger.load(path)
    with pytest.raises(OnnxFileError, match="no graph, or several"):
        OnnxTagger.load(changed(exported, path, lambda made: made.ClearField("graph")))


def test_bytes_that_begin_as_onnxruntimes_own_format_are_read_as_onnx(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    producer = b"ORTM" + b" " * (1 << 14)  # so long that the field begins with four bytes
    path.write_bytes(part(2, producer) + exported.read_bytes())
    assert path.read_bytes()[4:8] == b"ORTM"
    assert OnnxTagger.load(path).predict([["The"]]) == OnnxTagger.load(exported).predict([["The"]])


def test_a_file_that_the_user_trusts_may_have_any_operator(exported: Path, tmp_path: Path) -> None:
    path = changed(exported, tmp_path / "model.onnx", node("HardSwish", ["emissions"]))
    made = onnx.load(path)
    made.graph.node.append(made.graph.node[0])
    del made.graph.node[0]
    path.write_bytes(made.SerializeToString())
    with pytest.raises(OnnxFileError, match="not that of maskedcrf|HardSwish"):
        OnnxTagger.load(path)
    expected = OnnxTagger.load(exported).predict([["The"]])
    assert OnnxTagger.load(path, trusted=True).predict([["The"]]) == expected
    with pytest.raises(OnnxFileError, match="not that of maskedcrf|HardSwish"):
        load_tagger(path, Options())
    assert list(load_tagger(path, Options(trusted=True)).predict([["The"]])) == expected


def test_memory_is_bounded_whatever_the_graph_makes_of_its_input(exported: Path, tmp_path: Path) -> None:
    def grow(made: Any) -> None:
        made.graph.initializer.append(NUMPY.from_array(np.array([1 << 15] * 3), "sizes"))
        made.graph.initializer.append(NUMPY.from_array(np.array([0]), "axis"))
        nodes = [
            onnx.helper.make_node("Cast", ["mask"], ["numbers"], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("ReduceSum", ["numbers"], ["one"], keepdims=0),
            onnx.helper.make_node("Expand", ["one", "sizes"], ["large"]),
            onnx.helper.make_node("ReduceMax", ["large"], ["largest"], keepdims=0),
            onnx.helper.make_node("Add", ["own", "largest"], ["emissions"]),
        ]
        first = len(made.graph.node) - CRF_NODES
        for number in range(first):
            outputs = made.graph.node[number].output
            outputs[:] = ["own" if name == "emissions" else name for name in outputs]
        for number, one in enumerate(nodes):
            made.graph.node.insert(first + number, one)

    path = changed(exported, tmp_path / "model.onnx", grow)
    with pytest.raises(MaskedCRFError, match="onnxruntime cannot run it"):
        OnnxTagger.load(path)


def test_the_list_of_operators_has_none_with_a_graph_inside() -> None:
    schemas = {one.name: one for one in onnx.defs.get_all_schemas() if one.domain == ""}
    graphs = (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS)
    for name in OPERATORS:
        assert not [one for one in schemas[name].attributes.values() if one.type in graphs], name
