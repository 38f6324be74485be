"""Best path or probable segments: a model of the trial decoded both ways, by `experiments.run --decode`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments import train
from experiments.decoded import Model
from experiments.measure import Split, errors, pack
from experiments.trainings import CORPORA
from maskedcrf import Tagger, __version__
from maskedcrf.evaluation.compare import f1_scores, signature
from maskedcrf.tagger.decoding import THRESHOLDS, choose_by_counts, count_at_thresholds, expected_threshold
from maskedcrf.tagger.options import DEFAULT_THRESHOLD
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import read_batch


def measure(model: Model, corpora: str, weights: Path) -> dict[str, Any]:
    """A model's line: what dev chose, and the counts of test decoded in each way."""
    made = model.training["training"]
    corpus, sizes = train.read_corpus(made["corpus"], corpora), CORPORA[made["corpus"]]
    tagger = Tagger.load(weights / model.name, device="cpu")
    dev, test = Split(train.drawn(corpus.dev, sizes.dev), corpus.scheme), Split(corpus.test, corpus.scheme)
    choice, counts = choose_by_counts(_counts(tagger, dev)), _counts(tagger, test)
    expected = expected_threshold(tagger.model, test.sentences)
    thresholds = {"dev": choice.threshold, "half": DEFAULT_THRESHOLD, "expected": expected}
    ways = {"path": counts[:, 0]} | {way: counts[:, 1 + THRESHOLDS.index(at)] for way, at in thresholds.items()}
    return {
        **described(model),
        "dev": choice.to_json(),
        "thresholds": thresholds,
        "gold": pack(counts[:, 0, 2:]),
        "test": {way: as_dict(each) for way, each in ways.items()},
        "curve": np.round(f1_scores(counts.sum(0))[1:], 3).tolist(),
    }


def described(model: Model) -> dict[str, Any]:
    """What a line says of the model itself."""
    made = model.training["training"]
    made_with = {"encoder": made["encoder"], "row": model.row, "crf_rate": made["crf_rate"], "seeds": made["seed"]}
    return {
        "name": model.name,
        "row": model.row,
        "training": made,
        "signature": signature(corpus=f"{made['corpus']}/test", scheme="BIO", **made_with, torch=torch.__version__),
        "version": __version__,
    }


def as_dict(counts: np.ndarray) -> dict[str, Any]:
    """F1 and what each sentence got wrong, of (N, 3) counts."""
    return {"f1": float(f1_scores(counts.sum(0))), "errors": pack(errors(counts))}


def _counts(tagger: Tagger, split: Split) -> np.ndarray:
    """(N, 1 + thresholds, 3): by the path, and by segments at each threshold."""
    gold = read_batch(split.gold, Scheme.get(split.scheme))
    with compute_emissions(tagger.model, split.sentences, size=64, tokens=8192) as batches:
        return count_at_thresholds(tagger.model.crf, batches, gold)
