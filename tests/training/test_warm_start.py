"""Training that begins with another tagger's encoder: what is taken, what stays fresh, what is refused."""

from __future__ import annotations

import shutil

import pytest
import torch
from encoders.tiny import write_model
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.cli import main
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.training import loop
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.settings import Settings
from maskedcrf.training.train import build_model

ENCODER = {"words": 16, "characters": 6, "lstm_hidden": 16, "dropout": 0.1}
OTHER = [*corpus(20, 3), Sentence(("zoe", "Zoe", "zürich"), ("B-PER", "B-PER", "B-LOC"))] * 2
"""Words that the first corpus lacks, and more characters, so that every number is another."""


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder of a tagger to start from."""
    folder = tmp_path_factory.mktemp("first") / "tagger"
    Tagger.train(OTHER, corpus(6, 1), output=folder, **{**SMALL, "encoder": ENCODER, "epochs": 1})
    return folder


def settings(**more) -> Settings:
    return Settings.of({**SMALL, "encoder": ENCODER, **more}).resolved(30)


def fresh(sentences=None, **more):
    """The model that a run begins with."""
    chosen = settings(**more)
    torch.manual_seed(1)
    return build_model(build_corpus(sentences or corpus(30), corpus(8, 1), None, chosen), chosen)


def test_the_encoder_begins_where_the_other_ended_and_the_head_is_fresh(first, caplog):
    caplog.set_level("INFO")
    old = Tagger.load(first).model
    new, plain = fresh(encoder_from=str(first)), fresh()
    for name, value in new.encoder.lstm.named_parameters():
        assert torch.equal(value, old.encoder.lstm.get_parameter(name))
    filters = [model.encoder.parts["characters"].filters.weight for model in (new, old, plain)]
    assert torch.equal(filters[0], filters[1])
    assert not torch.equal(filters[0], filters[2])
    assert torch.equal(new.linear.weight, plain.linear.weight)
    assert torch.equal(new.crf.transitions, plain.crf.transitions)
    assert "training begins with its words, characters, lstm" in caplog.text


def test_words_and_characters_are_taken_by_name_not_by_number(first):
    old = Tagger.load(first).model.encoder.parts
    rows = [*corpus(30), Sentence(("Quux", "zoe"), ("B-PER", "O"))]
    new, plain = (fresh(rows, encoder_from=start).encoder.parts for start in (str(first), None))
    ours, theirs = new["words"].vocabulary, old["words"].vocabulary
    for word in ("oslo", "zoe", "flew"):
        assert ours.number(word) != theirs.number(word) or word != "zoe"
        assert torch.equal(
            new["words"].trained.weight[ours.number(word)], old["words"].trained.weight[theirs.number(word)]
        )
    unseen = ours.number("Quux")
    assert torch.equal(new["words"].trained.weight[unseen], plain["words"].trained.weight[unseen])
    letters, others = (parts["characters"].vocabulary.numbers("f")[1] for parts in (new, old))
    assert letters != others, "ü and Z come before it or not"
    assert torch.equal(new["characters"].embedding.weight[letters], old["characters"].embedding.weight[others])
    for mark in (1, 2, 3):
        assert torch.equal(new["characters"].embedding.weight[mark], old["characters"].embedding.weight[mark])


def test_a_part_that_does_not_fit_is_left_fresh_whole(first):
    wider = {**ENCODER, "characters": 7}
    new, plain = (fresh(encoder=wider, encoder_from=start) for start in (str(first), None))
    for name in ("parts.characters.embedding.weight", "parts.characters.filters.bias", "lstm.forwards.0.weight_hh_l0"):
        assert torch.equal(new.encoder.get_parameter(name), plain.encoder.get_parameter(name)), name
    assert not torch.equal(new.encoder.parts["words"].trained.weight, plain.encoder.parts["words"].trained.weight)


def test_a_transformer_is_taken_whole_and_another_one_is_refused_by_name(tmp_path):
    models = {kind: str(write_model(tmp_path / kind, kind)) for kind in ("bert", "roberta")}
    bert = {"transformer": models["bert"], "lstm_layers": 1, "lstm_hidden": 8}
    Tagger.train(corpus(8), output=tmp_path / "first", **{**SMALL, "encoder": bert, "epochs": 1})
    old = Tagger.load(tmp_path / "first").model.encoder
    new, plain = (
        fresh(encoder={"transformer": models["bert"]}, encoder_from=start) for start in (str(tmp_path / "first"), None)
    )
    for name, value in new.encoder.named_parameters():
        assert torch.equal(value, old.get_parameter(name)), name
    pieces = "parts.transformer.model.embeddings.word_embeddings.weight"
    assert not torch.equal(new.encoder.get_parameter(pieces), plain.encoder.get_parameter(pieces))
    with pytest.raises(MaskedCRFError, match=r"transformer bert.*transformer roberta") as error:
        fresh(
            encoder={"transformer": models["roberta"], "lstm_layers": 1, "lstm_hidden": 8},
            encoder_from=str(tmp_path / "first"),
        )
    assert "\n" not in str(error.value)


def test_pieces_with_other_numbers_are_another_transformer(tmp_path):
    folder = write_model(tmp_path / "bert")
    Tagger.train(
        corpus(8), output=tmp_path / "first", **{**SMALL, "encoder": {"transformer": str(folder)}, "epochs": 1}
    )
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"cat"', '"dog"'))
    with pytest.raises(MaskedCRFError, match="does not fit"):
        fresh(encoder={"transformer": str(folder)}, encoder_from=str(tmp_path / "first"))


def test_a_start_of_which_nothing_fits_is_refused(first):
    with pytest.raises(MaskedCRFError, match=r"words 16, characters 6, lstm 1.*words 5, characters 30, lstm 2"):
        fresh(encoder={"words": 5, "lstm_layers": 2}, encoder_from=str(first))


def test_a_run_begun_so_is_resumed_to_the_same_bytes(first, tmp_path):
    def run(work=None) -> loop.TrainingRun:
        chosen = settings(encoder_from=str(first), adversarial=0.5, checkpoint_steps=1)
        data = build_corpus(corpus(30), corpus(8, 1), None, chosen)
        torch.manual_seed(1)
        return loop.TrainingRun(
            build_model(data, chosen), data, chosen, work=work, fingerprint=data.fingerprint(chosen)
        )

    whole = run()
    list(loop.run_epochs(whole))
    stopped = run(tmp_path)
    for event in loop.run_epochs(stopped):
        if isinstance(event, loop.Step) and event.step == 6:
            break
    second = run(tmp_path)
    loop.resume(second)
    assert second.state.step == 5
    list(loop.run_epochs(second))
    for name, value in second.model.state_dict().items():
        assert torch.equal(value, whole.model.state_dict()[name]), name


def test_the_fingerprint_is_of_the_weights_not_of_the_folder(first, tmp_path):
    shutil.copytree(first, tmp_path / "copy")
    data = build_corpus(corpus(30), corpus(8, 1), None, settings())
    here, there, none = (
        data.fingerprint(settings(encoder_from=start)) for start in (str(first), str(tmp_path / "copy"), None)
    )
    assert here == there != none
    weights = tmp_path / "copy" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert data.fingerprint(settings(encoder_from=str(tmp_path / "copy"))) != here


def test_on_the_command_line(first, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_conll(tmp_path / "train.conll", corpus(16))
    (tmp_path / "small.toml").write_text(
        'device = "cpu"\nepochs = 1\n[encoder]\nwords = 16\ncharacters = 6\nlstm_hidden = 16\n'
    )
    given = ["train", "small.toml", "--train", "train.conll", "-o", "model"]
    for wrong, message in (("nowhere", "nowhere: no such folder"), (str(tmp_path), "no model.safetensors")):
        assert main([*given, "--set", f"encoder_from={wrong}"]) == 2
        errors = capsys.readouterr().err.strip().split("\n")
        assert len(errors) == 1
        assert message in errors[0]
    assert not (tmp_path / "model.training").exists()
    assert main([*given, "--set", f"encoder_from={first}"]) == 0
    assert Tagger.load(tmp_path / "model").record.settings["encoder_from"] == str(first)
