"""The model card says of each part what was measured."""

from __future__ import annotations

from maskedcrf.tagger.card import model_card


def test_the_scores_of_both_readings_and_the_illegal_share_have_a_column_each():
    config = {
        "tags": ["O", "B-X", "I-X"],
        "scheme": "BIO",
        "output_scheme": "BIO",
        "delimiter": "-",
        "prefix_last": False,
        "head": "crf",
        "mask": "off",
        "version": "1",
        "record": {
            "data": {},
            "settings": {},
            "scores": {"dev": {"retain": {"f1": 81.5}, "discard": {"f1": 82.25}, "illegal": 1.125}},
            "signature": None,
        },
    }
    card = model_card(config)
    assert "| dev | 81.50 | 82.25 | 1.12 |" in card
    assert "its output may leave the scheme" in card
