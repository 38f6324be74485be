"""The spaCy component: the tagger's entities as spans of the document."""

from __future__ import annotations

import pytest

spacy = pytest.importorskip("spacy")


def test_entities_become_spans_of_the_document(saved):
    import maskedcrf.tagger.spacy  # noqa: F401  (makes the component known)

    nlp = spacy.blank("en")
    nlp.add_pipe("maskedcrf", config={"model": str(saved)})
    texts = ["bob lee flew to new york .", "", "the rain in oslo stopped"]
    for doc, text in zip(nlp.pipe(texts), texts, strict=True):
        assert doc.text == text
        assert [(span.text, span.label_) for span in doc.ents] == [(span.text, span.label_) for span in nlp(text).ents]
    found = [(span.text, span.label_) for span in nlp(texts[0]).ents]
    assert found == [("bob lee", "PER"), ("new york", "LOC")]
