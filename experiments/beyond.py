"""Tables the paper does not have: significance, other encoders, illegal mass, calibration, edges, when masking pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.cells import NOT_RUN, NOT_THERE, Cell, Number, Probability, Table, number, probability, text
from experiments.claims import LINKS, Claim
from experiments.edges import edges, edges_in_training
from experiments.grid import OF_THE_PAPERS_SIZE, WITHOUT_WEIGHTS
from experiments.level import SET_BESIDE, how_far, ingredients, scheme_inside, tuning, where_we_part, without_the_cut
from experiments.reading import CORPORA, Results, Setting, main_setting, paper_score, ratios
from experiments.statistics import (
    FEWEST_SEEDS,
    LEVEL,
    TRIALS,
    Comparison,
    Evidence,
    compare_all,
    rank_correlation,
    tally,
)
from experiments.tables import TEST_F1, of_the_papers_size, seeds_of


def claims_table(claims: list[Claim]) -> Table:
    """Each claim with its verdict."""
    rows = [(claim.text, claim.verdict, claim.ours or NOT_RUN, _p_value(claim), claim.paper) for claim in claims]
    note = (
        f"*Holds*: significant at {LEVEL:g} over the corpora, and against it on none; of a claim with ≥, only the "
        "latter. *Fails*: significantly the other way, over the corpora or on one. *Not shown*: neither, which with "
        "few seeds or corpora does not prove that there is no difference. *Not run*: fewer than "
        f"{FEWEST_SEEDS} seeds.\n\n"
        "Of two p-values the larger counts, one over sentences and one over seeds: on a corpus approximate "
        f"randomisation ({TRIALS:,} trials, a sentence swapped in all seeds at once) and Student's t; over corpora, "
        "which weigh the same, the same swaps in all of them and flipped signs of the runs' differences. Claims that "
        "are not about two rows have the p of the runs alone. No p is corrected for the number of claims. *Rarely "
        "right*: dropping them raises F1, which it does where the share that is right lies below F1 / 2. *About* so "
        "much: fails where it is significantly more or less, and is never shown. A lower loss is partly a matter of "
        "definition: of the same weights the masked loss is never the higher one."
    )
    return Table("claims", "The paper's claims", ("claim", "verdict", "ours", "p", "paper"), tuple(rows), note)


def _p_value(claim: Claim) -> Cell:
    if claim.p_value is not None:
        return Probability(claim.p_value)
    return NOT_THERE


def significance(evidence: Evidence) -> Table:
    """Each link of the paper's order on each corpus, with the encoders of the main tables."""
    settings = {name: main_setting(corpus) for corpus, name in CORPORA.items()}
    return _links(
        "significance",
        "The paper's order, corpus by corpus",
        settings,
        [evidence.gains(*pair) for pair in LINKS.values()],
    )


def significance_of_others(evidence: Evidence) -> Table:
    """The same with an encoder of the paper's size, and with none that was pretrained."""
    others = [*OF_THE_PAPERS_SIZE.items(), *WITHOUT_WEIGHTS.items()]
    settings = {str(Setting(*each)): Setting(*each) for each in others}
    chosen = list(settings.values())
    found = [compare_all(evidence.results, chosen, first=low, second=high) for low, high in LINKS.values()]
    return _links(
        "other_significance", "With encoders of BERT-base's size, and with none that was pretrained", settings, found
    )


def _links(
    key: str, title: str, settings: Mapping[str, Setting], found: Sequence[Mapping[Setting, Comparison]]
) -> Table:
    """A row a setting, and the number of them on which each link is significant."""
    rows: list[tuple[Cell, ...]] = [(name, *(gains.get(at) for gains in found)) for name, at in settings.items()]
    counts = [tally(gains) for gains in found]
    last = [f"{c['better']} / {c['level']} / {c['worse']}" if sum(c.values()) else None for c in counts]
    columns = ("", *(f"{high} over {low}" for low, high in LINKS.values()))
    note = (
        "Points of test F1, mean over the seeds [95 % interval over seeds and sentences]; the p-value is corrected for "
        "the number of rows after Holm, the interval is not. *Level*: not shown to differ."
    )
    return Table(key, title, columns, (*rows, ("better / level / worse", *last)), note)


def levels(evidence: Evidence) -> Table:
    """Test F1 of the encoders, with all the training data in BIO, that no other table has."""
    rows: list[tuple[Cell, ...]] = []
    whole = [setting for setting in evidence.results.settings() if setting == Setting(*setting[:2])]
    chosen = [setting for setting in whole if setting[:2] not in SET_BESIDE]
    for setting in chosen:
        scores = [evidence.results.score(setting, variant) for variant in ("CRF-retain", "MCRF-training")]
        runs = scores[1].runs if scores[1] else 0
        mark = paper_score(evidence.paper, setting.corpus, "MCRF-training")
        rows.append((str(setting), *scores, runs, mark if mark else NOT_THERE))
    columns = ("", "CRF-retain", "MCRF-training", "seeds", "MCRF-training, paper (BERT)")
    rows = rows or [("all", None, None, None, None)]
    return Table("levels", "The other encoders", columns, tuple(rows), TEST_F1)


def illegal_mass(evidence: Evidence) -> Table:
    """Probability on illegal paths before and after training, for each head."""
    results = evidence.results
    rows: list[tuple[Cell, ...]] = []
    for corpus, name in CORPORA.items():
        setting = main_setting(corpus)
        before = [results.mean(setting, head, "initial", "illegal_mass") for head in ("softmax", "crf")]
        after = [results.mean(setting, head, "test", "illegal_mass") for head in ("softmax", "crf", "mcrf")]
        rows.append((name, *(None if share is None else Number(100 * share) for share in (*before, *after))))
    columns = ("", "tagger before", "CRF and MCRF before", "tagger after", "CRF after", "MCRF after, mask off")
    spent = [row[4].value for row in rows if isinstance(row[4], Number)]
    between = f"{min(spent):.1f} to {max(spent):.1f} %" if spent else ""
    answer = f"A CRF learns most of the rules, not all: {between} of its probability stays on illegal paths."
    note = (
        "Probability on illegal paths with nothing masked, before and after training, in %; mean over test sentences "
        f"and {seeds_of(evidence, map(main_setting, CORPORA))}. MCRF never spends it: the last column is what its "
        "weights would spend without the mask, which training gave them no reason to lower."
    )
    return Table("illegal_mass", "Illegal mass", columns, tuple(rows), note, answer if spent else "")


class Bins(NamedTuple):
    """A reliability diagram: of each bin how many segments, how many right, and their summed probability."""

    size: NDArray[np.float64]
    right: NDArray[np.float64]
    summed: NDArray[np.float64]

    @property
    def ece(self) -> float:
        """Expected calibration error: mean distance of probability and share right, in points."""
        return float(100 * np.abs(self.summed - self.right).sum() / max(self.size.sum(), 1))


def calibration_bins(results: Results, setting: Setting, kind: str, head: str = "mcrf") -> Bins | None:
    """The bins of all seeds together: probabilities that are `exact`, or means of `softmax`."""
    runs = [run["test"].get("calibration") for run in results.of_head(setting, head).values()]
    found: list[Mapping[str, Any]] = [each for each in runs if each]
    if not found:
        return None
    return Bins(*np.sum([each[kind] for each in found], axis=0).T)


def calibration(evidence: Evidence) -> Table:
    """How far stated probabilities lie from the truth: exact, mean softmax, and that of a tagger trained for it."""
    settings = [*map(main_setting, CORPORA), *(Setting(*each) for each in WITHOUT_WEIGHTS.items())]
    asked = (("exact", "mcrf"), ("softmax", "mcrf"), ("softmax", "softmax"))
    rows: list[tuple[Cell, ...]] = []
    for setting in settings:
        found = [calibration_bins(evidence.results, setting, kind, head) for kind, head in asked]
        errors = [number(bins and bins.ece, ".2f") for bins in found]
        rows.append((str(setting), *errors, int(found[0].size.sum()) if found[0] else None))
    columns = ("", "ECE, exact", "ECE, mean softmax", "ECE, mean softmax of a tagger", "MCRF's segments")
    answer = (
        f"The exact probability of a segment lies nearer to the truth than the mean softmax {_nearer(rows, 2)}, and "
        f"than that of a tagger, which is trained to be read so, {_nearer(rows, 3)}. It is not calibrated: where the "
        "model is too sure of itself, so is it."
    )
    note = (
        "Expected calibration error in points, over twenty bins, of the segments predicted on test, all seeds taken "
        "together. *Exact*: the probability that this very segment is in the path. *Mean softmax*: of its tokens, as "
        "pipelines report it; of the same MCRF's emissions, and of a tagger's, whose segments are read leniently. The "
        "runs on the H200 computed in single precision, by which a probability is off by some 0.0003 at 50 tokens."
    )
    ran = any(isinstance(row[1], Number) for row in rows)
    return Table("calibration", "Calibration", columns, tuple(rows), note, answer if ran else "")


def _nearer(rows: Sequence[tuple[Cell, ...]], other: int) -> str:
    """In how many rows the first error is smaller than another."""
    pairs = [(row[1], row[other]) for row in rows]
    both = [(a.value, b.value) for a, b in pairs if isinstance(a, Number) and isinstance(b, Number)]
    return f"in {sum(one < another for one, another in both)} of {len(both)} settings"


class Point(NamedTuple):
    """One setting: what MCRF-training gains over MCRF-decoding, and what may explain it."""

    setting: Setting
    gain: float
    error: float | None
    mass: float | None
    illegal: float
    sentences: float
    level: float

    @property
    def transformer(self) -> float:
        """1 with a transformer below, else 0."""
        return float(any(name in self.setting.encoder for name in ("uer", "minilm", "bert", "mpnet", "tuned")))

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
    answer = (
        f"{_mean_gain(bio, 'BIO')} {_mean_gain([point for point in everything if point.bioes], 'BIOES')} "
        f"Of what may explain it, each by itself: {_clear(rows)}."
    )
    note = (
        "Spearman's rho with the gain of MCRF-training over MCRF-decoding in test F1, one point a setting (corpus, "
        "encoder, scheme, share of train), mean over its seeds. Leads for another study, not findings of this one: the "
        "split by scheme and the last row were added after the results had been seen, no p is corrected for their "
        "number, and settings of one corpus are not independent."
    )
    return Table("when", "When masking in training pays", columns, tuple(rows), note, answer)


def _clear(rows: Sequence[tuple[Cell, ...]]) -> str:
    """What the gain goes with significantly, in BIO or in all settings."""
    places = {"in BIO": 2, "in all settings": 5}
    found = [
        f"{row[0]} ({text(row[place - 1])} {where}, {probability(p_value.value)})"
        for row in rows
        for where, place in places.items()
        if isinstance(p_value := row[place], Probability) and p_value.value < LEVEL
    ]
    return f"{', '.join(found)}; nothing else below {LEVEL:g}" if found else f"nothing below {LEVEL:g}"


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
    above = sum(gain > 0 for gain in gains)
    return f"In {scheme} it gains {np.mean(gains):+.2f} on average, more than 0 in {above} of {len(gains)} settings."


def beyond_tables(evidence: Evidence) -> list[Table]:
    """All of them."""
    made: tuple[Callable[[Evidence], Table], ...] = (
        significance,
        partial(of_the_papers_size, encoder="bert-zh"),
        partial(of_the_papers_size, encoder="mpnet"),
        significance_of_others,
        illegal_mass,
        edges,
        edges_in_training,
        calibration,
        when,
        how_far,
        where_we_part,
        without_the_cut,
        levels,
        scheme_inside,
        ingredients,
        tuning,
    )
    return [make(evidence) for make in made]
