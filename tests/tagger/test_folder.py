"""Model folders: saved and loaded to the bit; hostile ones refused in one line each, and never run."""

from __future__ import annotations

import json
import pickle
import shutil
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_corpus import corpus

from maskedcrf import folders
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def test_a_saved_tagger_loads_with_the_same_answers(tagger, saved):
    loaded = Tagger.load(saved)
    texts = [sentence.tokens for sentence in corpus(10, 3)]
    options = {"probabilities": True, "nbest": 2}
    assert loaded.predict(texts, **options) == tagger.predict(texts, **options)
    assert loaded.record == tagger.record
    assert not loaded.model.training


def test_the_folder_holds_safetensors_json_and_a_card(tagger, saved):
    files = ["README.md", "config.json", "encoder", "metrics.jsonl", "model.safetensors"]
    assert sorted(path.name for path in saved.iterdir()) == files
    card = (saved / "README.md").read_text()
    dev = tagger.record.scores["dev"]
    assert f"{dev['retain']['f1']:.2f}" in card
    assert "| train | in memory | 60 |" in card
    assert "mask:train" in card
    config = json.loads((saved / "config.json").read_text())
    assert (config["scheme"], config["head"], config["mask"]) == ("BIO", "crf", "train")
    assert tuple(config["tags"]) == tagger.tags


def test_saving_twice_gives_the_same_bytes(tagger, saved, tmp_path):
    again = tagger.save(tmp_path / "again")
    for path in saved.rglob("*.*"):
        assert (again / path.relative_to(saved)).read_bytes() == path.read_bytes()


def _tagger_of(tagger, tags, scheme) -> Tagger:
    """A tagger over other tags, never trained."""
    rules = Constraints.from_scheme(tags, scheme)
    return Tagger(TaggerModel(tagger.model.encoder, rules, head="crf", mask="train", dropout=0.0))


@pytest.mark.parametrize("name", ["MINE", "BIO"])
def test_a_scheme_that_would_not_come_back_is_refused_in_one_line(tagger, tmp_path, name):
    own = Scheme.define(name, start="O B I", end="O B I", inside="BI II", between="OO OB OI BO BB IO IB")
    with pytest.raises(MaskedCRFError, match=f"{name!r} is your own") as error:
        _tagger_of(tagger, tagger.tags, own).save(tmp_path / "model")
    assert "\n" not in str(error.value)
    slashed = Tagger(tagger.model, output_scheme=Scheme.get("BIOES", delimiter="/"))
    with pytest.raises(MaskedCRFError, match="'BIOES' is your own table or way of writing"):
        slashed.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tags", "scheme", "expected"),
    [
        (["O", "B", "I"], Scheme.get("BIO"), "of 1 type\n"),
        (["O", "PER-X-B", "PER-X-I", "LOC-B", "LOC-I"], Scheme.get("BIO", prefix_last=True), "`LOC`, `PER-X`\n"),
        (["O", "B-PER-X", "I-PER-X"], Scheme.get("BIO"), "`PER-X`\n"),
    ],
)
def test_the_card_names_the_types_that_the_scheme_reads(tagger, tmp_path, tags, scheme, expected):
    folder = _tagger_of(tagger, tags, scheme).save(tmp_path / "model")
    assert expected in (folder / "README.md").read_text()
    assert Tagger.load(folder).tags == tuple(tags)


def test_loading_leaves_the_callers_random_numbers_alone(saved):
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Tagger.load(saved)
    assert torch.equal(torch.rand(1), expected)


def test_what_is_there_is_not_overwritten_unasked(tagger, folder):
    with pytest.raises(MaskedCRFError, match="something already"):
        tagger.save(folder)
    (folder / "README.md").write_text("mine")
    tagger.save(folder, overwrite=True)
    assert "mine" not in (folder / "README.md").read_text()


def test_a_save_that_fails_leaves_what_was_there(tagger, folder, monkeypatch):
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, "flush", full)
    with pytest.raises(MaskedCRFError, match="No space left on device"):
        tagger.save(folder, overwrite=True)
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


class Bomb:
    """A pickle that would leave a mark if anybody unpickled it."""

    def __init__(self, mark) -> None:
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def _pickle_named_safetensors(folder, mark):
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb(mark)))


def _only_a_pickle(folder, mark):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(mark)))


def _oversized_header(folder, mark):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")


def _header_beyond_the_file(folder, mark):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 20) + b"{}")


def _overlapping_tensors(folder, mark):
    tensor = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"a": tensor, "b": tensor}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)


def _cut_file(folder, mark):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def _weights(change):
    def spoil(folder, mark):
        weights = load_file(folder / "model.safetensors")
        save_file(change(weights), folder / "model.safetensors")

    return spoil


def _config(change):
    def spoil(folder, mark):
        config = json.loads((folder / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))

    return spoil


def _huge_encoder(folder, mark):
    huge = {"lstm_hidden": 8192, "lstm_layers": 16}
    _config(lambda config: config["encoder"].update(huge))(folder, mark)
    path = folder / "encoder" / "encoder.json"
    saved = json.loads(path.read_text())
    saved["config"].update(huge)
    path.write_text(json.dumps(saved))


def _link_outside(folder, mark):
    outside = folder.parent / "outside.json"
    outside.write_text((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(outside)


def _linked_encoder(folder, mark):
    (folder / "encoder").rename(folder.parent / "elsewhere")
    (folder / "encoder").symlink_to("../elsewhere")


def _deep_json(folder, mark):
    (folder / "config.json").write_text("[" * 100_000)


HOSTILE = {
    "a pickle named safetensors": (_pickle_named_safetensors, "not a safetensors file"),
    "only a pickle": (_only_a_pickle, "never read"),
    "an oversized header": (_oversized_header, "oversized"),
    "a header beyond the file": (_header_beyond_the_file, "oversized"),
    "overlapping tensors": (_overlapping_tensors, "not a sound safetensors file"),
    "half a file": (_cut_file, "not a sound safetensors file"),
    "wrong shapes": (_weights(lambda w: {**w, "linear.bias": torch.zeros(3)}), r"linear.bias is \(3,\)"),
    "a missing weight": (_weights(lambda w: {k: v for k, v in w.items() if k != "linear.bias"}), "is nothing where"),
    "a weight too many": (_weights(lambda w: {**w, "extra": torch.zeros(1)}), "has nothing"),
    "NaN weights": (_weights(lambda w: {**w, "linear.bias": w["linear.bias"] * torch.nan}), "NaN"),
    "infinite transitions": (
        _weights(lambda w: {**w, "crf.transitions": w["crf.transitions"] + torch.inf}),
        "NaN or inf",
    ),
    "an unknown key": (_config(lambda c: c.update(plugin="os.system")), "plugin"),
    "auto_map": (_config(lambda c: c.update(auto_map={"AutoModel": "evil.Model"})), "auto_map"),
    "another format": (_config(lambda c: c.update(format="pickle")), "format"),
    "an unknown head": (_config(lambda c: c.update(head="os.system")), "head"),
    "an unknown scheme": (_config(lambda c: c.update(scheme="../BIO")), "unknown scheme"),
    "another encoder": (_config(lambda c: c["encoder"].update(transformer="../../elsewhere")), "different encoders"),
    "tags twice": (_config(lambda c: c.update(tags=["O", "O"])), "twice"),
    "an encoder that fills the memory": (_huge_encoder, "larger model than"),
    "a link that leads outside": (_link_outside, "leads outside"),
    "an encoder elsewhere": (_linked_encoder, "leads outside"),
    "bottomless JSON": (_deep_json, "JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_in_one_line(folder, tmp_path, name):
    spoil, message = HOSTILE[name]
    mark = tmp_path / "code-was-run"
    spoil(folder, mark)
    with pytest.raises(MaskedCRFError, match=message) as error:
        Tagger.load(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert not mark.exists()


@pytest.mark.parametrize("missing", ["config.json", "encoder", "model.safetensors"])
def test_an_incomplete_folder_is_refused_in_one_line(folder, missing):
    path = folder / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(MaskedCRFError, match=missing) as error:
        Tagger.load(folder)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MaskedCRFError, match="no such folder"):
        Tagger.load(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["thesis.txt", ".hidden", "sub/data.conll"])
def test_overwriting_replaces_a_model_and_nothing_else(tagger, tmp_path, name):
    target = tagger.save(tmp_path / "model")
    tagger.save(target, overwrite=True)
    mine = target / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(MaskedCRFError, match="is no part of a model and would be lost; give another folder"):
        tagger.save(target, overwrite=True)
    assert mine.read_text() == "mine"


def test_a_model_does_not_take_the_place_of_a_file(tagger, tmp_path):
    (tmp_path / "data.conll").write_text("mine")
    with pytest.raises(MaskedCRFError, match=r"data\.conll: a file, which is not overwritten"):
        tagger.save(tmp_path / "data.conll", overwrite=True)
    with pytest.raises(MaskedCRFError, match="give the folder of the model a name of its own"):
        tagger.save(".", overwrite=True)


def test_whoever_may_read_the_folder_may_read_the_weights(tagger, tmp_path):
    target = tagger.save(tmp_path / "model")
    modes = {path.name: path.stat().st_mode & 0o777 for path in target.iterdir() if path.is_file()}
    assert len(set(modes.values())) == 1, modes


def test_the_scheme_of_the_output_and_the_dropout_are_saved_too(tagger, tmp_path):
    other = Tagger(tagger.model, output_scheme=Scheme.get("BIOES"))
    loaded = Tagger.load(other.save(tmp_path / "model"))
    assert (loaded.scheme.name, loaded.output_scheme.name) == ("BIO", "BIOES")
    assert loaded.predict("new york").tags == ("B-LOC", "E-LOC")
    assert loaded.model.dropout.p == tagger.model.dropout.p > 0
