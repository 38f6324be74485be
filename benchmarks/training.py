"""A training step of the same encoder with a masked CRF and with a softmax head: what the CRF costs.

Forward, backward and update of a six-layer BERT, 384 wide, on batches of 32 utterances of the built-in corpus;
steps of the two heads are interleaved, the ratio is of their minima.

    python -m benchmarks.training [ROUNDS]    # prints a table, writes benchmarks/results/training.json
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
import transformers
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.predict import random_tagger
from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.evaluation.compare import signature
from maskedcrf.tagger.model import Features, TaggerModel

RESULTS = Path(__file__).parent / "results" / "training.json"
BATCH = 32
MAX_BATCH_SENTENCES = 1.05
"""The step with a CRF may take this times the step without."""


def main() -> None:
    """Measure, print, write."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        model = random_tagger(Path(folder)).model.train()
    features, tags = batch(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5)
    seconds = {name: float("inf") for name in HEADS}
    for _ in range(rounds):
        for name in HEADS:
            seconds[name] = min(seconds[name], step_time(name, model, features, tags, optimiser))
    ratio = seconds["masked CRF"] / seconds["softmax"]
    for name, spent in seconds.items():
        print(f"{name:<12} {1000 * spent:8.1f} ms a step")
    print(f"masked CRF / softmax: {ratio:.3f} (at most {MAX_BATCH_SENTENCES})")
    answer = {
        "signature": signature(
            benchmark="training", encoder="6 layers, 384 wide", batch=BATCH, time="interleaved minima"
        ),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "tokens": int(features["mask"].sum()),
        "seconds": {name: round(spent, 5) for name, spent in seconds.items()},
        "ratio": round(ratio, 4),
    }
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")


def batch(model: TaggerModel) -> tuple[Features, Tensor]:
    """Features and gold of some utterances; padding has the label -100."""
    sentences = demo_corpus().train[:BATCH]
    features = model.encoder.prepare(sentences)
    index = {tag: number for number, tag in enumerate(model.crf.tags)}
    tags = torch.full(features["mask"].shape, -100)
    tags[features["mask"]] = torch.tensor([index[tag] for sentence in sentences for tag in sentence.tags or ()])
    return features, tags


def masked_crf(model: TaggerModel, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """The loss of all paths that the scheme allows."""
    loss: Tensor = model.crf(emissions, tags, mask, reduction="mean")
    return loss


def softmax(model: TaggerModel, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """The loss of a tag classifier, every token by itself."""
    return cross_entropy(emissions.flatten(0, 1), tags.flatten(), ignore_index=-100)


HEADS = {"softmax": softmax, "masked CRF": masked_crf}


def step_time(
    name: str, model: TaggerModel, features: Features, tags: Tensor, optimiser: torch.optim.Optimizer
) -> float:
    """Seconds of one step."""
    start = time.perf_counter()
    optimiser.zero_grad(set_to_none=True)
    HEADS[name](model, model.emissions(features), tags, features["mask"]).backward()
    optimiser.step()
    return time.perf_counter() - start


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    main()
