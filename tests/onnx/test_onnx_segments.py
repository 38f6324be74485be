"""An exported file decodes by segments as its model does: probabilities by listing paths, answers by the model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from lattice_strategies import Case, cases
from numpy.testing import assert_allclose
from onnx_models import random_tagger, sentences
from oracle import Lattice, runs

from maskedcrf.cli import main
from maskedcrf.errors import MaskedCRFError
from maskedcrf.onnx.export import export
from maskedcrf.onnx.segments import EmissionSegments
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger import Tagger

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

TRIED = sentences(range(1, 40))
SEGMENTS: Any = {"decoding": "segments"}
KINDS = ["words", "roberta"]
"""An LSTM over words, and a transformer with both; that each encoder's scores are its own, other tests show."""


@pytest.fixture(scope="module")
def taggers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tagger]:
    """A tagger of each kind that is unsure, so that path and segments differ."""
    folder = tmp_path_factory.mktemp("unsure")
    found = {kind: random_tagger(kind, folder / kind) for kind in KINDS}
    for tagger in found.values():
        for own in (tagger.model.linear.weight, tagger.model.linear.bias, *tagger.model.crf.parameters()):
            own.data.div_(12)
    return found


@pytest.fixture(scope="module")
def files(taggers: dict[str, Tagger], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The file of each tagger."""
    folder = tmp_path_factory.mktemp("files")
    return {kind: export(tagger, folder / f"{kind}.onnx") for kind, tagger in taggers.items()}


@pytest.fixture(scope="module")
def pairs(taggers: dict[str, Tagger], files: dict[str, Path]) -> dict[str, tuple[Tagger, OnnxTagger]]:
    """Each tagger, and what its file loads to."""
    return {kind: (taggers[kind], OnnxTagger.load(path, threads=1)) for kind, path in files.items()}


@given(drawn=cases)
@settings(max_examples=60)
def test_probabilities_are_those_of_the_listed_paths(drawn: Case) -> None:
    rules, oracles = drawn.constraints, drawn.oracles()
    rows = [oracle.emissions for oracle in oracles if len(oracle.emissions)]
    if not rows or drawn.allowed is not None:
        return
    oracles = [oracle for oracle in oracles if len(oracle.emissions)]
    mask = np.arange(max(map(len, rows))) < np.array([[len(row)] for row in rows])
    emissions = np.full((*mask.shape, len(rules)), np.nan)  # what is off is not read
    emissions[mask] = np.concatenate(rows)
    one = oracles[0]
    scores = tuple(
        np.where(legal, values, -np.inf)
        for legal, values in (
            (one.legal, one.transitions),
            (one.start_legal, one.start),
            (one.end_legal, one.end),
        )
    )
    candidates = EmissionSegments(emissions, mask, scores, rules, least=0.05)  # type: ignore[arg-type]
    spans, types = candidates._spans.tolist(), rules.matrices.types
    assert spans == sorted(spans, key=lambda each: (each[0], each[2], each[3], each[1]))
    for row, oracle in enumerate(oracles):
        listed = _listed(oracle, list(rules.tags))
        found = {
            (start, end, types[kind]): share
            for (number, start, end, kind), share in zip(spans, candidates.shares.tolist(), strict=True)
            if number == row
        }
        assert found.keys() >= {span for span, share in listed.items() if share > 0.0501}
        assert_allclose(list(found.values()), [listed[span] for span in found], atol=1e-9)


def _listed(oracle: Lattice, tags: list[str]) -> dict[tuple[int, int, str], float]:
    spans = {span for path in oracle.paths.tolist() for span in runs([tags[tag] for tag in path])}
    return {span: oracle.span_probability(*span, tags) for span in spans}


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_answers_as_the_model_alone_and_in_any_batch(
    kind: str, pairs: dict[str, tuple[Tagger, OnnxTagger]]
) -> None:
    tagger, exported = pairs[kind]
    answers = [answer.tags for answer in tagger.predict(TRIED, **SEGMENTS, segment_threshold=0.15)]
    assert answers != [answer.tags for answer in tagger.predict(TRIED)]
    for size in (1, 64, 10_000):
        found = exported.predict(TRIED, **SEGMENTS, segment_threshold=0.15, forward_tokens=size)
        assert [answer.tags for answer in found] == answers
    assert [exported.predict([each], **SEGMENTS, segment_threshold=0.15)[0].tags for each in TRIED] == answers


def test_the_file_keeps_the_taggers_own_decoding(taggers: dict[str, Tagger], tmp_path: Path) -> None:
    own = Tagger(taggers["words"].model)
    own.decoding, own.segment_threshold = "segments", 0.2
    exported = OnnxTagger.load(export(own, tmp_path / "model.onnx"))
    assert (exported.decoding, exported.segment_threshold) == ("segments", 0.2)
    assert [answer.tags for answer in exported.predict(TRIED)] == [answer.tags for answer in own.predict(TRIED)]
    by_path = [answer.tags for answer in own.predict(TRIED, decoding="path")]
    assert [answer.tags for answer in exported.predict(TRIED, decoding="path")] == by_path
    ranked = [answer.nbest[0].tags for answer in exported.predict(TRIED, nbest=1)]
    assert ranked == by_path  # the best path is still that
    trusted = OnnxTagger.load(tmp_path / "model.onnx", trusted=True)
    assert trusted.predict(TRIED) == exported.predict(TRIED)


def test_the_command_line_overrides_the_file(
    taggers: dict[str, Tagger], files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("the cat sat on the mat\nZug 1996\n")
    command = ["predict", str(files["words"]), str(tmp_path / "in.txt"), "--decoding", "segments"]
    assert main([*command, "--segment-threshold", "0.15"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    texts = ["the cat sat on the mat", "Zug 1996"]
    answers = taggers["words"].predict(texts, **SEGMENTS, segment_threshold=0.15)
    assert [line[-1] for line in lines] == [tag for answer in answers for tag in answer.tags]
    assert main([*command, "--segment-threshold", "expected"]) == 2
    assert "segment_threshold is a number, not 'expected'; ask the model folder" in capsys.readouterr().err


def test_a_file_without_emissions_says_what_to_do(pairs: dict[str, tuple[Tagger, OnnxTagger]]) -> None:
    _, exported = pairs["words"]
    without = OnnxTagger(exported.session, exported.description)
    with pytest.raises(MaskedCRFError, match="no segments by probability; export it again"):
        without.predict(["a"], **SEGMENTS)
    with pytest.raises(MaskedCRFError, match="threshold is a probability from 0 to 1"):
        exported.predict(["a"], **SEGMENTS, segment_threshold=2.0)
