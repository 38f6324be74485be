"""A file in eight bits is smaller, hardly tags otherwise, and tags a sentence alike alone and in any batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx_models import KINDS, sentences
from small_corpus import SMALL, corpus

from maskedcrf.errors import MaskedCRFError
from maskedcrf.onnx import layers
from maskedcrf.onnx.export import _quiet, compare_with_export, export
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger import Tagger
from maskedcrf.tags.segments import violations

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def test_eight_bits_hardly_change_a_trained_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "SMALL_TABLE", 1)
    tagger = Tagger.train(corpus(60), corpus(20, 1), **{**SMALL, "epochs": 6})
    small = OnnxTagger.load(export(tagger, tmp_path / "int8.onnx", int8=True))
    found = compare_with_export(tagger, small, corpus(200, 2))
    assert (found.sentences, found.tokens) == (200, sum(map(len, corpus(200, 2))))
    assert found.f1_model > 90
    assert found.f1_onnx > found.f1_model - 0.5
    assert small.description.int8


def test_eight_bits_are_smaller_and_never_leave_the_scheme(
    pairs: dict[str, tuple[Tagger, Path]], tmp_path: Path
) -> None:
    tagger, path = pairs["bert"]
    small = export(tagger, tmp_path / "int8.onnx", int8=True)
    assert _matrix_bytes(small) < 0.5 * _matrix_bytes(path)
    answers = OnnxTagger.load(small).predict(sentences(range(1, 65)))
    assert not any(violations(answer.tags, "BIOES") for answer in answers)


def test_a_model_with_nothing_for_eight_bits_is_refused(pairs: dict[str, tuple[Tagger, Path]], tmp_path: Path) -> None:
    with pytest.raises(MaskedCRFError, match="nothing to store in 8 bits: an LSTM, .*; leave --int8 out$"):
        export(pairs["words"][0], tmp_path / "int8.onnx", int8=True)
    assert list(tmp_path.iterdir()) == []


def test_a_layer_in_eight_bits_is_near_the_layer_and_its_rows_are_their_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    linear, table = torch.nn.Linear(64, 48), torch.nn.Embedding(2000, 64)
    model = torch.nn.Sequential(table, linear)
    numbers = torch.arange(1, 2000, 7)[None].repeat(2, 1)
    expected = model(numbers).detach().numpy()
    assert layers.quantize_(model) == 2
    model.eval()
    assert isinstance(model[0], layers.Int8Embedding)
    assert isinstance(model[1], layers.Int8Linear)
    axes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    with _quiet():
        program = torch.onnx.export(model, (numbers,), dynamic_shapes=axes, opset_version=20, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    name = session.get_inputs()[0].name
    [found] = session.run(None, {name: numbers.numpy()})
    assert np.abs(found - expected).max() < 0.03 * np.abs(expected).max()
    [alone] = session.run(None, {name: numbers.numpy()[:1, 5:6]})
    assert np.array_equal(alone[0, 0], found[0, 5])


def _matrix_bytes(path: Path) -> int:
    """Bytes of the file's matrices; a small file is mostly other things."""
    return sum(len(part.raw_data) for part in onnx.load(path).graph.initializer if len(part.dims) == 2)


@pytest.mark.parametrize("kind", KINDS)
def test_in_eight_bits_too_a_sentence_gets_its_tags_alone_or_in_any_batch(
    kind: str, pairs: dict[str, tuple[Tagger, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SMALL_TABLE", 1)
    small = OnnxTagger.load(export(pairs[kind][0], tmp_path / "int8.onnx", int8=True), threads=2)
    tried = sentences(range(1, 65))
    alone = [small.predict([tokens])[0].tags for tokens in tried]
    for batch in (64, 300, 10_000):
        assert [answer.tags for answer in small.predict(tried, forward_tokens=batch)] == alone
    assert [answer.tags for answer in small.predict(tried[::-1])] == alone[::-1]
