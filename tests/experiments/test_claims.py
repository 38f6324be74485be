"""Verdicts on results whose truth is known."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from synthetic_results import synthetic

from experiments.claims import all_claims, always_legal, judge, lower_loss, over_corpora, rarely_right
from experiments.reading import Results, Setting, read_paper
from experiments.statistics import Comparison, Evidence

ENTRIES = synthetic(("main",), size=60)


def evidence(entries: list[dict[str, Any]]) -> Evidence:
    return Evidence(Results.of({entry["name"]: entry for entry in entries}), read_paper())


def comparison(corpus: str, *differences: float, p: float = 0.001) -> Comparison:
    p_seeds = p if len(differences) >= 3 else None
    return Comparison(Setting(corpus, "uer"), "a", "b", differences, 0, 0, p_sentences=p, p_seeds=p_seeds)


def verdict(*found: Comparison, at_least: bool = False) -> str:
    by_setting = {each.setting: each for each in found}
    return judge(by_setting, over_corpora(by_setting), at_least=at_least)


BETTER = [comparison(corpus, 1.0, 1.2, 1.1) for corpus in ("weibo", "resume", "msra")]
LEVEL = [comparison(corpus, 0.3, -0.2, -0.1, p=0.6) for corpus in ("weibo", "resume", "msra")]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (BETTER, "holds"),
        (LEVEL, "level"),
        ([*BETTER, comparison("atis", -0.5, -0.4, -0.6)], "fails"),
        ([*BETTER, comparison("atis", -0.5, -0.4, 0.6, p=0.5)], "holds"),
        ([comparison("weibo", 1.0, 1.0)], "not run"),
        ([], "not run"),
    ],
)
def test_a_claim_of_more_needs_more_everywhere_or_at_least_nowhere_less(found: list[Comparison], expected: str) -> None:
    assert verdict(*found) == expected


def test_a_claim_of_at_least_holds_where_nothing_is_worse() -> None:
    assert verdict(*LEVEL, at_least=True) == "holds"
    assert verdict(*LEVEL, comparison("atis", -0.5, -0.4, -0.6), at_least=True) == "fails"


def test_one_illegal_segment_is_enough_against_legality() -> None:
    assert always_legal(evidence(ENTRIES)).verdict == "holds"
    broken = deepcopy(ENTRIES)
    view = next(entry for entry in broken if entry["run"]["head"] == "mcrf")["dev"]["views"]["training"]
    view["illegal_fp"] = 1
    assert always_legal(evidence(broken)).verdict == "fails"


def test_illegal_segments_that_are_mostly_right_fail_the_claim() -> None:
    assert rarely_right(evidence(ENTRIES)).verdict == "holds"
    lucky = deepcopy(ENTRIES)
    for entry in lucky:
        if entry["run"]["head"] == "crf":
            entry["dev"]["views"]["retain"] |= {"illegal_tp": 19, "illegal_fp": 1}
    found = rarely_right(evidence(lucky))
    assert found.verdict == "fails"
    assert "95.0 %" in found.ours


def test_a_higher_loss_fails_the_claim() -> None:
    assert lower_loss(evidence(ENTRIES).results).verdict == "holds"
    worse = deepcopy(ENTRIES)
    for entry in worse:
        if entry["run"]["head"] == "mcrf":
            entry["epochs"] = [[loss, dev + 9, f1, share] for loss, dev, f1, share in entry["epochs"]]
    assert lower_loss(evidence(worse).results).verdict == "fails"


def test_without_results_no_claim_is_run_and_the_paper_still_speaks() -> None:
    claims = all_claims(evidence([]))
    assert {claim.verdict for claim in claims} == {"not run"}
    assert all(claim.p_value is None and not claim.ours and claim.paper for claim in claims)


def test_the_papers_own_order_is_read_from_its_tables() -> None:
    claims = {claim.text: claim for claim in all_claims(evidence([]))}
    # Means of Tables 3, 5 and 6, best of the code's README: 0.3 0.3 0.2 0.7 0.5 0.2 0.1 0.5.
    assert claims["MCRF-training > MCRF-decoding"].paper == "+0.35; 8 above, 0 equal, 0 below"
