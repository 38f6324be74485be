"""What a model folder asks for is bounded by what came with it, and its files are of one model."""

from __future__ import annotations

import base64
import json
import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from encoders.tiny import write_model
from safetensors.torch import load_file, save_file

from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.encoders.vocabulary import Lexicon
from maskedcrf.errors import DataError, MaskedCRFError, ModelFolderError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger import folder as folder_module
from maskedcrf.tagger.folder import update_record
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.constraints import MAX_TAGS, Constraints

Change = Callable[[Path], object]
LOADS = 100
"""Of a folder that another process replaces all the while."""


def _tagger(config: EncoderConfig, tags: tuple[str, ...] = ("O", "B-X", "I-X"), seed: int = 0) -> Tagger:
    torch.manual_seed(seed)
    encoder = build_encoder(config, [Sentence(("a", "b"))] * 2)
    return Tagger(TaggerModel(encoder, Constraints.from_scheme(tags, "BIO"), dropout=0.0).eval())


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tagger with a transformer."""
    folder = tmp_path_factory.mktemp("transformer")
    return _tagger(EncoderConfig(transformer=str(write_model(folder / "source")))).save(folder / "model")


def edited(path: Path, change: Callable[[Any], object]) -> None:
    """The JSON file with something changed in it."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def config_of_encoder(change: dict[str, Any]) -> Change:
    return lambda folder: edited(folder / "encoder/transformer.json", lambda saved: saved["config"].update(change))


def another_model(config: dict[str, Any]) -> Change:
    return lambda folder: edited(folder / "encoder/transformer.json", lambda saved: saved.update(config=config))


def normalizers(*steps: dict[str, Any]) -> Change:
    sequence = {"type": "Sequence", "normalizers": list(steps)}
    return lambda folder: edited(folder / "encoder/tokenizer.json", lambda saved: saved.update(normalizer=sequence))


def weights(name: str, dtype: torch.dtype) -> Change:
    def change(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        save_file({**found, name: found[name].to(dtype)}, folder / "model.safetensors")

    return change


def strange_weight(folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file({**load_file(path), "a\n\x1b]0;" + "b" * 1000: torch.ones(1)}, path)


def many_tags(count: int) -> Change:
    tags = ["O", *(f"{prefix}-{kind}" for kind in range(count) for prefix in "BI")][:count]
    return lambda folder: edited(folder / "config.json", lambda saved: saved.update(tags=tags))


def half_a_character(folder: Path) -> None:
    edited(folder / "config.json", lambda saved: saved.update(tags=["O", "B-\ud800", "I-\ud800"]))


def circle(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")


DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
ANYTHING = {"type": "Replace", "pattern": {"Regex": "."}, "content": "x" * 17}
CHARSMAP = base64.b64encode(b"\x04\0\0\0" + b"trie" + b"a" * 65 + b"\0").decode()
GPT2 = {"model_type": "gpt2", "n_layer": 100_000, "n_embd": 16, "n_head": 2}
EXPERTS = {"model_type": "mixtral", "num_local_experts": 1000, "hidden_size": 16, "num_attention_heads": 2}

TABLES = {"model_type": "ctrl", "n_positions": 100_000, "n_embd": 1280, "dff": 16, "n_layer": 1, "n_head": 2}

HOSTILE: dict[str, tuple[Change, str]] = {
    "30,001 tags": (many_tags(30_001), r"config\.json: 30001 tags, 4,096 are the most"),
    "as many tags as are allowed, of another model": (many_tags(MAX_TAGS), "where the model of"),
    "half a character in a tag": (half_a_character, r"'B-\\ud800' holds half a character"),
    "100,000 layers": (config_of_encoder({"num_hidden_layers": 100_000}), "num_hidden_layers is 100000"),
    "100,000 layers by another name": (another_model(GPT2), "n_layer is 100000, more than 256"),
    "fewer than no heads": (
        config_of_encoder({"num_attention_heads": -1}),
        "num_attention_heads is -1, less than none",
    ),
    "more layers than weights": (config_of_encoder({"num_hidden_layers": 200}), "larger model than the 42 weights"),
    "many experts": (another_model({**EXPERTS, "num_hidden_layers": 200}), "larger model|has|nothing"),
    "tables that are not saved": (another_model(TABLES), "larger model than the 42 weights"),
    "what is no number": (config_of_encoder({"hidden_dropout_prob": float("nan")}), "hidden_dropout_prob is nan"),
    "no delimiter": (lambda folder: edited(folder / "config.json", lambda saved: saved.update(delimiter="")), "empty"),
    "a long name": (
        lambda folder: edited(folder / "config.json", lambda saved: saved.update(scheme="x" * 101)),
        "at most 100 characters",
    ),
    "normalisers that double": (normalizers(*[DOUBLE] * 28), "make up to 268435456 characters of one"),
    "a normaliser that writes much": (normalizers(ANYTHING), "make up to 18 characters of one, 16 are the most"),
    "65 normalisers": (normalizers(*[{"type": "Lowercase"}] * 65), "more than 64 normalisers"),
    "a compiled table": (normalizers({"type": "Precompiled", "precompiled_charsmap": CHARSMAP}), "more than 64 bytes"),
    "8-bit weights": (weights("linear.bias", torch.float8_e4m3fn), "linear.bias holds numbers of type F8_E4M3"),
    "whole numbers": (weights("linear.bias", torch.int64), "linear.bias holds numbers of type I64"),
    "truth values": (weights("linear.bias", torch.bool), "linear.bias holds numbers of type BOOL"),
    "complex numbers": (weights("linear.bias", torch.complex64), "linear.bias holds numbers of type C64"),
    "a weight of a strange name": (strange_weight, r"safetensors: a\\n\\x1b\]0;b{90} is \(1,\) where"),
    "links in a circle": (circle, "a link that leads nowhere"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_folder_that_asks_for_more_than_came_with_it_is_refused_in_one_line(
    transformer: Path, tmp_path: Path, name: str
) -> None:
    folder = shutil.copytree(transformer, tmp_path / "model")
    change, message = HOSTILE[name]
    change(folder)
    edited(folder / "config.json", lambda saved: saved.pop("digests"))  # as its author would
    with pytest.raises(MaskedCRFError, match=message) as refused:
        Tagger.load(folder)
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)


def test_a_tokenizer_with_a_piece_of_a_large_number_costs_no_memory(transformer: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(transformer, tmp_path / "model")
    edited(folder / "encoder/tokenizer.json", lambda saved: saved["model"]["vocab"].update(zzz=(1 << 32) - 1))
    edited(folder / "config.json", lambda saved: saved.pop("digests"))
    # The library would write 2^32 holes before this piece.
    with pytest.raises(DataError, match="the tokenizer has piece 4294967295, the model only 21"):
        Tagger.load(folder)


def test_the_tokenizer_is_the_one_that_was_checked(transformer: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(transformer, tmp_path / "model")
    path = folder / "encoder/tokenizer.json"
    saved = json.loads(path.read_text())
    sound = json.dumps(saved["normalizer"])
    del saved["normalizer"]
    # Of a key that stands twice, Python takes the last.
    path.write_text(f'{{"normalizer": 5, "normalizer": {sound}, {json.dumps(saved)[1:]}')
    edited(folder / "config.json", lambda saved: saved.pop("digests"))
    assert Tagger.load(folder).predict([["the"]]) == Tagger.load(transformer).predict([["the"]])


def test_a_model_of_many_layers_loads(tmp_path: Path) -> None:
    config = EncoderConfig(words=4, lstm_layers=16, lstm_hidden=2)
    tagger = _tagger(config)
    assert len(tagger.model.state_dict()) > 128
    assert Tagger.load(tagger.save(tmp_path / "model")).predict([["a"]]) == tagger.predict([["a"]])


def test_what_a_configuration_says_of_labels_costs_nothing(transformer: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(transformer, tmp_path / "model")
    config_of_encoder({"num_labels": 10**15})(folder)
    edited(folder / "config.json", lambda saved: saved.pop("digests"))
    assert Tagger.load(folder).predict([["a"]]) == Tagger.load(transformer).predict([["a"]])


def test_what_a_configuration_says_of_the_way_to_compute_is_left_out(transformer: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(transformer, tmp_path / "model")
    config_of_encoder({"chunk_size_feed_forward": "much", "output_hidden_states": [[]]})(folder)
    edited(folder / "config.json", lambda saved: saved.pop("digests"))
    assert Tagger.load(folder).predict([["a"]]) == Tagger.load(transformer).predict([["a"]])


def test_a_long_word_of_a_lexicon_takes_memory_by_its_length() -> None:
    """A table of all its beginnings would take 125 GB."""
    lexicon = Lexicon(("b" * 500_000, "ab"))
    assert list(lexicon.find_words(["a", "b", "b"])) == [(0, 1, 1)]


def test_a_tokenizer_without_its_unknown_token_fails_in_one_line(transformer: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(transformer, tmp_path / "model")

    def without(saved: dict[str, Any]) -> None:
        del saved["model"]["vocab"]["[UNK]"]
        saved["added_tokens"] = [token for token in saved["added_tokens"] if token["content"] != "[UNK]"]

    edited(folder / "encoder/tokenizer.json", without)
    edited(folder / "config.json", lambda saved: saved.pop("digests"))
    with pytest.raises(DataError, match=r"the tokenizer fails on this text \(.*Missing \[UNK\] token"):
        Tagger.load(folder).predict([["zzz"]])


@pytest.mark.parametrize("own_words", [False, True], ids=["given words", "words of its own"])
def test_a_panic_of_the_tokenizer_is_an_error_like_any_other(
    transformer: Path, tmp_path: Path, own_words: bool
) -> None:
    folder = shutil.copytree(transformer, tmp_path / "model")
    normalizers({"type": "Replace", "pattern": {"Regex": "(a|a)+b"}, "content": ""})(folder)
    edited(folder / "config.json", lambda saved: saved.pop("digests"))
    edited(folder / "config.json", lambda saved: saved.update(tokenizer={"name": "model"}))
    tagger = Tagger.load(folder)
    with pytest.raises(DataError, match="the tokenizer fails on this text"):
        tagger.predict(["a" * 52] if own_words else [["a" * 52]])
    assert tagger.predict(["the"] if own_words else [["the"]])[0].tokens == ("the",)


@pytest.mark.parametrize("name", ["model.safetensors", "encoder/encoder.json", "encoder/words.json"])
def test_files_of_two_models_in_one_folder_are_refused_and_the_file_is_named(tmp_path: Path, name: str) -> None:
    one = _tagger(EncoderConfig(words=4)).save(tmp_path / "one")
    other = _tagger(EncoderConfig(words=4, dropout=0.25), seed=1)
    other.model.encoder.parts["words"].vocabulary.__dict__["words"] = ("c", "d")
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, one / name)
    with pytest.raises(
        ModelFolderError, match="different encoders|not the one that config.json was saved with"
    ) as error:
        Tagger.load(one)
    assert "\n" not in str(error.value)


def test_a_folder_without_digests_still_loads(tmp_path: Path) -> None:
    tagger = _tagger(EncoderConfig(words=4))
    folder = tagger.save(tmp_path / "model")
    edited(folder / "config.json", lambda saved: saved.pop("digests"))
    assert Tagger.load(folder).predict([["a", "b"]]) == tagger.predict([["a", "b"]])


def _replace_all_the_while(folder: Path, writing: Any, stop: Any) -> None:
    taggers = [_tagger(EncoderConfig(words=4), ("O", f"B-{kind}", f"I-{kind}"), seed) for seed, kind in enumerate("XY")]
    while not stop.is_set():
        for tagger in taggers:
            tagger.save(folder, overwrite=True)
        writing.set()


def test_a_folder_that_is_replaced_meanwhile_loads_as_one_model_or_not_at_all(tmp_path: Path) -> None:
    taggers = {kind: _tagger(EncoderConfig(words=4), ("O", f"B-{kind}", f"I-{kind}"), n) for n, kind in enumerate("XY")}
    known = {tagger.tags: dict(tagger.model.state_dict()) for tagger in taggers.values()}
    folder = taggers["X"].save(tmp_path / "model")
    spawn = multiprocessing.get_context("spawn")
    writing, stop = spawn.Event(), spawn.Event()
    writer = spawn.Process(target=_replace_all_the_while, args=(folder, writing, stop))
    writer.start()
    loaded, refusals = 0, list[str]()
    assert writing.wait(100)
    try:
        for _ in range(LOADS):
            try:
                found = Tagger.load(folder)
            except MaskedCRFError as error:
                refusals.append(str(error))
                continue
            loaded += 1
            expected = known[found.tags]
            assert all(torch.equal(expected[name], tensor) for name, tensor in found.model.state_dict().items())
    finally:
        stop.set()
        writer.join()
    assert writer.exitcode == 0
    assert loaded
    assert not [message for message in refusals if "\n" in message]


def test_a_record_given_to_a_folder_that_is_replaced_meanwhile_keeps_nothing_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagger, copy, copied = _tagger(EncoderConfig(words=4)), folder_module._copy, list[Path]()
    folder = tagger.save(tmp_path / "model")
    (folder / "metrics.jsonl").write_text("{}\n")

    def copy_and_replace(source: Path, target: Path) -> None:
        copy(source, target)
        copied.append(target)
        if len(copied) == 1:
            tagger.save(folder, overwrite=True)

    monkeypatch.setattr(folder_module, "_copy", copy_and_replace)
    update_record(folder, tagger.record.model_copy(update={"epoch": 3}))
    assert len(copied) == 2
    assert not (folder / "metrics.jsonl").exists()
    assert Tagger.load(folder).record.epoch == 3
