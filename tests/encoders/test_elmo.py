"""ELMo: the published layout, against a slow reading of it in numpy."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from encoders.bilm import slow_elmo, write_bilm
from token_lists import sentences_of

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import Encoder, build_encoder, load_encoder
from maskedcrf.errors import DataError

SENTENCES = [["The", "cat", "sat"], ["unbelievable", "", "é😀"], ["a"], []]


def _build(folder: Path) -> Encoder:
    return build_encoder(EncoderConfig(elmo=str(folder), lstm_layers=0), sentences_of([["a"]])).eval()


@pytest.mark.parametrize("level", [0, 1, 2, None])
def test_each_level_and_their_mix_are_those_of_the_slow_reading(level: int | None, tmp_path: Path) -> None:
    folder = write_bilm(tmp_path)
    encoder = _build(folder)
    mix = [0.3, -0.2, 0.1] if level is None else [100.0 if n == level else 0.0 for n in range(3)]
    with torch.no_grad():
        encoder.parts["elmo"].mix.copy_(torch.tensor(mix))  # type: ignore[operator, union-attr]
        encoder.parts["elmo"].scale.fill_(1.5)  # type: ignore[operator, union-attr]
        vectors = encoder(encoder.prepare(sentences_of(SENTENCES))).numpy()
    weights = np.exp(mix) / np.exp(mix).sum()
    for row, sentence in zip(vectors, SENTENCES, strict=True):
        expected = 1.5 * np.einsum("l,ltw->tw", weights, slow_elmo(folder, sentence))
        np.testing.assert_allclose(row[: len(sentence)], expected, atol=1e-5)


def test_layers_run_from_the_characters_to_the_top_and_the_mix_is_new(tmp_path: Path) -> None:
    encoder = _build(write_bilm(tmp_path))
    names = {id(parameter): name for name, parameter in encoder.named_parameters()}
    listed = [{names[id(parameter)].split(".")[2] for parameter in layer} for layer in encoder.layers()]
    assert listed == [{"characters"}, {"stack"}, {"stack"}]
    flat = {id(parameter) for layer in encoder.layers() for parameter in layer}
    assert {name for key, name in names.items() if key not in flat} == {"parts.elmo.mix", "parts.elmo.scale"}


def _array(folder: Path, name: str, change: object) -> None:
    with h5py.File(folder / "weights.hdf5", "a") as file:
        array = change(file[name][...])  # type: ignore[operator]
        del file[name]
        file[name] = array


def _option(folder: Path, part: str, **changes: object) -> None:
    path = folder / "options.json"
    options = json.loads(path.read_text())
    options[part] |= changes
    path.write_text(json.dumps(options))


HOSTILE = {
    "no weights": lambda f: (f / "weights.hdf5").unlink(),
    "no HDF5": lambda f: (f / "weights.hdf5").write_bytes(b"\x80\x04K\x01."),
    "no options": lambda f: (f / "options.json").unlink(),
    "two options": lambda f: (f / "more.json").write_text("{}"),
    "empty options": lambda f: (f / "options.json").write_text("{}"),
    "not JSON": lambda f: (f / "options.json").write_text("options"),
    "other shape": lambda f: _array(f, "char_embed", lambda a: a[:-1]),
    "NaN": lambda f: _array(f, "CNN_proj/b_proj", lambda a: a * np.nan),
    "other names": lambda f: _array(f, "CNN/W_cnn_0", lambda a: np.array("text", dtype="S4")),
    "other sizes": lambda f: _option(f, "lstm", dim=7),
    "huge": lambda f: _option(f, "lstm", dim=10**9),
    "wide filters": lambda f: _option(f, "char_cnn", filters=[[10, 3], [2, 4], [3, 2]]),
    "other activation": lambda f: _option(f, "char_cnn", activation="__import__"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_folder_of_another_kind_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    folder = write_bilm(tmp_path)
    HOSTILE[name](folder)
    with pytest.raises(DataError) as refused:
        _build(folder)
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)


def test_a_spoilt_saved_encoder_is_refused(tmp_path: Path) -> None:
    _build(write_bilm(tmp_path / "elmo")).save(tmp_path / "encoder")
    (tmp_path / "encoder" / "elmo.json").write_text("{}")
    with pytest.raises(DataError, match=r"elmo\.json:1: filters"):
        load_encoder(tmp_path / "encoder")
