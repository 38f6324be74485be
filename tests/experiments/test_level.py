"""How near to the paper: the table and its verdict, from made-up results and from none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_results import entry, synthetic

from experiments import level
from experiments.candidates import CANDIDATES, parts_of
from experiments.grid import LEVEL, MAIN, OF_THE_PAPERS_SIZE, Run
from experiments.level import (
    best_on_dev,
    has_more,
    how_far,
    in_words,
    ingredients,
    scheme_inside,
    short_of,
    tuning,
    verdict,
    where_we_part,
    without_the_cut,
)
from experiments.reading import Results, Score, Setting, read_paper
from experiments.run import corpus_of, tuned
from experiments.statistics import Evidence

WEIBO = [each for each in CANDIDATES["weibo", "tuned"] if parts_of(each["encoder"]) == "uer+words+lstm1"]
TUNED: dict[str, Any] = {
    "weibo/tuned": {
        "settings": WEIBO[0],
        "tried": [
            {"dev_f1": f1, "seed": seed, "settings": WEIBO[place]}
            for place, seed, f1 in ((0, 100, 60.0), (1, 100, 58.0), (2, 100, 50.0), (0, 101, 64.0))
        ],
    }
}


def evidence(*runs: Run) -> Evidence:
    entries = [*synthetic(("main",), size=30), *(entry(each, sentences=30) for each in runs)]
    return Evidence(Results.of({each["name"]: each for each in entries}), read_paper())


@pytest.fixture(autouse=True)
def _tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level, "tuned", lambda: TUNED)


def test_what_was_tuned_stands_beside_the_papers_and_the_rest_says_so() -> None:
    given = evidence(*(Run("weibo", "tuned", "mcrf", seed) for seed in (1, 2)))
    rows = {row[0]: row[1:] for row in how_far(given).rows}
    ours, *rest = rows["Weibo, tuned"]
    assert isinstance(ours, Score)
    assert rest == [2, Score(72.4, 66.5), "uer + words + lstm1", "-", 3]
    main = given.results.score(Setting("weibo", "uer"), "MCRF-training")
    assert rows["Weibo, uer"] == (main, 5, Score(72.4, 66.5), "uer", "-", 0)
    assert rows["Weibo, tuned+msra"] == (None, None, Score(72.4, 66.5), None, None, None)
    assert len(rows) == len(LEVEL) + len(OF_THE_PAPERS_SIZE) + len(MAIN)


def test_rows_that_know_more_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    given = evidence(*(Run("weibo", encoder, "mcrf", 1) for encoder in ("bert-zh", "tuned+bert")))
    whole = {
        "weibo/bert-zh": CANDIDATES["weibo", "bert-zh"][0],
        "weibo/tuned+bert": CANDIDATES["weibo", "tuned+bert"][0],
    }
    monkeypatch.setattr(level, "tuned", lambda: {name: {"settings": each, "tried": []} for name, each in whole.items()})
    reached = {"bert-zh": Score(60.0, 60.0), "tuned+bert": Score(72.4, 66.0)}
    monkeypatch.setattr(Results, "score", lambda _, setting, variant: reached.get(setting.encoder))
    alike, anyhow = how_far(given).answer.splitlines()
    assert "Weibo (12.4 short)" in alike
    assert "best is reached on Weibo" in anyhow
    assert "Weibo (0.5 short)" in anyhow.partition("mean")[2]


@pytest.mark.parametrize(
    ("name", "encoder", "expected"),
    [
        ("resume/tuned+bert", "tuned+bert", ["a lexicon", "other texts"]),
        (
            "conll2000/tuned+more",
            "tuned+more+dev+five",
            ["tags of parts of speech", "other texts", "dev", "five taggers"],
        ),
        ("conll2000/tuned+more", "tuned+more", ["tags of parts of speech", "other texts"]),
        # Train of the other corpora is text that the paper's encoder was not given, either.
        ("conll2003/tuned", "tuned", ["other texts", "the sentences around"]),
        ("conll2000/tuned", "tuned", ["other texts"]),
    ],
)
def test_what_a_committed_recipe_knows_more_is_named(name: str, encoder: str, expected: list[str]) -> None:
    assert has_more(Setting(name.split("/")[0], encoder), tuned()[name]["settings"]) == expected


def test_the_encoder_whose_runs_dev_likes_best_stands_for_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    given = evidence(*(Run("weibo", encoder, "mcrf", 1) for encoder in ("tuned", "bert-zh")))
    dev = {"tuned": 62.0, "bert-zh": 61.9}

    def f1(_: Results, setting: Setting, variant: str, part: str = "test") -> dict[int, float]:
        assert (variant, part) == ("MCRF-training", "dev"), "test has no part in it"
        return {1: dev[setting.encoder]} if setting.encoder in dev else {}

    monkeypatch.setattr(Results, "f1", f1)
    assert best_on_dev(given, "weibo") == Setting("weibo", "tuned")
    dev["bert-zh"] = 62.1
    assert best_on_dev(given, "weibo") == Setting("weibo", "bert-zh")
    assert best_on_dev(given, "atis") == Setting("atis", MAIN["atis"]), "nothing else has run"


def test_resume_is_set_beside_the_papers_counts_of_dev_and_scores_of_test() -> None:
    empty = where_we_part(evidence())
    paper = [95.5, 96.0, 94.8, 96.6, 96.9]
    assert [row[0] for row in empty.rows] == [
        *(f"{variant}, dev" for variant in ("CRF-retain", "CRF-discard")),
        *(f"{variant}, test" for variant in ("CRF-retain", "CRF-discard", "MCRF-training")),
    ]
    assert [round(row[1].value, 1) for row in empty.rows] == paper
    assert all(row[2:] == (None, None) for row in empty.rows)
    assert "gains the paper +1.8; by the paper's own counts of dev it gains +0.5" in empty.answer
    given = evidence(*(Run("resume", "bert-zh", head, seed) for head in ("crf", "mcrf") for seed in (1, 2)))
    found = where_we_part(given)
    for row, (variant, part) in zip(found.rows, (str(row[0]).split(", ") for row in found.rows), strict=True):
        mean = np.mean(list(given.results.f1(Setting("resume", "bert-zh"), variant, part).values()))
        assert row[2].value == pytest.approx(mean)
        assert row[3].value == pytest.approx(mean - row[1].value)
    assert ", us " in found.answer
    assert "2 seeds" in found.note


def test_a_recipe_that_begins_with_another_corpus_has_a_row_and_a_word_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = {"settings": CANDIDATES["weibo", "tuned+msra"][1], "tried": []}
    given = evidence(*(Run("weibo", encoder, "mcrf", 1) for encoder in ("tuned", "tuned+msra")))
    assert dict(ingredients(given).rows) == {"all": None}
    monkeypatch.setattr(level, "tuned", lambda: TUNED | {"weibo/tuned+msra": entry})
    table = how_far(given)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Weibo, tuned"][0] == given.results.score(Setting("weibo", "tuned"), "MCRF-training")
    assert rows["Weibo, tuned+msra"][0] == given.results.score(Setting("weibo", "tuned+msra"), "MCRF-training")
    assert rows["Weibo, tuned+msra"][3] == "uer-adapted + lstm1"
    assert rows["Weibo, tuned+msra"][4] == "tags of MSRA, other texts"
    said = "`uer-zh-L2-H512`, trained to guess hidden pieces of train of MSRA, Weibo, Resume, 20 times over"
    assert dict(ingredients(given).rows) == {"uer-adapted": said}
    assert "begun with msra-tagger-adapted, hidden 300" in in_words(entry["settings"])
    assert "adversarial 0.3" in in_words(entry["settings"])


def test_a_recipe_that_sees_the_sentences_around_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    [recipe, *_] = [each for each in CANDIDATES["conll2003", "tuned"] if each["encoder"].get("context") == 64]
    monkeypatch.setattr(level, "tuned", lambda: {"conll2003/tuned": {"settings": recipe, "tried": []}})
    table = how_far(evidence())
    assert dict(ingredients(evidence()).rows)["context64"] == (
        "64 words on either side of a sentence, in dev and test too"
    )
    assert "context64" in {row[0]: row[4] for row in table.rows}["CoNLL2003, tuned"]  # type: ignore[operator]


def test_a_scheme_inside_is_set_against_the_same_recipe_without(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**WEIBO[0], "scheme": "BIOES"}
    scores = [{"dev_f1": f1, "seed": seed, "settings": other} for seed, f1 in ((100, 61.0), (101, 66.0), (102, 99.0))]
    alone = {"dev_f1": 70.0, "seed": 100, "settings": {**WEIBO[1], "batch": 1, "scheme": "BIOES"}}
    assert scheme_inside(evidence()).rows == (("all", *[None] * 6),)
    tried = [*TUNED["weibo/tuned"]["tried"], *scores, alone]
    monkeypatch.setattr(level, "tuned", lambda: {"weibo/tuned": {"settings": other, "tried": tried}})
    [(name, _, context, before, after, gain, seeds)] = scheme_inside(evidence()).rows
    assert (name, context) == ("Weibo, tuned", "-")
    assert [number.value for number in (before, after, gain)] == [62.0, 63.5, 1.5]  # type: ignore[union-attr]
    assert seeds == 2, "those that both have run with"
    assert "BIOES inside" in in_words(other)


def test_sentences_that_the_authors_cut_are_left_out_by_their_numbers() -> None:
    given = evidence()
    setting = Setting("weibo", "uer")
    [first, *_] = given.results.counts(setting, "MCRF-training").values()
    wrong = [number for number, (correct, found, gold) in enumerate(first) if not correct == found == gold]
    paper = {**given.paper, "cut_at_128_pieces": {"weibo": wrong}}
    rows = {row[0]: row[1:] for row in without_the_cut(Evidence(given.results, paper)).rows}
    cut, whole, rest, mark = rows["Weibo, uer"]
    assert cut == len(wrong) > 0
    assert whole == given.results.score(setting, "MCRF-training")
    assert isinstance(rest, Score)
    assert rest.best == 100, "the first run has nothing wrong left"
    assert mark == Score(72.4, 66.5)
    assert rows["Weibo, tuned+bert"][1:3] == (None, None)


@pytest.mark.corpora
def test_the_sentences_that_the_authors_cut_are_those_of_more_than_126_characters(corpora: Path) -> None:
    for name, numbers in read_paper()["cut_at_128_pieces"].items():
        test = corpus_of(name, str(corpora)).test
        assert numbers == [number for number, sentence in enumerate(test) if len(sentence) > 126]


def test_without_results_nothing_is_said_to_be_reached_or_missed() -> None:
    answer = how_far(Evidence(Results.of({}), read_paper())).answer
    assert "The paper's best is yet to be run against." in answer
    assert "short" not in answer


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (None, {}),
        (Score(95.86, 94.0), {"best": 0.0, "mean": pytest.approx(1.0)}),
        (Score(95.84, 96.0), {"best": pytest.approx(0.1), "mean": pytest.approx(-1.0)}),
    ],
)
def test_marks_are_compared_as_they_are_printed(ours: Score | None, expected: dict[str, float]) -> None:
    assert short_of(Score(95.9, 95.0), ours) == expected
    assert set(short_of(Score(91.7), ours)) <= {"best"}


def test_the_verdict_names_what_is_reached_and_how_much_is_missing() -> None:
    shorts = {"ATIS": {"best": 0.0, "mean": -1.0}, "MSRA": {"best": 1.25, "mean": -0.1}, "Weibo": {}}
    assert verdict(shorts, "best") == "The paper's best is reached on ATIS; not reached on MSRA (1.2 short)."
    assert verdict(shorts, "mean") == "The paper's mean is reached on ATIS, MSRA."


def test_a_recipe_in_words() -> None:
    settings = {"batch": 64, "epochs": 20, "patience": 0, "optim": {"head_rate": 2e-3, "schedule": "linear"}}
    assert in_words(settings) == "batch 64, epochs 20, head rate 0.002"
    encoder = {"transformer": "{folder}/uer-zh-L2-H512", "lstm_layers": 1, "dropout": 0.3, "lstm_hidden": 300}
    assert in_words({**settings, "encoder": encoder, "average": 0.998}) == (
        "uer+lstm1, hidden 300, dropout 0.3, batch 64, epochs 20, average 0.998, head rate 0.002"
    )


def test_the_settings_of_a_sweep_take_one_line() -> None:
    [row] = tuning(evidence()).rows
    assert row[:2] == ("Weibo, tuned", 3)
    assert [number.value for number in row[2:6]] == [60.0, 58.0, 50.0, 62.0]  # type: ignore[union-attr]
    assert row[6] == 2


def test_a_sweep_that_was_cut_short_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Cut short: Weibo, tuned: of their best 3" in tuning(evidence()).note
    again = [{**one, "seed": seed} for one in TUNED["weibo/tuned"]["tried"][:3] for seed in (100, 101, 102)]
    whole = {"weibo/tuned": {**TUNED["weibo/tuned"], "tried": again}}
    monkeypatch.setattr(level, "tuned", lambda: whole)
    assert "Cut short" not in tuning(evidence()).note
