"""The paper's claims, each with a verdict from the fair trial, our figure, its p-value and the paper's own numbers.

Verdicts: *holds* (significant, and no corpus significantly against it), *not everywhere* (significant, but a corpus is
against it), *not shown* (no difference beyond chance), *fails* (significantly the other way), *not run* (few seeds).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from experiments.choice import Trial
from experiments.decoded import Decoded, Line
from experiments.statistics import FEWEST_SEEDS, LEVEL, Comparison, compare, holm, over_corpora, sign_flip
from experiments.trainings import RATES
from maskedcrf.data.corpora import CORPORA as KNOWN

Verdict = Literal["holds", "not everywhere", "not shown", "fails", "not run"]
Pair = tuple[str, str]
Lines = Mapping[str, Line]
NONE: Lines = {}
HEADLINE = "lstm1"
"""The encoder that claims and the shared statement speak of."""
LINKS: dict[str, Pair] = {
    "MCRF-training > MCRF-decoding": ("MCRF-decoding", "MCRF-training"),
    "MCRF-decoding ≥ CRF-discard": ("CRF-discard", "MCRF-decoding"),
    "CRF-discard > CRF-retain": ("CRF-retain", "CRF-discard"),
    "MCRF-training > CRF-retain": ("CRF-retain", "MCRF-training"),
}
"""The order the paper finds: (lower, higher)."""
OURS: dict[str, Pair] = {
    "softmax-masked > softmax-retain": ("softmax-retain", "softmax-masked"),
    "softmax-masked > softmax-discard": ("softmax-discard", "softmax-masked"),
}
"""What the paper did not look at."""
NOT_MEASURED = "not measured"
WRONG_RATE = "A wrong rate costs MCRF-training less than CRF-retain"
_RETAIN = LINKS["MCRF-training > CRF-retain"]


class Claim(NamedTuple):
    """One line of the table of claims."""

    text: str
    verdict: Verdict
    ours: str
    p_value: float | None
    """Corrected for the number of claims that have one."""
    paper: str


class Finding(NamedTuple):
    """What was measured of a claim, before the correction."""

    text: str
    mean: float
    """Of the difference in the direction that the claim names, over the corpora."""
    p_value: float | None
    ours: str
    paper: str
    against: bool = False
    """Whether a corpus is significantly against it."""


class Evidence:
    """The trial and the comparisons made out of it, each once."""

    def __init__(self, trial: Trial, encoder: str = HEADLINE, *, decoded: Lines = NONE, by_type: Lines = NONE) -> None:
        self.trial = trial
        self.decoded, self.by_type = Decoded(trial, decoded), by_type
        """Path against segments, and one threshold against one for each type."""
        self.encoder = encoder
        self._made: dict[Pair, list[Comparison]] = {}
        self._others: dict[str, Evidence] = {}

    def of_encoder(self, encoder: str) -> Evidence:
        """The same trial with another encoder."""
        if encoder not in self._others:
            self._others[encoder] = Evidence(self.trial, encoder)
        return self._others[encoder]

    def key(self, table: str) -> str:
        """A table's name, which the encoder follows unless it is that of the headline."""
        return table if self.encoder == HEADLINE else f"{table}_{self.encoder}"

    @property
    def corpora(self) -> list[str]:
        """Corpora with enough seeds for a p-value."""
        return self.trial.corpora(self.encoder, seeds=FEWEST_SEEDS)

    def compare(self, pair: Pair) -> list[Comparison]:
        """What the second row gains over the first on every corpus, each at its own best rate."""
        if pair not in self._made:
            rows = [self.trial.choose_rows(corpus, pair, self.encoder) for corpus in self.corpora]
            self._made[pair] = [compare(first, second) for first, second in rows]
        return self._made[pair]


def all_claims(evidence: Evidence) -> list[Claim]:
    """Every claim, judged by p-values after Holm over all that have one."""
    found = [_link(evidence, text, pair) for text, pair in (*LINKS.items(), *OURS.items())]
    found += [_wrong_rate(evidence), _mostly_training(evidence), _lower_loss(evidence), _quarter_of_errors(evidence)]
    corrected = iter(holm([each.p_value for each in found if each.p_value is not None]))
    p_values = [None if each.p_value is None else next(corrected) for each in found]
    claims = [
        Claim(each.text, judge(each, p), each.ours, p, each.paper) for each, p in zip(found, p_values, strict=True)
    ]
    return [*claims, _always_legal(evidence)]


def judge(found: Finding, p_value: float | None) -> Verdict:
    """The verdict, given the p-value after the correction for the number of claims."""
    if p_value is None:
        return "not run"
    if p_value < LEVEL and found.mean < 0:
        return "fails"
    if not (found.mean >= 0 if "≥" in found.text else p_value < LEVEL):
        return "not shown"
    return "not everywhere" if found.against else "holds"


def _link(evidence: Evidence, text: str, pair: Pair) -> Finding:
    found = evidence.compare(pair)
    printed = paper_gains(pair)
    paper = f"{np.mean(printed):+.2f}; {min(printed):+.2f} to {max(printed):+.2f}" if printed else NOT_MEASURED
    if not found:
        return Finding(text, 0.0, None, "", paper)
    corrected = holm([each.p_value for each in found if each.p_value is not None])
    against = any(p < LEVEL and each.difference < 0 for each, p in zip(found, corrected, strict=True))
    mean = mean_gain(found)
    return Finding(text, mean, over_corpora(found), f"{mean:+z.2f}; {describe_range(found)}", paper, against)


def _wrong_rate(evidence: Evidence) -> Finding:
    """A rate that does not suit costs MCRF-training less than the plain CRF."""
    crf, mcrf = ([wrong_rate_costs(evidence, corpus, row) for corpus in evidence.corpora] for row in _RETAIN)
    form = "{:.1f} F1 against {:.1f}, mean over the corpora"
    costs = [float(np.mean([np.mean(each) for each in side])) for side in (mcrf, crf)] if crf else []
    groups = [np.subtract(one, other).tolist() for one, other in zip(crf, mcrf, strict=True)]
    return _over_seeds(WRONG_RATE, groups, form.format(*costs) if costs else "", NOT_MEASURED)


def wrong_rate_costs(evidence: Evidence, corpus: str, row: str) -> list[float]:
    """By seed, test F1 at the rate with the best mean less that at the rate with the worst."""
    chosen = [evidence.trial.at_rate(corpus, row, rate, evidence.encoder) for rate in RATES]
    scores = [np.array(list(each.values("test", "f1").values())) for each in chosen]
    costs: list[float] = (max(scores, key=np.mean) - min(scores, key=np.mean)).tolist()
    return costs


def _mostly_training(evidence: Evidence) -> Finding:
    """What masking the training adds is more than what masking the decoding does."""
    decoding = evidence.compare(("CRF-retain", "MCRF-decoding"))
    training = evidence.compare(LINKS["MCRF-training > MCRF-decoding"])
    groups = [np.subtract(t.differences, d.differences).tolist() for d, t in zip(decoding, training, strict=True)]
    form = "{:+z.2f} by masking the decoding, {:+z.2f} more in training"
    ours = form.format(mean_gain(decoding), mean_gain(training)) if groups else ""
    printed = [np.mean(paper_gains(pair)) for pair in (("CRF-retain", "MCRF-decoding"), next(iter(LINKS.values())))]
    text = "The gain over CRF-retain comes mainly from masking in training"
    return _over_seeds(text, groups, ours, form.format(*printed))


def _lower_loss(evidence: Evidence) -> Finding:
    """MCRF's dev loss lies below the CRF's, each at its own best rate and epoch."""
    groups = []
    for corpus in evidence.corpora:
        crf, mcrf = evidence.trial.choose_rows(corpus, _RETAIN, evidence.encoder)
        one, other = crf.values("dev", "loss"), mcrf.values("dev", "loss")
        groups.append([one[seed] - other[seed] for seed in one])
    means = [-float(np.mean(each)) for each in groups]
    below = sum(mean < 0 for mean in means)
    ours = f"{np.mean(means):+.2f} nats a sentence; below on {below} of {len(means)}" if means else ""
    return _over_seeds("MCRF's dev loss lies below CRF's", groups, ours, "below (MSRA)")


def _quarter_of_errors(evidence: Evidence) -> Finding:
    """Share of the plain CRF's false positives that are illegal segments, against the paper's."""
    shares: dict[str, list[float]] = {}
    for corpus in evidence.corpora:
        row = evidence.trial.choose(corpus, "CRF-retain", evidence.encoder)
        wrong, legal = row.values("test", "illegal_fp"), row.values("test", "legal_fp")
        shares[corpus] = [100 * wrong[seed] / max(1.0, wrong[seed] + legal[seed]) for seed in wrong]
    printed = [
        100 * row["illegal_fp"] / (row["illegal_fp"] + row["legal_fp"])
        for row in read_paper()["tables"]["illegal_proportion"]["rows"].values()
    ]
    groups = [[each - float(np.mean(printed)) for each in found] for found in shares.values()]
    means = [float(np.mean(found)) for found in shares.values()]
    text = "Illegal segments are about a quarter of a CRF's false positives"
    found = _over_seeds(text, groups, _share(means) if means else "", _share(printed))
    # A share far from the paper's on either side speaks against it; a near one proves nothing.
    return found._replace(mean=-abs(found.mean))


def _share(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f} % on average, {min(values):.1f} to {max(values):.1f} by corpus"


def _over_seeds(text: str, groups: Sequence[Sequence[float]], ours: str, paper: str) -> Finding:
    """A finding of differences by corpus and seed, which the claim says are above 0."""
    mean = float(np.mean([np.mean(each) for each in groups])) if groups else 0.0
    return Finding(text, mean, sign_flip(groups), ours, paper)


def _always_legal(evidence: Evidence) -> Claim:
    """No illegal segment with either mask, counted over every rate and seed."""
    wrong = total = 0
    for entry in evidence.trial.entries.values():
        for name in {"MCRF-decoding", "MCRF-training", "softmax-masked"} & entry["rows"].keys():
            test = entry["rows"][name]["test"]
            wrong += test["illegal_tp"] + test["illegal_fp"]
            total += sum(test[cell] for cell in ("legal_tp", "illegal_tp", "legal_fp", "illegal_fp"))
    verdict: Verdict = "not run" if not total else "fails" if wrong else "holds"
    return Claim("No illegal segment with a mask", verdict, f"{wrong} of {total:,} segments", None, "0 %")


def mean_gain(found: Iterable[Comparison]) -> float:
    """Mean difference over the corpora, each weighing the same."""
    return float(np.mean([each.difference for each in found]))


def seeds_each(evidence: Evidence) -> str:
    """How many seeds each corpus of the claims has."""
    n = [len(evidence.trial.seeds(corpus, evidence.encoder)) for corpus in evidence.corpora] or [0]
    return f"{min(n)}" if min(n) == max(n) else f"{min(n)} to {max(n)}"


def describe_range(found: Sequence[Comparison]) -> str:
    """From the smallest to the largest difference by corpus."""
    values = [each.difference for each in found]
    return f"{min(values):+z.2f} to {max(values):+z.2f} by corpus"


@cache
def read_paper() -> Mapping[str, Any]:
    """The paper's tables by their LaTeX labels, as printed."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
    return found


def paper_mean(corpus: str, row: str) -> float | None:
    """Mean test F1 that the paper prints, or the one figure there is; None where it has none."""
    name = row.replace("softmax-", "tagger-")
    for label in ("main_result", "result_sf", "RES_CHUNKING", "code_readme"):
        cell = read_paper()["tables"][label]["rows"].get(name, {}).get(corpus)
        if cell is not None:
            return float(cell.get("mean", cell["best"]))
    return None


def paper_gains(pair: Pair) -> list[float]:
    """What the second row gains over the first in the paper, on each corpus that has both."""
    both = [[paper_mean(corpus, row) for row in pair] for corpus in KNOWN]
    return [second - first for first, second in both if first is not None and second is not None]
