"""What decoding by segments costs from end to end: a tagger with a transformer tags texts both ways.

    python -m benchmarks.decoding ENCODER          # a folder of a Hugging Face encoder

The tagger is trained on a part of the built-in corpus first, so that its probabilities are those of a tagger. Both
decodings run in turns, after a first one each that is not counted. Wall and processor time are both kept; the ratio is
that of the minima of processor time, which other work on the machine disturbs less. The layer alone is timed against
its marginals, on one batch of the emissions of these texts. Prints two lines, writes benchmarks/results/decoding.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.data.sentence import Sentence
from maskedcrf.evaluation.compare import signature
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.parallel import compute_emissions

RESULTS = Path(__file__).parent / "results" / "decoding.json"
TARGET = 1.1
"""Times what the path takes."""
LAYER_TARGET = 4.0
"""Times what the layer's marginals take."""
LAYER_THRESHOLDS = (0.1, 0.3, 0.5, 0.7)
LAYER_BATCHES = (32, 128)


def layer_ratios(tagger: Tagger, sentences: list[Sentence], rounds: int) -> dict[str, dict[str, float]]:
    """By batch size and threshold, times what marginals take; interleaved minima of wall time."""
    found, crf = {}, tagger.model.crf
    for size in LAYER_BATCHES:
        with compute_emissions(tagger.model, sentences[:size], size=size, tokens=1 << 20) as batches:
            ((_, emissions, mask),) = batches
        ways: dict[float, Callable[[], Any]] = {0.0: partial(crf.marginals, emissions, mask)}
        ways |= {each: partial(crf.decode_segments, emissions, mask, each) for each in LAYER_THRESHOLDS}
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(rounds):
            for threshold, run in ways.items():
                started = time.perf_counter()
                run()
                best[threshold] = min(best[threshold], time.perf_counter() - started)
        ratios = {str(threshold): round(best[threshold] / best[0.0], 2) for threshold in LAYER_THRESHOLDS}
        found["x".join(map(str, emissions.shape))] = ratios
    return found


def main() -> None:
    """Train, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", help="folder of a Hugging Face encoder")
    parser.add_argument("--train", type=int, default=400, help="sentences to train on")
    parser.add_argument("--sentences", type=int, default=400, help="sentences to tag")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    corpus = demo_corpus()
    steps = {"epochs": 2, "batch_sentences": 8, "optim": {"head_rate": 5e-3}}
    settings = {"encoder": {"transformer": options.encoder}, **steps, "decoding": "path", "device": "cpu"}
    tagger = Tagger.train(corpus.train[: options.train], corpus.dev[:50], progress=False, **settings)  # type: ignore[arg-type]
    tokens = [sentence.tokens for sentence in corpus.test[: options.sentences]]
    ways = {
        "path": partial(tagger.predict, tokens, decoding="path"),
        "segments": partial(tagger.predict, tokens, decoding="segments"),
    }
    answers = {name: run() for name, run in ways.items()}
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    best = {clock: dict.fromkeys(ways, float("inf")) for clock in clocks}
    for _ in range(options.rounds):
        for name, run in ways.items():
            started = {clock: now() for clock, now in clocks.items()}
            run()
            for clock, now in clocks.items():
                best[clock][name] = min(best[clock][name], now() - started[clock])
    made = {"encoder": Path(options.encoder).name, "threads": torch.get_num_threads(), "device": platform.machine()}
    layer = torch.inference_mode()(layer_ratios)(tagger, corpus.test, 100 * options.rounds)
    found = {
        "seconds": {clock: {name: round(value, 4) for name, value in each.items()} for clock, each in best.items()},
        "ratio": round(best["processor"]["segments"] / best["processor"]["path"], 3),
        "target": TARGET,
        "layer": {"times_marginals": layer, "target": LAYER_TARGET},
        "sentences": len(tokens),
        "tokens": sum(map(len, tokens)),
        "entities": {name: sum(len(each.entities) for each in rows) for name, rows in answers.items()},
        "load": [round(value, 1) for value in os.getloadavg()],
        "signature": signature(corpus="demo/test", scheme="BIO", **made, torch=torch.__version__),
    }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(f"the layer alone takes {layer} times its marginals, target {LAYER_TARGET}")
    print(f"segments take {found['ratio']} times as long as the path; {found['seconds']}, target {TARGET}")


if __name__ == "__main__":
    main()
