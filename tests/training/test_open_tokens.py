"""Training on sentences of which some tokens are left open."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_corpus import SMALL, corpus

from maskedcrf.cli import main
from maskedcrf.data.formats import read_sentences, to_bytes
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.tagger import Tagger
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.loop import BatchLoss, TrainingRun, tensor_batches
from maskedcrf.training.settings import Settings
from maskedcrf.training.train import build_model

CORRECTED = Sentence(("ann", "flew", "to", "zork", "."), ("O", "B-ORG", "B-PER", "B-LOC", "O"), open=(0, 1, 2))
"""Only `zork` and the full stop are vouched for; the other tags are wrong."""


def test_what_is_known_is_learnt_and_what_is_open_is_not() -> None:
    train, settings = corpus(80), {**SMALL, "epochs": 8, "dev_fraction": 0.0}
    gold = [replace(CORRECTED, tokens=("ann", "flew", "to", name, ".")) for name in ("zork", "zork", "quux", "quux")]
    tagger = Tagger.train([*train, *gold], progress=False, **settings)
    assert tagger.predict([["eve", "flew", "to", "zork", "."]])[0].tags == ("B-PER", "O", "O", "B-LOC", "O")
    assert tagger.predict([CORRECTED.tokens])[0].tags == ("B-PER", "O", "O", "B-LOC", "O")
    assert tagger.record.data["train"]["open_tokens"] == 12


def test_the_loss_is_that_of_all_paths_through_what_is_known() -> None:
    settings = Settings.of({**SMALL, "dev_fraction": 0.0}).resolved(9)
    data = build_corpus([*corpus(7), CORRECTED, replace(CORRECTED, open=tuple(range(5)))], None, None, settings)
    model = build_model(data, settings).eval()
    run = TrainingRun(model, data, settings)
    [([part], size)] = list(tensor_batches(run, [list(range(len(data.sentences)))]))
    assert size == 9
    found = BatchLoss(model, None)(part)
    expected = torch.zeros(())
    for sentence, ids in zip(data.sentences, data.ids, strict=True):
        features = model.encoder.prepare([Sentence(sentence.tokens)])
        emissions = model.emissions(features)
        free = [range(len(data.tags)) if at in sentence.open else [tag] for at, tag in enumerate(ids)]
        allowed = torch.zeros(emissions.shape, dtype=torch.bool)
        for at, tags in enumerate(free):
            allowed[0, at, list(tags)] = True
        inside = model.crf.log_partition(emissions, allowed=allowed)
        expected = expected + (model.crf.log_partition(emissions) - inside).sum()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_dev_is_drawn_from_complete_sentences_and_every_score_needs_them(tmp_path: Path) -> None:
    settings = Settings.of({**SMALL, "dev_fraction": 0.5}).resolved(9)
    data = build_corpus([*corpus(6), CORRECTED, CORRECTED], None, None, settings)
    assert not any(sentence.open for sentence in data.dev)
    assert sum(bool(sentence.open) for sentence in data.sentences) == 2
    with pytest.raises(DataError, match="3 tokens are left open, and dev needs a tag for each"):
        build_corpus(corpus(6), [CORRECTED], None, settings)
    path = tmp_path / "gold.jsonl"
    path.write_bytes(b"".join(to_bytes([CORRECTED], "jsonl")))
    tagger = Tagger.train(corpus(20), progress=False, **{**SMALL, "epochs": 1})
    with pytest.raises(DataError, match=r"gold.jsonl:1: 3 tokens are left open, and scoring or fitting needs"):
        tagger.evaluate(path)
    folder = tagger.save(tmp_path / "model")
    assert main(["evaluate", str(folder), str(path)]) == 2


def test_json_lines_keep_what_is_open_and_other_formats_refuse_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_bytes(b"".join(to_bytes([CORRECTED], "jsonl")))
    [read] = read_sentences(path)
    assert (read.tokens, read.tags, read.open) == (CORRECTED.tokens, CORRECTED.tags, CORRECTED.open)
    assert main(["convert", str(path), "--to", "BIOES", "--to-format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["open"] == [0, 1, 2]
    for format in ("conll", "doccano", "csv"):
        with pytest.raises(DataError, match=f"3 tokens are left open, and {format}, unlike jsonl, needs"):
            list(to_bytes([CORRECTED], format))
    assert main(["convert", str(path), "--to-format", "conll", "-o", str(tmp_path / "a.conll")]) == 2
    assert not (tmp_path / "a.conll").exists()


@pytest.mark.parametrize("opened", ["3", "[5]", "[-1]", "[1.0]", "[true]", '["1"]', "[[1]]", "{}"])
def test_positions_that_do_not_exist_are_refused(tmp_path: Path, opened: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text('{"tokens": ["a", "b"], "tags": ["O", "O"], "open": ' + opened + "}\n")
    with pytest.raises(DataError, match=r"gold.jsonl:1: open must be a list of token numbers from 0 to 1"):
        list(read_sentences(path))
