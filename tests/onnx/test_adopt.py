"""Somebody's ONNX graph with the legal Viterbi behind it: their outputs as before, paths by enumeration."""

from __future__ import annotations

import json
import re
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from maskedcrf.errors import MaskedCRFError
from maskedcrf.onnx.adopt import KEY, adopt_onnx
from maskedcrf.tags.constraints import Constraints

LABELS = ["[PAD]", "O", "B-X", "I-X"]
COLUMNS = 5


def write_graph(
    path: Path, *, opset: int = 13, width: int = COLUMNS, mask: bool = True, rank: int = 3, name: str = "logits"
) -> Path:
    """Piece numbers to scores by a table, times the attention mask if there is one."""
    table = np.random.default_rng(0).normal(size=(8, width)).astype(np.float32) * 2
    nodes = [helper.make_node("Gather", ["table", "input_ids"], [name if not mask else "rows"], axis=0)]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])]
    if mask:
        inputs.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"]))
        nodes += [
            helper.make_node("Unsqueeze", ["attention_mask", "last"], ["column"]),
            helper.make_node("Cast", ["column"], ["on"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["rows", "on"], [name]),
        ]
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", width][-rank:])
    constants = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([2]), "last")]
    graph = helper.make_graph(nodes, "theirs", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    path.write_bytes(model.SerializeToString())
    return path


def best_path(logits: np.ndarray, transitions: np.ndarray | None = None) -> list[int]:
    """The best of all legal paths over columns 1 to 3, by listing them."""
    rules = Constraints.from_scheme(LABELS[1:], "BIO")
    scores = np.zeros((COLUMNS, COLUMNS)) if transitions is None else transitions
    paths = [p for p in product(range(3), repeat=len(logits)) if not rules.violations(p)]
    columns = [[tag + 1 for tag in path] for path in paths]

    def score(path: list[int]) -> float:
        steps = sum(scores[a, b] for a, b in pairwise(path))
        return float(sum(logits[n, column] for n, column in enumerate(path)) + steps)

    return max(columns, key=score)


def run(path: Path, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def rename(path: Path, old: str, new: str) -> None:
    model = onnx.load(path)
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
    for value in (*model.graph.input, *model.graph.output):
        value.name = new if value.name == old else value.name
    onnx.save(model, path)


IDS = np.array([[1, 5, 2, 6, 3, 0], [4, 4, 7, 2, 5, 1]])


@pytest.mark.parametrize("opset", [13, 14, 15, 17, 18, 20])
def test_tags_are_the_best_legal_path_over_words_and_the_rest_is_as_it_was(tmp_path, opset):
    source = write_graph(tmp_path / "theirs.onnx", opset=opset)
    found = adopt_onnx(source, tmp_path / "legal.onnx", labels=LABELS)
    assert found.inputs == ("input_ids", "attention_mask", "word_mask")
    fed = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}
    words = np.array([[0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1]], dtype=bool)
    answer = run(tmp_path / "legal.onnx", **fed, word_mask=words)
    assert list(answer) == ["logits", "tags", "log_probability"]
    np.testing.assert_array_equal(answer["logits"], run(source, **fed)["logits"])
    for logits, on, tags in zip(answer["logits"], words, answer["tags"], strict=True):
        assert tags[on].tolist() == best_path(logits[on])
        assert (tags[~on] == -100).all()


def test_every_position_of_the_attention_mask_may_be_one_of_the_lattice(tmp_path):
    source = write_graph(tmp_path / "theirs.onnx")
    found = adopt_onnx(source, tmp_path / "legal.onnx", labels=LABELS, positions="all")
    assert found.inputs == ("input_ids", "attention_mask")
    attended = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    answer = run(tmp_path / "legal.onnx", input_ids=IDS, attention_mask=attended)
    for logits, on, tags in zip(answer["logits"], attended.astype(bool), answer["tags"], strict=True):
        assert tags[on].tolist() == best_path(logits[on])
        assert (tags[~on] == -100).all()


@pytest.mark.parametrize("opset", [13, 18])
def test_without_an_attention_mask_it_is_every_position_and_transitions_count(tmp_path, opset):
    source = write_graph(tmp_path / "theirs.onnx", mask=False, opset=opset)
    transitions = np.random.default_rng(1).normal(size=(COLUMNS, COLUMNS)) * 3
    adopt_onnx(source, tmp_path / "legal.onnx", labels=LABELS, positions="all", transitions=transitions)
    answer = run(tmp_path / "legal.onnx", input_ids=IDS)
    for logits, tags in zip(answer["logits"], answer["tags"], strict=True):
        assert tags.tolist() == best_path(logits, transitions)


def test_what_the_labels_were_read_as_stands_in_the_file(tmp_path):
    adopt_onnx(write_graph(tmp_path / "theirs.onnx"), tmp_path / "legal.onnx", labels=LABELS)
    properties = {each.key: each.value for each in onnx.load(tmp_path / "legal.onnx").metadata_props}
    labels = json.loads(properties[KEY])["labels"]
    assert labels["tags"] == {"0": None, "1": "O", "2": "B-X", "3": "I-X", "4": None}
    assert labels["dropped"]["4"] == "more scores than labels"


def two_outputs(path: Path) -> Path:
    model = onnx.load(write_graph(path))
    model.graph.node.append(helper.make_node("Identity", ["logits"], ["copy"]))
    model.graph.output.append(helper.make_tensor_value_info("copy", TensorProto.FLOAT, ["batch", "length", COLUMNS]))
    path.write_bytes(model.SerializeToString())
    return path


def external(path: Path) -> Path:
    model = onnx.load(write_graph(path))
    (tensor,) = [each for each in model.graph.initializer if each.name == "table"]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    return path


def text_input(path: Path) -> Path:
    model = onnx.load(write_graph(path))
    model.graph.input.append(helper.make_tensor_value_info("text", TensorProto.STRING, ["batch", "length"]))
    path.write_bytes(model.SerializeToString())
    return path


REFUSED = {
    "no file": (lambda p: p, {}, "no such file"),
    "no ONNX": (lambda p: p.write_bytes(b"no model") and p, {}, "not a sound ONNX file"),
    "weights elsewhere": (external, {}, "weights are in other files|not a sound ONNX file"),
    "an old opset": (lambda p: write_graph(p, opset=11, mask=False), {}, "of opset 11; convert it to 13"),
    "no such rank": (lambda p: write_graph(p, rank=2, mask=False), {}, "no outputs of|not a sound|no output"),
    "two that could be": (two_outputs, {}, "2 outputs of (batch, positions, columns) among logits, copy; name"),
    "a name of ours": (lambda p: write_graph(p, name="tags"), {}, "a tensor 'tags' already"),
    "more labels than columns": (lambda p: write_graph(p, width=3), {}, "4 labels for 3 columns"),
    "labels that say nothing": (write_graph, {"labels": ["LABEL_0"]}, "nothing of tags"),
    "transitions of another size": (write_graph, {"transitions": np.zeros((3, 3))}, "must be (5, 5)"),
    "transitions that are no numbers": (write_graph, {"transitions": np.full((5, 5), np.nan)}, "must be finite"),
    "inputs nobody can make up": (text_input, {}, "a made-up example cannot be run"),
    "positions that are no word": (write_graph, {"positions": "pieces"}, "positions are words or all"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_adopted_is_refused_in_one_line_and_nothing_is_written(tmp_path, name):
    make, options, message = REFUSED[name]
    source = make(tmp_path / "theirs.onnx")
    pattern = "|".join(map(re.escape, message.split("|")))
    with pytest.raises(MaskedCRFError, match=pattern) as caught:
        adopt_onnx(source, tmp_path / "legal.onnx", **{"labels": LABELS, **options})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "legal.onnx").exists()


def test_the_output_may_be_named(tmp_path):
    source = two_outputs(tmp_path / "theirs.onnx")
    assert adopt_onnx(source, tmp_path / "legal.onnx", labels=LABELS, logits="copy").logits == "copy"


@pytest.mark.parametrize(("old", "new"), [("attention_mask", "mask"), ("rows", "emissions"), ("logits", "emissions")])
def test_a_graph_may_have_the_names_that_ours_have(tmp_path, old, new):
    source = write_graph(tmp_path / "theirs.onnx")
    adopt_onnx(source, tmp_path / "one.onnx", labels=LABELS)
    rename(source, old, new)
    adopt_onnx(source, tmp_path / "other.onnx", labels=LABELS)
    fed = {"input_ids": IDS, "attention_mask": np.ones_like(IDS), "word_mask": np.ones_like(IDS, dtype=bool)}
    expected = run(tmp_path / "one.onnx", **fed)["tags"]
    renamed = {new if name == old else name: value for name, value in fed.items()}
    assert run(tmp_path / "other.onnx", **renamed)["tags"].tolist() == expected.tolist()
