"""Gold policies: every illegal step is found where it stands, and nothing illegal gets through."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data.formats.conll import read_conll, write_conll
from maskedcrf.data.gold import GoldReport, IllegalStep, check_gold
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError


def sentence(tags: str, line: int = 1) -> Sentence:
    return Sentence(("x",) * len(tags.split()), tuple(tags.split()), "gold.conll", line)


GOOD = sentence("O B-A I-A B-B", 1)
BAD = sentence("I-A O I-B I-A B-A", 6)
PLACES = (
    IllegalStep("gold.conll:6", None, "I-A"),
    IllegalStep("gold.conll:8", "O", "I-B"),
    IllegalStep("gold.conll:9", "I-B", "I-A"),
)


def test_error_names_the_first_place_and_the_remedy() -> None:
    message = (
        r"^gold\.conll:6: sentence start -> I-A is illegal in BIO \(the first of 3 places\); "
        r"name the file's scheme if it is another \(--file-scheme; maskedcrf check shows which fit\), "
        r"else choose a policy \(--illegal-gold repair or drop\), or correct the file$"
    )
    with pytest.raises(DataError, match=message):
        check_gold([GOOD, BAD], "BIO")


def test_legal_gold_passes_untouched_under_every_policy() -> None:
    for policy in ("error", "repair", "drop"):
        kept, report = check_gold([GOOD], "BIO", policy=policy)  # type: ignore[arg-type]
        assert kept == [GOOD]
        assert kept[0] is GOOD
        assert str(report) == "1 sentences, no illegal tag under BIO"


@pytest.mark.parametrize(("strategy", "tags"), [("retain", "B-A O B-B B-A B-A"), ("discard", "O O O O B-A")])
def test_repair_rewrites_the_sentence_by_the_strategy(strategy: str, tags: str) -> None:
    kept, report = check_gold([GOOD, BAD], "BIO", policy="repair", strategy=strategy)  # type: ignore[arg-type]
    assert [s.tags for s in kept] == [GOOD.tags, tuple(tags.split())]
    assert report == GoldReport("BIO", "repair", strategy, 2, 9, 1, 0, PLACES)  # type: ignore[arg-type]
    assert str(report).splitlines()[:2] == [
        f"3 illegal steps under BIO; 1 sentences repaired ({strategy})",
        "gold.conll:6: sentence start -> I-A",
    ]


def test_drop_leaves_the_sentence_out() -> None:
    kept, report = check_gold([GOOD, BAD, GOOD], "BIO", policy="drop")
    assert kept == [GOOD, GOOD]
    assert (report.sentences, report.tokens, report.touched, report.tokens_dropped) == (3, 13, 1, 5)


def test_the_report_goes_into_json() -> None:
    report = check_gold([BAD], "BIO", policy="drop")[1].as_dict()
    assert report["places"][0] == {"where": "gold.conll:6", "from": None, "to": "I-A"}
    assert (report["policy"], report["scheme"], report["touched"]) == ("drop", "BIO", 1)


def test_a_segment_left_open_is_found_at_the_last_token() -> None:
    _, report = check_gold([sentence("O B-A", 3)], "BIOES", policy="repair")
    assert report.places == (IllegalStep("gold.conll:4", "B-A", None),)
    assert str(report.places[0]) == "gold.conll:4: B-A -> sentence end"


def test_a_sentence_on_one_line_is_found_on_that_line() -> None:
    one_line = Sentence(("a", "b"), ("O", "I-A"), "gold.jsonl", 7, one_line=True)
    assert check_gold([one_line], "BIO", policy="drop")[1].places == (IllegalStep("gold.jsonl:7", "O", "I-A"),)


def test_a_repaired_file_is_written_with_its_new_tags(tmp_path: Path) -> None:
    path = tmp_path / "gold.conll"
    path.write_text("in IN O\nLima NNP I-LOC\n")
    handle = io.StringIO()
    write_conll(check_gold(read_conll(path), "BIO", policy="repair")[0], handle)
    assert handle.getvalue() == "in IN O\nLima NNP B-LOC\n\n"


def test_foreign_tags_and_missing_tags_are_refused_with_their_line() -> None:
    with pytest.raises(DataError, match=r"^gold\.conll:7: tag 'NNP' does not fit BIO"):
        check_gold([GOOD, sentence("O NNP", 6)], "BIO", policy="repair")
    with pytest.raises(DataError, match=r"^gold\.conll:9: no tags here"):
        check_gold([Sentence(("x",), None, "gold.conll", 9)], "BIO")


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(DataError, match="unknown gold policy 'fix'; known are error, repair, drop"):
        check_gold([GOOD], "BIO", policy="fix")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="unknown strategy 'keep'; known are retain, discard"):
        check_gold([GOOD], "BIO", strategy="keep")  # type: ignore[arg-type]


tags = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=6)


@given(st.lists(tags, max_size=5), st.sampled_from(["retain", "discard"]))
def test_places_are_those_counted_by_hand_and_repair_leaves_none(rows: list[list[str]], strategy: str) -> None:
    sentences, line, expected = [], 1, []
    for row in rows:
        sentences.append(Sentence(("x",) * len(row), tuple(row), "f", line))
        for position, tag in enumerate(row):
            before = row[position - 1] if position else "O"
            if tag.startswith("I-") and before not in (f"B-{tag[2:]}", tag):
                expected.append((f"f:{line + position}", before if position else None, tag))
        line += len(row) + 1
    kept, report = check_gold(sentences, "BIO", policy="repair", strategy=strategy)  # type: ignore[arg-type]
    assert list(report.places) == expected
    assert [len(s) for s in kept] == [len(row) for row in rows]
    assert check_gold(kept, "BIO")[1].places == ()


def test_a_column_that_only_reads_like_the_tags_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "gold.conll"
    path.write_text("in O O\nLima I-LOC I-LOC\n")
    [kept], _ = check_gold(read_conll(path), "BIO", policy="repair")
    assert kept.columns == (("in", "Lima"), ("O", "I-LOC"), ("O", "B-LOC"))


def test_a_report_counts_what_every_chunk_of_a_large_file_held() -> None:
    long = sentence("O " * (1 << 16) + "I-A")
    _, report = check_gold([long, GOOD, long, GOOD], "BIO", policy="drop")
    assert (report.sentences, report.touched, len(report.places)) == (4, 2, 2)
    assert (report.tokens, report.tokens_dropped) == (2 * len(long) + 2 * len(GOOD), 2 * len(long))
