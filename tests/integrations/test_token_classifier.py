"""Plain Hugging Face token classifiers as taggers: transformers' own scores, legal paths, every door."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

import transformers
from safetensors.torch import load_file, save_file
from small_classifiers import (
    ARCHITECTURES,
    LABELS,
    SENTENCES,
    best_legal_path,
    first_piece_logits,
    write_classifier,
)

from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.onnx.export import export
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger import Tagger
from maskedcrf.tags.constraints import Constraints


@pytest.fixture(scope="module", params=ARCHITECTURES)
def classifier(request, tmp_path_factory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("classifier") / request.param, request.param)


@pytest.fixture
def bert(tmp_path) -> Path:
    return write_classifier(tmp_path / "bert")


def emissions(tagger: Tagger, words: list[str]) -> torch.Tensor:
    with torch.inference_mode():
        return tagger.model.emissions(tagger.model.encoder.prepare([Sentence(tuple(words))]))[0]


def test_scores_are_those_of_transformers_and_paths_the_best_legal_ones(classifier):
    tagger = Tagger.from_pretrained(classifier)
    rules = Constraints.from_scheme(LABELS, "BIO")
    illegal = 0
    for words, answer in zip(SENTENCES, tagger.predict(list(SENTENCES)), strict=True):
        logits = first_piece_logits(classifier, words)
        torch.testing.assert_close(emissions(tagger, words), logits, atol=1e-4, rtol=1e-4)
        assert answer.tags == best_legal_path(logits, rules)
        illegal += bool(rules.violations(logits.argmax(dim=1).tolist()))
    assert tagger.mask == "decode"
    assert illegal, "a classifier whose own best tags are always legal shows nothing"


def test_a_saved_one_loads_without_its_source_and_answers_alike(classifier, tmp_path):
    tagger = Tagger.from_pretrained(classifier)
    tagger.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    options = {"probabilities": True, "nbest": 2}
    before, after = (each.predict(list(SENTENCES), **options) for each in (tagger, loaded))
    assert [each.tags for each in after] == [each.tags for each in before]
    for one, other in zip(before, after, strict=True):
        assert other.probabilities == pytest.approx(one.probabilities, abs=1e-6)
    assert loaded.record.settings["adopted"]["labels"]["scheme"] == "BIO"


def test_every_door_takes_its_folder(bert):
    direct = Tagger.from_pretrained(bert)
    through_load = Tagger.load(bert)
    assert [each.tags for each in through_load.predict(list(SENTENCES))] == [
        each.tags for each in direct.predict(list(SENTENCES))
    ]
    fixed = direct.predict([["the", "cat"]], fixed=[{1: "B-LOC"}])[0]
    assert fixed.tags[1] == "B-LOC"
    assert direct.predict("the cat", threshold=1e-6).segments


@pytest.mark.parametrize("words", ["first", "last", "mean", "max"])
def test_a_word_is_scored_by_the_pieces_asked_for(bert, words, tmp_path):
    tagger = Tagger.from_pretrained(bert, words=words)
    tagger.save(tmp_path / "model")
    given = ["unbelievable", "cats", "the"]
    expected = first_piece_logits(bert, given, pieces=words)
    for each in (tagger, Tagger.load(tmp_path / "model")):
        torch.testing.assert_close(emissions(each, given), expected, atol=1e-4, rtol=1e-4)


def test_pieces_chosen_by_their_scores_are_chosen_in_an_exported_file_as_well(bert, tmp_path):
    pytest.importorskip("onnxruntime")
    tagger = Tagger.from_pretrained(bert, words="max")
    export(tagger, tmp_path / "model.onnx")
    exported = OnnxTagger.load(tmp_path / "model.onnx")
    for given in (list(SENTENCES), [["the"]], [["unbelievable", "cats"]]):
        assert [each.tags for each in exported.predict(given)] == [each.tags for each in tagger.predict(given)]
    assert (
        first_piece_logits(bert, SENTENCES[0], pieces="max").tolist() != first_piece_logits(bert, SENTENCES[0]).tolist()
    )


def test_a_piece_cannot_be_chosen_by_its_scores_under_another_part():
    with pytest.raises(ValueError, match="pooling=surest needs a transformer alone"):
        EncoderConfig(transformer="any", pooling="surest", lstm_layers=1)


def test_columns_that_are_no_tag_are_left_out(tmp_path):
    labels = ["[PAD]", "PER-B", "PER-I", "X", "O"]
    folder = write_classifier(tmp_path / "model", labels=labels)
    tagger = Tagger.from_pretrained(folder)
    assert tagger.tags == ("B-PER", "I-PER", "O")
    logits = first_piece_logits(folder, SENTENCES[0])
    torch.testing.assert_close(emissions(tagger, SENTENCES[0]), logits[:, [1, 2, 4]], atol=1e-4, rtol=1e-4)


def test_labels_without_names_need_names(tmp_path):
    folder = write_classifier(tmp_path / "model", labels=["LABEL_0", "LABEL_1", "LABEL_2"])
    with pytest.raises(DataError, match="LABEL_0 to LABEL_2 say nothing of tags; give labels="):
        Tagger.from_pretrained(folder)
    tagger = Tagger.from_pretrained(folder, labels=["O", "B-X", "I-X"])
    assert tagger.tags == ("O", "B-X", "I-X")


def test_what_labels_are_taken_for_is_said_where_it_is_unusual(tmp_path, caplog):
    Tagger.from_pretrained(write_classifier(tmp_path / "names"))
    assert not caplog.messages
    folder = write_classifier(tmp_path / "words", labels=["NOUN", "VERB", "DET"])
    assert Tagger.from_pretrained(folder).tags == ("I-NOUN", "I-VERB", "I-DET")
    (said,) = caplog.messages
    assert said == (
        f"maskedcrf: {folder}: labels read as IO: no label means outside: every word gets a type; labels are bare "
        "types (IO): neighbouring words of one type are one entity"
    )


def test_fewer_names_than_columns_leave_the_rest_out_and_say_so(tmp_path):
    folder = write_classifier(tmp_path / "model", labels=[f"LABEL_{n}" for n in range(5)])
    tagger = Tagger.from_pretrained(folder, labels=["O", "B-X", "I-X"])
    torch.testing.assert_close(emissions(tagger, ["the"]), first_piece_logits(folder, ["the"])[:, :3])
    assert tagger.record.settings["adopted"]["labels"]["dropped"] == {
        "3": "more scores than labels",
        "4": "more scores than labels",
    }


def test_transitions_of_a_crf_that_is_there_already_are_taken_over(bert):
    generator = np.random.default_rng(0)
    scores = {"transitions": generator.normal(size=(5, 5)), "start": generator.normal(size=5), "end": np.zeros(5)}
    tagger = Tagger.from_pretrained(bert, transitions=scores)
    rules = Constraints.from_scheme(LABELS, "BIO")
    for name, legal in (("transitions", rules.legal), ("start", rules.start), ("end", rules.end)):
        own = getattr(tagger.model.crf, name if name == "transitions" else f"{name}_transitions")
        np.testing.assert_allclose(own.detach().numpy(), np.where(legal, scores[name], 0), atol=1e-6)
    assert tagger.model.head == "crf"


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        (np.zeros((3, 3)), r"transitions must be \(5, 5\)"),
        ({"start": np.zeros(5)}, "an array, or a table"),
        (np.full((5, 5), np.nan), "not finite"),
    ],
)
def test_transitions_that_do_not_fit_are_refused(bert, transitions, message):
    with pytest.raises(DataError, match=message):
        Tagger.from_pretrained(bert, transitions=transitions)


def edit(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def drop_classifier(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(
        {n: w for n, w in weights.items() if "classifier" not in n}, folder / "model.safetensors", {"format": "pt"}
    )


def change_weight(folder: Path, name: str, weight: torch.Tensor) -> None:
    weights = load_file(folder / "model.safetensors") | {name: weight}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def add_crf(folder: Path) -> None:
    change_weight(folder, "crf.transitions", torch.zeros(5, 5))
    edit(folder, architectures=["BertCrfForTokenClassification"])


def only_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"never read")


ODD = {
    "its own code": (lambda f: edit(f, auto_map={"AutoModel": "evil.Model"}), r"auto_map\), which is never run"),
    "another task": (lambda f: edit(f, architectures=["BertForMaskedLM"]), "BertForMaskedLM, not a token classifier"),
    "architectures that are no list": (lambda f: edit(f, architectures=3), "no architecture, not a token classifier"),
    "a head of another width": (
        lambda f: change_weight(f, "classifier.weight", torch.zeros(5, 17)),
        "missing or of another shape, classifier.weight first",
    ),
    "two tables of labels that disagree": (
        lambda f: edit(f, label2id={label: 4 - number for number, label in enumerate(LABELS)}),
        "label 'O' is column 0 by id2label and 4 by label2id",
    ),
    "an adapter": (lambda f: (f / "adapter_config.json").write_text("{}"), "merge it in and save the whole"),
    "a size that is a word": (
        lambda f: edit(f, hidden_size="16"),
        "'hidden_size': .*expected int.*; fetch it again, or save it anew",
    ),
    "no architecture": (lambda f: edit(f, architectures=None), "not a token classifier"),
    "an unknown model": (lambda f: edit(f, model_type="evil"), "unknown model type 'evil'"),
    "a pickle alone": (only_pickle, "only pytorch_model.bin, which can run code and is never read"),
    "a class of its own with more parts": (add_crf, "BertCrfForTokenClassification has weight crf.transitions"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no weights; save the model"),
    "no labels": (lambda f: edit(f, id2label={}), "0 labels; give labels="),
    "a gap": (
        lambda f: edit(f, id2label={"0": "O", "1": "B-A", "2": "I-A", "3": "B-B", "5": "I-B"}),
        "no label for column 4",
    ),
    "a label twice": (
        lambda f: edit(f, id2label=dict(enumerate(["O", "B-A", "I-A", "B-A", "I-A"]))),
        "columns 1 and 3",
    ),
    "fewer labels than columns": (
        lambda f: edit(f, id2label={"0": "O", "1": "B-A", "2": "I-A"}),
        "the head has 5 columns for 3 labels; give labels= with 5 names",
    ),
    "more labels than columns": (
        lambda f: edit(f, id2label=dict(enumerate([*LABELS, "B-ORG"]))),
        "the head has 5 columns for 6 labels",
    ),
    "labels that are no table": (lambda f: edit(f, id2label="O"), "a table from column to label"),
    "no head": (drop_classifier, "weights are missing or of another shape, classifier"),
    "broken weights": (
        lambda f: change_weight(f, "classifier.bias", torch.full((5,), torch.nan)),
        "classifier.bias holds NaN",
    ),
    "weights cut short": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:200]),
        "cannot be loaded",
    ),
    "an absurd size": (lambda f: edit(f, num_hidden_layers=10**6), "num_hidden_layers is 1000000"),
    "no tokenizer": (
        lambda f: [(f / name).unlink() for name in ("tokenizer.json", "tokenizer_config.json")],
        "cannot be loaded",
    ),
    "config that is no JSON": (lambda f: (f / "config.json").write_text("{"), "cannot be loaded"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_and_hostile_folders_are_refused_in_one_line(bert, name):
    damage, message = ODD[name]
    damage(bert)
    with pytest.raises(MaskedCRFError, match=message) as caught:
        Tagger.from_pretrained(bert)
    assert "\n" not in str(caught.value)
    assert str(bert) in str(caught.value)


def test_a_head_that_is_more_than_a_linear_layer_is_refused(bert, monkeypatch):
    kind = transformers.BertForTokenClassification

    def forward(self, *given, **named):
        found = plain(self, *given, **named)
        return transformers.modeling_outputs.TokenClassifierOutput(logits=found.logits * 1.01)

    plain = kind.forward
    monkeypatch.setattr(kind, "forward", forward)
    with pytest.raises(DataError, match="scores differ from a linear layer's over its encoder by"):
        Tagger.from_pretrained(bert)


def test_one_whose_scores_change_with_padding_is_refused(tmp_path):
    folder = write_classifier(tmp_path / "convbert", "ConvBert")
    with pytest.raises(DataError, match="scores change with the padding of a batch by"):
        Tagger.from_pretrained(folder)


def test_half_of_an_encoder_decoder_is_refused_because_its_config_would_build_the_whole(tmp_path):
    folder = write_classifier(tmp_path / "t5", "T5")
    with pytest.raises(DataError, match="T5EncoderModel is half of an encoder-decoder; give a plain encoder"):
        Tagger.from_pretrained(folder)


def test_attention_that_depends_on_earlier_texts_is_refused(tmp_path):
    folder = write_classifier(tmp_path / "sparse", "BigBird", attention_type="block_sparse")
    with pytest.raises(DataError, match="attention_type block_sparse .* write original_full in config"):
        Tagger.from_pretrained(folder)


def test_one_that_reads_more_than_pieces_is_refused(bert, monkeypatch):
    def forward(self, *given, **named):
        raise ValueError("You have to specify bbox")

    monkeypatch.setattr(transformers.BertForTokenClassification, "forward", forward)
    with pytest.raises(DataError, match="You have to specify bbox; only an encoder that reads word pieces alone"):
        Tagger.from_pretrained(bert)


def test_a_config_that_asks_for_another_form_of_output_changes_nothing(bert):
    before = Tagger.from_pretrained(bert).predict(list(SENTENCES))
    edit(bert, return_dict=False, output_hidden_states=True)
    assert Tagger.from_pretrained(bert).predict(list(SENTENCES)) == before


def test_names_that_are_nothing_are_refused(tmp_path):
    with pytest.raises(MaskedCRFError, match="neither a folder here nor the name of a model on the hub"):
        Tagger.from_pretrained("no/such/folder/anywhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MaskedCRFError, match=r"no config\.json"):
        Tagger.from_pretrained(tmp_path / "empty")


def test_a_tagger_of_ours_in_hugging_face_form_takes_no_labels(bert, tmp_path):
    tagger = Tagger.from_pretrained(bert)
    tagger.save_pretrained(tmp_path / "ours")
    back = Tagger.from_pretrained(tmp_path / "ours")
    assert [each.tags for each in back.predict(list(SENTENCES))] == [
        each.tags for each in tagger.predict(list(SENTENCES))
    ]
    with pytest.raises(MaskedCRFError, match="leave labels out"):
        Tagger.from_pretrained(tmp_path / "ours", labels=["O"])


def test_the_source_may_be_gone_once_it_is_saved(bert, tmp_path):
    Tagger.from_pretrained(bert).save(tmp_path / "model")
    shutil.rmtree(bert)
    assert len(Tagger.load(tmp_path / "model").predict([["the", "cat"]])[0].tags) == 2
