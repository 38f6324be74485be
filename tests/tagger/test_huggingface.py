"""The Hugging Face form: loss first, emissions as logits, the same answers after save_pretrained."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from encoders.tiny import write_model

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.huggingface import MaskedCRFConfig, MaskedCRFForTokenClassification, to_huggingface

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
    features = tagger.model.encoder.prepare([sentence.tokens for sentence in SENTENCES])
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


def test_only_a_transformer_alone_has_this_form(tmp_path):
    plain = Tagger.train(SENTENCES, encoder={"words": 4, "lstm_hidden": 4}, epochs=1, dev_fraction=0.0, device="cpu")
    with pytest.raises(MaskedCRFError, match="transformer alone"):
        to_huggingface(plain)
