"""Raw texts of several sentences: each is tagged for itself, and the answer is one, in the text's own offsets."""

from __future__ import annotations

import copy
import io
import json
import math
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_helpers import build_tagger

from maskedcrf.bulk.formats import cut, tag
from maskedcrf.bulk.rows import Options
from maskedcrf.cli import main
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.sentence_splitters import get_splitter
from maskedcrf.data.texts import to_sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.prediction import Prediction

TEXT = "Ann\nLee flew to\n\n Oslo Lee."
LINES = ["Ann", "Lee flew to", " Oslo Lee."]


def tagger_by(sentences: str = "line") -> Tagger:
    tagger = Tagger(copy.deepcopy(build_tagger().model))
    tagger.tokenizer = tagger.tokenizer.with_sentences(sentences)
    return tagger


def spans(answer: Prediction) -> list[tuple[str, str]]:
    assert all(answer.text[each.start : each.end] == each.text for each in answer.entities)
    return [(each.type, each.text) for each in answer.entities]


def test_a_sentence_ends_where_the_splitter_says() -> None:
    assert spans(tagger_by("line").predict(TEXT)) == [("PER", "Ann"), ("PER", "Lee"), ("LOC", "Oslo"), ("PER", "Lee")]
    assert spans(tagger_by("blank_line").predict(TEXT))[0] == ("PER", "Ann\nLee")
    assert spans(tagger_by("none").predict("Ann\n\nLee")) == [("PER", "Ann\n\nLee")]
    assert spans(tagger_by("blank_line").predict("Ann\n\nLee")) == [("PER", "Ann"), ("PER", "Lee")]


def test_a_library_may_split_but_an_entity_never_crosses_a_paragraph() -> None:
    pytest.importorskip("spacy")
    answer = tagger_by("spacy:en").predict("Oslo. Lee flew to\n\nAnn\nLee")
    assert spans(answer) == [("LOC", "Oslo"), ("PER", "Lee"), ("PER", "Ann\nLee")]
    assert answer.sentence.breaks == (2, 5)


def test_the_answer_is_that_of_the_sentences_one_by_one() -> None:
    tagger = tagger_by()
    alone = [tagger.predict(line, probabilities=True) for line in LINES]
    answer = tagger.predict(TEXT, probabilities=True)
    assert answer.tokens == tuple(token for each in alone for token in each.tokens)
    assert answer.tags == tuple(tag for each in alone for tag in each.tags)
    expected = [each.probability for one in alone for each in one.entities]
    assert [each.probability for each in answer.entities] == pytest.approx(expected)
    above = tagger.predict(TEXT, threshold=0.01)
    assert len(above.entities) == sum(len(tagger.predict(line, threshold=0.01).entities) for line in LINES)
    segments = {"decoding": "segments", "segment_threshold": 0.4}
    by_line = [spans(tagger.predict(line, **segments)) for line in LINES]
    assert spans(tagger.predict(TEXT, **segments)) == [each for own in by_line for each in own]


def test_the_best_paths_of_a_text_are_those_of_all_ways_to_join_paths() -> None:
    tagger = tagger_by()
    ranked = [tagger.predict(line, nbest=1000).nbest for line in LINES[:2]]
    every = {one.tags + two.tags: one.probability * two.probability for one, two in product(*ranked)}
    answer = tagger.predict("\n".join(LINES[:2]), nbest=7)
    best = sorted(every.values(), reverse=True)[:7]
    assert [path.probability for path in answer.nbest] == pytest.approx(best)
    assert all(math.isclose(every[path.tags], path.probability, rel_tol=1e-6) for path in answer.nbest)
    assert answer.nbest[0].tags == answer.tags


def test_known_tags_are_placed_in_the_text_and_names_do_not_cross_a_sentence() -> None:
    tagger = tagger_by()
    assert tagger.predict(TEXT, fixed={1: "O"}).tags[:2] == ("B-PER", "O")
    answer = tagger.predict(TEXT, gazetteer={"Ann Lee": "LOC", "flew to": "LOC"})
    assert spans(answer)[:3] == [("PER", "Ann"), ("PER", "Lee"), ("LOC", "flew to")]
    with pytest.raises(MaskedCRFError, match=r"input 1 \(counted from 0\)"):
        tagger.predict(["Ann", "Ann\nLee"], fixed=[None, {1: "I-PER"}])


def test_words_around_a_sentence_are_those_of_its_text() -> None:
    text = to_sentence("a b\nc\nd e", get_tokenizer("simple"))
    parts = list(text.parts(context=2))
    assert [(part.context.before, part.tokens, part.context.after) for part in parts] == [
        ((), ("a", "b"), ("c", "d")),
        (("a", "b"), ("c",), ("d", "e")),
        (("b", "c"), ("d", "e"), ()),
    ]
    tokens = Sentence(("a",), ("O",))
    assert list(tokens.parts(3)) == [tokens]


@given(
    text=st.text(st.sampled_from("ab .\n\r\u2029 \t"), max_size=30),
    name=st.sampled_from(["line", "blank_line", "none"]),
)
def test_no_character_but_blanks_is_lost_and_offsets_are_those_of_the_text(text: str, name: str) -> None:
    sentence = to_sentence(text, get_tokenizer("simple").with_sentences(name))
    assert "".join(sentence.tokens) == "".join(text.split())
    assert all(text[start:end] == token for token, (start, end) in zip(sentence.tokens, sentence.offsets, strict=True))
    parts = list(sentence.parts())
    assert tuple(token for part in parts for token in part.tokens) == sentence.tokens
    assert all(part.tokens for part in parts[1:])
    assert len(parts) == max(1, sum(bool(text[a:b].split()) for a, b in get_splitter(name)(text)))


def test_the_splitter_is_saved_with_the_model_and_an_unknown_one_refused(tmp_path: Path) -> None:
    folder = tagger_by("blank_line").save(tmp_path / "model")
    assert Tagger.load(folder).tokenizer.sentences == "blank_line"
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["tokenizer"]["sentences"] = ["x"]
    path.write_text(json.dumps(config))
    with pytest.raises(MaskedCRFError, match="splitter"):
        Tagger.load(folder)


def test_an_onnx_file_splits_as_its_model(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from maskedcrf.onnx.export import export
    from maskedcrf.onnx.tagger import OnnxTagger

    tagger = tagger_by()
    export(tagger, tmp_path / "model.onnx")
    loaded = OnnxTagger.load(tmp_path / "model.onnx")
    assert loaded.predict(TEXT).to_json() == tagger.predict(TEXT).to_json()
    assert loaded.predict(TEXT, nbest=1).nbest[0].probability == pytest.approx(
        tagger.predict(TEXT, nbest=1).nbest[0][1]
    )


def test_every_road_from_text_goes_by_the_same_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tagger_by().save(tmp_path / "model"))
    line = json.dumps({"text": TEXT})
    (tmp_path / "a.jsonl").write_text(line + "\n")
    assert main(["predict", folder, str(tmp_path / "a.jsonl"), "--format", "jsonl"]) == 0
    expected = tagger_by().predict(TEXT).to_json()
    assert json.loads(capsys.readouterr().out) == expected
    [piece] = cut(str(tmp_path / "a.jsonl"), "jsonl", Options())
    done = tag(Tagger.load(folder), piece, path="a", form="jsonl", options=Options())
    assert {**json.loads(done.content), "text": TEXT} == expected
    assert main(["predict", folder, str(tmp_path / "a.jsonl"), "--format", "jsonl", "--sentences", "blank_line"]) == 0
    assert json.loads(capsys.readouterr().out) == tagger_by("blank_line").predict(TEXT).to_json()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Ann Oslo. Lee\n")))
    pytest.importorskip("spacy")
    assert main(["predict", folder, "-", "--sentences", "spacy:en", "--format", "conll"]) == 0
    assert capsys.readouterr().out == "Ann B-PER\nOslo B-LOC\n. O\n\nLee B-PER\n\n"


def test_a_tokenizer_of_your_own_is_named_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tagger_by().save(tmp_path / "model"))
    (tmp_path / "a.txt").write_text("Ann,Lee flew,Oslo\n")
    flags = ["--tokenizer", "own_tokenizer:by_comma", "--format", "jsonl"]
    assert main(["predict", folder, str(tmp_path / "a.txt"), *flags]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == ["Ann", "Lee flew", "Oslo"]
    assert main(["predict", folder, str(tmp_path / "a.txt"), "--tokenizer", "no.such:function"]) == 2
    assert "give the module's import path" in capsys.readouterr().err


def test_in_bulk_the_longest_sentence_counts_not_the_text(tmp_path: Path) -> None:
    options = Options(longest=4)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT}) + "\n" + json.dumps({"text": "Ann " * 5}) + "\n")
    [piece] = cut(str(tmp_path / "a.jsonl"), "jsonl", options)
    done = tag(tagger_by(), piece, path="a", form="jsonl", options=options)
    assert len(done.content.splitlines()) == 1
    assert [each["reason"] for each in done.rejects] == ["5 tokens; at most 4 are tagged at a time, split it"]
