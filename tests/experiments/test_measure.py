"""What is measured of a tagger: sentences among their neighbours, as it was trained."""

from __future__ import annotations

from pathlib import Path

from told_around import documents, settings

from experiments.measure import measure
from maskedcrf import Tagger


def test_sentences_are_measured_among_their_neighbours(tmp_path: Path) -> None:
    tagger = Tagger.train(documents(60), documents(20, 1), bar=False, **settings(tmp_path / "bert"))
    test = documents(30, 2)
    assert measure(tagger, test, "BIO", "mcrf")["views"]["training"]["f1"] == tagger.evaluate(test).f1 == 100
    assert measure(tagger, test[::2], "BIO", "mcrf")["views"]["training"]["f1"] < 80
