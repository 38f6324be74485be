"""What is measured of a tagger: sentences among their neighbours, as it was trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from context_corpus import documents, settings

from experiments.grid import OPEN, Run
from experiments.measure import counts_of, errors, measure, opened, pack, unpack
from maskedcrf import Tagger
from maskedcrf.data.sentence import Sentence
from maskedcrf.tags.scheme import SCHEMES


def test_sentences_are_measured_among_their_neighbours(tmp_path: Path) -> None:
    tagger = Tagger.train(documents(60), documents(20, 1), progress=False, **settings(tmp_path / "bert"))
    test = documents(30, 2)
    assert measure(tagger, test, "BIO", "mcrf")["views"]["training"]["f1"] == tagger.evaluate(test).f1 == 100
    assert measure(tagger, test[::2], "BIO", "mcrf")["views"]["training"]["f1"] < 80


def test_the_counts_of_every_sentence_come_back_from_what_is_kept() -> None:
    counts = np.array([[2, 3, 2], [0, 0, 0], [0, 300, 1], [1, 1, 900]])  # correct, predicted, gold
    kept = pack(counts[:, 2:]), pack(errors(counts))
    assert (counts_of(unpack(kept[0], 1), unpack(kept[1], 2)) == counts).all()


def test_what_is_kept_of_every_sentence_adds_up_to_the_totals(tmp_path: Path) -> None:
    tagger = Tagger.train(documents(12), documents(6, 1), progress=False, **settings(tmp_path / "bert") | {"epochs": 1})
    test = documents(9, 2)
    found = measure(tagger, test, "BIO", "mcrf")
    view = found["views"]["training"]
    counts = counts_of(unpack(found["gold"], 1), unpack(view["errors"], 2))
    assert counts.shape == (len(test), 3)
    assert counts.sum(0).tolist() == [view["correct"], view["predicted"], view["gold"]]
    assert view["correct"] < view["gold"], "or nothing is shown"


def test_an_open_mcrf_is_trained_and_read_without_rules_for_start_and_end_and_read_with_them() -> None:
    train = [Sentence(("on", "and", "on"), ("B-X", "I-X", "O")), Sentence(("off", "we", "go"), ("O", "B-X", "I-X"))] * 8
    run = Run("demo", "demo", OPEN, 1)
    small = {"encoder": {"words": 8, "lstm_hidden": 8}, "epochs": 2, "batch_sentences": 4, "dev_fraction": 0}
    with opened("BIO"):
        tagger = Tagger.train(train, progress=False, file_scheme="BIO", **small, **run.training)
        rules = tagger.model.crf.constraints
        assert rules.start.all()
        assert rules.end.all()
        assert not rules.legal.all()
        tagger.model.crf.start_transitions.data.copy_(torch.tensor([100.0 * (tag == "I-X") for tag in rules.tags]))
        found = measure(tagger, train, "BIO", OPEN)["views"]
    assert found["training-open"]["illegal_fp"] + found["training-open"]["illegal_tp"] >= len(train)
    assert found["training"]["illegal_fp"] + found["training"]["illegal_tp"] == 0
    assert "BIO-OPEN" not in SCHEMES, "or it would be suggested for files"
