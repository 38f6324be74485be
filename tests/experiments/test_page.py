"""Tables, figures and page from results made up by a seed, and from none."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from small_corpus import SMALL
from synthetic_results import entry, synthetic, write

from experiments import figures, page, run, store
from experiments.beyond import calibration, significance_of_others
from experiments.cells import Number, Probability, Table, as_csv, latex, markdown, text
from experiments.edges import edges, edges_in_training
from experiments.grid import ENCODERS, GROUPS, MAIN, Run
from experiments.level import ingredients, scheme_inside, tuning
from experiments.reading import (
    CORPORA,
    PAPERS_OWN,
    READINGS,
    TRAINED_WITHOUT_EDGES,
    VARIANTS,
    Results,
    Score,
    Setting,
    main_setting,
    ratios,
    read_paper,
)
from experiments.statistics import Comparison, Evidence
from experiments.tables import corpora, encoders, illegal_segments, main_scores, strategies, wrong_ratios
from maskedcrf import Constraints

ROOT = Path(__file__).parents[2]
SOME = Results.of({entry["name"]: entry for entry in synthetic(("main", "encoders"), size=40)})
NONE = Results.of({})
PAPER = read_paper()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, "not run"),
        (3, "3"),
        (Number(0.1234, ".2f"), "0.12"),
        (Probability(0.0004), "< 0.001"),
        (Probability(0.0404), "0.040"),
        (Score(91.7), "91.7"),
        (Score(72.44, 66.51), "72.4 (66.5)"),
        (Score(72.44, 66.51, 1.26, 5), "72.4 (66.5 ± 1.3)"),
    ],
)
def test_a_cell_is_written_as_it_is_read(cell: object, expected: str) -> None:
    assert text(cell) == expected  # type: ignore[arg-type]


TABLE = Table("t", "A table", ("", "a & b", "score"), (("x_1", 3, Score(72.5, 70.25, 1.5, 5)), ("50 %", None, None)))


def test_a_table_in_markdown() -> None:
    assert markdown(TABLE).splitlines() == [
        "|  | a & b | score |",
        "| --- | ---: | ---: |",
        "| x_1 | 3 | 72.5 (70.2 ± 1.5) |",
        "| 50 % | not run | not run |",
    ]
    assert "| <\u00a00.001 |" in markdown(Table("p", "", ("",), ((Probability(0.0004),),)))


def test_a_table_in_latex_escapes_its_text() -> None:
    assert r" & a \& b & score \\" in latex(TABLE)
    assert r"x\_1 & 3 & 72.5 (70.2 $\pm$ 1.5) \\" in latex(TABLE)
    assert r"50 \% & not run & not run \\" in latex(TABLE)


def test_a_table_of_words_in_latex_is_read_from_the_left_and_broken_where_it_is_long() -> None:
    written = latex(Table("words", "", ("a", "b", "c"), (("x", "y", "run `page` " + "and so on " * 9), ("x", 3, "z"))))
    assert r"\begin{tabular}{lrp{8cm}}" in written
    assert r"x & y & run \texttt{page} and so on" in written


def test_a_table_in_csv_keeps_what_was_measured() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(TABLE))))
    assert rows[0] == {
        "": "x_1",
        "a & b": "3",
        "score best": "72.5",
        "score mean": "70.25",
        "score deviation": "1.5",
        "score runs": "5",
    }
    assert set(list(rows[1].values())[1:]) == {""}


def test_main_cells_are_best_mean_and_deviation_over_seeds() -> None:
    table = main_scores(Evidence(SOME, PAPER), "RES_CHUNKING", "Chunking")
    values = [SOME.f1(main_setting("conll2000"), "MCRF-training")[seed] for seed in range(1, 6)]
    mean = sum(values) / 5
    deviation = (sum((value - mean) ** 2 for value in values) / 4) ** 0.5
    row = next(row for row in table.rows if row[0] == "MCRF-training")
    assert row[1] == Score(96.9, 96.5)
    assert row[2] == pytest.approx((max(values), mean, deviation, 5))
    assert table.rows[-1] == ("seeds", 10, "5")


def test_other_encoders_are_judged_by_themselves() -> None:
    found = Results.of({entry["name"]: entry for entry in synthetic(("bert", "small"), size=40)})
    table = significance_of_others(Evidence(found, PAPER))
    names = [f"{corpus}, bert-zh" for corpus in ("MSRA", "Resume", "Weibo")]
    names += [f"{corpus}, mpnet" for corpus in ("ATIS", "SNIPS", "CoNLL2000", "CoNLL2003")]
    names += [f"{corpus}, lstm1" for corpus in ("ATIS", "Weibo", "SNIPS", "Resume")]
    assert [row[0] for row in table.rows] == [*names, "better / level / worse"]
    assert all(cell.p_corrected is not None for row in table.rows[:-1] for cell in row[1:])
    assert all(sum(map(int, cell.split(" / "))) == len(names) for cell in table.rows[-1][1:])
    # The main encoders are none of them.
    assert significance_of_others(Evidence(SOME, PAPER)).rows[0] == (names[0], None, None, None, None)


def test_start_and_end_rules_are_weighed_in_training_alone_and_with_decoding() -> None:
    found = Results.of({entry["name"]: entry for entry in synthetic(("edges",), size=40)})
    row = edges_in_training(Evidence(found, PAPER)).rows[-1]
    with_them, without, at_no_time = (
        found.f1(Setting("weibo", "lstm1", "BIOES"), variant)
        for variant in ("MCRF-training", TRAINED_WITHOUT_EDGES, PAPERS_OWN)
    )
    assert row[0] == "Weibo, BIOES"
    assert row[1].differences == pytest.approx([with_them[seed] - without[seed] for seed in (1, 2, 3)])
    assert row[2].differences == pytest.approx([with_them[seed] - at_no_time[seed] for seed in (1, 2, 3)])
    assert row[3].value > 0, "the paper's own MCRF may begin with an illegal tag"
    assert edges_in_training(Evidence(NONE, PAPER)).rows[-1] == ("Weibo, BIOES", None, None, None)
    assert edges(Evidence(NONE, PAPER)).answer == edges_in_training(Evidence(NONE, PAPER)).answer == ""


def test_a_taggers_own_calibration_stands_beside_that_of_exact_probabilities() -> None:
    entries = synthetic(("small",), size=40)
    for each in entries:
        if each["run"]["head"] == "softmax":
            each["test"]["calibration"]["softmax"] = [[10, 5, 5.0 + 2.5]]  # half are right, 75 % was said
    table = calibration(Evidence(Results.of({each["name"]: each for each in entries}), PAPER))
    row = next(row for row in table.rows if row[0] == "ATIS, lstm1")
    assert row[3].value == pytest.approx(25)
    assert row[1].value < row[2].value
    assert "in 4 of 4 settings, and than that of a tagger, which is trained to be read so, in 4 of 4" in table.answer
    assert table.rows[0] == ("Resume, uer", None, None, None, None)


def test_the_strategies_are_those_of_the_paper() -> None:
    rows = {row[0]: row[1:] for row in strategies(Evidence(NONE, PAPER)).rows}
    assert rows["retain, ours"] == rows["retain, paper"]
    assert rows["discard, ours"] == rows["discard, paper"]


def test_the_papers_first_ratio_is_wrong_in_six_of_eight_rows() -> None:
    assert len(wrong_ratios(PAPER)) == 6
    assert "wrong in 6 of 8 rows" in illegal_segments(Evidence(NONE, PAPER)).note
    # 36 of 136.
    assert ratios(PAPER["tables"]["illegal_proportion"]["rows"]["conll2000"])[
        "illegal_tp_over_illegal"
    ] == pytest.approx(26.47, abs=0.01)


def test_what_discarding_is_worth_by_the_papers_counts_is_not_what_its_scores_say() -> None:
    said = page.inconsistencies(Evidence(NONE, PAPER))
    # Resume: 1445 of 1513 legal segments are right, 1 of 18 illegal ones; 1497 are gold.
    assert f"Resume {200 * 1445 / (1513 + 1497) - 200 * 1446 / (1531 + 1497):+.1f}" in said
    # Means of 96.6 and 94.8.
    assert "on test, Resume +1.8" in said


def test_the_papers_masked_matrix_is_ours() -> None:
    figure = PAPER["tables"]["masked_transition_matrix"]
    legal = Constraints.from_scheme(figure["tags"], "BIO").legal
    masked = [[row + 1, column + 1] for row, cells in enumerate(legal) for column, fine in enumerate(cells) if not fine]
    assert masked == figure["masked"]


def test_the_papers_numbers_cover_its_rows_and_corpora() -> None:
    tables = PAPER["tables"]
    assert set(tables["illegal_proportion"]["rows"]) == set(tables["dataset_statistics"]["rows"]) == set(CORPORA)
    for label in ("main_result", "result_sf", "RES_CHUNKING", "code_readme"):
        assert list(tables[label]["rows"]) == list(VARIANTS)
    assert set(MAIN) | {"ontonotes4"} == set(CORPORA)


def test_encoders_of_one_side_alone_say_so_on_the_other() -> None:
    rows = {row[0]: row for row in encoders(Evidence(SOME, PAPER)).rows}
    assert rows["BERT"][6:] == (None,) * 5
    assert rows["minilm"][1:6] == ("-",) * 5
    assert isinstance(rows["LSTM-1"][8], Score)
    assert "CNN + LSTM-1" in rows


def test_figure_1_shows_the_papers_illegal_step_and_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "maskedcrf.crf.cpu", None)
    assert "illegal step from B-MISC to I-ORG" in figures.figure_1(Evidence(NONE, PAPER))


def comparison(setting: Setting, gain: float, p_value: float) -> Comparison:
    """Of five runs alike, and of sentences that say so by chance always or never."""
    chances = np.full(1000, gain if p_value > 0.05 else 0.0)
    return Comparison(setting, "", "", (gain,) * 5, 0, 0, p_value, p_value, pooled=gain, chances=chances)


@pytest.mark.parametrize(
    ("over_decoding", "answer"),
    [
        (
            {"": (1.0, 0.01), "BERT": (0.5, 0.2), "BIOES": (-1.0, 0.01), "10 %": (0.5, 0.2)},
            "**In part.** Keeping illegal paths out of a CRF's output pays: shown in every setting. What the paper "
            "adds is to mask the training and not the decoding alone, which any trained CRF can be given. That this "
            "pays is shown with the small encoders of the main tables; not shown with encoders of BERT-base's size and "
            "with 10 % of the training data; contradicted under BIOES.",
        ),
        (dict.fromkeys(("", "BERT", "BIOES", "10 %"), (1.0, 0.01)), "**Yes.** "),
    ],
    ids=["in part", "yes"],
)
def test_the_answer_stands_first_and_follows_the_verdicts(
    over_decoding: dict[str, tuple[float, float]], answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gains(_: Evidence, first: str, second: str, **asked: object) -> dict[Setting, Comparison]:
        where = "BERT" if "base" in asked else "BIOES" if "scheme" in asked else "10 %" if "share" in asked else ""
        found = over_decoding[where] if first == "MCRF-decoding" else (2.0, 0.01)
        return {main_setting(corpus): comparison(main_setting(corpus), *found) for corpus in ("weibo", "atis")}

    assert page.in_short(Evidence(NONE, PAPER)) == ""
    monkeypatch.setattr(Evidence, "gains", gains)
    said = page.in_short(Evidence(NONE, PAPER))
    assert said.startswith(answer)
    assert "| with encoders of BERT-base's size | +2.00, p\u00a0=\u00a00." in said


def test_a_committee_counts_as_the_trainings_that_it_is() -> None:
    runs = [entry(Run("resume", encoder, "mcrf", 1), sentences=5) for encoder in ("tuned+bert", "tuned+bert+five")]
    said = page.introduction(Evidence(Results.of({each["name"]: each for each in runs}), PAPER))
    assert "From 2 runs on 1 corpora" in said
    assert ": 6 trainings of " in said


def links(markdown_text: str) -> set[str]:
    return set(re.findall(r"\]\(([^)]+)\)", markdown_text))


# Enough for every figure, and few enough to be drawn quickly.
FEW = [
    each for each in synthetic(size=25) if each["run"]["corpus"] in ("weibo", "conll2003") and each["run"]["seed"] < 4
]


@pytest.mark.parametrize("entries", [[], FEW], ids=["no results", "results"])
def test_the_page_has_every_file_it_names_and_comes_out_the_same(entries: list[dict], tmp_path: Path) -> None:
    write(tmp_path / "results", entries)
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
    docs = tmp_path / "docs"
    arguments = ["--results", str(tmp_path / "results"), "--docs", str(docs), "--readme", str(readme)]
    assert page.main(arguments) == 0
    files = {path: path.read_bytes() for path in docs.rglob("*.*")}
    written = (docs / "paper.md").read_text(encoding="utf-8")
    assert all((docs / name).is_file() for name in links(written))
    assert "nan" not in re.findall(r"[a-z]+", written)
    drawn = {path.stem for path in (docs / "images" / "paper").glob("*.png")}
    assert drawn == (set(figures.FIGURES) if entries else {"matrix"})
    assert ("No run is in the results yet" in written) is not bool(entries)
    shown = readme.read_text(encoding="utf-8")
    assert shown.startswith("before\n")
    assert shown.endswith("after\n")
    assert "old" not in shown
    assert "| Weibo | " in shown
    if not entries:
        assert page.main(arguments) == 0
        assert {path: path.read_bytes() for path in docs.rglob("*.*")} == files


def test_a_readme_without_markers_stays_as_it_is() -> None:
    assert page.between_markers("text", "table") == "text"


def test_the_committed_page_was_made_from_the_committed_results_and_recipes() -> None:
    written = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert f"from results {Results.read().digest}:" in written, "run `make paper`"
    nothing = Evidence(NONE, PAPER)  # what needs no results is compared word for word
    tables = [make(nothing) for make in (strategies, corpora, tuning, ingredients, scheme_inside)]
    for part in (page.NAMES, page.differences(), page.inconsistencies(nothing), *map(markdown, tables)):
        assert part in written, "run `make paper`"


@pytest.mark.parametrize("head", ["softmax", "crf", "mcrf"])
@pytest.mark.usefixtures("small_data")
def test_a_real_run_has_all_that_tables_and_figures_ask_for(
    head: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "tuned", dict)
    monkeypatch.setitem(ENCODERS, "uer", {**SMALL, "epochs": 1})
    line = run.execute(Run("weibo", "uer", head, 1), "", "")  # type: ignore[arg-type]
    store.put(tmp_path, line)
    results = Results.read(tmp_path)
    setting = main_setting("weibo")
    for variant, (served_by, _) in READINGS.items():
        if served_by == head:
            assert [len(found) for found in results.counts(setting, variant).values()] == [8]
            assert results.cells(setting, variant, "dev")
    mass = results.mean(setting, head, "test", "illegal_mass")
    assert mass is not None
    assert 0 <= mass <= 1
    before = results.mean(setting, head, "initial", "illegal_mass")
    assert before is None if head == "mcrf" else before is not None and 0.5 < before < 1
    assert len(line["epochs"]) == 1
    assert ("calibration" in line["test"]) == (head != "crf")
    assert page.compose(Evidence(results, PAPER), TABLE, [], ours=[], shown={})  # one run of one head is a page, too


@pytest.mark.usefixtures("small_data")
def test_a_run_that_learns_dev_too_keeps_its_last_epoch_and_says_nothing_of_dev(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "tuned", lambda: {"weibo/tuned+bert": {"settings": {**SMALL, "epochs": 3}}})
    line = run.execute(Run("weibo", "tuned+bert+dev", "mcrf", 1), "", "")
    assert line["sentences"] == {"train": 30, "dev": 0, "test": 8}
    assert (line["best_epoch"], line["dev"]) == (3, None)
    assert [len(epoch) for epoch in line["epochs"]] == [1, 1, 1]
    store.put(tmp_path, line)
    results = Results.read(tmp_path)
    setting = Setting("weibo", "tuned+bert+dev")
    assert list(results.f1(setting, "MCRF-training")) == [1]
    assert not results.f1(setting, "MCRF-training", "dev")
    assert page.compose(Evidence(results, PAPER), TABLE, [], ours=[], shown={})


def test_runs_whose_weights_are_not_there_are_left_out_and_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["combined", "small", "--budget", "0", "--results", str(tmp_path / "results"), "--only", "1/crf/1"]
    assert run.main([*given, "--encoders", ""]) == 0
    said = capsys.readouterr().err
    assert "2 runs are left out: they need glove-100d.npz, minilm-l6-en, and no folder of encoders is given" in said
    assert "4 runs to do, 0 in the results" in said
    (tmp_path / "minilm-l6-en").mkdir()
    assert run.main([*given, "--encoders", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert f"2 runs are left out: they need glove-100d.npz, which {tmp_path} lacks" in said
    (tmp_path / "glove-100d.npz").touch()
    assert run.main([*given, "--encoders", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "left out" not in said
    assert "6 runs to do" in said
    # What is in the results already needs no weights.
    assert run.main(["main", "--budget", "0", "--encoders", ""]) == 0
    said = capsys.readouterr().err
    assert "left out" not in said
    assert "0 runs to do, 105 in the results" in said


def test_a_results_line_names_no_folder_of_this_machine() -> None:
    settings = run.settings_of(GROUPS["main"][0], "some/folder")
    assert "some/folder" in json.dumps(settings)
    assert "some/folder" not in json.dumps(run._without_paths(settings, "some/folder"))
    assert run._without_paths({"rate": 0.1}, "") == {"rate": 0.1}
