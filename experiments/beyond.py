"""Tables the paper does not have: significance, absolute level, illegal mass, calibration, edges, when masking pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.cells import NOT_RUN, NOT_THERE, Cell, Number, Probability, Table, number
from experiments.claims import LINKS, Claim
from experiments.grid import OF_THE_PAPERS_SIZE, WITHOUT_WEIGHTS
from experiments.level import how_far, ingredients, scheme_inside, tuning, without_the_cut
from experiments.reading import CORPORA, WITHOUT_EDGES, Results, Setting, main_setting, paper_score, ratios
from experiments.statistics import Comparison, Evidence, compare_all, rank_correlation, tally
from experiments.tables import CORRECTED, TEST_F1, of_the_papers_size, seeds_of


def claims_table(claims: list[Claim]) -> Table:
    """Each claim with its verdict."""
    rows = [(claim.text, claim.verdict, claim.ours or NOT_RUN, _p_value(claim), claim.paper) for claim in claims]
    return Table("claims", "The paper's claims", ("claim", "verdict", "ours", "p", "paper"), tuple(rows))


def _p_value(claim: Claim) -> Cell:
    if claim.p_value is not None:
        return Probability(claim.p_value)
    return NOT_THERE


def significance(evidence: Evidence) -> Table:
    """Each link of the paper's order on each corpus, with the encoders of the main tables."""
    settings = {name: main_setting(corpus) for corpus, name in CORPORA.items()}
    return _links("significance", "Significance", settings, [evidence.gains(*pair) for pair in LINKS.values()])


def significance_of_others(evidence: Evidence) -> Table:
    """The same with an encoder of the paper's size, and with none that was pretrained."""
    others = [*OF_THE_PAPERS_SIZE.items(), *WITHOUT_WEIGHTS.items()]
    settings = {str(Setting(*each)): Setting(*each) for each in others}
    chosen = list(settings.values())
    found = [compare_all(evidence.results, chosen, first=low, second=high) for low, high in LINKS.values()]
    return _links("other_significance", "With a BERT-base, and with no pretrained encoder", settings, found)


def _links(
    key: str, title: str, settings: Mapping[str, Setting], found: Sequence[Mapping[Setting, Comparison]]
) -> Table:
    """A row a setting, and the number of them on which each link is significant."""
    rows: list[tuple[Cell, ...]] = [(name, *(gains.get(at) for gains in found)) for name, at in settings.items()]
    counts = [tally(gains) for gains in found]
    last = [f"{c['better']} / {c['level']} / {c['worse']}" if sum(c.values()) else None for c in counts]
    columns = ("", *(f"{high} over {low}" for low, high in LINKS.values()))
    note = (
        "Points of test F1, mean over the seeds [95 % interval over seeds and sentences]. The p-value is the larger of "
        "one over sentences and one over seeds, corrected for the number of rows after Holm; the interval is not "
        "corrected. *Level*: not shown to differ."
    )
    return Table(key, title, columns, (*rows, ("better / level / worse", *last)), note)


def levels(evidence: Evidence) -> Table:
    """Every encoder with all the training data in BIO: the best of ours beside the paper's BERT."""
    rows: list[tuple[Cell, ...]] = []
    chosen = [setting for setting in evidence.results.settings() if setting == Setting(*setting[:2])]
    for setting in chosen:
        scores = [evidence.results.score(setting, variant) for variant in ("CRF-retain", "MCRF-training")]
        runs = scores[1].runs if scores[1] else 0
        mark = paper_score(evidence.paper, setting.corpus, "MCRF-training")
        rows.append((str(setting), *scores, runs, mark if mark else NOT_THERE))
    columns = ("", "CRF-retain", "MCRF-training", "seeds", "MCRF-training, paper (BERT)")
    rows = rows or [("all", None, None, None, None)]
    return Table("levels", "Absolute level", columns, tuple(rows), TEST_F1)


def illegal_mass(evidence: Evidence) -> Table:
    """Probability on illegal paths before and after training, for each head."""
    results = evidence.results
    rows: list[tuple[Cell, ...]] = []
    for corpus, name in CORPORA.items():
        setting = main_setting(corpus)
        before = [results.mean(setting, head, "initial", "illegal_mass") for head in ("softmax", "crf")]
        after = [results.mean(setting, head, "test", "illegal_mass") for head in ("softmax", "crf", "mcrf")]
        rows.append((name, *(number(share, ".3g") for share in (*before, *after))))
    columns = ("", "tagger before", "CRF and MCRF before", "tagger after", "CRF after", "MCRF after, mask off")
    note = (
        "Mean over test sentences and seeds of the probability that lies on illegal paths when nothing is masked. "
        "MCRF never spends it: its last column is what its weights would spend without the mask, which training "
        f"gave them no reason to lower. {seeds_of(evidence, map(main_setting, CORPORA)).capitalize()}."
    )
    return Table("illegal_mass", "Illegal mass", columns, tuple(rows), note)


def edges(evidence: Evidence) -> Table:
    """What the rules for sentence start and end add to masked decoding."""
    rows: list[tuple[Cell, ...]] = []
    for scheme in ("BIO", "BIOES"):
        found = evidence.gains(WITHOUT_EDGES, "MCRF-decoding", scheme=scheme)
        for corpus, name in CORPORA.items():
            setting = main_setting(corpus, scheme)
            cells = evidence.results.cells(setting, WITHOUT_EDGES)
            if scheme == "BIO" or cells:
                illegal = ratios(cells)["illegal_over_total"] if cells else None
                rows.append((f"{name}, {scheme}", found.get(setting), number(illegal, ".3f")))
    columns = ("", "gain in test F1", "illegal segments in % without the edge rules")
    settings = [main_setting(corpus, scheme) for corpus in CORPORA for scheme in ("BIO", "BIOES")]
    note = (
        "The paper has rules for transitions alone. Gain of MCRF-decoding over the same model decoded with those, "
        f"{seeds_of(evidence, settings)}; {CORRECTED} What the edge rules do in training was not tried apart."
    )
    return Table("edges", "Start and end rules", columns, tuple(rows), note)


class Bins(NamedTuple):
    """A reliability diagram: of each bin how many segments, how many right, and their summed probability."""

    size: NDArray[np.float64]
    right: NDArray[np.float64]
    summed: NDArray[np.float64]

    @property
    def ece(self) -> float:
        """Expected calibration error: mean distance of probability and share right, in points."""
        return float(100 * np.abs(self.summed - self.right).sum() / max(self.size.sum(), 1))


def calibration_bins(results: Results, setting: Setting, kind: str) -> Bins | None:
    """The bins of all seeds together: probabilities that are `exact`, or means of `softmax`."""
    runs = [run["test"].get("calibration") for run in results.of_head(setting, "mcrf").values()]
    found: list[Mapping[str, Any]] = [each for each in runs if each]
    if not found:
        return None
    return Bins(*np.sum([each[kind] for each in found], axis=0).T)


def calibration(evidence: Evidence) -> Table:
    """How far stated probabilities lie from the truth, exact against mean softmax."""
    rows: list[tuple[Cell, ...]] = []
    for corpus, name in CORPORA.items():
        exact, softmax = (
            calibration_bins(evidence.results, main_setting(corpus), kind) for kind in ("exact", "softmax")
        )
        if exact is None or softmax is None:
            rows.append((name, None, None, None))
        else:
            rows.append((name, Number(exact.ece, ".2f"), Number(softmax.ece, ".2f"), int(exact.size.sum())))
    both = [(row[1], row[2]) for row in rows if isinstance(row[1], Number) and isinstance(row[2], Number)]
    nearer = sum(softmax.value < exact.value for exact, softmax in both)
    columns = ("", "ECE, exact", "ECE, mean softmax", "predicted segments")
    note = (
        "Expected calibration error in points over twenty bins: of the exact probability that the segment is in the "
        "path, and of the mean over its tokens of the softmax of the emissions, as pipelines report it. MCRF-training, "
        "test, the segments of all seeds together. Exact is not calibrated: it is the model's own probability, and "
        "where the model is too sure of itself, so is it; the mean softmax lies nearer on "
        f"{nearer} of {len(both)} corpora."
    )
    return Table("calibration", "Calibration", columns, tuple(rows), note)


class Point(NamedTuple):
    """One setting: what MCRF-training gains over MCRF-decoding, and what may explain it."""

    setting: Setting
    gain: float
    error: float | None
    runs: int
    mass: float | None
    illegal: float
    sentences: float
    level: float

    @property
    def transformer(self) -> float:
        """1 with a transformer below, else 0."""
        return float(any(name in self.setting.encoder for name in ("uer", "minilm", "bert", "tuned")))

    @property
    def bioes(self) -> float:
        """1 in BIOES, else 0."""
        return float(self.setting.scheme == "BIOES")


def points(results: Results) -> list[Point]:
    """Every setting with both heads."""
    found = []
    for setting in results.settings():
        low, high = (results.f1(setting, variant) for variant in ("MCRF-decoding", "MCRF-training"))
        gains = np.array([high[seed] - low[seed] for seed in low.keys() & high.keys()])
        cells = results.cells(setting, "CRF-retain")
        if len(gains) and cells:
            found.append(
                Point(
                    setting,
                    gain=float(gains.mean()),
                    error=float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else None,
                    runs=len(gains),
                    mass=results.mean(setting, "crf", "test", "illegal_mass"),
                    illegal=ratios(cells)["illegal_over_total"] or 0.0,
                    sentences=results.mean(setting, "crf", "sentences", "train") or 0.0,
                    level=float(np.mean(list(low.values()))),
                )
            )
    return found


EXPLAINED_BY = {
    "illegal mass of the CRF": "mass",
    "illegal segments of the CRF": "illegal",
    "sentences in train": "sentences",
    "F1 of MCRF-decoding": "level",
    "transformer (1) or not (0)": "transformer",
    "BIOES (1) or BIO (0)": "bioes",
}


def when(evidence: Evidence) -> Table:
    """What the gain of masking in training goes with, over all settings and over those in BIO."""
    everything = points(evidence.results)
    bio = [point for point in everything if not point.bioes]
    rows = [(name, *_follows(bio, field), *_follows(everything, field)) for name, field in EXPLAINED_BY.items()]
    columns = ("", "rho, BIO", "p, BIO", "settings, BIO", "rho, all", "p, all", "settings, all")
    note = (
        "Spearman's rho with the gain of MCRF-training over MCRF-decoding in test F1, one point a setting (corpus, "
        f"encoder, scheme, share of train), mean over its seeds. {_mean_gain(bio, 'BIO')} "
        f"{_mean_gain([point for point in everything if point.bioes], 'BIOES')} The split by scheme and "
        "the last row were added after the results had been seen, each p is of one test and not corrected for their "
        "number, and settings of one corpus are not independent: leads for another study, not findings of this one."
    )
    return Table("when", "When masking in training pays", columns, tuple(rows), note)


def _follows(found: Sequence[Point], field: str) -> tuple[Cell, Cell, Cell]:
    """Rho, p and the number of points."""
    pairs = [(getattr(point, field), point.gain) for point in found if getattr(point, field) is not None]
    result = rank_correlation([x for x, _ in pairs], [y for _, y in pairs])
    if result is None:
        return (NOT_THERE if pairs else None, NOT_THERE if pairs else None, len(pairs))
    return Number(result.rho, "+.2f"), Probability(result.p_value), result.points


def _mean_gain(found: Sequence[Point], scheme: str) -> str:
    if not found:
        return f"In {scheme}: not run."
    gains = [point.gain for point in found]
    return (
        f"In {scheme} the mean gain is {np.mean(gains):+.2f}, above 0 in {sum(g > 0 for g in gains)} of {len(gains)}."
    )


def beyond_tables(evidence: Evidence) -> list[Table]:
    """All of them."""
    made = (
        significance,
        of_the_papers_size,
        significance_of_others,
        levels,
        how_far,
        without_the_cut,
        scheme_inside,
        ingredients,
        illegal_mass,
        edges,
        calibration,
        when,
        tuning,
    )
    return [make(evidence) for make in made]
