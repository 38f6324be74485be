"""What is claimed and said of the trial, whichever way it turns out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from synthetic_results import synthetic

from experiments import page, sentences
from experiments.choice import Trial
from experiments.claims import LINKS, Evidence, Finding, Verdict, all_claims, judge
from experiments.defaults import default_sentence, no_setting
from experiments.learning import learning_differences, learning_sentence
from experiments.statistics import LEVEL
from experiments.trainings import BARE, RATES, Training, trainings_of

CORPORA = ("weibo", "conll2003", "conll2000")
ALL = ("weibo", "conll2003", "conll2000", "resume", "snips", "atis")
OUTCOMES: dict[Verdict, Mapping[str, float]] = {
    "holds": {"weibo": 0.3, "conll2003": 0.2, "conll2000": 0.09},
    "not everywhere": {"weibo": 0.4, "conll2003": 0.24, "conll2000": -0.06},
    "not shown": {},
    "fails": {"weibo": -0.3, "conll2003": -0.2, "conll2000": -0.2},
}
"""What is added to the share of segments that MCRF finds, for each verdict on masking in training."""


def evidence(gains: Mapping[str, float]) -> Evidence:
    return Evidence(Trial(synthetic(list(trainings_of(CORPORA, (1, 2, 3, 4, 5))), gains)))


@pytest.fixture(scope="module")
def found() -> dict[Verdict, Evidence]:
    """A made-up trial for each verdict."""
    return {verdict: evidence(gains) for verdict, gains in OUTCOMES.items()}


@pytest.mark.parametrize(
    ("text", "mean", "p_value", "against", "verdict"),
    [
        ("a > b", 0.4, None, False, "not run"),
        ("a > b", 0.4, 0.01, False, "holds"),
        ("a > b", 0.4, 0.01, True, "not everywhere"),
        ("a > b", 0.4, 0.06, True, "not shown"),
        ("a > b", -0.4, 0.06, False, "not shown"),
        ("a > b", -0.4, 0.01, False, "fails"),
        ("a ≥ b", 0.0, 1.0, False, "holds"),
        ("a ≥ b", -0.4, 0.06, False, "not shown"),
        ("a ≥ b", -0.4, 0.01, False, "fails"),
        ("a ≥ b", 0.4, 0.01, True, "not everywhere"),
    ],
)
def test_a_verdict_follows_from_the_mean_and_the_corrected_p_value(
    text: str, mean: float, p_value: float | None, against: bool, verdict: Verdict
) -> None:
    assert judge(Finding(text, mean, 0.001, "", "", against), p_value) == verdict


def test_no_claim_is_judged_without_three_seeds() -> None:
    few = Evidence(Trial(synthetic(trainings_of(["weibo", "atis"], (1, 2)))))
    judged = {claim.text: claim.verdict for claim in all_claims(few)}
    assert set(judged.values()) - {"not run"} == {"holds"}
    assert judged["No illegal segment with a mask"] == "holds"  # counted, not tested


def test_an_illegal_segment_of_a_masked_row_breaks_the_claim() -> None:
    entries = synthetic()
    entries[Training("atis", "mcrf", 1e-2, 2).name]["rows"]["MCRF-training"]["test"]["illegal_fp"] = 1
    judged = {claim.text: claim for claim in all_claims(Evidence(Trial(entries)))}
    assert judged["No illegal segment with a mask"].verdict == "fails"


def test_a_claim_is_corrected_for_the_number_of_claims() -> None:
    claims = [claim for claim in all_claims(Evidence(Trial(synthetic()))) if claim.p_value is not None]
    assert len(claims) > 5
    assert all(claim.verdict != "holds" or "≥" in claim.text for claim in claims if (claim.p_value or 0) >= 0.05)


def test_a_softmax_that_was_much_better_would_be_said_to_gain_nothing() -> None:
    entries = synthetic()
    for made in entries.values():
        rows = made["rows"]
        if "softmax-masked" in rows:
            rows["softmax-masked"], rows["softmax-retain"] = rows["softmax-retain"], rows["softmax-masked"]
    judged = {claim.text: claim.verdict for claim in all_claims(Evidence(Trial(entries)))}
    assert judged["softmax-masked > softmax-retain"] == "fails"


@pytest.mark.parametrize("verdict", OUTCOMES)
def test_the_answer_says_what_was_found(found: dict[Verdict, Evidence], verdict: Verdict) -> None:
    trial = found[verdict]
    claim = next(each for each in all_claims(trial) if each.text == sentences.IN_TRAINING)
    assert claim.verdict == verdict
    expected = {
        "holds": ("still gains F1", "also raises the F1 of a CRF that was tuned", "; significant)"),
        "not everywhere": ("but not on every corpus", "compare on dev", "; significant)"),
        "not shown": ("no gain in F1", "Do not count on it", "; not significant)"),
        "fails": ("decoding costs F1", "mask its decoding alone", "; significant)"),
    }[verdict]
    for said, sentence in zip(expected, ("answer", "advice", "statement"), strict=True):
        assert said in getattr(sentences, sentence)(trial)
    gain = sum(each.difference for each in trial.compare(LINKS[sentences.IN_TRAINING])) / len(CORPORA)
    assert f"({gain:+z.2f} on average over 3 corpora, p " in sentences.answer(trial)
    assert f"changes test F1 by {gain:+z.1f} on average" in sentences.statement(trial)


def test_legal_output_costs_nothing_only_where_it_does(found: dict[Verdict, Evidence]) -> None:
    cost = -sum(each.difference for each in found["fails"].compare(LINKS[sentences.OVER_CRF])) / len(CORPORA)
    assert f"and that costs {cost:.1f} F1 against a plain CRF." in sentences.statement(found["fails"])
    assert "costs nothing" not in sentences.advice(found["fails"])
    assert "and that costs nothing." in sentences.statement(found["holds"])
    assert "excluding it costs nothing, " in sentences.advice(found["holds"])


def test_one_corpus_and_one_seed_are_counted_in_the_singular() -> None:
    trial = Evidence(Trial(synthetic(trainings_of(["weibo"], (1, 2, 3)))))
    assert "on average over 1 corpus, p " in sentences.answer(trial)
    assert "1 corpus, 3 seeds each.)" in sentences.statement(trial)


def test_corpora_with_few_seeds_have_no_say() -> None:
    made = [*trainings_of(["weibo"], (1, 2, 3)), *trainings_of(["atis"], (1, 2))]
    alone, both = (Evidence(Trial(synthetic(each))) for each in (made[:21], made))
    for name in ("statement", "answer", "rate_finding", "rates_chosen", "learning_finding", "shared_and_tuned"):
        assert getattr(sentences, name)(both) == getattr(sentences, name)(alone)
    assert (
        "Weibo has at least 3 seeds of every head at every rate. Still with fewer, and so without a p-value: ATIS."
        in (sentences.trained(both))
    )


def test_slow_learning_is_said_where_it_is_beyond_chance() -> None:
    entries = synthetic()
    assert learning_sentence(Evidence(Trial(entries))).startswith(
        "Of the 9 differences between CRF and MCRF in the table none is significant over seeds after Holm's "
    )
    for made in entries.values():
        if made["training"]["head"] != "softmax" and made["training"]["crf_rate"] == RATES[0]:
            arrival = 2 if made["training"]["head"] == "mcrf" else 7
            for number, epoch in enumerate(made["epochs"], start=1):
                epoch["f1"]["masked"] = 60.0 if number >= arrival else 0.0
    trial = Evidence(Trial(entries))
    clear = {(each.measure, each.rate) for each in learning_differences(trial) if each.p_value < LEVEL}
    assert clear == {("epochs needed", RATES[0])}
    assert ": at 0.001 MCRF arrives 5.0 epochs earlier than the CRF." in learning_sentence(trial)


def test_trainings_that_end_while_they_rise_are_named() -> None:
    # The made-up curves rise to their last epoch.
    assert "Most trainings on Weibo, ATIS and CoNLL2000 were best in their last tenth" in learning_sentence(
        Evidence(Trial(synthetic()))
    )


def test_a_corpus_where_the_defaults_lack_much_is_named() -> None:
    corpora = ("weibo", "atis")
    made = [*trainings_of(corpora, (1, 2, 3)), *(Training(corpus, "mcrf", 1e-2, 1, BARE) for corpus in corpora)]
    entries = synthetic(made)
    for entry in entries.values():
        bare, weibo = entry["training"]["encoder"] == BARE, entry["training"]["corpus"] == "weibo"
        for row in entry["rows"].values():
            row["dev"]["f1"] = 60.0
        for epoch in entry["epochs"]:
            epoch["f1"]["masked"] = 59.0 if bare and weibo else 60.8
    trial = Evidence(Trial(entries))
    assert [[*side.values()] for side in no_setting(trial, "weibo")] == [[59.0], [], [60.0]]
    assert default_sentence(trial).startswith(
        "A user who gives data and no setting is at most 0.5 dev F1 below the best "
    )
    assert " on 1 of 2 corpora: Weibo is 1.0 below. How far a user who gives data and a pretrained" in default_sentence(
        trial
    )
    assert "was not measured" in default_sentence(Evidence(Trial(synthetic())))


@pytest.mark.parametrize("verdict", OUTCOMES)
def test_no_outcome_leaves_a_gap_in_a_sentence(found: dict[Verdict, Evidence], verdict: Verdict) -> None:
    templates = "".join((page.TEMPLATES / name).read_text(encoding="utf-8") for name in page.PAGES)
    names = [name for kind, name in page.PLACE.findall(templates) if kind == "sentence"]
    assert len(names) > 8
    for name in names:
        sentence = getattr(sentences, name)(found[verdict])
        assert not any(gap in sentence for gap in ("nan", "..", "  ", "None", "()")), (name, sentence)
