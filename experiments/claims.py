"""The paper's claims, each with a verdict, our figure, its p-value and what the paper's own numbers say.

Verdicts: *holds* (significant, and no corpus significantly against it), *level* (no difference beyond chance), *fails*
(significantly the other way, on average or on a corpus), *not run* (fewer than three seeds).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from experiments.reading import CORPORA, Results, Setting, main_setting, paper_score, ratios
from experiments.statistics import (
    FEWEST_SEEDS,
    LEVEL,
    Comparison,
    Correlation,
    Evidence,
    rank_correlation,
    sign_flip,
    tally,
)

Verdict = Literal["holds", "level", "fails", "not run"]
LINKS = {
    "MCRF-training > MCRF-decoding": ("MCRF-decoding", "MCRF-training"),
    "MCRF-decoding ≥ CRF-discard": ("CRF-discard", "MCRF-decoding"),
    "CRF-discard > CRF-retain": ("CRF-retain", "CRF-discard"),
    "MCRF-training > CRF-retain": ("CRF-retain", "MCRF-training"),
}
"""The order the paper finds: (lower, higher)."""


class Claim(NamedTuple):
    """One row of the table of claims."""

    text: str
    verdict: Verdict
    ours: str
    p_value: float | None
    paper: str


def all_claims(evidence: Evidence) -> list[Claim]:
    """Every claim of the paper, in its order."""
    found = [link(evidence, text, pair) for text, pair in LINKS.items()]
    found += [always_legal(evidence), rarely_right(evidence), lower_loss(evidence.results)]
    for baseline in ("CRF-retain", "CRF-discard"):
        found.append(ablation(evidence, baseline, "under BIOES", scheme="BIOES"))
        found.append(ablation(evidence, baseline, "with 10 % of the training data", share=0.1))
    return [*found, follows_illegal(evidence)]


def link(evidence: Evidence, text: str, pair: tuple[str, str]) -> Claim:
    """A link of the paper's order, on all corpora."""
    found = evidence.gains(*pair)
    p_value = over_corpora(found)
    paper = _signs([gain for corpus in CORPORA if (gain := paper_gain(evidence.paper, corpus, pair)) is not None])
    return Claim(text, judge(found, p_value, at_least="≥" in text), _summary(found), p_value, paper)


def ablation(evidence: Evidence, baseline: str, where: str, *, scheme: str = "BIO", share: float = 1.0) -> Claim:
    """The gain of MCRF-training over a baseline, away from the main tables."""
    found = evidence.gains(baseline, "MCRF-training", scheme=scheme, share=share)
    p_value = over_corpora(found)
    tables, key = evidence.paper["tables"], baseline.removeprefix("CRF-")
    if scheme == "BIOES":
        paper = [row["BIOES"][key] for row in tables["mcrf_gain"]["rows"].values()]
    else:
        paper = [row[key][f"{share:g}"]["gain"] for row in tables["small_sample_table"]["rows"].values()]
    return Claim(f"MCRF-training > {baseline} {where}", judge(found, p_value), _summary(found), p_value, _signs(paper))


def over_corpora(found: Mapping[Setting, Comparison]) -> float | None:
    """p-value of the mean over the corpora, seeds swapped; None where no corpus has enough seeds."""
    return sign_flip([each.differences for each in found.values() if each.runs >= FEWEST_SEEDS])


def judge(found: Mapping[Setting, Comparison], p_value: float | None, *, at_least: bool = False) -> Verdict:
    """The verdict on `second > first`, or on `second >= first`."""
    tested = [each for each in found.values() if each.word is not None]
    if not tested or p_value is None:
        return "not run"
    mean = float(np.mean([each.difference for each in tested]))
    if any(each.word == "worse" for each in tested) or (mean < 0 and p_value < LEVEL):
        return "fails"
    return "holds" if at_least or (mean > 0 and p_value < LEVEL) else "level"


def _summary(found: Mapping[Setting, Comparison]) -> str:
    """Mean gain, and on how many corpora it is significant."""
    if not found:
        return ""
    mean = np.mean([each.difference for each in found.values()])
    counts = tally(found)
    if not sum(counts.values()):
        return f"{mean:+.2f} on {len(found)} corpora, too few seeds"
    return f"{mean:+.2f}; {counts['better']} better, {counts['level']} level, {counts['worse']} worse"


def paper_gain(paper: Mapping[str, Any], corpus: str, pair: tuple[str, str]) -> float | None:
    """The paper's own difference of means, or of the best where it prints no mean."""
    low, high = (paper_score(paper, corpus, variant) for variant in pair)
    if low is None or high is None:
        return None
    return round(high.mean - low.mean if high.mean is not None and low.mean is not None else high.best - low.best, 2)


def _signs(gains: Sequence[float]) -> str:
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
    groups, illegal, right = [], 0, 0
    for corpus in CORPORA:
        margins = []
        for view in evidence.results.views(main_setting(corpus), "CRF-retain", "dev").values():
            count = view["illegal_tp"] + view["illegal_fp"]
            illegal, right = illegal + count, right + view["illegal_tp"]
            margins += [view["illegal_tp"] / count - view["f1"] / 200] if count else []
        groups.append(margins)
    groups = [margins for margins in groups if len(margins) >= FEWEST_SEEDS]
    p_value = sign_flip(groups)
    ours = f"{100 * right / illegal:.1f} % of {illegal:,} are right" if illegal else ""
    rows = evidence.paper["tables"]["illegal_proportion"]["rows"].values()
    shares = [ratios(row)["illegal_tp_over_illegal"] or 0.0 for row in rows]
    paper = f"{min(shares):.1f} to {max(shares):.1f} % (recomputed)"
    return Claim("Illegal segments are rarely right", _below_zero(groups, p_value), ours, p_value, paper)


def lower_loss(results: Results) -> Claim:
    """The lowest loss on dev, MCRF's against CRF's."""
    by_corpus = {corpus: loss_differences(results, main_setting(corpus)) for corpus in CORPORA}
    groups = [found for found in by_corpus.values() if len(found) >= FEWEST_SEEDS]
    p_value = sign_flip(groups)
    below = sum(float(np.mean(found)) < 0 for found in groups)
    ours = f"{np.mean([np.mean(found) for found in groups]):+.3f}; below on {below} of {len(groups)}" if groups else ""
    return Claim("MCRF's dev loss lies below CRF's", _below_zero(groups, p_value), ours, p_value, "below (MSRA)")


def loss_differences(results: Results, setting: Setting) -> list[float]:
    """The lowest dev loss of MCRF less that of CRF, of each seed that has both."""
    lowest = {
        head: {seed: min(epoch[1] for epoch in run["epochs"]) for seed, run in results.of_head(setting, head).items()}
        for head in ("crf", "mcrf")
    }
    return [lowest["mcrf"][seed] - lowest["crf"][seed] for seed in lowest["crf"].keys() & lowest["mcrf"].keys()]


def _below_zero(groups: Sequence[Sequence[float]], p_value: float | None) -> Verdict:
    if p_value is None:
        return "not run"
    means = [float(np.mean(group)) for group in groups]
    if p_value >= LEVEL:
        return "level"
    return "holds" if np.mean(means) < 0 else "fails"


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
        verdict = "level" if ours.p_value >= LEVEL else "holds" if ours.rho > 0 else "fails"
    text = "Over encoders, the gain follows the share of illegal segments"
    return Claim(text, verdict, _rho(ours), ours.p_value if ours else None, _rho(paper, with_p=True))


def _correlated(points: Sequence[EncoderPoint]) -> Correlation | None:
    return rank_correlation([point.illegal for point in points], [point.gain for point in points])


def _rho(found: Correlation | None, *, with_p: bool = False) -> str:
    if found is None:
        return ""
    return f"rho = {found.rho:.2f}, {found.points} encoders" + (f" (p = {found.p_value:.3f})" if with_p else "")
