"""Files that are not ours, not whole or not honest are refused in one line, before anything is built from them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.onnx.crf_graph import crf_model
from maskedcrf.onnx.file import KEY, Description, OnnxFileError, read
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger import Tagger

onnx = pytest.importorskip("onnx")

DESCRIPTION = Description(
    version="0.1.0",
    tags=("O", "B-X", "I-X"),
    scheme="BIO",
    output_scheme="BIO",
    delimiter="-",
    prefix_last=False,
    head="crf",
    mask="train",
    int8=False,
    files={
        "encoder.json": json.dumps({"config": {"words": 2, "characters": 0, "transformer": None, "pooling": "first"}}),
        "words.json": json.dumps({"words": ["a"], "shapes": [], "known": [], "rare": 0, "lower": False}),
    },
)


def model(text: str | None = None) -> Any:
    """The CRF's graph alone, with a description: as much of a file as these tests need."""
    made = crf_model(np.zeros((3, 3)), np.zeros(3), np.zeros(3))
    made.metadata_props.add(key=KEY, value=DESCRIPTION.to_json() if text is None else text)
    return made


def write(path: Path, made: Any) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def test_a_sound_file_is_read_with_its_description(tmp_path: Path) -> None:
    path = write(tmp_path / "model.onnx", model())
    content, description = read(path)
    assert content == path.read_bytes()
    assert description == DESCRIPTION


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    whole = model().SerializeToString()
    path = tmp_path / "model.onnx"
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(OnnxFileError, match="model.onnx: ") as caught:
            read(path)
        assert "\n" not in str(caught.value)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random.onnx"
    path.write_bytes(content)
    with pytest.raises(OnnxFileError):
        read(path)


def _in_weights(made: Any) -> Any:
    return made.graph.initializer[0]


def _in_a_constant(made: Any) -> Any:
    node = made.graph.node.add(op_type="Constant", output=["unused"])
    return node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t


def _in_a_loop(made: Any) -> Any:
    body = next(a.g for node in made.graph.node for a in node.attribute if a.name == "body")
    return body.initializer.add(name="unused", data_type=1, dims=[1])


def _in_a_sparse_tensor(made: Any) -> Any:
    return made.graph.sparse_initializer.add().values


def _in_a_function(made: Any) -> Any:
    node = made.functions.add(name="f").node.add(op_type="Constant", output=["unused"])
    return node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t


def _in_training(made: Any) -> Any:
    return made.training_info.add().initialization.initializer.add(name="unused", data_type=1, dims=[1])


PLACES = [_in_weights, _in_a_constant, _in_a_loop, _in_a_sparse_tensor, _in_a_function, _in_training]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", ["/etc/passwd", "../secret", "sub/../../secret", "beside.bin"])
def test_weights_in_another_file_are_refused_wherever_they_stand(
    place: Callable[[Any], Any], location: str, tmp_path: Path
) -> None:
    (tmp_path / "beside.bin").write_bytes(bytes(1000))
    made = model()
    tensor = place(made)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    with pytest.raises(OnnxFileError, match="weights lie in another file, which is never read"):
        OnnxTagger.load(write(tmp_path / "model.onnx", made))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2, this maskedcrf reads format 1; export the model again"),
        ({"format": None}, "format None"),
        ({"tags": None}, "lacks something"),
        ({"tags": []}, "wrong kind"),
        ({"tags": [1, 2, 3]}, "wrong kind"),
        ({"files": {"words.json": 7}}, "wrong kind"),
        ({"files": "encoder.json"}, "wrong kind"),
        ({"auto_map": "x.y"}, "something foreign"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    text = json.dumps({**json.loads(DESCRIPTION.to_json()), **change})
    with pytest.raises(OnnxFileError, match=f"model.onnx: .*{message}"):
        read(write(tmp_path / "model.onnx", model(text)))


@pytest.mark.parametrize("text", ["", "[" * 100_000, "[1]", "null"])
def test_a_description_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(OnnxFileError, match="not JSON|format None"):
        read(write(tmp_path / "model.onnx", model(text)))


@pytest.mark.parametrize(
    "files",
    [{}, {"encoder.json": "{}"}, {"encoder.json": DESCRIPTION.files["encoder.json"]}, {"encoder.json": "nonsense"}],
)
def test_an_encoder_that_is_not_complete_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    text = json.dumps({**json.loads(DESCRIPTION.to_json()), "files": files})
    with pytest.raises(OnnxFileError, match="the encoder's files are not complete or not sound"):
        OnnxTagger.load(write(tmp_path / "model.onnx", model(text)), trusted=True)


def test_a_graph_with_other_inputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OnnxFileError, match="its inputs and outputs are not those of a maskedcrf model"):
        OnnxTagger.load(write(tmp_path / "model.onnx", model()), trusted=True)


def test_a_graph_that_onnxruntime_refuses_is_refused_in_one_line(tmp_path: Path) -> None:
    made = model()
    made.graph.node[0].op_type = "Nonsense"
    with pytest.raises(OnnxFileError, match="onnxruntime refuses it") as caught:
        OnnxTagger.load(write(tmp_path / "model.onnx", made), trusted=True)
    assert "\n" not in str(caught.value)


def test_a_file_of_someone_else_is_refused(tmp_path: Path) -> None:
    made = model()
    del made.metadata_props[:]
    with pytest.raises(OnnxFileError, match="not an ONNX file of maskedcrf"):
        read(write(tmp_path / "model.onnx", made))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    for path in (tmp_path, tmp_path / "absent.onnx", tmp_path / "pipe.onnx"):
        with pytest.raises(OnnxFileError, match="no such file"):
            read(path)


def with_description(path: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The same file with something else in its description."""
    made = onnx.load(path)
    entry = next(entry for entry in made.metadata_props if entry.key == KEY)
    description = json.loads(entry.value)
    change(description)
    entry.value = json.dumps(description)
    target.write_bytes(made.SerializeToString())
    return target


def pieces_with(**changes: object) -> Callable[[dict[str, Any]], object]:
    def change(description: dict[str, Any]) -> None:
        files = description["files"]
        files["transformer.json"] = json.dumps({**json.loads(files["transformer.json"]), **changes})

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pieces_with(positions=-5), "do not fit each other"),
        (pieces_with(prefix=["a"]), "do not fit each other"),
        (pieces_with(prefix=[999_999]), "onnxruntime cannot run it"),
        (lambda description: description.update(scheme="XX"), "unknown scheme"),
        (lambda description: description["tags"].insert(1, "nonsense"), "does not fit BIOES"),
        (lambda description: description["files"].update({"encoder.json": "[" * 100_000}), "not sound"),
    ],
)
def test_parts_that_are_not_of_one_model_are_refused_before_a_text_meets_them(
    pairs: dict[str, tuple[Tagger, Path]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], object],
    message: str,
) -> None:
    path = with_description(pairs["bert"][1], tmp_path / "model.onnx", change)
    with pytest.raises(OnnxFileError, match=f"model.onnx: .*{message}") as refused:
        OnnxTagger.load(path)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


def test_a_word_beyond_the_table_is_refused_in_one_line(pairs: dict[str, tuple[Tagger, Path]], tmp_path: Path) -> None:
    def more_words(description: dict[str, Any]) -> None:
        files = description["files"]
        saved = json.loads(files["words.json"])
        files["words.json"] = json.dumps({**saved, "words": [*saved["words"], *map(str, range(999)), "beyond"]})

    exported = OnnxTagger.load(with_description(pairs["words"][1], tmp_path / "model.onnx", more_words))
    with pytest.raises(OnnxFileError, match="onnxruntime cannot run it"):
        exported.predict("beyond")
