"""The Hugging Face form: loss first, emissions as logits, the same answers after save_pretrained."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch

pytest.importorskip("transformers")

import transformers
from encoders.tiny import write_model

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import MaskedCRFError
from maskedcrf.integrations.huggingface import MaskedCRFConfig, MaskedCRFForTokenClassification, to_huggingface
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme

SENTENCES = [Sentence(("the", "cat", "sat"), ("O", "B-X", "O")), Sentence(("unbelievable", "cats"), ("B-X", "I-X"))]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory) -> Tagger:
    folder = write_model(tmp_path_factory.mktemp("bert"))
    settings = {"epochs": 2, "dev_fraction": 0.0, "device": "cpu"}
    return Tagger.train(SENTENCES * 4, encoder={"transformer": str(folder)}, **settings)


def encoded(tokenizer) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """A batch of pieces, and labels on the first piece of each word."""
    words = [list(sentence.tokens) for sentence in SENTENCES]
    batch = tokenizer(words, is_split_into_words=True, return_tensors="pt", padding=True, return_token_type_ids=False)
    index = {"O": 0, "B-X": 1, "I-X": 2}
    labels = torch.full(batch["input_ids"].shape, -100)
    for row, sentence in enumerate(SENTENCES):
        ids = batch.word_ids(row)
        for place, word in enumerate(ids):
            if word is not None and word != ids[place - 1]:
                labels[row, place] = index[sentence.tags[word]]
    return dict(batch), labels


def test_loss_comes_first_and_logits_are_the_emissions(tagger):
    model, tokenizer = to_huggingface(tagger)
    batch, labels = encoded(tokenizer)
    features = tagger.model.encoder.prepare(SENTENCES)
    with torch.inference_mode():
        output = model(**batch, labels=labels)
        expected = tagger.model.emissions(features)
        gold = torch.tensor([[0, 1, 0], [1, 2, -100]])
        loss = tagger.model(features, gold).mean()
    assert list(output.keys())[:2] == ["loss", "logits"]
    torch.testing.assert_close(output.loss, loss)
    torch.testing.assert_close(output.logits[labels != -100], expected[features["mask"]])
    assert len(model(**batch)) == 1
    assert isinstance(model(**batch, labels=labels, return_dict=False), tuple)


def test_a_saved_model_comes_back_with_the_same_answers(tagger, tmp_path):
    model, tokenizer = to_huggingface(tagger)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".safetensors", ".jinja"}
    loaded = MaskedCRFForTokenClassification.from_pretrained(tmp_path).eval()
    batch, labels = encoded(tokenizer)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits)
        logits = loaded(**batch).logits
    paths = loaded.decode(logits, labels != -100)
    expected = tagger.predict([sentence.tokens for sentence in SENTENCES])
    assert [tuple(loaded.config.id2label[n] for n in path) for path in paths] == [answer.tags for answer in expected]
    state = model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in loaded.state_dict().items())
    assert all(torch.equal(a, b) for a, b in zip(loaded.crf.buffers(), model.crf.buffers(), strict=True))


def test_a_fresh_model_trains(tmp_path):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = MaskedCRFConfig(encoder={"model_type": "bert", "vocab_size": 20, **sizes}, tags=["O", "B-X", "I-X"])
    model = MaskedCRFForTokenClassification(config)
    loss = model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[-100, 1, 2]])).loss
    loss.backward()
    assert loss > 0
    assert model.config.num_labels == 3


def test_foreign_code_is_refused():
    with pytest.raises(MaskedCRFError, match="unknown model type"):
        MaskedCRFForTokenClassification(MaskedCRFConfig(encoder={"model_type": "evil"}))


def _spoiled(folder, *, table=None, **keys):
    """A config.json with these keys written into it, or into one of its tables."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    (config[table] if table else config).update(keys)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("table", ["encoder", None])
@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_no_kernel_that_a_config_names_is_ever_fetched(tagger, tmp_path, monkeypatch, table, key):
    imported = []
    monkeypatch.setattr(
        transformers.modeling_utils, "lazy_import_flash_attention", lambda name, **_: imported.append(name)
    )
    to_huggingface(tagger)[0].save_pretrained(tmp_path)
    _spoiled(tmp_path, table=table, **{key: "evil/kernel"})
    loaded = MaskedCRFForTokenClassification.from_pretrained(tmp_path)
    assert imported == []
    assert "evil/kernel" not in {loaded.config._attn_implementation, loaded.encoder.config._attn_implementation}


def test_sizes_that_no_memory_holds_are_refused_in_one_line(tagger, tmp_path):
    to_huggingface(tagger)[0].save_pretrained(tmp_path)
    _spoiled(tmp_path, table="encoder", hidden_size=1 << 22)
    config = MaskedCRFConfig.from_pretrained(tmp_path)
    for build in (lambda: MaskedCRFForTokenClassification.from_pretrained(tmp_path), lambda: _on_meta(config)):
        with pytest.raises(MaskedCRFError, match=r"config.json:1: hidden_size is 4194304, more than") as error:
            build()
        assert "\n" not in str(error.value)


def _on_meta(config):
    """Without weights, so that a guard that fails costs no memory here."""
    with torch.device("meta"):
        return MaskedCRFForTokenClassification(config)


def test_a_model_loads_in_the_dtype_asked_for(tagger, tmp_path):
    model, tokenizer = to_huggingface(tagger)
    model.save_pretrained(tmp_path)
    loaded = MaskedCRFForTokenClassification.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    assert loaded(**encoded(tokenizer)[0]).logits.dtype == torch.float32


def test_a_scheme_of_ones_own_has_no_such_form(tagger):
    own = Scheme.define("BIO", start="O B I", end="O B I", inside="BI II", between="OO OB OI BO BB IO IB")
    rules = Constraints.from_scheme(tagger.tags, own)
    model = TaggerModel(tagger.model.encoder, rules, head="crf", mask="train", dropout=0.0)
    with pytest.raises(MaskedCRFError, match="'BIO' is your own"):
        to_huggingface(Tagger(model))


def test_only_a_transformer_alone_has_this_form(tmp_path):
    plain = Tagger.train(SENTENCES, encoder={"words": 4, "lstm_hidden": 4}, epochs=1, dev_fraction=0.0, device="cpu")
    with pytest.raises(MaskedCRFError, match="transformer alone"):
        to_huggingface(plain)


def test_without_labels_the_tuple_holds_the_emissions_alone(tagger):
    model, tokenizer = to_huggingface(tagger)
    batch, _ = encoded(tokenizer)
    [emissions] = model(**batch, return_dict=False)
    torch.testing.assert_close(emissions, model(**batch).logits)


def test_the_form_keeps_dropout_ways_of_writing_tags_and_the_longest_text(tagger):
    scheme = Scheme.get("BIO", delimiter="_", prefix_last=True)
    rules = Constraints.from_scheme(["O", "X_B", "X_I"], scheme)
    other = Tagger(TaggerModel(tagger.model.encoder, rules, head="crf", mask="decode", dropout=0.25))
    model, tokenizer = to_huggingface(other)
    assert model.dropout.p == 0.25
    assert model.crf.mask_mode == "decode"
    assert model.crf.constraints == rules
    assert tokenizer.model_max_length == tagger.model.encoder.parts["transformer"].words.positions


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
def test_only_first_pieces_can_carry_the_labels(tmp_path, pooling):
    encoder = {"transformer": str(write_model(tmp_path)), "pooling": pooling}
    other = Tagger.train(SENTENCES, encoder=encoder, epochs=1, dev_fraction=0.0, device="cpu")
    with pytest.raises(MaskedCRFError, match=f"pools by {pooling}"):
        to_huggingface(other)


def test_a_tagger_comes_back_from_its_hugging_face_form(tagger, tmp_path):
    tagger.save_pretrained(tmp_path / "hf")
    back = Tagger.from_pretrained(tmp_path / "hf")
    texts = ["ann flew to new york", "rome " * 40]
    assert back.predict(texts, probabilities=True) == tagger.predict(texts, probabilities=True)
    assert (back.tags, back.mask, back.scheme) == (tagger.tags, tagger.mask, tagger.scheme)
    assert Tagger.load(back.save(tmp_path / "own")).predict(texts) == tagger.predict(texts)


def test_the_form_decodes_as_the_tagger_is_set_to(tagger, tmp_path):
    own = Tagger(tagger.model)
    own.decoding, own.segment_threshold = "segments", 0.05
    own.save_pretrained(tmp_path / "hf")
    back = Tagger.from_pretrained(tmp_path / "hf")
    assert (back.decoding, back.segment_threshold) == ("segments", 0.05)
    assert back.predict(SENTENCES) == own.predict(SENTENCES)
    model = MaskedCRFForTokenClassification.from_pretrained(tmp_path / "hf")
    inputs, labels = encoded(transformers.AutoTokenizer.from_pretrained(tmp_path / "hf"))
    paths = model.decode(model(**inputs).logits, labels != -100)
    assert [tuple(own.tags[tag] for tag in path) for path in paths] == [each.tags for each in own.predict(SENTENCES)]
    assert paths != model.crf.decode(model(**inputs).logits, labels != -100)


def test_a_tagger_comes_back_with_the_scheme_of_its_answers_and_its_context(tmp_path):
    encoder = {"transformer": str(write_model(tmp_path / "bert")), "context": 3}
    trained = Tagger.train(SENTENCES, encoder=encoder, epochs=1, dev_fraction=0.0, device="cpu")
    tagger = Tagger(trained.model, output_scheme=Scheme.get("BIOES"))
    tagger.save_pretrained(tmp_path / "hf")
    back = Tagger.from_pretrained(tmp_path / "hf")
    assert (back.output_scheme, back.model.encoder.config.context) == (tagger.output_scheme, 3)
    assert back.predict(SENTENCES) == tagger.predict(SENTENCES)


def test_transformers_own_classes_know_the_form(tagger, tmp_path):
    tagger.save_pretrained(tmp_path / "hf")
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "hf")
    assert isinstance(model, MaskedCRFForTokenClassification)


def test_a_folder_without_the_form_is_refused(tmp_path):
    with pytest.raises(MaskedCRFError, match=r"no config\.json in this folder"):
        Tagger.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weights: weights.pop("linear.weight"),
            "1 weights are missing or of another shape, linear.weight first",
        ),
        (
            lambda weights: weights.update({"linear.bias": torch.zeros(1)}),
            "1 weights are missing or of another shape, linear.bias first",
        ),
        (lambda weights: weights["crf.transitions"].fill_(torch.nan), "crf.transitions holds NaN"),
    ],
)
def test_a_form_without_all_its_weights_is_refused_not_filled_at_random(tagger, tmp_path, change, message):
    tagger.save_pretrained(tmp_path)
    weights = safetensors.torch.load_file(tmp_path / "model.safetensors")
    change(weights)
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(MaskedCRFError, match=message):
        Tagger.from_pretrained(tmp_path)


def test_a_form_without_its_tokenizer_is_refused_in_one_line(tagger, tmp_path):
    tagger.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(MaskedCRFError, match="cannot be loaded: ") as refused:
        Tagger.from_pretrained(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_model_of_another_kind_is_named(tagger, tmp_path):
    write_model(tmp_path)
    with pytest.raises(MaskedCRFError, match="BertModel, not a token classifier; train a tagger with it"):
        Tagger.from_pretrained(tmp_path)
    tagger.save(tmp_path / "own")
    with pytest.raises(MaskedCRFError, match="legal already; every command and Tagger.load take it"):
        Tagger.from_pretrained(tmp_path / "own")
    (tmp_path / "own" / "config.json").write_text("[]")
    with pytest.raises(MaskedCRFError, match=r"config\.json is no table of settings"):
        Tagger.from_pretrained(tmp_path / "own")


def test_a_pipeline_gives_whole_entities_and_says_so(tagger):
    assert tagger.pipeline("ann flew to oslo", aggregation_strategy="simple") == tagger.pipeline("ann flew to oslo")
    with pytest.raises(MaskedCRFError, match="whole entities"):
        tagger.pipeline("ann flew", aggregation_strategy="none")
