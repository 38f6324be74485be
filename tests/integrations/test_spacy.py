"""The spaCy component: the tagger's entities as spans of the document."""

from __future__ import annotations

import pytest

from maskedcrf.tagger import Tagger

spacy = pytest.importorskip("spacy")


def test_entities_become_spans_of_the_document(saved):
    import maskedcrf.integrations.spacy  # noqa: F401  (makes the component known)

    nlp = spacy.blank("en")
    nlp.add_pipe("maskedcrf", config={"model": str(saved)})
    texts = ["bob lee flew to new york .", "", "the rain in oslo stopped"]
    for doc, text in zip(nlp.pipe(texts), texts, strict=True):
        assert doc.text == text
        assert [(span.text, span.label_) for span in doc.ents] == [(span.text, span.label_) for span in nlp(text).ents]
    found = [(span.text, span.label_) for span in nlp(texts[0]).ents]
    assert found == [("bob lee", "PER"), ("new york", "LOC")]


def test_entities_are_decoded_as_the_tagger_is_set_to(saved, tmp_path):
    import maskedcrf.integrations.spacy  # noqa: F401

    tagger, text = Tagger.load(saved), "bob lee flew to new york ."
    shares = {entity.text: entity.probability for entity in tagger.predict(text, probabilities=True).entities}
    surest = max(shares, key=shares.get)
    tagger.decoding, tagger.segment_threshold = "segments", max(shares.values()) - 1e-4
    nlp = spacy.blank("en")
    nlp.add_pipe("maskedcrf", config={"model": str(tagger.save(tmp_path / "sure"))})
    assert [span.text for span in nlp(text).ents] == [surest]


def test_entities_that_were_there_before_are_replaced(saved):
    import maskedcrf.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "VERB", "pattern": "flew"}])
    nlp.add_pipe("maskedcrf", config={"model": str(saved)})
    found = [(span.text, span.label_) for span in nlp("bob lee flew to new york .").ents]
    assert found == [("bob lee", "PER"), ("new york", "LOC")]


def test_tokens_are_those_of_spacys_own_tokenizer(saved):
    import maskedcrf.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("maskedcrf", config={"model": str(saved)})
    doc = nlp("it's  bob lee's rain in oslo")
    assert [token.text for token in doc][:3] == ["it", "'s", " "]
    assert [(span.text, span.label_) for span in doc.ents][-1] == ("oslo", "LOC")


def test_white_space_is_no_part_of_an_entitys_ends(saved):
    import maskedcrf.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("maskedcrf", config={"model": str(saved)})
    found = [
        [(span.text, span.label_) for span in nlp(text).ents] for text in ("  bob  lee  flew \n to  oslo \n", "  ")
    ]
    assert found == [[("bob  lee", "PER"), ("oslo", "LOC")], []]
