"""A BERT out of an ONNX file of 8 bits: its weights come back as near as 8 bits say, under their own names."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from encoders.tiny import write_model
from token_lists import sentences_of
from torch import Tensor, nn
from transformers import AutoModel

from experiments.from_onnx import any_text, main
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder

NAMES = ["input_ids", "attention_mask"]


class Moderator(nn.Module):
    """An encoder under a head, as packages bring it."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.bert = encoder
        self.classifier = nn.Linear(encoder.config.hidden_size, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.bert(input_ids, attention_mask).last_hidden_state[:, 0])
        return found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a quantised ONNX file, config and tokenizer; `tmp_path / "bert"` is what it was made from."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source, folder = write_model(tmp_path / "bert"), tmp_path / "package"
    folder.mkdir()
    encoder = AutoModel.from_pretrained(source, add_pooling_layer=False, attn_implementation="eager")
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.2)  # no two alike, as those would be kept once
    encoder.save_pretrained(source)
    ids = torch.tensor([[2, 5, 6, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter, which such packages come from
        given = (ids, ids.new_ones(ids.shape))
        torch.onnx.export(Moderator(encoder).eval(), given, tmp_path / "whole.onnx", input_names=NAMES, dynamo=False)
    quantize_dynamic(tmp_path / "whole.onnx", folder / "model.onnx", per_channel=True, weight_type=QuantType.QInt8)
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    return folder


def test_the_weights_come_back(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["again", "--model", str(package), "--encoders", str(tmp_path)]) == 0
    wanted = AutoModel.from_pretrained(tmp_path / "bert", add_pooling_layer=False).state_dict()
    found = AutoModel.from_pretrained(tmp_path / "again", add_pooling_layer=False).float().state_dict()
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        step = value.abs().amax() / 127
        assert (found[name] - value).abs().amax() <= 1.1 * step + 1e-3, name
    build_encoder(EncoderConfig(transformer=str(tmp_path / "again")), sentences_of([["the", "cat"]]))
    assert main(["again", "--model", str(package), "--encoders", str(tmp_path)]) == 0
    assert "is there already" in capsys.readouterr().err


def test_what_cannot_be_read_is_said(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((package / "config.json").read_text())
    config["num_hidden_layers"] += 1
    (package / "config.json").write_text(json.dumps(config))
    assert main(["again", "--model", str(package), "--encoders", str(tmp_path)]) == 2
    assert "model.onnx: has no encoder.layer." in capsys.readouterr().err
    (package / "config.json").unlink()
    assert main(["again", "--model", str(package), "--encoders", str(tmp_path)]) == 2
    assert "has no config.json" in capsys.readouterr().err
    (package / "model.onnx").unlink()
    assert main(["again", "--model", str(package), "--encoders", str(tmp_path)]) == 2
    assert "expected one ONNX file, found 0" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(("piece", "lowered"), [("##ing", True), ("Paris", False)])
def test_text_is_lowered_where_no_piece_has_a_capital(piece: str, lowered: bool) -> None:
    given = {"model": {"vocab": {"[CLS]": 0, piece: 1}}, "normalizer": {"lowercase": False}, "truncation": {"max": 8}}
    found = any_text(given)
    assert found["normalizer"]["lowercase"] is lowered
    assert found["truncation"] is None
