"""The paper's claims, each with a verdict from the fair trial, our figure, its p-value and the paper's own numbers.

Verdicts: *holds* (significant, and no corpus significantly against it), *not shown* (no difference beyond chance),
*fails* (significantly the other way, on average or on a corpus), *not run* (fewer than three seeds).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from experiments.choice import Trial
from experiments.decoded import Decoded
from experiments.statistics import FEWEST_SEEDS, LEVEL, Comparison, compare, holm, over_corpora, sign_flip
from maskedcrf.data.corpora import CORPORA as KNOWN

Verdict = Literal["holds", "not shown", "fails", "not run"]
Pair = tuple[str, str]
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


class Claim(NamedTuple):
    """One line of the table of claims."""

    text: str
    verdict: Verdict
    ours: str
    p_value: float | None
    """Corrected for the number of claims that have one."""
    paper: str


class Evidence:
    """The trial and the comparisons made out of it, each once."""

    def __init__(
        self, trial: Trial, encoder: str = HEADLINE, *, decoded: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.trial = trial
        self.decoded = Decoded(trial, decoded or {})
        """Path against segments."""
        self.encoder = encoder
        self._made: dict[Pair, list[Comparison]] = {}

    def of_encoder(self, encoder: str) -> Evidence:
        """The same trial with another encoder."""
        return Evidence(self.trial, encoder)

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
            rows = [[self.trial.choose(corpus, row, self.encoder) for row in pair] for corpus in self.corpora]
            self._made[pair] = [compare(first, second) for first, second in rows]
        return self._made[pair]


def all_claims(evidence: Evidence) -> list[Claim]:
    """Every claim with p-values after Holm over all that have one."""
    raw = [_link(evidence, text, pair) for text, pair in (*LINKS.items(), *OURS.items())]
    raw += [_mostly_training(evidence), _lower_loss(evidence), _quarter_of_errors(evidence)]
    tested = [claim.p_value for claim in raw if claim.p_value is not None]
    corrected = iter(holm(tested))
    found = [claim if claim.p_value is None else _corrected(claim, next(corrected)) for claim in raw]
    return [*found, _always_legal(evidence)]


def _corrected(claim: Claim, p_value: float) -> Claim:
    """What is no longer significant after the correction is not shown, neither way."""
    significant = p_value < LEVEL or "≥" in claim.text
    return claim._replace(p_value=p_value, verdict=claim.verdict if significant else "not shown")


def _link(evidence: Evidence, text: str, pair: Pair) -> Claim:
    found = evidence.compare(pair)
    p_value = over_corpora(found)
    printed = paper_gains(pair)
    paper = f"{np.mean(printed):+.2f}; {min(printed):+.2f} to {max(printed):+.2f}" if printed else "not measured"
    ours = f"{mean_gain(found):+.2f}; {describe_range(found)}" if found else ""
    return Claim(text, _judge(found, p_value, at_least="≥" in text), ours, p_value, paper)


def _judge(found: Sequence[Comparison], p_value: float | None, *, at_least: bool = False) -> Verdict:
    if p_value is None:
        return "not run"
    corrected = holm([each.p_value for each in found if each.p_value is not None])
    against = any(p < LEVEL and each.difference < 0 for each, p in zip(found, corrected, strict=True))
    mean = mean_gain(found)
    if against or (mean < 0 and p_value < LEVEL):
        return "fails"
    return "holds" if at_least or p_value < LEVEL else "not shown"


def _mostly_training(evidence: Evidence) -> Claim:
    """What masking the training adds is more than what masking the decoding does."""
    decoding = evidence.compare(("CRF-retain", "MCRF-decoding"))
    training = evidence.compare(LINKS["MCRF-training > MCRF-decoding"])
    groups = [np.subtract(t.differences, d.differences).tolist() for d, t in zip(decoding, training, strict=True)]
    p_value = sign_flip(groups)
    form = "{:+.2f} by masking the decoding, {:+.2f} more in training"
    ours = form.format(mean_gain(decoding), mean_gain(training)) if groups else ""
    printed = [np.mean(paper_gains(pair)) for pair in (("CRF-retain", "MCRF-decoding"), next(iter(LINKS.values())))]
    text = "The gain over CRF-retain comes mainly from masking in training"
    return Claim(text, _above_zero(groups, p_value), ours, p_value, form.format(*printed))


def _lower_loss(evidence: Evidence) -> Claim:
    """MCRF's dev loss lies below the CRF's, each at its own best rate and epoch."""
    groups, means = [], []
    for corpus in evidence.corpora:
        crf, mcrf = (evidence.trial.choose(corpus, row, evidence.encoder) for row in ("CRF-retain", "MCRF-training"))
        one, other = crf.values("dev", "loss"), mcrf.values("dev", "loss")
        groups.append([one[seed] - other[seed] for seed in one])
        means.append(-float(np.mean(groups[-1])))
    p_value = sign_flip(groups)
    below = sum(mean < 0 for mean in means)
    ours = f"{np.mean(means):+.2f} nats a sentence; below on {below} of {len(means)}" if means else ""
    return Claim("MCRF's dev loss lies below CRF's", _above_zero(groups, p_value), ours, p_value, "below (MSRA)")


def _quarter_of_errors(evidence: Evidence) -> Claim:
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
    p_value = sign_flip([[each - np.mean(printed) for each in found] for found in shares.values()])
    means = [float(np.mean(found)) for found in shares.values()]
    verdict: Verdict = "not run" if p_value is None else "fails" if p_value < LEVEL else "not shown"
    text = "Illegal segments are about a quarter of a CRF's false positives"
    return Claim(text, verdict, _share(means) if means else "", p_value, _share(printed))


def _share(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f} % on average, {min(values):.1f} to {max(values):.1f} by corpus"


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


def _above_zero(groups: Sequence[Sequence[float]], p_value: float | None) -> Verdict:
    if p_value is None:
        return "not run"
    if p_value >= LEVEL:
        return "not shown"
    return "holds" if np.mean([np.mean(each) for each in groups]) > 0 else "fails"


def mean_gain(found: Iterable[Comparison]) -> float:
    """Mean difference over the corpora, each weighing the same."""
    return float(np.mean([each.difference for each in found]))


def describe_range(found: Sequence[Comparison]) -> str:
    """From the smallest to the largest difference by corpus."""
    values = [each.difference for each in found]
    return f"{min(values):+.2f} to {max(values):+.2f} by corpus"


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
