"""What is measured of a model on one split: its paths read in every way that serves a row, and its transitions."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch

from experiments.trainings import Head
from maskedcrf import MaskedCRF
from maskedcrf.data.sentence import Sentence
from maskedcrf.evaluation.audit import audit
from maskedcrf.evaluation.counts import count_sentences
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tags.segments import convert


class Reading(NamedTuple):
    """A model's paths on a split, read in one way."""

    f1: float
    cells: dict[str, int]
    """Predicted segments by legality and correctness: legal_tp, illegal_tp, legal_fp, illegal_fp."""
    counts: np.ndarray
    """(N, 3) correct, predicted and gold segments of each sentence."""

    @property
    def illegal(self) -> float:
        """Illegal segments in percent of the predicted ones."""
        wrong = self.cells["illegal_tp"] + self.cells["illegal_fp"]
        return 100 * wrong / max(1, sum(self.cells.values()))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with what each sentence got wrong, packed."""
        return {"f1": self.f1, "illegal": self.illegal, **self.cells, "errors": pack(errors(self.counts))}


class Measured(NamedTuple):
    """All that one split says of a model."""

    loss: float
    """Mean negative log-likelihood under the head's own training objective, of sentences whose gold it can express."""
    readings: dict[str, Reading]


class Split:
    """Sentences with their gold in the scheme trained on, read leniently."""

    def __init__(self, sentences: Sequence[Sentence], source: str, scheme: str = "BIO") -> None:
        self.sentences = [sentence for sentence in sentences if sentence.tokens]
        self.scheme = scheme
        self.gold = [convert(sentence.tags or (), source, scheme) for sentence in self.sentences]

    def measure(self, model: TaggerModel, head: Head) -> Measured:
        """One pass of the encoder serves the loss and every reading."""
        tags = model.crf.tags
        layers = {"own": _with_mask(model, model.crf.mask_mode)}
        if head != "mcrf":
            layers["masked"] = _with_mask(model, "decode")
        paths = {name: [list[str]() for _ in self.sentences] for name in layers}
        losses: list[float] = []
        with torch.inference_mode(), compute_emissions(model, self.sentences, size=64, tokens=8192) as batches:
            for places, emissions, mask in batches:
                for name, crf in layers.items():
                    for place, path in zip(places, crf.decode(emissions, mask), strict=True):
                        paths[name][place] = [tags[tag] for tag in path]
                losses += self._losses(layers["own"], places, emissions, mask)
        return Measured(float(np.mean(losses)), self._readings(paths, head))

    def _losses(self, crf: MaskedCRF, places: list[int], emissions: torch.Tensor, mask: torch.Tensor) -> list[float]:
        index = {tag: number for number, tag in enumerate(crf.tags)}
        ids = torch.zeros(mask.shape, dtype=torch.long)
        known = []
        for row, place in enumerate(places):
            path = [index.get(tag, -1) for tag in self.gold[place]]
            if -1 not in path and not (crf.mask_mode == "train" and crf.constraints.violations(path)):
                ids[row, mask[row].cpu()] = torch.tensor(path)
                known.append(row)
        some = crf(emissions[known], ids[known].to(mask.device), mask[known], reduction="none")
        return list(map(float, some))

    def _readings(self, paths: dict[str, list[list[str]]], head: Head) -> dict[str, Reading]:
        if head == "mcrf":
            return {"masked": self._read(paths["own"], "retain")}
        return {
            "retain": self._read(paths["own"], "retain"),
            "discard": self._read(paths["own"], "discard"),
            "masked": self._read(paths["masked"], "retain"),
        }

    def _read(self, predicted: list[list[str]], strategy: str) -> Reading:
        counts = count_sentences(self.gold, predicted, scheme=self.scheme, strategy=strategy)
        correct, found, there = counts.sum(0).tolist()
        cells = asdict(audit(self.gold, predicted, scheme=self.scheme).total)
        return Reading(200 * correct / max(found + there, 1), cells, counts)


def _with_mask(model: TaggerModel, mask: str) -> MaskedCRF:
    """The model's CRF with another mask."""
    crf = MaskedCRF(model.crf.constraints, mask=mask).to(model.device)  # type: ignore[arg-type]
    crf.load_state_dict(model.crf.state_dict())
    return crf


def transition_sizes(model: TaggerModel) -> dict[str, float]:
    """The largest transition score, and the mean of those between tags that the scheme allows and forbids."""
    scores = model.crf.transitions.detach().double().cpu()
    legal = torch.tensor(np.asarray(model.crf.constraints.legal))
    return {
        "largest": float(scores.abs().max()),
        "legal": float(scores[legal].mean()),
        "illegal": float(scores[~legal].mean()),
    }


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
