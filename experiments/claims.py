"""The paper's claims, each with a verdict, our figure, its p-value and what the paper's own numbers say.

Verdicts: *holds* (significant, and no corpus significantly against it), *not shown* (no difference beyond chance),
*fails* (significantly the other way, on average or on a corpus), *not run* (fewer than three seeds).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from experiments.grid import OF_THE_PAPERS_SIZE
from experiments.reading import CORPORA, Results, Setting, main_setting, paper_score, ratios
from experiments.statistics import (
    FEWEST_SEEDS,
    LEVEL,
    Comparison,
    Correlation,
    Evidence,
    holm,
    over_corpora,
    paired_t,
    rank_correlation,
    sign_flip,
    tally,
)

Verdict = Literal["holds", "not shown", "fails", "not run"]
LINKS = {
    "MCRF-training > MCRF-decoding": ("MCRF-decoding", "MCRF-training"),
    "MCRF-decoding ≥ CRF-discard": ("CRF-discard", "MCRF-decoding"),
    "CRF-discard > CRF-retain": ("CRF-retain", "CRF-discard"),
    "MCRF-training > CRF-retain": ("CRF-retain", "MCRF-training"),
}
"""The order the paper finds: (lower, higher)."""


ELSEWHERE: dict[str, dict[str, Any]] = {
    "with encoders of BERT-base's size": {"base": True},
    "under BIOES": {"scheme": "BIOES"},
    "with 10 % of the training data": {"share": 0.1},
}
"""Away from the main tables: what `Evidence.gains` is asked."""
RIGHT = "illegal_tp_over_illegal"
BASELINES = ("MCRF-decoding", "CRF-discard", "CRF-retain")
NOT_MEASURED = "not measured"


class Claim(NamedTuple):
    """One row of the table of claims."""

    text: str
    verdict: Verdict
    ours: str
    p_value: float | None
    paper: str


def all_claims(evidence: Evidence) -> list[Claim]:
    """Every claim of the paper, and the same where the paper did not look."""
    found = [link(evidence, text, pair) for text, pair in LINKS.items()]
    found += [mostly_training(evidence), always_legal(evidence), rarely_right(evidence), a_quarter(evidence)]
    found += [lower_loss(evidence.results)]
    found += [elsewhere(evidence, where, first) for where in ELSEWHERE for first in BASELINES]
    return [*found, as_much_with_less(evidence), more_illegal_with_less(evidence), follows_illegal(evidence)]


def link(evidence: Evidence, text: str, pair: tuple[str, str]) -> Claim:
    """A link of the paper's order, on all corpora."""
    found = evidence.gains(*pair)
    p_value = over_corpora(found)
    paper = _signs(paper_gains(evidence.paper, pair, CORPORA))
    return Claim(text, judge(found, p_value, at_least="≥" in text), _summary(found), p_value, paper)


def elsewhere(evidence: Evidence, where: str, baseline: str) -> Claim:
    """The gain of MCRF-training over a baseline, away from the main tables."""
    pair = (baseline, "MCRF-training")
    found = evidence.gains(*pair, **ELSEWHERE[where])
    p_value = over_corpora(found)
    tables, key = evidence.paper["tables"], baseline.removeprefix("CRF-")
    if "base" in ELSEWHERE[where]:
        paper = paper_gains(evidence.paper, pair, OF_THE_PAPERS_SIZE)
    elif "scheme" in ELSEWHERE[where]:
        paper = [row["BIOES"][key] for row in tables["mcrf_gain"]["rows"].values() if key in row["BIOES"]]
    else:
        paper = [row[key]["0.1"]["gain"] for row in tables["small_sample_table"]["rows"].values() if key in row]
    return Claim(f"MCRF-training > {baseline} {where}", judge(found, p_value), _summary(found), p_value, _signs(paper))


def mostly_training(evidence: Evidence) -> Claim:
    """What masking the training adds is more than what masking the decoding does."""
    pairs = {
        "by masking the decoding": ("CRF-retain", "MCRF-decoding"),
        "more in training": LINKS["MCRF-training > MCRF-decoding"],
    }
    found = {text: evidence.gains(*pair) for text, pair in pairs.items()}
    decoding, training = found.values()
    shared = [at for at in decoding if at in training and decoding[at].runs == training[at].runs >= FEWEST_SEEDS]
    groups = [np.subtract(training[at].differences, decoding[at].differences).tolist() for at in shared]
    p_value = sign_flip(groups)
    ours = ", ".join(f"{mean_gain(each.values()):+.2f} {text}" for text, each in found.items()) if groups else ""
    printed = {text: paper_gains(evidence.paper, pair, CORPORA) for text, pair in pairs.items()}
    paper = ", ".join(f"{np.mean(each):+.2f} {text}" for text, each in printed.items())
    text = "The gain over CRF-retain comes mainly from masking in training, not in decoding"
    return Claim(text, _above_zero(groups, p_value), ours, p_value, paper)


def as_much_with_less(evidence: Evidence) -> Claim:
    """The gains with all and with a tenth of the training data are close: not so, where they differ significantly."""
    whole, tenth = (evidence.gains("CRF-retain", "MCRF-training", share=share) for share in (1.0, 0.1))
    shared = [at for at in tenth if at._replace(share=1.0) in whole and tenth[at].runs >= FEWEST_SEEDS]
    both = [(whole[at._replace(share=1.0)].differences, tenth[at].differences) for at in shared]
    groups = [[after - before for before, after in zip(*pair, strict=False)] for pair in both]
    p_value = sign_flip(groups)
    form = "{:+.2f} with all, {:+.2f} with 10 %"
    ours = form.format(*(_mean_of(part) for part in zip(*both, strict=True))) if both else ""
    rows = [row["retain"] for row in evidence.paper["tables"]["small_sample_table"]["rows"].values()]
    paper = form.format(*(np.mean([row[share]["gain"] for row in rows]) for share in ("1", "0.1")))
    verdict: Verdict = "not run" if p_value is None else "fails" if p_value < LEVEL else "not shown"
    text = "The gain over CRF-retain is about the same with 10 % of the training data"
    return Claim(text, verdict, ours, p_value, paper)


def more_illegal_with_less(evidence: Evidence) -> Claim:
    """With a tenth of the training data, more of a CRF's segments are illegal."""
    both = []
    for corpus in CORPORA:
        views = [evidence.results.views(main_setting(corpus, share=share), "CRF-retain") for share in (1.0, 0.1)]
        seeds = sorted(views[0].keys() & views[1].keys())
        if len(seeds) >= FEWEST_SEEDS:
            both.append([[_illegal(each[seed]) for seed in seeds] for each in views])
    groups = [np.subtract(after, before).tolist() for before, after in both]
    p_value = sign_flip(groups)
    form = "{:.1f} % illegal with all, {:.1f} % with 10 %"
    ours = form.format(*(_mean_of(part) for part in zip(*both, strict=True))) if both else ""
    rows = [row["retain"] for row in evidence.paper["tables"]["small_sample_table"]["rows"].values()]
    paper = form.format(*(np.mean([row[share]["illegal"] for row in rows]) for share in ("1", "0.1")))
    text = "With 10 % of the training data there are slightly more illegal segments"
    return Claim(text, _above_zero(groups, p_value), ours, p_value, paper)


def _illegal(view: Mapping[str, Any]) -> float:
    """Illegal segments in percent of all."""
    return float(100 * (view["illegal_tp"] + view["illegal_fp"]) / max(view["predicted"], 1))


def mean_gain(found: Iterable[Comparison]) -> float:
    """Mean over the corpora."""
    return float(np.mean([each.difference for each in found]))


def _mean_of(groups: Iterable[Sequence[float]]) -> float:
    """Mean of the groups' means."""
    return float(np.mean([np.mean(group) for group in groups]))


def judge(found: Mapping[Setting, Comparison], p_value: float | None, *, at_least: bool = False) -> Verdict:
    """The verdict on `second > first`, or on `second >= first`."""
    tested = [each for each in found.values() if each.word is not None]
    if not tested or p_value is None:
        return "not run"
    mean = float(np.mean([each.difference for each in tested]))
    if any(each.word == "worse" for each in tested) or (mean < 0 and p_value < LEVEL):
        return "fails"
    return "holds" if at_least or (mean > 0 and p_value < LEVEL) else "not shown"


def _summary(found: Mapping[Setting, Comparison]) -> str:
    """Mean gain, and on how many corpora it is significant."""
    if not found:
        return ""
    mean, counts = mean_gain(found.values()), tally(found)
    if not sum(counts.values()):
        return f"{mean:+.2f} on {len(found)} corpora, too few seeds"
    return f"{mean:+.2f}; {counts['better']} better, {counts['level']} level, {counts['worse']} worse"


def paper_gain(paper: Mapping[str, Any], corpus: str, pair: tuple[str, str]) -> float | None:
    """The paper's own difference of means, or of the best where it prints no mean."""
    low, high = (paper_score(paper, corpus, variant) for variant in pair)
    if low is None or high is None:
        return None
    return round(high.mean - low.mean if high.mean is not None and low.mean is not None else high.best - low.best, 2)


def paper_gains(paper: Mapping[str, Any], pair: tuple[str, str], corpora: Iterable[str]) -> list[float]:
    """Of the corpora for which it prints both rows."""
    return [gain for corpus in corpora if (gain := paper_gain(paper, corpus, pair)) is not None]


def _signs(gains: Sequence[float]) -> str:
    if not gains:
        return NOT_MEASURED
    above, level = sum(gain > 0 for gain in gains), sum(gain == 0 for gain in gains)
    return f"{np.mean(gains):+.2f}; {above} above, {level} equal, {len(gains) - above - level} below"


def always_legal(evidence: Evidence) -> Claim:
    """No illegal segment in any output of MCRF, on any part of any corpus."""
    results, illegal, predicted = evidence.results, 0, 0
    for variant in ("MCRF-decoding", "MCRF-training"):
        for setting in results.settings():
            for part in ("dev", "test"):
                for view in results.views(setting, variant, part).values():
                    illegal += view["illegal_tp"] + view["illegal_fp"]
                    predicted += view["predicted"]
    verdict: Verdict = "not run" if not predicted else "fails" if illegal else "holds"
    ours = f"{illegal} of {predicted:,} segments are illegal" if predicted else ""
    rows = evidence.paper["tables"]["small_sample_table"]["rows"].values()
    paper = f"{max(cell['illegal'] for row in rows for cell in row['MCRF'].values())} %"
    return Claim("No illegal segment with MCRF", verdict, ours, None, paper)


def rarely_right(evidence: Evidence) -> Claim:
    """Illegal segments are right so rarely that dropping them pays.

    Dropping segments of which a share q is right raises F1 exactly when q < F1 / 2; that is the line to lie below.
    """
    groups: list[list[float]] = []  # of each corpus, of each run: how far the share lies below F1 / 2
    shares: list[float] = []  # of each corpus, of all runs together, as in Table 1
    for corpus in CORPORA:
        views = evidence.results.views(main_setting(corpus), "CRF-retain", "dev").values()
        cells = evidence.results.cells(main_setting(corpus), "CRF-retain", "dev")
        known = [(share, view["f1"] / 2) for view in views if (share := ratios(view)[RIGHT]) is not None]
        if cells and len(known) >= FEWEST_SEEDS:
            groups.append([line - share for share, line in known])
            shares.append(ratios(cells)[RIGHT] or 0.0)
    p_value = sign_flip(groups)
    ours = f"{min(shares):.1f} to {max(shares):.1f} % are right, by corpus" if shares else ""
    rows = evidence.paper["tables"]["illegal_proportion"]["rows"].values()
    printed = [ratios(row)[RIGHT] or 0.0 for row in rows]
    paper = f"{min(printed):.1f} to {max(printed):.1f} % (recomputed)"
    return Claim("Illegal segments are rarely right", _above_zero(groups, p_value), ours, p_value, paper)


def a_quarter(evidence: Evidence) -> Claim:
    """Illegal segments are about a quarter of the false positives: not so, where their share differs significantly."""
    name, line = "illegal_fp_over_fp", 25
    groups: list[list[float]] = []
    shares: list[float] = []
    for corpus in CORPORA:
        views = evidence.results.views(main_setting(corpus), "CRF-retain", "dev").values()
        cells = evidence.results.cells(main_setting(corpus), "CRF-retain", "dev")
        if cells and len(views) >= FEWEST_SEEDS:
            groups.append([(ratios(view)[name] or 0.0) - line for view in views])
            shares.append(ratios(cells)[name] or 0.0)
    p_value = sign_flip(groups)
    verdict: Verdict = "not run" if p_value is None else "fails" if p_value < LEVEL else "not shown"
    rows = evidence.paper["tables"]["illegal_proportion"]["rows"].values()
    said = [
        f"{np.mean(each):.1f} % on average, {min(each):.1f} to {max(each):.1f} by corpus" if each else ""
        for each in (shares, [ratios(row)[name] or 0.0 for row in rows])
    ]
    return Claim("Illegal segments are about a quarter of the false positives", verdict, said[0], p_value, said[1])


def lower_loss(results: Results) -> Claim:
    """The lowest loss on dev, MCRF's against CRF's."""
    by_corpus = {corpus: loss_differences(results, main_setting(corpus)) for corpus in CORPORA}
    groups = [found for found in by_corpus.values() if len(found) >= FEWEST_SEEDS]
    p_value = sign_flip(groups)
    below = sum(float(np.mean(found)) > 0 for found in groups)
    ours = f"{-_mean_of(groups):+.2f} nats a sentence; below on {below} of {len(groups)}" if groups else ""
    return Claim("MCRF's dev loss lies below CRF's", _above_zero(groups, p_value), ours, p_value, "below (MSRA)")


def loss_differences(results: Results, setting: Setting) -> list[float]:
    """The lowest dev loss of CRF less that of MCRF, of each seed that has both."""
    lowest = {
        head: {seed: min(epoch[1] for epoch in run["epochs"]) for seed, run in results.of_head(setting, head).items()}
        for head in ("crf", "mcrf")
    }
    return [lowest["crf"][seed] - lowest["mcrf"][seed] for seed in lowest["crf"].keys() & lowest["mcrf"].keys()]


def _above_zero(groups: Sequence[Sequence[float]], p_value: float | None) -> Verdict:
    """The verdict on a mean above 0, over corpora and against none of them, from the runs of each."""
    if p_value is None:
        return "not run"
    against = [group for group in groups if np.mean(group) < 0]
    if any(p < LEVEL for p in holm([paired_t(group) for group in against])):
        return "fails"
    if p_value >= LEVEL:
        return "not shown"
    return "holds" if _mean_of(groups) > 0 else "fails"


class EncoderPoint(NamedTuple):
    """One encoder on CoNLL2003: illegal segments of its CRF in percent, and what MCRF-training gains, on dev."""

    encoder: str
    illegal: float
    gain: float


def encoder_points(results: Results) -> Iterator[EncoderPoint]:
    """Our encoders that have both heads."""
    for setting in results.settings():
        crf, mcrf = (results.f1(setting, variant, "dev") for variant in ("CRF-retain", "MCRF-training"))
        seeds = crf.keys() & mcrf.keys()
        cells = results.cells(setting, "CRF-retain", "dev")
        if setting == Setting("conll2003", setting.encoder) and seeds and cells:
            gain = float(np.mean([mcrf[seed] - crf[seed] for seed in seeds]))
            yield EncoderPoint(setting.encoder, ratios(cells)["illegal_over_total"] or 0.0, gain)


def paper_encoder_points(paper: Mapping[str, Any]) -> list[EncoderPoint]:
    """The paper's nine."""
    rows = paper["tables"]["ablation_encoder"]["rows"]
    return [EncoderPoint(name, row["illegal"], row["gain"]) for name, row in rows.items()]


def follows_illegal(evidence: Evidence) -> Claim:
    """The gain is larger for encoders that make more illegal segments."""
    ours = _correlated(list(encoder_points(evidence.results)))
    paper = _correlated(paper_encoder_points(evidence.paper))
    verdict: Verdict = "not run"
    if ours is not None:
        verdict = "not shown" if ours.p_value >= LEVEL else "holds" if ours.rho > 0 else "fails"
    text = "Over encoders, the gain follows the share of illegal segments"
    return Claim(text, verdict, _rho(ours), ours.p_value if ours else None, _rho(paper, with_p=True))


def _correlated(points: Sequence[EncoderPoint]) -> Correlation | None:
    return rank_correlation([point.illegal for point in points], [point.gain for point in points])


def _rho(found: Correlation | None, *, with_p: bool = False) -> str:
    if found is None:
        return ""
    return f"rho = {found.rho:.2f}, {found.points} encoders" + (f" (p = {found.p_value:.3f})" if with_p else "")
