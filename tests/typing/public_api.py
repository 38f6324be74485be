"""A user's script that touches the whole public surface: it need not run, it must pass `mypy --strict`."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import torch
from torch import Tensor

from maskedcrf import Constraints, MaskedCRF, MaskedCRFError, Scheme, Tagger, __version__, audit, evaluate
from maskedcrf.compat.allennlp import ConditionalRandomField, allowed_transitions
from maskedcrf.compat.torchcrf import CRF
from maskedcrf.data.sentence import Sentence
from maskedcrf.evaluation.audit import Audit
from maskedcrf.evaluation.conlleval import Evaluation
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.redaction.redactor import Redaction
from maskedcrf.tagger.prediction import Entity, Prediction

TAGS = ["O", "B-PER", "I-PER"]


def rules() -> Constraints:
    own = Scheme.define("MINE", start="O B", end="O B I", inside="BI II", between="OO OB BO BB IO IB")
    assert_type(Scheme.get("BIOES"), Scheme)
    assert_type(own.tags(["PER"]), list[str])
    pairs = Constraints.from_pairs(TAGS, [("O", "O"), ("O", "B-PER"), ("B-PER", "I-PER")], end=["O", "I-PER"])
    assert_type(Constraints.free(TAGS) & pairs, Constraints)
    assert_type(pairs.forbid([(None, "O")]), Constraints)
    assert_type(pairs.dead_tags, tuple[str, ...])
    return Constraints.from_scheme(TAGS, "BIO")


def layer(emissions: Tensor, gold: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
    crf = MaskedCRF(rules(), mask="train", weights=[1.0, 2.0, 2.0])
    assert_type(crf.decode(emissions, mask), list[list[int]])
    assert_type(crf.decode_tensor(emissions, mask, pad=-1), Tensor)
    assert_type(crf.nbest(emissions, mask, k=3), list[list[tuple[list[int], float]]])
    assert_type(crf.marginals(emissions, mask, allowed=allowed), Tensor)
    assert_type(crf.sample(emissions, mask, n=2), Tensor)
    assert_type(crf.entropy(emissions, mask), Tensor)
    assert_type(crf.illegal_mass(emissions, mask), Tensor)
    assert_type(crf.log_partition(emissions, mask), Tensor)
    assert_type(crf.log_prob(emissions, gold, mask), Tensor)
    assert_type(crf.span_probability(emissions, [[(0, 2, "PER")]], mask), list[Tensor])
    assert_type(crf.tags, tuple[str, ...])
    loss: Tensor = crf(emissions, gold, mask, reduction="token_mean")
    return loss + crf.partial_loss(emissions, allowed, mask)


def faces(emissions: Tensor) -> None:
    assert_type(CRF(3, batch_first=True).decode(emissions), list[list[int]])
    steps = allowed_transitions("BIO", dict(enumerate(TAGS)))
    assert_type(steps, list[tuple[int, int]])
    ConditionalRandomField(3, steps).viterbi_tags(emissions, top_k=2)


def tagger(folder: Path) -> list[Entity]:
    sentences = [Sentence(("Ann", "left"), ("B-PER", "O"))]
    made = Tagger.train(sentences, epochs=1, encoder={"words": 20}, optim={"head_rate": 1e-2}, output=folder)
    Tagger.train("train.conll", [folder / "dev.conll"], test=[(["Ann"], ["B-PER"])], batch_sentences=8)
    assert_type(made.save(folder, overwrite=True), Path)
    loaded = Tagger.load(folder, device=torch.device("cpu"))
    assert_type(loaded.predict("Ann left"), Prediction)
    assert_type(loaded.predict(["Ann left", ["Ann", "left"]], nbest=2), list[Prediction])
    assert_type(loaded.evaluate([Sentence(("Ann",), ("B-PER",))]).f1, float)
    assert_type(loaded.evaluate("test.conll", scheme="BIO").f1, float)
    assert_type(loaded.predict("Ann left", fixed={0: "B-PER"}, forward_tokens=64), Prediction)
    assert_type(loaded.promise("dev.conll", 0.02, confidence=0.95, unit="document").threshold, float)
    assert_type(loaded.redact("Ann left", replace="name"), Redaction)
    assert_type(loaded.redact(["Ann left"], threshold=0.01, types=["PER"]), list[Redaction])
    found = loaded.predict("Ann left", probabilities=True).entities
    assert_type(found[0].probability, float | None)
    return found


def typos(loaded: Tagger) -> None:
    """Each of these is refused: an ignored error that is none would be reported."""
    Tagger.train("train.conll", epoch=1)  # type: ignore[call-arg]
    Tagger.train("train.conll", epochs="three")  # type: ignore[arg-type]
    Tagger.train("train.conll", encoder={"lstm_hiden": 8})  # type: ignore[arg-type]
    loaded.predict("Ann left", probabilites=True)  # type: ignore[call-overload]
    loaded.predict(["Ann left"], fixed={0: "O"})  # type: ignore[dict-item]
    loaded.stream(["Ann left"], nbest="two")  # type: ignore[arg-type]
    loaded.predict("Ann left", decoding="best")  # type: ignore[call-overload]
    loaded.stream(["Ann left"], treshold=0.5)  # type: ignore[call-arg]
    loaded.evaluate("test.conll", schema="BIO")  # type: ignore[call-arg]
    loaded.save("model", overwrit=True)  # type: ignore[call-arg]
    Tagger.load("model", devise="cpu")  # type: ignore[call-arg]
    Tagger.from_pretrained("model", sceme="BIO")  # type: ignore[call-arg]
    OnnxTagger.load("model.onnx").predict("Ann left", probabilites=True)  # type: ignore[call-overload]
    loaded.redact("Ann left", treshold=0.5)  # type: ignore[call-overload]


def scores(gold: list[list[str]], predicted: list[list[str]]) -> float:
    try:
        assert_type(audit(gold, predicted, scheme="BIO"), Audit)
        report = evaluate(gold, predicted, scheme="BIO", strategy="discard")
        assert_type(report, Evaluation)
        return report.f1
    except MaskedCRFError as error:
        raise SystemExit(f"{__version__}: {error}") from error
