"""What every encoder keeps to, whatever its parts."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from encoders.conftest import TRAINING
from token_lists import sentences_of
from torch import Tensor

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import Encoder, build_encoder, load_encoder
from maskedcrf.encoders.lstm import BiLSTM
from maskedcrf.errors import DataError, ShapeError

ODD = ["😀", "👩‍👩‍👧", "e\u0301", "\u200d", "\ufe0f", "", "\x00", " ", "\u2028", "a" * 3000, "[SEP]", "</s>", "北京"]
BATCH = [["The", "cat"], [], ["the"] * 61, ODD, ["unbelievableness", "sat", "Sat", "2024-01-01"] * 3]


@torch.no_grad()
def _vectors(encoder: Encoder, sentences: list[list[str]]) -> list[Tensor]:
    features = encoder.prepare(sentences_of(sentences))
    vectors = encoder(features)
    assert vectors.shape == (*features["mask"].shape, encoder.width)
    return [row[mask] for row, mask in zip(vectors, features["mask"], strict=True)]


def test_every_word_gets_one_finite_vector(encoder: Encoder) -> None:
    for sentence, vectors in zip(BATCH, _vectors(encoder, BATCH), strict=True):
        assert len(vectors) == len(sentence)
        assert torch.isfinite(vectors).all()


def test_a_sentence_alone_is_the_sentence_in_any_batch(encoder: Encoder) -> None:
    together = _vectors(encoder, BATCH)
    turned = _vectors(encoder, BATCH[::-1])[::-1]
    for sentence, one, other in zip(BATCH, together, turned, strict=True):
        (alone,) = _vectors(encoder, [sentence])
        torch.testing.assert_close(one, alone, rtol=0, atol=1e-5)
        torch.testing.assert_close(other, alone, rtol=0, atol=1e-5)


def test_padding_holds_no_poison_and_its_content_reaches_no_word(encoder: Encoder) -> None:
    features = encoder.prepare(sentences_of(BATCH))
    loss = (encoder(features) * features["mask"][..., None]).sum()
    gradients = torch.autograd.grad(loss, [p for p in encoder.parameters() if p.requires_grad], allow_unused=True)
    assert all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None)


def test_a_saved_encoder_loads_to_the_same_vectors(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "encoder")
    state = torch.random.get_rng_state()
    loaded = load_encoder(tmp_path / "encoder").eval()
    assert torch.equal(state, torch.random.get_rng_state()), "loading draws no random numbers of the caller's"
    loaded.load_state_dict(encoder.state_dict())
    assert loaded.config == encoder.config
    for one, other in zip(_vectors(encoder, BATCH), _vectors(loaded, BATCH), strict=True):
        assert torch.equal(one, other)


def test_saving_twice_writes_the_same_bytes(encoder: Encoder, tmp_path: Path) -> None:
    for name in ("one", "two"):
        encoder.save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert {path.suffix for path in (tmp_path / "one").iterdir()} == {".json"}
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in files)


def _watch_waits(mode: str) -> None:
    with warnings.catch_warnings():  # torch calls this a prototype
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode(mode)


@pytest.mark.gpu
def test_bfloat16_on_a_gpu_comes_close_and_the_host_never_waits(encoder: Encoder) -> None:
    sentences = [["The", "cat", "sat"], ["unbelievable", "cat"], ["mat"] * 40]
    exact = _vectors(encoder, sentences)
    features = {name: feature.cuda() for name, feature in encoder.prepare(sentences_of(sentences)).items()}
    try:
        encoder.cuda()
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            encoder(features)  # loading kernels may wait; the calls that follow may not
            _watch_waits("error")
            rough = encoder(features)
    finally:
        _watch_waits("default")
        encoder.cpu()
    for row, mask, one in zip(rough.cpu().float(), features["mask"].cpu(), exact, strict=True):
        torch.testing.assert_close(row[mask], one, rtol=0.05, atol=0.1)


def test_the_skeleton_can_be_sized_up_without_memory(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path)
    with torch.device("meta"):
        skeleton = load_encoder(tmp_path)
    shapes = {name: weight.shape for name, weight in skeleton.state_dict().items()}
    assert shapes == {name: weight.shape for name, weight in encoder.state_dict().items()}


def test_layers_list_each_pretrained_parameter_once(encoder: Encoder) -> None:
    listed = [parameter for layer in encoder.layers() for parameter in layer]
    named = [
        p for n, p in encoder.named_parameters() if ".transformer." in n or ".elmo.characters" in n or ".stack" in n
    ]
    assert len(listed) == len(named)
    assert {id(parameter) for parameter in listed} == {id(parameter) for parameter in named}


def test_every_trainable_parameter_is_reached_by_the_gradient(encoder: Encoder) -> None:
    encoder.zero_grad()
    features = encoder.prepare(sentences_of([["The", "cat", "sat", "unbelievableness"]]))
    encoder(features).square().sum().backward()
    unused = [name for name, parameter in encoder.named_parameters() if parameter.grad is None]
    encoder.zero_grad()
    assert not unused


@pytest.mark.parametrize("kind", ["lstm", "bert"])
def test_ten_thousand_words_are_one_sentence(kind: str, encoders: dict[str, Encoder]) -> None:
    sentence = ["the", "cat", "unbelievable", "1996"] * 2500
    (vectors,) = _vectors(encoders[kind], [sentence])
    assert len(vectors) == 10_000
    assert torch.isfinite(vectors).all()


def test_an_lstm_hears_both_ends_of_the_sentence(encoders: dict[str, Encoder]) -> None:
    one, other = _vectors(encoders["lstm"], [["cat", "sat", "on"], ["cat", "sat", "mat"]])
    assert (one - other).abs().amax(dim=1).min() > 0
    one, other = _vectors(encoders["lstm"], [["cat", "sat", "on"], ["mat", "sat", "on"]])
    assert (one - other).abs().amax(dim=1).min() > 0


def test_the_same_seed_builds_and_drops_out_the_same() -> None:
    def run() -> Tensor:
        torch.manual_seed(7)
        encoder = build_encoder(EncoderConfig(words=8, characters=6, lstm_hidden=4), sentences_of(TRAINING))
        return encoder(encoder.prepare(sentences_of(TRAINING)))  # type: ignore[no-any-return]

    assert torch.equal(run(), run())


def test_a_batch_of_nothing_is_refused(encoders: dict[str, Encoder]) -> None:
    with pytest.raises(ShapeError, match="at least one sentence"):
        encoders["lstm"].prepare(sentences_of([]))


@pytest.mark.parametrize("sentences", [[], [[], []]])
def test_no_training_words_are_refused(sentences: list[list[str]]) -> None:
    with pytest.raises(DataError, match="no training sentences"):
        build_encoder(EncoderConfig(), sentences_of(sentences))


def test_a_transformer_comes_alone_unless_more_is_asked_for() -> None:
    plain = EncoderConfig(transformer="name")
    assert (plain.words, plain.characters, plain.lstm_layers, plain.dropout) == (0, 0, 0, 0.1)
    full = EncoderConfig(transformer="name", words=50, lstm_layers=1, dropout=0.3)
    assert (full.words, full.lstm_layers, full.dropout) == (50, 1, 0.3)
    assert EncoderConfig.model_validate_json(full.model_dump_json()) == full


@pytest.mark.parametrize(
    "wrong",
    [
        {"words": 0, "characters": 0},
        {"wrods": 3},
        {"words": -1},
        {"words": 0, "vectors": "x"},
        {"dropout": 1},
        {"pooling": "sum"},
    ],
)
def test_a_wrong_config_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="EncoderConfig"):
        EncoderConfig.model_validate(wrong)


def test_only_a_bert_alone_predicts_without_padding(encoders):
    assert {kind for kind, encoder in encoders.items() if not encoder.computes_padding} == {"bert", "roberta"}


def test_an_lstm_drops_out_before_each_layer_and_in_training_alone() -> None:
    lstm = BiLSTM(4, 3, layers=2, dropout=0.5)
    vectors, mask = torch.ones(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    shapes: list[int] = []
    lstm.dropout.register_forward_hook(lambda _, given, __: shapes.append(given[0].shape[-1]))
    lstm.eval()
    assert torch.equal(lstm(vectors, mask), lstm(vectors, mask))
    lstm.train()
    assert not torch.equal(lstm(vectors, mask), lstm(vectors, mask))
    assert shapes == [4, 6] * 4
