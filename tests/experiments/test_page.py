"""The pages: rebuilt from results files with no difference, whatever there is to show, and short."""

from __future__ import annotations

import csv
import io
import re
import shutil
from pathlib import Path

import pytest
from synthetic_results import synthetic

from experiments import page, sentences
from experiments.choice import Trial
from experiments.claims import Evidence
from experiments.decoded import read_lines
from experiments.defaults import default_tables, stop
from experiments.learning import learning_by_corpus
from experiments.result_files import read_results
from experiments.statistics import Mean
from experiments.table_format import Number, Probability, Table, as_csv, markdown, text
from experiments.tables import against_rate, all_tables
from experiments.thresholds_by_type import FOLDER
from experiments.trainings import BIOES, GROUPS, PRETRAINED, Training, trainings_of

ROOT = Path(__file__).parents[2]
MADE_UP, NOTHING = Evidence(Trial(synthetic())), Evidence(Trial({}))


@pytest.fixture(scope="module")
def committed() -> Evidence:
    """The results in the repository."""
    return Evidence(Trial(read_results()), decoded=read_lines(), by_type=read_lines(kind=FOLDER))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, "not run"),
        (3, "3"),
        (Number(0.1234, ".2f"), "0.12"),
        (Probability(0.0004), "< 0.001"),
        (Probability(0.0404), "0.040"),
        (Mean(91.7, None, 1), "91.7"),
        (Mean(72.44, 1.26, 5), "72.4±1.3"),
    ],
)
def test_a_cell_is_written_as_it_is_read(cell: object, expected: str) -> None:
    assert text(cell) == expected  # type: ignore[arg-type]


TABLE = Table("t", "A table", ("", "a & b", "score"), (("x_1", 3, Mean(70.25, 1.5, 5)), ("50 %", None, None)))


def test_a_table_in_markdown() -> None:
    assert markdown(TABLE).splitlines() == [
        "|  | a & b | score |",
        "| --- | ---: | ---: |",
        "| x_1 | 3 | 70.2±1.5 |",
        "| 50 % | not run | not run |",
    ]


def test_a_table_in_csv_keeps_what_was_measured() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(TABLE))))
    expected = {"": "x_1", "a & b": "3", "score mean": "70.25", "score half width": "1.5", "score seeds": "5"}
    assert rows[0] == expected
    assert set(list(rows[1].values())[1:]) == {""}


def test_the_committed_pages_are_those_of_the_committed_results(committed: Evidence, tmp_path: Path) -> None:
    for name in page.SHARED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page.write_pages(committed, tmp_path)
    for name in (*page.SHARED, *(f"docs/{each}" for each in page.PAGES), "docs/images/lattice.svg"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8"), "make paper"
    for folder in ("docs/tables/paper", "docs/images/paper"):
        assert {each.name for each in (tmp_path / folder).iterdir()} == {
            each.name for each in (ROOT / folder).iterdir()
        }
    for table in (ROOT / "docs/tables/paper").iterdir():
        assert (tmp_path / "docs/tables/paper" / table.name).read_bytes() == table.read_bytes(), "make paper"


def test_the_page_is_short() -> None:
    assert len((ROOT / "docs/paper.md").read_text(encoding="utf-8").split()) <= 2500


def test_pages_that_speak_of_masking_share_one_statement(committed: Evidence) -> None:
    sentence = sentences.statement(committed)
    for name in {*page.SHARED, "docs/paper.md"} - {"docs/guides/decoding.md"}:
        assert sentence in (ROOT / name).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("evidence", [MADE_UP, NOTHING], ids=["made up", "nothing yet"])
def test_there_is_a_page_whatever_has_been_run(evidence: Evidence, tmp_path: Path) -> None:
    page.write_pages(evidence, tmp_path)
    for name in page.PAGES:
        written = (tmp_path / "docs" / name).read_text(encoding="utf-8")
        assert "{{" not in written
        for link in re.findall(r"\]\((tables|images)/([^)]+)\)", written):
            assert (tmp_path / "docs" / "/".join(link)).exists()


def test_a_curve_arrives_where_it_comes_near_the_level_that_it_ends_at() -> None:
    # Made up: 1 - 0.5^epoch of the level, the same for both heads but for their shares; eight epochs.
    row = learning_by_corpus(MADE_UP).rows[0]
    assert row[0] == "Weibo"
    arrived = [cell.value for cell in row[2:4] if isinstance(cell, Number)]
    assert all(5 <= each <= 9 for each in arrived)


def test_n_stands_in_every_line_that_has_means() -> None:
    for row in against_rate(MADE_UP).rows:
        assert row[-1] == 3


def test_tables_of_both_pages_have_names_of_their_own() -> None:
    keys = [table.key for part in all_tables(MADE_UP) for table in part]
    assert len(keys) == len(set(keys))


def test_markers_are_filled_and_a_page_without_them_stays() -> None:
    before = "a\n<!-- masking:begin -->\nold\n<!-- masking:end -->\nb"
    assert page.between_markers(before, {"masking": r"n\1w"}) == before.replace("old", r"n\1w")
    assert page.between_markers("nothing", {"masking": "new"}) == "nothing"


def test_stopping_early_follows_the_rule_of_training() -> None:
    dev = [(50.0, 3.0), (60.0, 2.0), (59.0, 1.9), (58.0, 2.1), (59.0, 2.2), (61.0, 2.3)]
    curve = [{"f1": {"masked": f1}, "dev_loss": loss} for f1, loss in dev]
    # Epoch 3 has a lower loss; 4 and 5 are the first without anything better; 6 would have been.
    assert [stop(curve, patience) for patience in (1, 2, 3)] == [4, 5, 6]


def test_a_pretrained_encoder_has_tables_and_a_sentence_of_its_own() -> None:
    trainings = [*trainings_of(["weibo", "atis"], (1, 2, 3)), *trainings_of(["weibo"], (1, 2, 3), PRETRAINED)]
    trainings += trainings_of(["weibo"], (1, 2, 3), BIOES)
    evidence = Evidence(Trial(synthetic(trainings)))
    first, behind = all_tables(evidence)
    tables = {table.key: table for table in (*first, *behind)}
    assert [row[0] for row in tables["best_rates"].rows] == ["Weibo", "ATIS"]
    assert [row[0] for row in tables["best_rates_pretrained"].rows] == ["Weibo"]
    assert tables["best_rates_pretrained"].rows[0][1:] != tables["best_rates"].rows[0][1:]
    assert len(tables["against_rate_pretrained"].rows) == 3
    assert [row[0] for row in tables["best_rates_variants"].rows] == ["Weibo, BIOES"]
    assert tables["claims_pretrained"].rows != tables["claims"].rows
    assert sentences.pretrained(evidence).startswith("Masking the training as well as the decoding changes test F1 by ")
    assert "Elsewhere it changes F1 by: BIOES " in sentences.pretrained(evidence)
    assert "Too few trainings with a pretrained encoder" in sentences.pretrained(MADE_UP)


def test_the_statement_speaks_of_pretrained_encoders_once_they_have_all_corpora() -> None:
    plain = [*trainings_of(["weibo", "atis"], (1, 2, 3))]
    some = [*plain, *trainings_of(["weibo"], (1, 2, 3), PRETRAINED)]
    all_of_them = [*some, *trainings_of(["atis"], (1, 2, 3), PRETRAINED)]
    said = [sentences.statement(Evidence(Trial(synthetic(made)))) for made in (plain, some, all_of_them)]
    assert said[0] == said[1]
    assert said[0].endswith("(LSTM without pretrained weights, 2 corpora, 3 seeds each.)")
    assert said[2].endswith(
        "(LSTM without pretrained weights and transformers of two or six layers, 2 corpora, 3 seeds each.)"
    )
    assert said[2].count("with a pretrained encoder") == 3


def test_a_default_is_decided_on_the_seeds_that_every_side_has() -> None:
    trainings = [*trainings_of(["atis"], (1, 2, 3)), *GROUPS["words"]]
    trainings += [each for each in GROUPS["layers"] if each.corpus == "weibo"]
    trainings += [Training("weibo", "mcrf", 1e-2, seed, PRETRAINED) for seed in (2, 3)]
    tables = {table.key: table for table in default_tables(Evidence(Trial(synthetic(trainings))))}
    assert [(row[0], row[-1]) for row in tables["default_characters"].rows] == [("ATIS", 3)]
    assert [(row[0], row[-1]) for row in tables["default_decay"].rows] == [("Weibo", 2)]
    assert tables["default_decay"].columns == ("", "0.4", "0.67", "0.9", "1", "n")
