"""Raw text cut into words as tokenizers cut it, and what classifiers say of later pieces of a word."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

import torch
from encoders.tiny import make_tokenizer
from small_classifiers import write_classifier

from maskedcrf.data.model_words import model_words
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.encoders.transformer.pretrained import plain_tokenizer
from maskedcrf.errors import MaskedCRFError
from maskedcrf.integrations.piece_labels import PieceLabels, count_piece_labels
from maskedcrf.tagger import Tagger

TEXT = "  Oslo's U.N. (the)\t北京 cat.\n"
WORDS = {
    "bert": ["Oslo", "'", "s", "U", ".", "N", ".", "(", "the", ")", "北", "京", "cat", "."],
    "roberta": ["Oslo", "'s", "U", ".", "N", ".", "(", "the", ")", "北京", "cat", "."],
    "albert": ["Oslo's", "U.N", ".", "(", "the", ")", "北京", "cat", "."],
}
"""By each tokenizer's own rule: BERT's, GPT-2's, and blanks with punctuation apart."""


@pytest.mark.parametrize("kind", WORDS)
def test_words_are_those_of_the_tokenizer(kind):
    cut = model_words(plain_tokenizer(make_tokenizer(kind).backend_tokenizer, kind))
    assert [TEXT[start:end] for start, end in cut(TEXT)] == WORDS[kind]


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("text", ["", " ", "...", "a" * 300, "é\u0301 👩\u200d🚀 \u200b x", "[CLS] the <s> cat"])
def test_any_text_is_cut_in_order_without_blanks(kind, text):
    ranges = model_words(plain_tokenizer(make_tokenizer(kind).backend_tokenizer, kind))(text)
    edges = [0, *(edge for pair in ranges for edge in pair), len(text)]
    assert edges == sorted(edges)
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in ranges)


def set_piece_labels(tagger: Tagger, piece: str, label: int) -> None:
    """Make one piece's embedding win for one label, whatever stands around it."""
    part = tagger.model.encoder.parts["transformer"]
    number = part.words.tokenizer.token_to_id(piece)
    with torch.no_grad():
        for layer in part.model.encoder.layer:  # what attention and the layers add is nothing
            for weights in (layer.attention.output.dense, layer.output.dense):
                weights.weight.zero_()
                weights.bias.zero_()
        part.model.embeddings.word_embeddings.weight[number] = 100 * torch.nn.functional.one_hot(
            torch.tensor(label), 16
        )
        tagger.model.linear.weight.copy_(torch.eye(5, 16))
        tagger.model.linear.bias.zero_()


@pytest.mark.parametrize(
    ("last", "expected"), [(1, PieceLabels(1, 0, 0)), (2, PieceLabels(0, 1, 0)), (0, PieceLabels(0, 0, 1))]
)
def test_later_pieces_are_counted_by_what_they_say(tmp_path, last, expected):
    tagger = Tagger.from_pretrained(write_classifier(tmp_path / "bert"))
    set_piece_labels(tagger, "un", 1)
    set_piece_labels(tagger, "##able", last)
    found = count_piece_labels(tagger.model, [Sentence(("unbelievable", "the")), Sentence(("cat",)), Sentence(())])
    assert found == expected
    assert found.repeats == (last == 1)


def test_a_classifiers_own_words_are_used_on_every_road_from_text(tmp_path):
    tagger = Tagger.from_pretrained(write_classifier(tmp_path / "roberta", "Roberta"))
    assert tagger.predict(TEXT).tokens == tuple(WORDS["roberta"])
    tagger.save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model")
    assert loaded.tokenizer.name == "model"
    assert loaded.predict(TEXT).tokens == tuple(WORDS["roberta"])
    tagger.save_pretrained(tmp_path / "hf")
    assert Tagger.from_pretrained(tmp_path / "hf").predict(TEXT).tokens == tuple(WORDS["roberta"])
    pytest.importorskip("onnxruntime")
    from maskedcrf.onnx.export import export
    from maskedcrf.onnx.tagger import OnnxTagger

    exported = OnnxTagger.load(export(tagger, tmp_path / "model.onnx"))
    answer = exported.predict(TEXT)
    assert answer.tokens == tuple(WORDS["roberta"])
    assert answer.tags == tagger.predict(TEXT).tags


def test_a_model_without_a_transformer_cannot_cut_as_one():
    with pytest.raises(MaskedCRFError, match="and this model has none: name another"):
        get_tokenizer("model").cut("the cat")
