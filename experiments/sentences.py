"""Sentences of the pages whose figures, and whose direction, are computed from the trial."""

from __future__ import annotations

import numpy as np

from experiments.claims import (
    LINKS,
    OURS,
    WRONG_RATE,
    Claim,
    Evidence,
    all_claims,
    mean_gain,
    seeds_each,
    wrong_rate_costs,
)
from experiments.decoded import decoding_sentence, ways_sentence
from experiments.learning import learning_sentence
from experiments.statistics import FEWEST_SEEDS, LEVEL, compare
from experiments.table_format import joined, probability
from experiments.tables import TITLES, mean_by_rate
from experiments.trainings import PRETRAINED, RATES

NOTHING_YET = "No corpus of the trial is done yet."
IN_TRAINING, OVER_CRF = "MCRF-training > MCRF-decoding", "MCRF-training > CRF-retain"


def statement(evidence: Evidence) -> str:
    """What masking is worth: the one statement that README, guides and pages share."""
    if not evidence.corpora:
        return NOTHING_YET
    gains = [each.difference for each in evidence.compare(LINKS[IN_TRAINING])]
    softmax = [each.difference for each in evidence.compare(OURS["softmax-masked > softmax-retain"])]
    plain, masked = (np.mean([*cost_of_a_wrong_rate(evidence, row).values()]) for row in LINKS[OVER_CRF])
    return (
        f"The output of a masked CRF is legal by construction, and that {_price(evidence)}. "
        "With each CRF at its own best learning rate for the transition scores, masking the training as well as the "
        f"decoding changes test F1 by {np.mean(gains):+z.1f} on average ({min(gains):+z.1f} to {max(gains):+z.1f} by "
        f"corpus; {_significance(evidence, IN_TRAINING)}). At the worst of the rates tried ({RATES[0]:g} to "
        f"{RATES[-1]:g}), a CRF trained with the mask loses {masked:.1f} F1 and a plain one {plain:.1f} (difference "
        f"{_significance(evidence, WRONG_RATE)}). Masked decoding alone, with no new training, changes the F1 of a "
        f"softmax tagger by {min(softmax):+z.1f} to {max(softmax):+z.1f}. (LSTM without pretrained weights, "
        f"{_corpora(evidence)}.)"
    )


def _price(evidence: Evidence) -> str:
    claim = _claim(evidence, OVER_CRF)
    gain = mean_gain(evidence.compare(LINKS[OVER_CRF]))
    if claim.verdict == "fails":
        return f"costs {-gain:.1f} F1 against a plain CRF"
    return "costs nothing" if gain >= 0 else "is not shown to cost any F1"


def _significance(evidence: Evidence, text: str) -> str:
    p_value = _claim(evidence, text).p_value
    return "significant" if p_value is not None and p_value < LEVEL else "not significant"


def _claim(evidence: Evidence, text: str) -> Claim:
    return next(claim for claim in all_claims(evidence) if claim.text == text)


def _corpora(evidence: Evidence) -> str:
    return f"{_count(len(evidence.corpora), 'corpus', 'corpora')}, {seeds_each(evidence)} seeds each"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def cost_of_a_wrong_rate(evidence: Evidence, row: str) -> dict[str, float]:
    """By corpus, how much mean test F1 lies between the best and the worst rate of the grid."""
    return {corpus: float(np.mean(wrong_rate_costs(evidence, corpus, row))) for corpus in evidence.corpora}


def answer(evidence: Evidence) -> str:
    """Whether masking in training is shown to help once every head is tuned; and how much of it was the rate."""
    if not evidence.corpora:
        return NOTHING_YET
    claim = _claim(evidence, IN_TRAINING)
    finding = {
        "holds": "masking the training as well as the decoding still gains F1",
        "not everywhere": "masking the training as well as the decoding gains F1 on average, but not on every corpus",
        "not shown": "no gain in F1 from masking the training as well as the decoding can be shown",
        "fails": "masking the training as well as the decoding costs F1",
    }[claim.verdict]
    gain = mean_gain(evidence.compare(LINKS[IN_TRAINING]))
    corpora = _count(len(evidence.corpora), "corpus", "corpora")
    return (
        f"**Once every head has its own best rate, {finding}** ({gain:+z.2f} on average over {corpora}, "
        f"{probability(claim.p_value or 0.0)} after correction). {shared_and_tuned(evidence)}"
    )


def shared_and_tuned(evidence: Evidence) -> str:
    """How much of the gain over CRF-retain is the price of one small rate for all."""
    if not evidence.corpora:
        return NOTHING_YET
    rows = LINKS[OVER_CRF]
    crf, mcrf = ([mean_by_rate(evidence, corpus, row)[0] for corpus in evidence.corpora] for row in rows)
    return (
        f"At one small rate for all ({RATES[0]:g}), a CRF trained with the mask scores "
        f"{np.mean(mcrf) - np.mean(crf):+z.2f} F1 against a plain CRF; with each at its own best rate, "
        f"{mean_gain(evidence.compare(rows)):+z.2f}."
    )


def advice(evidence: Evidence) -> str:
    """Why to use the mask, and whether to count on it in training for F1."""
    if not evidence.corpora:
        return NOTHING_YET
    steady = _claim(evidence, WRONG_RATE).verdict == "holds"
    settings = "because it leaves one setting less to tune, " if steady else ""
    counting = {
        "holds": "It also raises the F1 of a CRF that was tuned.",
        "not everywhere": "It also raises the F1 of a tuned CRF, but not on every corpus: compare on dev.",
        "not shown": "Do not count on it to raise the F1 of a CRF that was tuned.",
        "fails": 'Where F1 is all that counts, tune a CRF and mask its decoding alone (`mask = "decode"`).',
    }[_claim(evidence, IN_TRAINING).verdict]
    free = " and excluding it costs nothing" if _price(evidence) == "costs nothing" else ""
    return (
        f"Use the mask because illegal output is never wanted{free}, {settings}and because all probability then goes "
        f"to legal paths. {counting}"
    )


def pretrained(evidence: Evidence) -> str:
    """What the trial with a pretrained encoder found."""
    trial = evidence.trial
    lines = [_pretrained_on(evidence.of_encoder(PRETRAINED), corpus) for corpus in trial.corpora(PRETRAINED)]
    return " ".join(lines) or "No training with a pretrained encoder is complete yet."


def _pretrained_on(evidence: Evidence, corpus: str) -> str:
    trial = evidence.trial
    pairs = LINKS[IN_TRAINING], OURS["softmax-masked > softmax-retain"]
    found = [compare(*trial.choose_rows(corpus, pair, PRETRAINED)) for pair in pairs]
    at = [trial.at_rate(corpus, "CRF-retain", rate, PRETRAINED).values("test", "illegal") for rate in RATES]
    illegal = ", ".join(f"{np.mean([*each.values()]):.1f} % at {rate:g}" for rate, each in zip(RATES, at, strict=True))
    gain, masked = (f"{each.difference:+z.1f} (95 % interval {each.low:+z.1f} to {each.high:+z.1f})" for each in found)
    lost = [float(np.mean(wrong_rate_costs(evidence, corpus, row))) for row in ("MCRF-training", "CRF-retain")]
    few = ", too few for a verdict" if found[0].seeds < FEWEST_SEEDS else ""
    return (
        f"On {TITLES[corpus]}, masking the training as well as the decoding changes test F1 by {gain}, each row at its "
        f"own best rate. The worst rate costs MCRF-training {lost[0]:.1f} F1 against the best, and the plain CRF "
        f"{lost[1]:.1f}; of the latter's segments {illegal} are illegal. Masked decoding alone changes the softmax "
        f"tagger's F1 by {masked}. {_count(found[0].seeds, 'seed', 'seeds')}{few}."
    )


def rerun(evidence: Evidence) -> str:
    """Which of the transformers of the older results were run again at other rates."""
    names = [TITLES[corpus] for corpus in evidence.trial.corpora(PRETRAINED)]
    return (
        f"of which only UER on {joined(names)} was run again at other rates" if names else "not yet run at other rates"
    )


def rates_chosen(evidence: Evidence) -> str:
    """Where dev put the rates."""
    if not evidence.corpora:
        return NOTHING_YET
    parts = []
    for row in LINKS[OVER_CRF]:
        rates = [evidence.trial.choose(corpus, row, evidence.encoder).rate for corpus in evidence.corpora]
        parts.append(f"{row} {joined([f'{rate:g} ({rates.count(rate)})' for rate in RATES if rate in rates])}")
    return f"The rates that dev chose, with the number of corpora in parentheses: {'; '.join(parts)}."


def trained(evidence: Evidence) -> str:
    """How much was run."""
    names = [TITLES[corpus] for corpus in evidence.corpora]
    under_way = [
        TITLES[corpus] for corpus in evidence.trial.corpora(evidence.encoder) if corpus not in evidence.corpora
    ]
    few = f" Still with fewer, and so without a p-value: {joined(under_way)}." if under_way else ""
    return (
        f"{len(evidence.trial.entries)} trainings were made. {joined(names) or 'No corpus'} "
        f"{'has' if len(names) < 2 else 'have'} at least {FEWEST_SEEDS} seeds of every head at every rate.{few}"
    )


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
        np.mean([np.mean([*trial.values("test", "illegal").values()]) for trial in trials])
        for trials in (
            [evidence.trial.at_rate(corpus, "CRF-retain", rate, evidence.encoder) for corpus in evidence.corpora]
            for rate in RATES
        )
    ]
    listed = joined([f"{share:.1f} % at {rate:g}" for share, rate in zip(illegal, RATES, strict=True)])
    cost = {row: np.mean([*cost_of_a_wrong_rate(evidence, row).values()]) for row in LINKS[OVER_CRF]}
    return (
        f"Of the plain CRF's segments, {listed} are illegal (mean over corpora with at least {FEWEST_SEEDS} seeds). "
        f"From its best rate to its worst, CRF-retain loses {cost['CRF-retain']:.1f} F1 and MCRF-training "
        f"{cost['MCRF-training']:.1f}."
    )


def learning_finding(evidence: Evidence) -> str:
    """Where MCRF learns faster, ends higher or moves less than the CRF."""
    return learning_sentence(evidence) if evidence.corpora else NOTHING_YET
