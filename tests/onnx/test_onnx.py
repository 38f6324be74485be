"""An exported file decodes as its model does, never leaves the scheme, and needs no torch."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
import torch
from encoders.bilm import write_bilm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import KINDS, TAGS, WORDS, random_tagger, sentences
from oracle import Lattice
from service_helpers import build_tagger
from token_lists import sentences_of

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.data.sentence import Sentence, with_context
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.errors import DataError, IllegalPathError, MaskedCRFError
from maskedcrf.onnx import export as export_module
from maskedcrf.onnx import file
from maskedcrf.onnx.crf_graph import crf_model
from maskedcrf.onnx.export import compare_with_export, export, scores_of, write_file
from maskedcrf.onnx.features import Features
from maskedcrf.onnx.file import OnnxFileError
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import violations

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def loaded(pairs: dict[str, tuple[Tagger, Path]]) -> list[tuple[Tagger, OnnxTagger]]:
    """The taggers and their files, loaded once."""
    return [(tagger, OnnxTagger.load(path, threads=1)) for tagger, path in pairs.values()]


@pytest.fixture(params=range(len(KINDS)), ids=KINDS)
def pair(request: pytest.FixtureRequest, loaded: list[tuple[Tagger, OnnxTagger]]) -> tuple[Tagger, OnnxTagger]:
    """Each tagger in turn, and what its file loads to."""
    return loaded[request.param]


# The CRF's graph, against listed paths.


@st.composite
def lattices(draw: st.DrawFn) -> list[tuple[Lattice, list[bool]]]:
    """Rows of one batch under the same random rules, any mask, scores up to 1e4."""
    size, length, rows = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.0, 1.0, 1e4]))
    legal, first, last = (random.random(shape) < 0.7 for shape in ((size, size), size, size))
    scores = [random.normal(size=shape) for shape in ((size, size), size, size)]
    found = []
    for _ in range(rows):
        mask = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        emissions = (random.normal(size=(sum(mask), size)) * scale).astype(np.float32)
        everything = np.ones(emissions.shape, dtype=bool)
        found.append((Lattice(emissions, *scores, legal, first, last, everything), mask))
    return found


@given(lattices())
@settings(max_examples=60)
def test_the_graph_finds_the_best_of_the_listed_paths(batch: list[tuple[Lattice, list[bool]]]) -> None:
    one = batch[0][0]
    transitions, start, end = (
        np.where(legal, scores, -np.inf)
        for legal, scores in (
            (one.legal, one.transitions),
            (one.start_legal, one.start),
            (one.end_legal, one.end),
        )
    )
    mask = np.array([mask for _, mask in batch])
    emissions = np.full((*mask.shape, len(start)), np.nan, dtype=np.float32)  # what is off is not read
    emissions[mask] = np.concatenate([lattice.emissions for lattice, _ in batch])
    session = onnxruntime.InferenceSession(crf_model(transitions, start, end).SerializeToString())
    tags, shares = session.run(None, {"emissions": emissions, "mask": mask})
    for (lattice, _), on, row, share in zip(batch, mask, tags, shares, strict=True):
        assert (row[~on] == -100).all()
        if not len(lattice.paths):
            assert (row == -100).all()
            assert share == -np.inf
            continue
        assert tuple(row[on]) in set(map(tuple, lattice.paths.tolist()))
        assert lattice.score(tuple(row[on])) == pytest.approx(lattice.scores.max(), rel=1e-12, abs=1e-9)
        assert share == pytest.approx(lattice.scores.max() - lattice.log_partition, rel=1e-5, abs=1e-5)


def test_of_equal_paths_the_graph_takes_the_one_the_layer_takes() -> None:
    zeros = np.zeros((2, 2)), np.zeros(2), np.zeros(2)
    session = onnxruntime.InferenceSession(crf_model(*zeros).SerializeToString())
    tags, shares = session.run(
        None, {"emissions": np.zeros((1, 3, 2), dtype=np.float32), "mask": np.ones((1, 3), dtype=bool)}
    )
    assert tags.tolist() == [[0, 0, 0]]
    assert shares[0] == pytest.approx(-3 * np.log(2), rel=1e-6)


# The whole file, against the model it was made from.


def test_every_sentence_gets_the_models_tags_whatever_its_length_and_batch(pair: tuple[Tagger, OnnxTagger]) -> None:
    tagger, exported = pair
    tried = sentences(range(1, 65)) + sentences(range(65, 513, 64)) + sentences(range(512, 513))
    expected = [answer.tags for answer in tagger.predict(tried)]
    assert [answer.tags for answer in exported.predict(tried)] == expected
    alone = [exported.predict([tokens])[0].tags for tokens in tried[:32] + tried[-2:]]
    assert alone == expected[:32] + expected[-2:]
    assert {tag for tags in expected for tag in tags} == set(TAGS)
    assert not any(violations(tags, "BIOES") for tags in expected)


def test_a_batch_of_32_is_32_sentences(pair: tuple[Tagger, OnnxTagger]) -> None:
    tagger, exported = pair
    tried = sentences(range(1, 33))
    found = exported.paths(sentences_of(tried))
    features = tagger.model.encoder.prepare(sentences_of(tried))
    with torch.inference_mode():
        emissions = tagger.model.emissions(features)
        paths = tagger.model.crf.decode_tensor(emissions, features["mask"])
        shares = tagger.model.crf.log_prob(emissions, paths, features["mask"])
    assert found.tags.shape == (32, 32)
    assert (found.tags == paths.numpy()).all()
    assert found.log_probability == pytest.approx(shares.numpy(), rel=1e-3, abs=1e-3)


@given(st.lists(st.lists(st.sampled_from(WORDS) | st.text(min_size=1), max_size=40), min_size=1, max_size=5))
@settings(max_examples=30)
def test_features_are_those_of_the_encoder(loaded: list[tuple[Tagger, OnnxTagger]], batch: list[list[str]]) -> None:
    chosen = sentences_of([word.encode("utf-8", "ignore").decode() for word in tokens] for tokens in batch)
    for tagger, exported in loaded:
        ours = exported._features.prepare(chosen)
        theirs = {name: part.numpy() for name, part in tagger.model.encoder.prepare(chosen).items() if name != "shapes"}
        theirs.setdefault("piece_mask", np.ones_like(ours.get("pieces", 0), dtype=bool))
        assert all(np.array_equal(array, theirs[name]) for name, array in ours.items())
        assert exported._features.compute_lengths(chosen) == tagger.model.encoder.compute_lengths(chosen)


@pytest.fixture(scope="module")
def looking_around(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tagger, Path]:
    """A tagger that sees four words on either side of a sentence, and its file."""
    folder = tmp_path_factory.mktemp("context")
    tagger = random_tagger("roberta", folder / "roberta", context=4)
    return tagger, export(tagger, folder / "model.onnx")


def test_a_file_sees_the_neighbours_that_the_folder_sees(looking_around: tuple[Tagger, Path]) -> None:
    tagger, path = looking_around
    exported = OnnxTagger.load(path)
    documents = [Sentence(tuple(words), document=n // 4) for n, words in enumerate(sentences([*range(9)] * 3))]
    words = [sentence.tokens for sentence in documents]
    placed = list(with_context(documents, 4))
    assert exported._features.compute_lengths(placed) == tagger.model.encoder.compute_lengths(placed)
    found = compare_with_export(tagger, exported, documents)
    assert (found.sentences, found.tokens, found.different_tags) == (27, sum(map(len, words)), 0)
    assert [answer.tags for answer in exported.predict(words)] != [
        answer.tags for answer in exported.predict(documents)
    ]


@pytest.mark.parametrize("context", [-1, 513, "4", None, [4]])
def test_a_context_that_cannot_be_is_refused(looking_around: tuple[Tagger, Path], context: object) -> None:
    _, path = looking_around
    files = dict(file.read(path)[1].files)
    saved = json.loads(files["encoder.json"])
    assert Features(files).context == 4
    saved["config"]["context"] = context
    with pytest.raises(DataError, match="not complete or not sound"):
        Features({**files, "encoder.json": json.dumps(saved)})
    del saved["config"]["context"]
    assert Features({**files, "encoder.json": json.dumps(saved)}).context == 0


def test_texts_carry_offsets_and_empty_ones_are_answered(pair: tuple[Tagger, OnnxTagger]) -> None:
    tagger, exported = pair
    texts = ["The cat\tsat on 北京.", "", ["the", "mat"], []]
    ours, theirs = exported.predict(texts), tagger.predict(texts)
    assert [answer.to_json() for answer in ours] == [answer.to_json() for answer in theirs]
    assert exported.predict(texts[0]).to_json() == theirs[0].to_json()


def test_the_path_carries_its_probability_if_asked_for(pair: tuple[Tagger, OnnxTagger]) -> None:
    tagger, exported = pair
    texts = sentences(range(1, 6))
    for ours, theirs in zip(exported.predict(texts, nbest=1), tagger.predict(texts, nbest=1), strict=True):
        assert ours.nbest[0].tags == theirs.nbest[0].tags
        assert ours.nbest[0].probability == pytest.approx(theirs.nbest[0].probability, rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"nbest": 2},
        {"probabilities": True},
        {"threshold": 0.5},
        {"fixed": [{0: "O"}]},
        {"gazetteer": {"Oslo": "LOC"}},
    ],
)
def test_what_the_file_cannot_answer_is_refused(pairs: dict[str, tuple[Tagger, Path]], options: dict[str, Any]) -> None:
    with pytest.raises(MaskedCRFError, match="ask the model folder"):
        OnnxTagger.load(pairs["words"][1]).predict(["a"], **options)


class OtherSession:
    """A session whose answers are given."""

    def __init__(self, session: Any, *answers: Any) -> None:
        self.get_inputs = session.get_inputs
        self.run = lambda outputs, inputs: [np.array(answer) for answer in answers]


@pytest.mark.parametrize("text", [["a", 3], 7, None])
def test_what_is_no_text_is_refused_as_the_folder_does(pairs: dict[str, tuple[Tagger, Path]], text: Any) -> None:
    tagger, path = pairs["words"]
    for either in (tagger, OnnxTagger.load(path)):
        with pytest.raises(DataError, match="a text is a string, or a list of tokens that are strings"):
            either.predict([["a"], text])
        with pytest.raises(DataError, match=r"write \[text\]; got a dict"):
            either.predict({"text": text})


def test_tags_come_in_the_output_scheme(pairs: dict[str, tuple[Tagger, Path]]) -> None:
    tagger, path = pairs["words"]
    exported = OnnxTagger.load(path)
    exported = OnnxTagger(exported.session, replace(exported.description, output_scheme="BIO"))
    tried = sentences(range(1, 33))
    assert exported.predict(tried) == Tagger(tagger.model, output_scheme=Scheme.get("BIO")).predict(tried)


def test_a_length_without_a_legal_path_is_refused_by_number(pairs: dict[str, tuple[Tagger, Path]]) -> None:
    loaded = OnnxTagger.load(pairs["words"][1])
    exported = OnnxTagger(OtherSession(loaded.session, [[0, 0], [-100, -100]], [-1.0, -np.inf]), loaded.description)
    with pytest.raises(IllegalPathError, match=r"^input 1 \(counted from 0\)"):
        exported.predict([["a", "b"], ["a"]])


@pytest.mark.parametrize("tags", [[[0]], [[0, 99]], [[0, -100]]])
def test_tags_that_do_not_exist_are_refused(pairs: dict[str, tuple[Tagger, Path]], tags: list[list[int]]) -> None:
    loaded = OnnxTagger.load(pairs["words"][1])
    with pytest.raises(OnnxFileError, match="tags that do not exist"):
        OnnxTagger(OtherSession(loaded.session, tags, [-1.0]), loaded.description).predict([["a", "b"]])


@pytest.mark.parametrize(("mask", "illegal"), [("train", True), ("decode", True), ("off", False)])
def test_only_a_mask_that_is_off_lets_illegal_steps_in(mask: str, illegal: bool) -> None:
    crf = MaskedCRF(TAGS, scheme="BIOES", mask=mask)
    assert [bool(np.isneginf(part).any()) for part in scores_of(crf)] == [illegal] * 3


def test_an_encoder_with_elmo_is_refused_in_one_line(tmp_path: Path) -> None:
    encoder = build_encoder(EncoderConfig(elmo=str(write_bilm(tmp_path / "elmo"))), sentences_of([["a"]]))
    tagger = Tagger(TaggerModel(encoder, Constraints.from_scheme(["O"], "BIO"), dropout=0.0))
    with pytest.raises(MaskedCRFError, match="^an encoder with ELMo cannot be exported"):
        export(tagger, tmp_path / "model.onnx")


def test_exporting_leaves_the_tagger_as_it_was_and_the_file_tells_no_paths(
    pairs: dict[str, tuple[Tagger, Path]],
) -> None:
    tagger, path = pairs["words"]
    assert isinstance(tagger.model.encoder.lstm.forwards[0], torch.nn.LSTM)
    content = path.read_bytes()
    assert not any(str(place).encode() in content for place in (Path.cwd(), Path(torch.__file__).parents[2]))
    assert b'File "' not in content


def test_a_folder_that_is_not_there_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(MaskedCRFError, match="there is no folder"):
        write_file(crf_model(np.zeros((2, 2)), np.zeros(2), np.zeros(2)), tmp_path / "nowhere" / "model.onnx")
    assert list(tmp_path.iterdir()) == []


# Without torch.

BLOCKED = """
import json, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "onnx", "onnxscript", "numba", "safetensors"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
from maskedcrf.cli import main
sys.exit(max(main(arguments) for arguments in json.loads(sys.argv[1])))
"""


def test_the_command_line_tags_with_a_file_where_torch_is_not_installed(
    pairs: dict[str, tuple[Tagger, Path]], tmp_path: Path
) -> None:
    cases: list[tuple[str, Any]] = [*((kind, "path") for kind in KINDS), ("words", "segments"), ("bert", "segments")]
    tried = sentences(range(3, 9))
    (tmp_path / "in.conll").write_text("".join("".join(f"{token} _\n" for token in each) + "\n" for each in tried))
    commands = [
        ["predict", str(pairs[kind][1]), "in.conll", "--decoding", decoding, "-o", f"{kind}-{decoding}.conll"]
        for kind, decoding in cases
    ]
    command = [sys.executable, "-c", BLOCKED, json.dumps(commands)]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    for kind, decoding in cases:
        blocks = (tmp_path / f"{kind}-{decoding}.conll").read_text(encoding="utf-8").split("\n\n")[:-1]
        found = [tuple(line.rpartition(" ")[2] for line in block.split("\n")) for block in blocks]
        expected = [answer.tags for answer in pairs[kind][0].predict(tried, decoding=decoding)]
        assert found == expected, (kind, decoding)


# torch.export.


def test_the_model_exports_for_torch_with_batch_and_length_open() -> None:
    encoder = build_encoder(EncoderConfig(words=8, characters=0, lstm_layers=0), sentences_of(sentences(range(1, 9))))
    model = TaggerModel(encoder, Constraints.from_scheme(TAGS, "BIOES"), dropout=0.1).eval()

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.model.crf.decode_tensor(self.model.emissions(features), features["mask"])

    example = model.encoder.prepare(sentences_of(sentences(range(3, 6))))
    shapes = ({name: dict(enumerate([torch.export.Dim.DYNAMIC] * 2)) for name in example},)
    program = torch.export.export(Decoder(), (example,), dynamic_shapes=shapes)
    for batch, length in product((1, 7), (1, 40)):
        features = model.encoder.prepare(sentences_of([sentences(range(length, length + 1))[0]] * batch))
        assert torch.equal(program.module()(features), Decoder()(features))


def test_a_scheme_of_ones_own_would_not_come_back_and_is_refused(
    pairs: dict[str, tuple[Tagger, Path]], tmp_path: Path
) -> None:
    tagger = next(iter(pairs.values()))[0]
    own = Scheme.define("BIO", start="O B I", end="O B I", inside="BI II", between="OO OB OI BO BB IO IB")
    rules = Constraints.from_scheme(["O", "B-X", "I-X"], own)
    model = TaggerModel(tagger.model.encoder, rules, head="crf", mask="train", dropout=0.0)
    with pytest.raises(MaskedCRFError, match="'BIO' is your own"):
        export(Tagger(model), tmp_path / "own.onnx")
    assert not list(tmp_path.iterdir())


def test_scores_are_compared_only_where_every_sentence_has_gold_tags() -> None:
    tagger = build_tagger()
    gold, bare = Sentence(("Ann", "flew"), ("B-PER", "O")), Sentence(("Oslo",))
    found = compare_with_export(tagger, tagger, [gold, bare])  # type: ignore[arg-type]
    assert (found.sentences, found.tokens, found.f1_model, found.f1_onnx) == (2, 3, None, None)
    assert compare_with_export(tagger, tagger, [gold]).f1_onnx == 100.0  # type: ignore[arg-type]


def test_of_two_exports_at_once_neither_leaves_the_process_silent() -> None:
    inside, over = Event(), Event()

    def second() -> None:
        with export_module._quiet():
            inside.set()
            over.wait(100)

    other = Thread(target=second)
    with export_module._quiet():
        other.start()
        inside.wait(0.2)  # only where both may be quiet at once does this end before its time
    over.set()
    other.join()
    assert logging.root.manager.disable == 0
