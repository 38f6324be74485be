"""Transformers: pieces and vectors as Hugging Face itself makes them, brought to words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from encoders.bilm import write_bilm
from encoders.tiny import FAMILIES, write_model
from safetensors.torch import load_file, save_file
from token_lists import sentences_of
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from maskedcrf.data.sentence import NO_CONTEXT, Context
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import Encoder, build_encoder, load_encoder
from maskedcrf.encoders.transformer.model import Transformer
from maskedcrf.errors import DataError

TRAINING = [["the"]]
SENTENCES = [["the", "unbelievableness", "sat"], ["Cats", "a-b", "北京", "😀"], ["mat"]]
REDUCE = {
    "first": lambda pieces: pieces[0],
    "last": lambda pieces: pieces[-1],
    "mean": lambda pieces: torch.stack(pieces).mean(0),
    "max": lambda pieces: torch.stack(pieces).amax(0),
}


def _build(folder: Path, **settings: object) -> Encoder:
    return build_encoder(EncoderConfig(transformer=str(folder), **settings), sentences_of(TRAINING)).eval()  # type: ignore[arg-type]


@torch.no_grad()
def _by_hand(folder: Path, sentence: list[str], pooling: str) -> Tensor:
    """One sentence through transformers alone, as running text, with a Python loop over its pieces."""
    text = "".join(f" {word}" for word in sentence)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pieces = tokenizer(text, return_offsets_mapping=True, return_tensors="pt", truncation=False, padding=False)
    hidden = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()(input_ids=pieces["input_ids"])[0][0]
    grouped: list[list[Tensor]] = [[] for _ in sentence]
    for vector, (start, end) in zip(hidden, pieces["offset_mapping"][0].tolist(), strict=True):
        if end > start:  # [CLS] and [SEP] stand nowhere in the text
            grouped[text[:end].count(" ") - 1].append(vector)
    return torch.stack([REDUCE[pooling](group) for group in grouped])


@pytest.mark.parametrize("pooling", ["first", "last", "mean", "max"])
@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_words_get_what_transformers_computes_for_their_pieces(kind: str, pooling: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path, kind)
    encoder = _build(folder, pooling=pooling)
    expected = [_by_hand(folder, sentence, pooling) for sentence in SENTENCES]
    for mode in (torch.no_grad, torch.inference_mode):  # the second computes BERT without padding
        with mode():
            vectors = encoder(encoder.prepare(sentences_of(SENTENCES)))
        for row, words in zip(vectors, expected, strict=True):
            torch.testing.assert_close(row[: len(words)], words, rtol=0, atol=1e-5)


def test_a_word_without_pieces_is_the_unknown_piece(tmp_path: Path) -> None:
    part = _build(write_model(tmp_path)).parts["transformer"]
    assert isinstance(part, Transformer)
    assert part.words.pieces_of_words(["\u200d", "", "\x00", "the"]) == [[1], [1], [1], [5]]


def test_a_sentence_is_as_long_as_its_row_of_pieces(tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path))
    rows = [encoder.prepare(sentences_of([sentence]))["pieces"].shape for sentence in SENTENCES]
    assert [(1, length) for length in encoder.compute_lengths(sentences_of(SENTENCES))] == rows
    assert max(map(max, rows)) > 2 + max(map(len, SENTENCES))  # words were cut


def test_a_long_sentence_is_read_in_windows_that_agree_with_their_own_text(tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path, positions=22))  # 20 pieces beside [CLS] and [SEP]
    sentence = [["the", "cat", "sat", "mat"][n % 4] for n in range(33)]
    features = encoder.prepare(sentences_of([sentence]))
    assert features["pieces"].shape[1] <= 22
    assert features["mask"].shape == (1, 33)
    with torch.no_grad():
        whole, first = encoder(features)[0], encoder(encoder.prepare(sentences_of([sentence[:20]])))[0]
    torch.testing.assert_close(whole[:17], first[:17], rtol=0, atol=1e-5)
    assert (whole[19] - first[19]).abs().max() > 1e-3, "words near the border are read from the next window"


CONTEXTS = [Context(("a", "unbelievable"), ("mat", "Cats")), Context((), ("b",)), Context(("é", "the", "a-b"), ())]


@pytest.mark.parametrize("pooling", ["first", "last", "mean", "max"])
@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_words_get_what_transformers_computes_for_them_among_their_neighbours(
    kind: str, pooling: str, tmp_path: Path
) -> None:
    folder = write_model(tmp_path, kind)
    encoder = _build(folder, pooling=pooling, context=3)
    features = encoder.prepare(sentences_of(SENTENCES, CONTEXTS))
    assert torch.equal(features["mask"], encoder.prepare(sentences_of(SENTENCES))["mask"])
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            vectors = encoder(features)
        for row, sentence, (before, after) in zip(vectors, SENTENCES, CONTEXTS, strict=True):
            whole = _by_hand(folder, [*before, *sentence, *after], pooling)
            own = whole[len(before) :][: len(sentence)]
            torch.testing.assert_close(row[: len(sentence)], own, rtol=0, atol=1e-5)


def test_a_row_holds_the_words_before_then_the_sentence_then_the_words_after(tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path), context=3)
    sentences = sentences_of([["the", "cats"], ["mat"]], [Context(("a",), ("b", "sat")), NO_CONTEXT])
    features = encoder.prepare(sentences)
    names = AutoTokenizer.from_pretrained(tmp_path).convert_ids_to_tokens
    first, second = (names(row.tolist()) for row in features["pieces"])
    assert first == ["[CLS]", "a", "the", "cat", "##s", "b", "sat", "[SEP]"]
    assert second == ["[CLS]", "mat", "[SEP]", *["[PAD]"] * 5]
    assert features["places"].squeeze(-1).tolist() == [[2, 3], [9, 0]]
    assert encoder.compute_lengths(sentences) == [8, 3]


def test_sentences_with_nothing_around_them_are_prepared_as_ever(tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path), context=3, pooling="mean")
    plain, alone = encoder.prepare(sentences_of(SENTENCES)), encoder.prepare(sentences_of(SENTENCES, [NO_CONTEXT] * 3))
    assert plain.keys() == alone.keys()
    assert all(torch.equal(plain[name], alone[name]) for name in plain)
    lengths = [encoder.compute_lengths(sentences_of(SENTENCES, contexts)) for contexts in ((), [NO_CONTEXT] * 3)]
    assert lengths[0] == lengths[1]


def test_no_other_part_sees_what_is_around(tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path), context=3, words=4, characters=5, elmo=str(write_bilm(tmp_path / "elmo")))
    plain, wide = encoder.prepare(sentences_of(SENTENCES)), encoder.prepare(sentences_of(SENTENCES, CONTEXTS))
    of_transformer = {"pieces", "piece_mask", "places"}
    assert len(plain.keys() - of_transformer) > 4
    assert all(torch.equal(plain[name], wide[name]) for name in plain.keys() - of_transformer)
    assert not torch.equal(plain["places"], wide["places"])


@pytest.mark.parametrize("own", [2, 15, 40])
def test_more_words_than_positions_are_read_in_windows_context_or_not(own: int, tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path, positions=22), context=30)
    text = [["the", "cat", "sat", "mats"][n % 4] for n in range(60 + own)]
    contexts = [Context(tuple(text[:30]), tuple(text[-30:])), NO_CONTEXT]
    features = encoder.prepare(sentences_of([text[30:-30], ["a"]], contexts))
    assert features["pieces"].shape[1] <= 22
    assert features["mask"].sum() == own + 1
    with torch.no_grad():
        found, whole = encoder(features)[0], encoder(encoder.prepare(sentences_of([text])))[0]
    torch.testing.assert_close(found[:own], whole[30:-30], rtol=0, atol=1e-5)


def test_context_without_a_transformer_is_refused() -> None:
    with pytest.raises(ValueError, match="context needs a transformer"):
        EncoderConfig(context=8)


def test_half_precision_checkpoints_are_trained_in_single(tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path, half=True))
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}


@pytest.mark.parametrize(("kind", "prefix"), [("bert", "encoder.layer"), ("distilbert", "transformer.layer")])
def test_layers_run_from_the_embeddings_to_the_top(kind: str, prefix: str, tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path, kind))
    names = {id(p): n.removeprefix("parts.transformer.model.") for n, p in encoder.named_parameters()}
    homes = [{names[id(parameter)].rsplit(".", 1)[0] for parameter in layer} for layer in encoder.layers()]
    assert len(homes) == 3
    assert all(name.startswith("embeddings.") for name in homes[0])
    assert all(name.startswith(f"{prefix}.0.") for name in homes[1])
    assert all(name.startswith(f"{prefix}.1.") for name in homes[2])


def test_the_pooler_is_left_out(tmp_path: Path) -> None:
    assert not [name for name, _ in _build(write_model(tmp_path)).named_parameters() if "pooler" in name]


def _config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _weights(folder: Path, change: object) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file(change(dict(weights)), path, metadata={"format": "pt"})  # type: ignore[operator]


def _without(name: str) -> object:
    return lambda weights: {key: value for key, value in weights.items() if name not in key}


HOSTILE = {
    "auto_map": (lambda f: _config(f, auto_map={"AutoModel": "evil.Model"}), "brings its own code"),
    "unknown type": (lambda f: _config(f, model_type="evil"), "unknown model type 'evil'"),
    "type of a wrong kind": (lambda f: _config(f, model_type=["bert"]), "unknown model type"),
    "encoder-decoder": (lambda f: _config(f, is_encoder_decoder=True), "plain encoder"),
    "quantised": (lambda f: _config(f, quantization_config={"quant_method": "evil"}), "plain encoder"),
    "huge": (lambda f: _config(f, hidden_size=10**12), "hidden_size is 1000000000000"),
    "endless": (lambda f: _config(f, num_hidden_layers=10**9), "num_hidden_layers"),
    "no config": (lambda f: (f / "config.json").unlink(), "no config.json"),
    "broken config": (lambda f: (f / "config.json").write_text("{"), "cannot be loaded"),
    "broken tokenizer": (lambda f: (f / "tokenizer.json").write_text("[]"), "cannot be loaded"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "cannot be loaded"),
    "pickle only": (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "cannot be loaded"),
    "pickle in disguise": (lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04K\x01." * 9), "cannot be loaded"),
    "missing weights": (lambda f: _weights(f, _without("layer.1")), "weights are missing"),
    "NaN": (lambda f: _weights(f, lambda w: {k: v * float("nan") for k, v in w.items()}), "NaN or infinity"),
    "other shapes": (
        lambda f: _weights(f, lambda w: {k: v[:1].contiguous() for k, v in w.items()}),
        "cannot be loaded",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    spoil, message = HOSTILE[name]
    folder = write_model(tmp_path / "model")
    spoil(folder)
    with pytest.raises(DataError, match=message) as refused:
        _build(folder)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("key", ["_attn_implementation_internal", "_attn_implementation", "attn_implementation"])
def test_a_config_cannot_name_the_code_of_attention(key: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    _config(folder, **{key: "someone/kernels:evil"})
    encoder = _build(folder)
    assert encoder.parts["transformer"].model.config._attn_implementation in ("sdpa", "eager")  # type: ignore[union-attr]


def test_a_slow_tokenizer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        is_fast = False

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *args, **settings: Slow())
    with pytest.raises(DataError, match="Slow is a slow tokenizer; give a model with a tokenizer.json"):
        _build(write_model(tmp_path))


def test_a_name_that_cannot_be_reached_is_said_without_a_line_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("nope is not there\nand more of it")

    monkeypatch.setattr("transformers.PreTrainedConfig.get_config_dict", unreachable)
    with pytest.raises(DataError, match="^nope: cannot be loaded: nope is not there$"):
        _build(Path("nope"))


@pytest.mark.parametrize("name", ["no/such/folder", "../outside", "~/x", "a b", ""])
def test_what_is_neither_folder_nor_hub_name_is_refused(name: str) -> None:
    with pytest.raises((DataError, ValueError), match="neither a folder|needs a part"):
        build_encoder(EncoderConfig(transformer=name, words=0, characters=0), sentences_of(TRAINING))


def _saved(folder: Path, **changes: object) -> None:
    path = folder / "transformer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


SPOILT = {
    "no file": lambda f: (f / "transformer.json").unlink(),
    "no tokenizer": lambda f: (f / "tokenizer.json").unlink(),
    "link": lambda f: ((f / "tokenizer.json").rename(f / "x"), (f / "tokenizer.json").symlink_to(f / "x")),
    "broken tokenizer": lambda f: (f / "tokenizer.json").write_text("{}"),
    "missing key": lambda f: (f / "transformer.json").write_text("{}"),
    "unknown key": lambda f: _saved(f, code="evil"),
    "piece beyond the embeddings": lambda f: _saved(f, pad=10**6),
    "negative piece": lambda f: _saved(f, unknown=-1),
    "no positions": lambda f: _saved(f, positions=0),
    "auto_map": lambda f: _saved(f, config={"model_type": "bert", "auto_map": {"AutoModel": "evil.Model"}}),
    "unknown type": lambda f: _saved(f, config={"model_type": "../evil"}),
    "wrong value": lambda f: _saved(f, config={"model_type": "bert", "hidden_size": "x"}),
    "config of another kind": lambda f: (f / "encoder.json").write_text('{"config": {"wrods": 1}, "format": 1}'),
    "newer format": lambda f: (f / "encoder.json").write_text('{"config": {}, "format": 2}'),
    "not JSON": lambda f: (f / "encoder.json").write_bytes(b"\x80\x04K\x01."),
    "no encoder": shutil.rmtree,
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_saved_encoder_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    _build(write_model(tmp_path / "model")).save(folder)
    load_encoder(folder)
    SPOILT[name](folder)
    with pytest.raises(DataError) as refused:
        load_encoder(folder)
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)


def test_a_saved_encoder_never_looks_at_the_folders_its_config_names(tmp_path: Path) -> None:
    encoder = _build(write_model(tmp_path / "model"))
    encoder.save(tmp_path / "encoder")
    shutil.rmtree(tmp_path / "model")
    assert load_encoder(tmp_path / "encoder").width == encoder.width


def test_a_tokenizer_that_takes_less_than_the_model_sets_the_length_of_windows(tmp_path: Path) -> None:
    folder = write_model(tmp_path, positions=64)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 22}))
    encoder = _build(folder)
    assert encoder.prepare(sentences_of([["the"] * 50]))["pieces"].shape[1] == 22


def test_the_pieces_that_are_remembered_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedcrf.encoders.features.MAX_CACHED_WORDS", 3)
    part = _build(write_model(tmp_path)).parts["transformer"]
    assert isinstance(part, Transformer)
    words = [["the", "cat"], ["sat", "mat"], ["on", "a"], ["the", "mat"]]
    fresh = _build(tmp_path).parts["transformer"]
    assert isinstance(fresh, Transformer)
    for tokens in words:
        assert part.words.pieces_of_words(tokens) == fresh.words.pieces_of_words(tokens)
        assert len(part.words._pieces) <= 4
