"""The page about dev that training leaves in the model folder."""

from __future__ import annotations

import pytest
from small_corpus import SMALL, corpus

from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.training import train


def test_a_model_trained_with_dev_comes_with_its_page(tmp_path):
    tagger = Tagger.train(corpus(20), corpus(10, 1), output=tmp_path / "model", **{**SMALL, "epochs": 1})
    text = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert f"F1 {tagger.record.scores['dev']['retain']['f1']:.2f}, with 95 % confidence" in text
    assert "model on dev" in text
    Tagger.train(corpus(20), output=tmp_path / "model", overwrite=True, **{**SMALL, "epochs": 1, "dev_fraction": 0.0})
    assert not (tmp_path / "model" / "report.html").exists()


def test_a_page_that_cannot_be_written_costs_no_model(tmp_path, monkeypatch):
    def refuse(*given):
        raise MaskedCRFError("no room")

    monkeypatch.setattr(train.html, "write", refuse)
    with pytest.raises(MaskedCRFError, match="no room"):
        Tagger.train(corpus(20), corpus(10, 1), output=tmp_path / "model", **{**SMALL, "epochs": 1})
    assert Tagger.load(tmp_path / "model").predict("ann flew").tokens == ("ann", "flew")
