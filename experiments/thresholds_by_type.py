"""One threshold for all types, or one for each: models of MCRF decoded by segments, from the weights that were kept.

python -m experiments.thresholds_by_type --corpora DIR --weights DIR

measures what its results lack of the models in the folder, one JSON line a model. Nothing is trained. A type has a
threshold of its own if dev has FEWEST gold segments of it; the others keep the common one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments import train
from experiments.command import command, folder, parser_for
from experiments.decoded import Line, Model, append_decoded, counts_by_seed, read_lines
from experiments.decoding import as_dict, described
from experiments.measure import Split, pack
from experiments.result_files import RESULTS
from experiments.statistics import LEVEL, Comparison, compare_counts, over_corpora
from experiments.table_format import probability
from experiments.trainings import CORPORA, Training
from maskedcrf import Tagger
from maskedcrf.evaluation.compare import f1_scores
from maskedcrf.tagger.decoding import FOLDS, THRESHOLDS, choose_by_counts
from maskedcrf.tagger.options import DEFAULT_THRESHOLD
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import read_batch

FOLDER, ROW, FEWEST = "decoding-by-type", "MCRF-training", 30


class Candidates:
    """The probable segments of a split, to choose from at a threshold for each type."""

    @torch.inference_mode()
    def __init__(self, tagger: Tagger, split: Split) -> None:
        crf = tagger.model.crf
        self.types = crf.constraints.matrices.types
        self._gold = [{segment[:3] for segment in row} for row in read_batch(split.gold, Scheme.get(split.scheme))]
        with compute_emissions(tagger.model, split.sentences, size=64, tokens=8192) as batches:
            found = [(places, crf.segment_candidates(*batch, least=THRESHOLDS[0])) for places, *batch in batches]
        self._batches = [(places, choice, choice.shares) for places, choice in found]

    def count(self, thresholds: np.ndarray) -> np.ndarray:
        """(N, K, 3) correct, predicted and gold segments of each sentence and type; the last is for unknown types.

        Segments are chosen as ever, the gain of each its probability less the threshold of its type.
        """
        numbers = {kind: number for number, kind in enumerate(self.types)}
        counts = np.zeros((len(self._gold), len(numbers) + 1, 3), np.int64)
        for row, gold in zip(counts, self._gold, strict=True):
            for *_, kind in gold:
                row[numbers.get(kind, -1), 2] += 1
        for places, choice, shares in self._batches:
            choice.shares = shares + (DEFAULT_THRESHOLD - thresholds)[choice._spans[:, 3]]
            for place, path in zip(places, choice.choose(DEFAULT_THRESHOLD), strict=True):
                for start, end, kind, _ in path.segments:
                    counts[place, numbers[kind], :2] += (start, end, kind) in self._gold[place], 1
        return counts


def choose(counts: np.ndarray, often: Sequence[int]) -> tuple[float, np.ndarray, float]:
    """The best threshold for all types, one for each, and F1 of the former held out; counts are (N, thresholds, K, 3).

    Climbs from the common one, type by type among `often`. Counts of a type are those where all types share its
    threshold: they would be others only where two types want the same words below one half.
    """
    total, together = counts.sum(0), counts.sum(2)
    common = choose_by_counts(np.concatenate([together[:, :1], together], axis=1))  # the path has no say here
    one = THRESHOLDS.index(common.threshold)
    at, before = np.full(total.shape[1], one), np.zeros(0)
    while not np.array_equal(before, at):
        before = at.copy()
        for kind in often:
            rest = np.delete(total[at, np.arange(len(at))], kind, axis=0).sum(0)
            scores = f1_scores(rest + total[:, kind])
            equals = np.flatnonzero(scores == scores.max())
            at[kind] = equals[np.abs(equals - one).argmin()]
    return common.threshold, np.array(THRESHOLDS)[at[:-1]], common.held_out_f1


def measure(model: Model, corpora: str, weights: Path) -> dict[str, Any]:
    """A model's line: what dev chose, whether held-out tenths of it ask for that, and the counts of test."""
    made = model.training["training"]
    corpus, tagger = train.read_corpus(made["corpus"], corpora), Tagger.load(weights / model.name, device="cpu")
    chosen = train.drawn(corpus.dev, CORPORA[made["corpus"]].dev)
    dev, test = (Candidates(tagger, Split(each, corpus.scheme)) for each in (chosen, corpus.test))
    counts = np.stack([dev.count(np.full(len(dev.types), threshold)) for threshold in THRESHOLDS], axis=1)
    often = np.flatnonzero(counts[:, 0, :-1, 2].sum(0) >= FEWEST).tolist()
    one, each, held_out_f1 = choose(counts, often)
    folds = [np.arange(fold, len(counts), FOLDS) for fold in range(FOLDS)]
    tenths = [dev.count(choose(np.delete(counts, own, axis=0), often)[1])[own].sum((0, 1)) for own in folds]
    held_out = {"one": held_out_f1, "each": float(f1_scores(np.sum(tenths, axis=0)))}
    ways = {"one": np.full(len(each), one), "each": each}
    ways["asked"] = ways["each" if held_out["each"] > held_out["one"] else "one"]
    on_test = {way: test.count(thresholds).sum(1) for way, thresholds in ways.items()}
    return {
        **described(model),
        "thresholds": {"one": one, "each": {dev.types[kind]: float(each[kind]) for kind in often}},
        "dev": {way: float(f1_scores(dev.count(thresholds).sum((0, 1)))) for way, thresholds in ways.items()},
        "held_out": held_out,
        "gold": pack(on_test["one"][:, 2:]),
        "test": {way: as_dict(found) for way, found in on_test.items()},
    }


def compare(lines: Mapping[str, Line], way: str) -> list[Comparison]:
    """What `each` type's threshold, or that where dev has `asked` for it, gains over one on every corpus."""
    by_corpus: dict[str, dict[int, Line]] = {}
    for name in sorted(lines):
        made = lines[name]["training"]
        by_corpus.setdefault(made["corpus"], {})[made["seed"]] = lines[name]
    return [
        compare_counts(f"{corpus}/one/{way}", *(counts_by_seed(found, side) for side in ("one", way)))
        for corpus, found in by_corpus.items()
    ]


def by_type_sentence(lines: Mapping[str, Line]) -> str:
    """What a threshold for each type gains, and so whether one is worth building."""
    if not lines:
        return "A threshold for each type was not tried yet."
    each, asked = compare(lines, "each"), compare(lines, "asked")
    on_dev = np.mean([line["dev"]["each"] - line["dev"]["one"] for line in lines.values()])
    asking = sum(line["held_out"]["each"] > line["held_out"]["one"] for line in lines.values())
    gains, p_value = [np.mean([one.difference for one in found]) for found in (each, asked)], over_corpora(asked)
    verdict = "no gain beyond chance, and it is not built"
    if p_value is not None and p_value < LEVEL:
        verdict = "a gain, to be built" if gains[1] > 0 else "a loss, and it is not built"
    tested = "" if p_value is None else f" ({probability(p_value)})"
    return (
        f"A threshold for each type that has {FEWEST} segments or more on dev was tried on {len(lines)} models of "
        f"{len(asked)} corpora. It changes F1 by {on_dev:+z.2f} on the dev set that it was chosen on, and by "
        f"{gains[0]:+z.2f} on test. Used only where cross-validation on dev asks for it ({asking} models), it "
        f"changes test F1 by {gains[1]:+z.2f} on average{tested}: {verdict}."
    )


@command
def main(given: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = parser_for(__doc__, "corpora")
    parser.add_argument("--weights", type=folder, required=True, help="folder that `experiments.run --weights` filled")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the trial's results")
    options = parser.parse_args(given)
    weights, known = Path(options.weights), read_lines(options.results, FOLDER)
    for path in sorted(weights.glob(f"*/*/mcrf/*/*/{ROW}")):
        corpus, encoder, head, rate, seed, _ = path.relative_to(weights).parts
        training = Training(corpus, head, float(rate), int(seed), encoder)  # type: ignore[arg-type]
        model = Model(ROW, {"name": training.name, "training": training.as_dict()})
        if model.name not in known:
            line = measure(model, options.corpora, weights)
            append_decoded(line, options.results, FOLDER)
            scores = "  ".join(f"{way} {found['f1']:.2f}" for way, found in line["test"].items())
            print(f"{model.name}: {scores}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
