"""Encoders that have read the texts, and taggers to begin with: made, whole, and used by what comes after."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from encoders.tiny import write_model
from safetensors.torch import load_file
from small_corpus import SMALL, corpus
from token_lists import sentences_of

from experiments import adapt, first
from maskedcrf import Tagger
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.errors import DataError

MARKS = adapt.Marks(begin=2, end=3, mask=4, size=21)
TEXT = [["the", "cat", "sat"], ["a", "mat"], ["北", "京"], ["unbelievable", "cats"]]


def test_the_text_is_the_pieces_of_all_sentences_with_a_mark_between_them(tmp_path: Path) -> None:
    text, marks = adapt.text_of(write_model(tmp_path / "bert"), TEXT[:2])
    assert marks == MARKS
    assert text.tolist() == [5, 6, 7, 3, 16, 8, 3]


def test_a_vocabulary_with_two_sets_of_marks_means_its_own(tmp_path: Path) -> None:
    text, marks = adapt.text_of(write_model(tmp_path / "mpnet", "mpnet"), TEXT[:2])
    assert marks == adapt.Marks(begin=0, end=2, mask=8, size=25)
    assert text.tolist() == [9, 10, 11, 2, 20, 12, 2]


def test_a_vocabulary_that_can_hide_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"albert/tokenizer.json: has neither \[MASK\] nor <mask>"):
        adapt.text_of(write_model(tmp_path / "albert", "albert"), TEXT[:2])


def test_an_epoch_reads_all_of_the_text_but_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt, "LENGTH", 8)
    monkeypatch.setattr(adapt, "ROWS", 4)
    found = list(adapt.batches(torch.arange(100, 200), MARKS))  # 14 rows of 7 and a rest of 2, then 3 batches
    assert [rows.shape for rows in found] == [(4, 8)] * 3
    assert {piece for rows in found for piece in rows[:, 0].tolist()} == {MARKS.begin}
    read = [piece for rows in found for piece in rows[:, 1:].flatten().tolist()]
    assert len(set(read)) == len(read) == 84
    [rows] = adapt.batches(torch.arange(100, 103), MARKS)
    assert rows.shape == (1, 4), "a text shorter than a row"


def test_the_share_asked_for_is_hidden_and_marks_never_are() -> None:
    torch.manual_seed(0)
    rows = torch.randint(5, 21, (50, 40))
    rows[:, 0], rows[:, 20] = MARKS.begin, MARKS.end
    pieces, places, hidden = adapt.hide(rows, MARKS)
    assert len(places) == len(places.unique()) == 300
    assert torch.equal(rows.flatten()[places], hidden)
    assert not set(hidden.tolist()) & {MARKS.begin, MARKS.end}
    changed = pieces != rows
    changed.view(-1)[places] = False
    assert not changed.any(), "nothing else is touched"
    shown = pieces.flatten()[places]
    assert (shown == MARKS.mask).float().mean() == pytest.approx(0.8, abs=0.06)
    assert (shown == hidden).float().mean() == pytest.approx(0.1, abs=0.06)


def options(folder: Path) -> list[str]:
    return ["--encoders", str(folder), "--corpora", "."]


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_an_encoder_that_has_read_is_an_ordinary_folder_and_guesses_better(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapt, "LENGTH", 16)
    monkeypatch.setattr(adapt, "ROWS", 8)
    write_model(tmp_path / kind, kind, half=True)
    texts = {"weibo": TEXT, "resume": TEXT[:1]}
    parts = {name: [SimpleNamespace(tokens=tokens) for tokens in found * 30] for name, found in texts.items()}
    monkeypatch.setattr(adapt, "corpus_of", lambda name, _: SimpleNamespace(train=parts[name], dev=None, test=None))
    losses: list[list[float]] = []
    original = adapt.adapt
    monkeypatch.setattr(adapt, "adapt", lambda *given, **more: losses.append(original(*given, **more)))
    given = ["read", "--encoder", kind, "--texts", "weibo", "resume", "--epochs", "12", "--rate", "5e-3"]
    assert adapt.main([*given, *options(tmp_path)]) == 0
    assert losses[0][-1] < losses[0][0] - 0.5
    names = {path.name for path in (tmp_path / kind).iterdir()}
    assert {path.name for path in (tmp_path / "read").iterdir()} == names
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in (kind, "read"))
    assert after.keys() == {name for name in before if "pooler" not in name}
    assert {value.dtype for value in after.values()} == {torch.float32}
    key = "embeddings.word_embeddings.weight"
    assert not torch.allclose(after[key], before[key].float(), atol=1e-2)
    encoder = build_encoder(EncoderConfig(transformer=str(tmp_path / "read")), sentences_of(TEXT))
    assert torch.equal(encoder.get_parameter(f"parts.transformer.model.{key}"), after[key])
    assert adapt.main([*given, *options(tmp_path)]) == 0
    assert len(losses) == 1, "it is there already"


def test_an_encoder_made_deeper_gives_the_same_vectors_until_it_learns(tmp_path: Path) -> None:
    import transformers

    source = write_model(tmp_path / "bert")
    shallow, deep = (transformers.AutoModelForMaskedLM.from_pretrained(source).eval() for _ in range(2))
    adapt.deepen(deep, 5)
    assert len(deep.base_model.encoder.layer) == deep.config.num_hidden_layers == 5
    rows = torch.tensor([[2, 5, 6, 7, 3]])
    with torch.no_grad():
        before, after = (model.base_model(input_ids=rows).last_hidden_state for model in (shallow, deep))
    # What each new layer adds is nothing; it still normalises, which a vector in normal form survives.
    torch.testing.assert_close(after, before, rtol=0, atol=1e-4)
    adapt.deepen(shallow, 0)
    assert shallow.config.num_hidden_layers == 2
    adapt.write(deep, source, tmp_path / "deep")
    encoder = build_encoder(EncoderConfig(transformer=str(tmp_path / "deep")), sentences_of(TEXT))
    assert len(encoder.layers()) == 6, "the embeddings and five layers"


def test_a_tagger_to_begin_with_lies_beside_the_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = {"epochs": 1, "encoder": {**SMALL["encoder"]}}
    monkeypatch.setitem(first.STARTS, "msra-tagger", ("msra", recipe))
    known = SimpleNamespace(train=corpus(24), dev=corpus(6, seed=1), scheme="BIO", gold="error")
    monkeypatch.setattr(first, "corpus_of", lambda name, folder: known)
    assert first.main(["msra-tagger", "--sentences", "20", *options(tmp_path)]) == 0
    tagger = Tagger.load(tmp_path / "msra-tagger")
    assert tagger.mask == "train"
    assert tagger.record.data["train"]["sentences"] == 20
    begun = Tagger.train(corpus(8), **{**SMALL, "epochs": 1}, encoder_from=str(tmp_path / "msra-tagger"))
    assert begun.record.settings["encoder_from"].endswith("msra-tagger")
    weights = (tmp_path / "msra-tagger" / "model.safetensors").read_bytes()
    first.make("msra-tagger", Namespace(encoders=str(tmp_path), corpora="", sentences=None))
    assert (tmp_path / "msra-tagger" / "model.safetensors").read_bytes() == weights
