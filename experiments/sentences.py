"""Sentences of the pages whose figures, and whose direction, are computed from the trial."""

from __future__ import annotations

import numpy as np

from experiments.choice import Chosen
from experiments.claims import LINKS, OURS, Evidence, all_claims, mean_gain
from experiments.decoded import decoding_sentence, ways_sentence
from experiments.tables import TITLES, learning_of, mean_by_rate
from experiments.trainings import PRETRAINED, RATES

NOTHING_YET = "No corpus of the trial is done yet."


def statement(evidence: Evidence) -> str:
    """What masking is worth: the one statement that README, guides and pages share."""
    if not evidence.corpora:
        return NOTHING_YET
    name = "MCRF-training > MCRF-decoding"
    gains = [each.difference for each in evidence.compare(LINKS[name])]
    softmax = [each.difference for each in evidence.compare(OURS["softmax-masked > softmax-retain"])]
    verdict = next(claim.verdict for claim in all_claims(evidence) if claim.text == name)
    significance = "not significant" if verdict == "not shown" else "significant"
    masked, plain = (list(cost_of_a_wrong_rate(evidence, row).values()) for row in ("MCRF-training", "CRF-retain"))
    return (
        "The output of a masked CRF is legal by construction, and that costs nothing. "
        f"Over `crf_rate` {RATES[0]:g} to {RATES[-1]:g}, the test F1 of MCRF-training varies by {np.mean(masked):.1f} "
        f"on average (at most {max(masked):.1f}) and that of a plain CRF by {np.mean(plain):.1f} (at most "
        f"{max(plain):.1f}). With each at its own best rate, masking in training as well as in decoding gains "
        f"{np.mean(gains):+z.1f} F1 on average over masking in decoding alone ({min(gains):+z.1f} to "
        f"{max(gains):+z.1f} by corpus; {significance}). A softmax tagger gains {min(softmax):.1f} to "
        f"{max(softmax):.1f} F1 from masked decoding, without being trained again. ({_corpora(evidence)}, LSTM "
        "without pretrained weights.)"
    )


def _corpora(evidence: Evidence) -> str:
    seeds = sorted({len(evidence.trial.seeds(corpus, evidence.encoder)) for corpus in evidence.corpora})
    return f"{len(evidence.corpora)} corpora, {' or '.join(map(str, seeds))} seeds each"


def cost_of_a_wrong_rate(evidence: Evidence, row: str) -> dict[str, float]:
    """By corpus, how much mean test F1 lies between the best and the worst rate of the grid."""
    by_rate = {corpus: mean_by_rate(evidence, corpus, row) for corpus in evidence.corpora}
    return {corpus: max(found) - min(found) for corpus, found in by_rate.items()}


def answer(evidence: Evidence) -> str:
    """Whether masking in training is shown to help once every head is tuned; and how much of it was the rate."""
    if not evidence.corpora:
        return NOTHING_YET
    verdicts = {claim.text: claim for claim in all_claims(evidence)}
    claim = verdicts["MCRF-training > MCRF-decoding"]
    finding = {
        "holds": "masking the training as well as the decoding still gains F1",
        "not shown": "no gain in F1 from masking the training as well as the decoding can be shown",
        "fails": "masking the training as well as the decoding costs F1",
    }[claim.verdict]
    tuned, shared = (_mean_gain(evidence, pair, tuned=tuned) for pair, tuned in ((_RETAIN, True), (_RETAIN, False)))
    decoding = mean_gain(evidence.compare(LINKS["MCRF-training > MCRF-decoding"]))
    return (
        f"**Once every head has its own best rate, {finding}** ({decoding:+.2f} on average over "
        f"{len(evidence.corpora)} corpora, p = {claim.p_value:.2f} after correction). Where both share one small rate "
        f"(1e-3), MCRF-training beats CRF-retain by {shared:+.2f} F1; with each at its own best, by {tuned:+.2f}."
    )


def advice(evidence: Evidence) -> str:
    """Whether to count on masking in training for F1."""
    if not evidence.corpora:
        return NOTHING_YET
    verdict = next(claim.verdict for claim in all_claims(evidence) if claim.text == "MCRF-training > MCRF-decoding")
    if verdict == "holds":
        return "It also raises the F1 of a CRF that was tuned."
    return "Do not count on it to raise the F1 of a CRF that was tuned."


_RETAIN = LINKS["MCRF-training > CRF-retain"]


def _mean_gain(evidence: Evidence, pair: tuple[str, str], *, tuned: bool) -> float:
    """Mean test gain over the corpora: each row at its best rate, or both at the smallest."""
    trial, gains = evidence.trial, []
    for corpus in evidence.corpora:
        if tuned:
            rows = [trial.choose(corpus, row, evidence.encoder) for row in pair]
        else:
            rows = [trial.at_rate(corpus, row, RATES[0], evidence.encoder) for row in pair]
        first, second = (_mean_f1(each) for each in rows)
        gains.append(second - first)
    return float(np.mean(gains))


def _mean_f1(chosen: Chosen) -> float:
    return float(np.mean(list(chosen.values("test", "f1").values())))


def pretrained(evidence: Evidence) -> str:
    """What the trial with a pretrained encoder found."""
    of_it = evidence.of_encoder(PRETRAINED)
    if not of_it.corpora:
        return "No training with a pretrained encoder is complete yet."
    pairs = LINKS["MCRF-training > MCRF-decoding"], OURS["softmax-masked > softmax-retain"]
    found = [of_it.compare(pair)[0] for pair in pairs]
    trial, corpus = of_it.trial, found[0].corpus
    at = [trial.at_rate(corpus, "CRF-retain", rate, PRETRAINED).values("test", "illegal") for rate in RATES]
    illegal = ", ".join(f"{np.mean([*each.values()]):.1f} % at {rate:g}" for rate, each in zip(RATES, at, strict=True))
    gain, masked = (f"{each.difference:+.1f} (95 % interval {each.low:+.1f} to {each.high:+.1f})" for each in found)
    lost = {row: cost_of_a_wrong_rate(of_it, row)[corpus] for row in ("MCRF-training", "CRF-retain")}
    return (
        f"On {TITLES[corpus]}, masking the training as well as the decoding changes test F1 by {gain}, each row at its "
        f"own best rate. The wrong rate costs MCRF-training {lost['MCRF-training']:.1f} F1 and the plain CRF "
        f"{lost['CRF-retain']:.1f}, of whose segments {illegal} are illegal. The softmax tagger gains {masked} from "
        f"masked decoding alone. {found[0].seeds} seeds."
    )


def rates_chosen(evidence: Evidence) -> str:
    """Where dev put the rates."""
    if not evidence.corpora:
        return NOTHING_YET
    parts = []
    for row in ("CRF-retain", "MCRF-training"):
        rates = [evidence.trial.choose(corpus, row, evidence.encoder).rate for corpus in evidence.corpora]
        parts.append(f"{row} {', '.join(f'{rate:g} ({rates.count(rate)})' for rate in RATES if rate in rates)}")
    return f"Rates that dev chose, with the number of corpora: {'; '.join(parts)}."


def trained(evidence: Evidence) -> str:
    """How much was run."""
    names = ", ".join(TITLES[corpus] for corpus in evidence.trial.corpora(evidence.encoder)) or "none yet"
    return f"{len(evidence.trial.entries)} trainings; complete: {names}"


def decoding(evidence: Evidence) -> str:
    """Path against segments."""
    return decoding_sentence(evidence.decoded)


def decoding_ways(evidence: Evidence) -> str:
    """The thresholds beside that of dev."""
    return ways_sentence(evidence.decoded)


def rate_finding(evidence: Evidence) -> str:
    """What the rate does to illegal segments and to each row."""
    if not evidence.corpora:
        return NOTHING_YET
    illegal = [
        np.mean(
            [
                np.mean(list(evidence.trial.at_rate(corpus, "CRF-retain", rate).values("test", "illegal").values()))
                for corpus in evidence.corpora
            ]
        )
        for rate in RATES
    ]
    listed = ", ".join(f"{share:.1f} % at {rate:g}" for share, rate in zip(illegal, RATES, strict=True))
    cost = {row: np.mean(list(cost_of_a_wrong_rate(evidence, row).values())) for row in ("CRF-retain", "MCRF-training")}
    return (
        f"A plain CRF learns the rules as soon as its transitions may move: of its segments {listed} are illegal, mean "
        f"over the corpora. Between the best and the worst rate lie {cost['CRF-retain']:.1f} F1 for CRF-retain and "
        f"{cost['MCRF-training']:.1f} for MCRF-training, mean over the corpora."
    )


def learning_finding(evidence: Evidence) -> str:
    """Where MCRF arrives earlier, ends higher or moves less than the CRF with masked decoding."""
    corpora = evidence.trial.corpora(evidence.encoder)
    if not corpora:
        return NOTHING_YET
    lines = []
    for rate in RATES:
        found = np.mean([learning_of(evidence, corpus, rate) for corpus in corpora], axis=0)
        order = "earlier" if found[0] < 0 else "later"
        lines.append(f"at {rate:g} {abs(found[0]):.1f} epochs {order} ({found[1]:+.1f} F1 at the end)")
    return f"MCRF comes near the end, compared with the CRF: {'; '.join(lines)}."
