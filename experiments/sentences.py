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
from experiments.statistics import FEWEST_SEEDS, LEVEL
from experiments.table_format import joined, probability
from experiments.tables import TITLES, mean_by_rate, variants_of
from experiments.trainings import PRETRAINED, RATES

NOTHING_YET = "No corpus of the trial is done yet."
IN_TRAINING, OVER_CRF = "MCRF-training > MCRF-decoding", "MCRF-training > CRF-retain"


def statement(evidence: Evidence) -> str:
    """What masking is worth: the one statement that README, guides and pages share."""
    if not evidence.corpora:
        return NOTHING_YET
    sides = [evidence, *with_pretrained(evidence)]
    also = " and, with a pretrained encoder, "
    gains, lost, softmax = (also.join(map(say, sides)) for say in (_gain_in_training, _lost_at_worst, _softmax_gains))
    pretrained = " and transformers of two or six layers" if len(sides) > 1 else ""
    return (
        f"The output of a masked CRF is legal by construction, and that {_price(evidence)}. "
        "With each CRF at its own best learning rate for the transition scores, masking the training as well as the "
        f"decoding changes test F1 by {gains}. At the worst of the rates tried ({RATES[0]:g} to {RATES[-1]:g}), a CRF "
        f"trained with the mask loses {lost}. Masked decoding alone, with no new training, changes the F1 of a softmax "
        f"tagger by {softmax}. (LSTM without pretrained weights{pretrained}, {_corpora(evidence)}.)"
    )


def with_pretrained(evidence: Evidence) -> list[Evidence]:
    """The evidence of the small pretrained encoders; nothing unless they have all corpora of the headline."""
    found = evidence.of_encoder(PRETRAINED)
    return [found] if found.corpora == evidence.corpora else []


def _gain_in_training(evidence: Evidence) -> str:
    gains = [each.difference for each in evidence.compare(LINKS[IN_TRAINING])]
    span = f"{min(gains):+z.1f} to {max(gains):+z.1f} by corpus"
    return f"{np.mean(gains):+z.1f} on average ({span}; {_significance(evidence, IN_TRAINING)})"


def _lost_at_worst(evidence: Evidence) -> str:
    plain, masked = (np.mean([*cost_of_a_wrong_rate(evidence, row).values()]) for row in LINKS[OVER_CRF])
    return f"{masked:.1f} F1 where a plain one loses {plain:.1f} ({_significance(evidence, WRONG_RATE)})"


def _softmax_gains(evidence: Evidence) -> str:
    gains = [each.difference for each in evidence.compare(OURS["softmax-masked > softmax-retain"])]
    return f"{min(gains):+z.1f} to {max(gains):+z.1f}"


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
    best = with_pretrained(evidence)
    steady = all(_claim(each, WRONG_RATE).verdict == "holds" for each in best or [evidence])
    where = "with a pretrained encoder " if best else ""
    settings = f"because {where}the learning rate of the transitions then hardly matters, " if steady else ""
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
    """What the trial with pretrained encoders found."""
    found = evidence.of_encoder(PRETRAINED)
    if not found.corpora:
        return "Too few trainings with a pretrained encoder are complete for a verdict."
    shares = joined([f"{share:.1f} % at {rate:g}" for rate, share in illegal_shares(found)])
    variants = [f"{label} {_gain_in_training(each)}" for each, label in variants_of(evidence) if each.corpora]
    more = f" Elsewhere it changes F1 by: {'; '.join(variants)}." if variants else ""
    return (
        f"Masking the training as well as the decoding changes test F1 by {_gain_in_training(found)}. At the worst "
        f"rate MCRF-training loses {_lost_at_worst(found)}, of whose segments {shares} are illegal. Masked decoding "
        f"alone changes the F1 of the softmax by {_softmax_gains(found)}.{more}"
    )


def illegal_shares(evidence: Evidence) -> list[tuple[float, float]]:
    """Illegal segments of the plain CRF in percent at each rate, mean over the corpora."""
    shares = [
        [evidence.trial.at_rate(corpus, "CRF-retain", rate, evidence.encoder).mean("test", "illegal") for rate in RATES]
        for corpus in evidence.corpora
    ]
    return list(zip(RATES, np.mean(shares, axis=0).tolist(), strict=True))


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
    listed = joined([f"{share:.1f} % at {rate:g}" for rate, share in illegal_shares(evidence)])
    cost = {row: np.mean([*cost_of_a_wrong_rate(evidence, row).values()]) for row in LINKS[OVER_CRF]}
    return (
        f"Of the plain CRF's segments, {listed} are illegal (mean over corpora with at least {FEWEST_SEEDS} seeds). "
        f"From its best rate to its worst, CRF-retain loses {cost['CRF-retain']:.1f} F1 and MCRF-training "
        f"{cost['MCRF-training']:.1f}."
    )


def learning_finding(evidence: Evidence) -> str:
    """Where MCRF learns faster, ends higher or moves less than the CRF."""
    return learning_sentence(evidence) if evidence.corpora else NOTHING_YET
