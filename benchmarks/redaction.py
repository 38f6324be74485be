"""Promised miss rates on four corpora: are they kept, and how many innocent words does keeping them hide?

Dev and test are pooled and split at random, units whole: one half chooses the threshold, the other is judged. A masked
CRF and a softmax over the same kind of encoder are set beside the best path of the masked CRF, which has no threshold.
`--shifts` judges what is not drawn like the sample.

    python -m benchmarks.redaction --corpora DIR --models DIR            # splits; a few minutes on two cores
    python -m benchmarks.redaction --corpora DIR --models DIR --shifts --speed     # and what redacting costs

`--models` holds CORPUS/mcrf and CORPUS/softmax, as a user gets them who names no setting (of CoNLL2003 they have seen
2,000 sentences, as in the trial); what is missing is trained. Writes benchmarks/results/redaction.json;
`python -m benchmarks.redaction_table` writes the guide's figures.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.train import drawn
from experiments.trainings import BARE, Head, Training
from experiments.trainings import CORPORA as SIZES
from maskedcrf import __version__
from maskedcrf.data.corpora import Corpus, load
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.evaluation.risk import Sample, confident_threshold, expected_threshold, interval
from maskedcrf.redaction.cover import Cover, TypeTags, stream_covers
from maskedcrf.redaction.measure import Unit, choose_unit, numbers_of_units
from maskedcrf.redaction.redactor import Redactor
from maskedcrf.tagger import Tagger
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, read_batch

RESULTS = Path(__file__).parent / "results" / "redaction.json"
CORPORA = ("conll2003", "weibo", "resume", "atis")
HEADS: tuple[Head, ...] = ("mcrf", "softmax")
ALPHAS = (0.1, 0.05, 0.02, 0.01)
DELTA = 0.1
SPLITS = 1000
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pool:
    """The scores of all entities and all other tokens, lowest first, and the units they belong to."""

    scores: Floats
    units: Ints
    weights: Floats
    """One over the number of entities in the unit."""
    innocent: Floats
    innocent_units: Ints
    size: int

    @staticmethod
    def of(covers: list[Cover], gold: list[list[Segment]], numbers: list[int]) -> Pool:
        """The pool of sentences with these covers, gold and units."""
        items = [
            (float(cover.scores[each.start : each.end].min()), unit)
            for cover, row, unit in zip(covers, gold, numbers, strict=True)
            for each in row
        ]
        scores, units = np.array([score for score, _ in items]), np.array([unit for _, unit in items])
        counts = np.bincount(units, minlength=max(numbers) + 1)
        order = np.argsort(scores, kind="stable")
        outside = [np.ones(len(cover.scores), bool) for cover in covers]
        for keep, row in zip(outside, gold, strict=True):
            for each in row:
                keep[each.start : each.end] = False
        innocent = np.concatenate([cover.scores[keep] for cover, keep in zip(covers, outside, strict=True)])
        owners = np.repeat(numbers, [int(keep.sum()) for keep in outside])
        rest = np.argsort(innocent, kind="stable")
        return Pool(
            scores[order], units[order], 1 / counts[units[order]], innocent[rest], owners[rest], max(numbers) + 1
        )

    def sample(self, chosen: NDArray[np.bool_]) -> Sample:
        """The entities of some units."""
        on = chosen[self.units]
        return Sample(self.scores[on], np.cumsum(self.weights[on]), len(np.unique(self.units[on])))

    def others(self, chosen: NDArray[np.bool_]) -> Floats:
        """The scores of their other tokens."""
        return self.innocent[chosen[self.innocent_units]]


def hidden(others: Floats, threshold: float) -> float:
    """The share of these tokens that is hidden."""
    return float(1 - np.searchsorted(others, threshold, side="left") / len(others))


def best_path_pool(tagger: Tagger, sentences: list[Sentence], gold: list[list[Segment]], numbers: list[int]) -> Pool:
    """The best path as if its entities were certain: a score of one inside, of zero outside."""
    covers = []
    for sentence, answer in zip(sentences, tagger.predict(sentences, decoding="path"), strict=True):
        scores = np.zeros(len(sentence.tokens))
        for each in answer.segments:
            scores[each.start : each.end] = 1
        covers.append(Cover(scores, np.zeros(len(scores), np.int64), np.zeros(len(scores), bool)))
    return Pool.of(covers, gold, numbers)


def judge(pools: dict[str, Pool], splits: int, seed: int) -> list[dict[str, Any]]:
    """Each promise over the random halves: what was missed and hidden in the other half."""
    random = np.random.default_rng(seed)
    found: dict[tuple[str, float, bool], list[tuple[float, float]]] = {}
    size = next(iter(pools.values())).size
    refused: dict[tuple[str, float, bool], str] = {}
    for _ in range(splits):
        chosen = np.zeros(size, bool)
        chosen[random.permutation(size)[: size // 2]] = True
        for name, pool in pools.items():
            sample, rest, others = pool.sample(chosen), pool.sample(~chosen), pool.others(~chosen)
            for alpha in ALPHAS:
                for sure in (False, True):
                    try:
                        threshold = (
                            confident_threshold(sample, alpha, DELTA) if sure else expected_threshold(sample, alpha)
                        )
                    except DataError as error:
                        refused[name, alpha, sure] = str(error)
                        continue
                    own = rest.mean_loss(threshold), hidden(others, threshold)
                    found.setdefault((name, alpha, sure), []).append(own)
    return [
        _row(name, alpha, sure, np.array(found.get((name, alpha, sure), [])), refused.get((name, alpha, sure)), splits)
        for name in pools
        for alpha in ALPHAS
        for sure in (False, True)
    ]


def _row(name: str, alpha: float, sure: bool, pairs: Floats, refused: str | None, splits: int) -> dict[str, Any]:
    row: dict[str, Any] = {"model": name, "alpha": alpha, "confident": sure, "splits": len(pairs)}
    if len(pairs) < splits:
        return {**row, "refused": refused}
    missed = pairs[:, 0]
    return {
        **row,
        "missed": float(missed.mean()),
        "standard_error": float(missed.std(ddof=1) / np.sqrt(splits)),
        "above": float((missed > alpha).mean()),
        "hidden": float(pairs[:, 1].mean()),
    }


def training_of(corpus: str, head: Head) -> Training:
    """The training that a model comes from."""
    return Training(corpus, head, None if head == "softmax" else 0.01, 1, BARE)


def tagger_of(corpus: Corpus, head: Head, folder: Path) -> Tagger:
    """The model of the folder, trained first if it is not there."""
    if not folder.exists():
        reading = {"file_scheme": corpus.scheme, "illegal_gold": corpus.gold}
        settings: dict[str, Any] = {**training_of(corpus.name, head).settings(), **reading}
        sizes = SIZES[corpus.name]
        parts = list(drawn(corpus.train, sizes.sentences)), list(drawn(corpus.dev, sizes.dev))
        Tagger.train(*parts, output=folder, progress=False, **settings)
    return Tagger.load(folder, device="cpu")


def measure_corpus(name: str, corpora: str, models: Path, splits: int) -> dict[str, Any]:
    """All figures of one corpus."""
    corpus = load(name, corpora)
    sentences = [
        replace(each, file=part)
        for part, rows in (("dev", corpus.dev), ("test", corpus.test))
        for each in rows
        if each.tokens
    ]
    scheme = Scheme.get(corpus.scheme)
    gold = read_batch([sentence.tags or () for sentence in sentences], scheme)
    taggers = {head: tagger_of(corpus, head, models / name / head) for head in HEADS}
    covers = {
        head: list(stream_covers(tagger.model, sentences, TypeTags(tagger.model.crf.constraints)))
        for head, tagger in taggers.items()
    }
    units: list[Unit] = list(dict.fromkeys([choose_unit(sentences, "auto"), "sentence"]))  # type: ignore[list-item]
    result: dict[str, Any] = {"sentences": len(sentences), "entities": sum(map(len, gold)), "by_unit": {}}
    result["f1"] = {head: tagger.evaluate(list(corpus.test), scheme=scheme).f1 for head, tagger in taggers.items()}
    result["trainings"] = {head: training_of(name, head).name for head in HEADS}
    for unit in units:
        numbers = numbers_of_units(sentences, unit)
        pools = {head: Pool.of(covers[head], gold, numbers) for head in HEADS}
        best = best_path_pool(taggers["mcrf"], sentences, gold, numbers)
        every = np.ones(best.size, bool)
        result["by_unit"][unit] = {
            "units": best.size,
            "with_entities": best.sample(every).size,
            "best_path": {"missed": best.sample(every).mean_loss(0.5), "hidden": hidden(best.others(every), 0.5)},
            "rows": judge(pools, splits, seed=0),
        }
    return result


def measure_shifts(corpora: str, models: Path) -> list[dict[str, Any]]:
    """What chooses the threshold is not drawn like what is judged, sentence by sentence."""
    conll, weibo = load("conll2003", corpora), load("weibo", corpora)
    lower = [replace(each, tokens=tuple(token.lower() for token in each.tokens)) for each in conll.test]
    ways = [
        ("conll2003", "dev", "test", conll.dev, conll.test),
        ("conll2003", "dev", "test in small letters", conll.dev, lower),
        ("weibo", "train, seen in training", "test", weibo.train, weibo.test),
    ]
    rows = []
    for name, sample, judged, first, second in ways:
        corpus = conll if name == "conll2003" else weibo
        tagger = tagger_of(corpus, "mcrf", models / name / "mcrf")
        chosen, rest = (_pool_of_sentences(tagger, part, Scheme.get(corpus.scheme)) for part in (first, second))
        for alpha in ALPHAS:
            threshold = expected_threshold(chosen, alpha)
            rate = rest.mean_loss(threshold)
            rows.append(
                {
                    "corpus": name,
                    "sample": sample,
                    "judged": judged,
                    "alpha": alpha,
                    "units": [chosen.size, rest.size],
                    "missed": rate,
                    "interval": interval(rate, rest.size),
                }
            )
    return rows


def _pool_of_sentences(tagger: Tagger, sentences: Sequence[Sentence], scheme: Scheme) -> Sample:
    full = [sentence for sentence in sentences if sentence.tokens]
    covers = list(stream_covers(tagger.model, full, TypeTags(tagger.model.crf.constraints)))
    gold = read_batch([sentence.tags or () for sentence in full], scheme)
    pool = Pool.of(covers, gold, list(range(len(full))))
    return pool.sample(np.ones(pool.size, bool))


def measure_speed(corpora: str, models: Path, rounds: int = 7) -> dict[str, Any]:
    """Seconds to redact and to predict the best path of the same texts, interleaved minima."""
    corpus = load("conll2003", corpora)
    tagger = tagger_of(corpus, "mcrf", models / "conll2003" / "mcrf")
    texts = [" ".join(sentence.tokens) for sentence in corpus.test]
    redactor = Redactor(tagger, threshold=0.01, replace="name")
    ways = {
        "predict": lambda: [answer.entities for answer in tagger.stream(texts, decoding="path")],
        "redact": lambda: list(redactor.texts(texts)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.freeze()  # else whichever way meets a full collection pays for a walk over the corpus and all libraries
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            seconds[name].append(time.process_time() - begin)
    least = {name: min(times) for name, times in seconds.items()}
    return {
        "texts": len(texts),
        "clock": f"processor seconds, interleaved minima of {rounds}",
        "seconds": least,
        "ratio": least["redact"] / least["predict"],
        "target": 1.3,
    }


def _signature() -> dict[str, Any]:
    return {
        "splits": SPLITS,
        "halves": "random, of pooled dev and test, whole units",
        "delta": DELTA,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "version": __version__,
    }


def main() -> None:
    """Measure, and keep what was found; a corpus that was measured before is measured anew."""
    parser = argparse.ArgumentParser(description="promised miss rates on real corpora")
    parser.add_argument("--corpora", required=True)
    parser.add_argument("--models", required=True, type=Path)
    parser.add_argument("--only", nargs="*", default=list(CORPORA))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--shifts", action="store_true")
    arguments = parser.parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"corpora": {}}
    kept["signature"] = _signature()
    for name in arguments.only:
        begin = time.perf_counter()
        kept["corpora"][name] = measure_corpus(name, arguments.corpora, arguments.models, arguments.splits)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    if arguments.shifts:
        kept["shifts"] = measure_shifts(arguments.corpora, arguments.models)
    if arguments.speed:
        kept["speed"] = measure_speed(arguments.corpora, arguments.models)
        print(kept["speed"])
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
