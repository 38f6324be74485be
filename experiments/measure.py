"""What is measured of one trained tagger: every reading of its paths, illegal mass, calibration."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from experiments.grid import OPEN, OPENED
from maskedcrf import Constraints, MaskedCRF, Tagger
from maskedcrf.data.batching import prediction_batches
from maskedcrf.data.sentence import Sentence, with_context
from maskedcrf.evaluation.audit import audit
from maskedcrf.evaluation.counts import count_sentences
from maskedcrf.tagger.device import choose_device
from maskedcrf.tagger.model import to_device
from maskedcrf.tags.scheme import SCHEMES
from maskedcrf.tags.segments import convert, segments
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.random_state import preserve_rng, seed_all
from maskedcrf.training.settings import Settings
from maskedcrf.training.train import build_model

BINS = 20
CALIBRATED = {"mcrf": "train", "softmax": "off"}
"""Heads whose probabilities are set against the truth, with the mask that they were trained with."""


@contextmanager
def opened(name: str) -> Iterator[None]:
    """Meanwhile there is a scheme like this one whose sentences begin and end with any tag."""
    scheme = SCHEMES[name]
    anything = frozenset(scheme.prefixes)
    SCHEMES[name + OPENED] = replace(scheme, name=name + OPENED, start=anything, end=anything)
    try:
        yield
    finally:
        del SCHEMES[name + OPENED]


class Emitted(NamedTuple):
    """Emissions of a batch of sentences, by their numbers."""

    numbers: list[int]
    emissions: torch.Tensor
    mask: torch.Tensor


@torch.inference_mode()
def emit(tagger: Tagger, sentences: Sequence[Sentence]) -> Iterator[Emitted]:
    """The emissions of all sentences, a batch at a time; the CRF is then asked as often as needed."""
    model = tagger.model.eval()
    placed = list(with_context(sentences, model.encoder.config.context))
    lengths = [len(sentence) + sum(map(len, sentence.context)) for sentence in placed]
    for numbers in prediction_batches(lengths, size=64, tokens=16384):
        chosen = [placed[number] for number in numbers]
        prepared = model.encoder.prepare(chosen)
        features = to_device(prepared, model.device)
        yield Emitted(numbers, model.emissions(features).float(), features["mask"])


def layer(tagger: Tagger, mask: str, rules: Constraints | None = None) -> MaskedCRF:
    """The tagger's CRF with another mask, and other rules if given."""
    crf = tagger.model.crf
    twin = MaskedCRF(rules or crf.constraints, mask=mask).to(tagger.model.device)  # type: ignore[arg-type]
    twin.load_state_dict(crf.state_dict())
    return twin


@torch.inference_mode()
def predicted_tags(crf: MaskedCRF, batches: Sequence[Emitted], size: int) -> list[list[str]]:
    """The tags of the best path of every sentence, in order."""
    found: list[list[str]] = [[] for _ in range(size)]
    for numbers, emissions, mask in batches:
        for number, path in zip(numbers, crf.decode(emissions, mask), strict=True):
            found[number] = [crf.tags[tag] for tag in path]
    return found


def gold_tags(sentences: Sequence[Sentence], source: str, target: str) -> list[list[str]]:
    """Gold in the scheme trained on, read leniently."""
    return [convert(sentence.tags or (), source, target) for sentence in sentences]


def scores(gold: list[list[str]], predicted: list[list[str]], counts: np.ndarray, scheme: str) -> dict[str, Any]:
    """F1, the cells of the paper's Table 1, and what each sentence got wrong, packed."""
    correct, found, there = counts.sum(0).tolist()
    f1 = 200 * correct / max(found + there, 1)
    cells = asdict(audit(gold, predicted, scheme=scheme).total)
    return {"f1": f1, "correct": correct, "predicted": found, "gold": there, **cells, "errors": pack(errors(counts))}


def views(tagger: Tagger, head: str, scheme: str) -> dict[str, tuple[MaskedCRF, str]]:
    """How a trained model's paths are read: (layer, strategy) of each row it serves.

    What is `open` is decoded without rules for start and end, as in the paper.
    """
    if head == "mcrf":
        return {"training": (layer(tagger, "train"), "retain")}
    if head == OPEN:
        closed = Constraints.from_scheme(tagger.model.crf.tags, scheme)
        return {
            "training": (layer(tagger, "train", closed), "retain"),
            "training-open": (layer(tagger, "train"), "retain"),
        }
    off = layer(tagger, "off")
    found = {"retain": (off, "retain"), "discard": (off, "discard")}
    if head == "crf":
        found["decoding"] = (layer(tagger, "decode"), "retain")
        found["decoding-open"] = (layer(tagger, "decode", tagger.model.crf.constraints.open()), "retain")
    return found


def measure(tagger: Tagger, sentences: Sequence[Sentence], source: str, head: str) -> dict[str, Any]:
    """All that one split says of the tagger."""
    batches = list(emit(tagger, sentences))
    scheme = tagger.scheme.name.removesuffix(OPENED)
    gold = gold_tags(sentences, source, scheme)
    found: dict[str, Any] = {"views": {}}
    for name, (crf, strategy) in views(tagger, head, scheme).items():
        predicted = predicted_tags(crf, batches, len(sentences))
        counts = count_sentences(gold, predicted, scheme=scheme, strategy=strategy)
        found["gold"] = pack(counts[:, 2:])
        found["views"][name] = scores(gold, predicted, counts, scheme)
    found["illegal_mass"] = illegal_mass(tagger, batches, len(sentences))
    if head in CALIBRATED:
        found["calibration"] = calibration(layer(tagger, CALIBRATED[head]), batches, gold)
    return found


def initial_mass(
    train: Sequence[Sentence], dev: Sequence[Sentence] | None, test: Sequence[Sentence], **settings: Any
) -> float:
    """The illegal mass on test before the first step: of the model as its seed makes it."""
    chosen = Settings.of(settings)
    corpus = build_corpus(train, dev, None, chosen)
    with preserve_rng():
        seed_all(chosen.seed, "model")
        model = build_model(corpus, chosen.resolved(len(corpus.sentences)))
    tagger = Tagger(model.to(choose_device(chosen.device)))
    return illegal_mass(tagger, list(emit(tagger, test)), len(test))


@torch.inference_mode()
def illegal_mass(tagger: Tagger, batches: Sequence[Emitted], size: int) -> float:
    """Mean over the sentences of the probability an unmasked CRF with these weights spends on illegal paths."""
    crf = layer(tagger, "train")
    return sum(float(crf.illegal_mass(emissions, mask).sum()) for _, emissions, mask in batches) / max(size, 1)


@torch.inference_mode()
def calibration(crf: MaskedCRF, batches: Sequence[Emitted], gold: list[list[str]]) -> dict[str, Any]:
    """Predicted entities by their probability: exact, and as the mean softmax of their tokens, as pipelines do.

    Of each of BINS equal bins: how many, how many right, summed probability.
    """
    scheme = crf.constraints.scheme
    assert scheme is not None
    bins = {"exact": np.zeros((BINS, 3)), "softmax": np.zeros((BINS, 3))}
    for numbers, emissions, mask in batches:
        paths = crf.decode(emissions, mask)
        spans = [[s[:3] for s in segments([crf.tags[tag] for tag in path], scheme)] for path in paths]
        exact = crf.span_probability(emissions, spans, mask)
        for row, number in enumerate(numbers):
            right = {s[:3] for s in segments(gold[number], scheme)}
            softmax = emissions[row][mask[row]].softmax(-1).cpu()
            ids = torch.tensor(paths[row])
            token = softmax.gather(1, ids[:, None]).squeeze(1) if len(ids) else softmax[:, :0]
            for span, probability in zip(spans[row], exact[row].tolist(), strict=True):
                shares = {"exact": probability, "softmax": float(token[span[0] : span[1]].mean())}
                for name, share in shares.items():
                    bins[name][min(int(share * BINS), BINS - 1)] += (1, span in right, share)
    return {name: cells.round(6).tolist() for name, cells in bins.items()}


def errors(counts: np.ndarray) -> np.ndarray:
    """(N, 2) missed and wrong segments of each sentence, mostly none, of (N, 3) correct, predicted and gold."""
    correct, predicted, gold = counts.T
    return np.stack([gold - correct, predicted - correct], axis=1)


def counts_of(gold: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """The inverse of `errors`, given (N, 1) gold segments."""
    correct = gold[:, 0] - errors[:, 0]
    return np.stack([correct, correct + errors[:, 1], gold[:, 0]], axis=1)


def pack(counts: np.ndarray) -> str:
    """(N, K) small counts as text: bytes, compressed; `unpack` is the inverse."""
    return base64.b85encode(zlib.compress(counts.astype("<i2").T.tobytes(), 9)).decode("ascii")


def unpack(text: str, columns: int) -> np.ndarray:
    """(N, K) counts of a packed text."""
    flat = np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype="<i2")
    return flat.reshape(columns, -1).T.astype(np.int64)
