"""Settings: frozen, refused with the nearest name, resolved by the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest
from pydantic import ValidationError
from small_corpus import corpus

from maskedcrf.data.labelled import DataDict
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.tagger import Tagger
from maskedcrf.training.settings import DataSettings, OptimSettings, Settings, SettingsError
from maskedcrf.training.settings_dict import EncoderDict, OptimDict, SettingsDict
from maskedcrf.training.settings_file import read_settings


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"epoch": 3}, "did you mean epochs?"),
        ({"head_rate": 1e-3}, "did you mean optim.head_rate?"),
        ({"optim": {"lr": 1e-3}}, "did you mean optim.head_rate?"),
        ({"encoder": {"foo": 1}}, "known are file_scheme, scheme"),
        ({"optim": {"layer_decy": 0.5}}, "did you mean optim.layer_decay?"),
        ({"encoder": {"lstm_hiden": 3}}, "did you mean encoder.lstm_hidden?"),
        ({"epochs": 0}, "epochs"),
        ({"mask": "always"}, "mask"),
        ({"scheme": "BIOS"}, "BIO"),
        ({"optim": {"clip": -1}}, "optim.clip"),
        ({"head": "softmax", "mask": "train"}, "softmax"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_that_names_it(given, named):
    with pytest.raises(SettingsError, match=r".") as error:
        Settings.of(given)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_settings_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError):
        Settings.of({}).epochs = 3


def test_every_setting_says_what_it_is():
    for model in (Settings, OptimSettings, DataSettings):
        assert [name for name, field in model.model_fields.items() if not field.description] == []


def test_a_softmax_head_is_unmasked_unless_decoding_is_masked():
    assert Settings.of({"head": "softmax"}).mask == "off"
    assert Settings.of({"head": "softmax", "mask": "decode"}).mask == "decode"
    assert Settings.of({}).mask == "train"


def test_defaults_follow_the_encoder_and_the_size_of_the_data():
    transformer = Settings.of({"encoder": {"transformer": "some-model"}})
    assert [transformer.resolved(size).epochs for size in (4999, 5000)] == [20, 10]
    assert transformer.resolved(10).optim.schedule == "linear"
    assert transformer.resolved(10).optim.encoder_rate == 1e-4
    words = Settings.of({}).resolved(10)
    assert (words.epochs, words.patience, words.dropout, words.optim.schedule) == (40, 8, 0.5, "constant")


def test_the_three_schemes_are_three_settings():
    only_file = Settings.of({"file_scheme": "IOB1"}).resolved(1)
    assert (only_file.file_scheme, only_file.scheme, only_file.output_scheme) == ("IOB1", "BIO", "IOB1")
    only_trained = Settings.of({"scheme": "BIOES"}).resolved(1)
    assert (only_trained.file_scheme, only_trained.output_scheme) == ("BIOES", "BIOES")
    finer = Settings.of({"scheme": "BIOES", "output_scheme": "BIO", "file_scheme": None}).resolved(1)
    assert (finer.file_scheme, finer.scheme, finer.output_scheme) == ("BIO", "BIOES", "BIO")


def test_an_output_scheme_of_another_kind_is_named_as_such():
    with pytest.raises(SettingsError, match="^output_scheme: "):
        Settings.of({"output_scheme": 3})


def test_flags_win_over_the_file(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('scheme = "BIOES"\nepochs = 5\n[encoder]\nwords = 8\n')
    values = read_settings(path, {"epochs": 7, "encoder.lstm_hidden": 4})
    settings = Settings.of(values)
    assert (settings.scheme, settings.epochs) == ("BIOES", 7)
    assert (settings.encoder.words, settings.encoder.lstm_hidden) == (8, 4)


@pytest.mark.parametrize("content", [b"epochs = = 3", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match="not TOML"):
        read_settings(path, {})


def test_a_missing_settings_file_is_named():
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        read_settings(Path("nowhere.toml"), {})


KEYWORDS = {SettingsDict: Settings, EncoderDict: EncoderConfig, OptimDict: OptimSettings, DataDict: DataSettings}
TABLES = {"encoder": EncoderConfig | EncoderDict, "optim": OptimSettings | OptimDict, "data": DataSettings | DataDict}


@pytest.mark.parametrize("keywords", KEYWORDS)
def test_keyword_arguments_are_the_settings_with_their_types(keywords):
    fields = {name: field.annotation for name, field in KEYWORDS[keywords].model_fields.items()}
    expected = {**fields, **TABLES} if keywords is SettingsDict else fields
    assert get_type_hints(keywords) == expected


def test_single_settings_count_over_all_at_once(tmp_path):
    given = Settings.of({**SMALL_RUN, "epochs": 3})
    trained = Tagger.train(corpus(8), settings=given, epochs=1, progress=False).record.settings
    assert (trained["epochs"], trained["batch_sentences"], trained["encoder"]["words"]) == (1, 4, 8)


SMALL_RUN = {"device": "cpu", "batch_sentences": 4, "encoder": {"words": 8, "lstm_hidden": 8}}


@pytest.mark.parametrize(
    ("old", "now"), [("batch", "batch_sentences"), ("average", "ema_decay"), ("start", "encoder_from")]
)
def test_another_name_for_a_setting_is_answered_with_ours(old, now):
    with pytest.raises(SettingsError, match=f"unknown setting {old}: did you mean {now}"):
        Settings.of({old: 1})
