"""Words belong to the model: a folder, an ONNX file and spaCy cut raw text as the tokens trained on were cut."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from small_corpus import SMALL

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger

FRAMES = ["The {ORG} sent {PER} to {LOC} .", "{PER} 's firm {ORG} is in {LOC} .", "{PER} did n't leave the {ORG} ."]
NAMES = {
    "ORG": ["U.N.", "Acme Inc.", "Half-Moon Corp."],
    "PER": ["Pamela O'Neil", "Jean-Luc Brassard", "Bob"],
    "LOC": ["St. Louis", "U.S.", "Oslo"],
}


def corpus(size: int, seed: int) -> list[tuple[Sentence, str]]:
    """Sentences of such tokens, and each as a person writes it."""
    random = Random(seed)
    found = []
    for _ in range(size):
        tokens: list[str] = []
        tags: list[str] = []
        for word in random.choice(FRAMES).split():
            kind = word.strip("{}")
            names = random.choice(NAMES[kind]).split() if kind in NAMES else [word]
            tokens += names
            tags += [f"{'I' if n else 'B'}-{kind}" for n in range(len(names))] if kind in NAMES else ["O"]
        text = " ".join(tokens).replace(" 's", "'s").replace(" n't", "n't").replace(" .", ".")
        found.append((Sentence(tuple(tokens), tuple(tags)), text))
    return found


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    train = [sentence for sentence, _ in corpus(300, 0)]
    return Tagger.train(train[:250], train[250:], progress=False, **{**SMALL, "epochs": 8})


def entities(prediction) -> list[tuple[str, str]]:
    return [(entity.type, entity.text) for entity in prediction.entities]


def test_raw_text_gets_the_entities_that_its_tokens_get(tagger: Tagger) -> None:
    pairs = corpus(100, 1)
    from_tokens = tagger.predict([sentence.tokens for sentence, _ in pairs])
    from_text = tagger.predict([text for _, text in pairs])
    assert [answer.tokens for answer in from_text] == [sentence.tokens for sentence, _ in pairs]
    assert [answer.tags for answer in from_text] == [answer.tags for answer in from_tokens]
    right = sum(answer.tags == sentence.tags for answer, (sentence, _) in zip(from_text, pairs, strict=True))
    assert right >= 95
    for answer, (_, text) in zip(from_text, pairs, strict=True):
        assert all(text[entity.start : entity.end] == entity.text for entity in answer.entities)


def test_the_folder_keeps_the_tokenizer_and_says_how_well_it_agrees(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["tokenizer"]["name"] == "learned"
    assert config["record"]["data"]["train"]["tokenizer_agreement"] == 100.0
    text = "Pamela O'Neil didn't leave the U.N."
    assert entities(Tagger.load(tmp_path / "model").predict(text)) == entities(tagger.predict(text))


def test_a_folder_without_a_tokenizer_is_read_as_before(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in config.items() if key != "tokenizer"}))
    assert Tagger.load(tmp_path / "model").predict("U.N.").tokens == ("U", ".", "N", ".")


def test_a_folder_that_names_code_tags_tokens_and_refuses_text(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer": {"name": "own_tokenizer:by_comma"}}))
    loaded = Tagger.load(tmp_path / "model")
    assert len(loaded.predict([["Bob", "left"]])[0].tags) == 2
    with pytest.raises(MaskedCRFError, match="own_tokenizer:by_comma, which is code"):
        loaded.predict("Bob left")
    loaded.tokenizer = get_tokenizer("own_tokenizer:by_comma")
    assert loaded.predict("Bob left,now").tokens == ("Bob left", "now")


def test_the_onnx_file_cuts_text_as_the_folder_does(tagger: Tagger, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    from maskedcrf.onnx.export import export
    from maskedcrf.onnx.tagger import OnnxTagger

    export(tagger, tmp_path / "model.onnx")
    text = "Jean-Luc Brassard's firm Acme Inc. is in St. Louis."
    assert entities(OnnxTagger.load(tmp_path / "model.onnx").predict(text)) == entities(tagger.predict(text))


def test_in_spacy_the_models_words_count(tagger: Tagger) -> None:
    spacy = pytest.importorskip("spacy")
    from maskedcrf.integrations.spacy import Component

    text = "The U.N. sent Jean-Luc Brassard to Oslo."
    doc = Component(tagger)(spacy.blank("xx")(text))
    assert [(ent.label_, ent.text) for ent in doc.ents] == entities(tagger.predict(text))
