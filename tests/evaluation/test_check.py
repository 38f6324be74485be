"""Every illegal step, with its file and line."""

from __future__ import annotations

import pytest

from maskedcrf.data.formats import read_sentences
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.evaluation.check import Checked, IllegalStep, check


def sentence(tags, line, file="f"):
    return Sentence(tuple("w" * len(tags)), tuple(tags), file, line)


def test_steps_are_listed_at_the_line_they_lead_to():
    found = check([sentence(["O", "I-X"], 1), sentence([], 4), sentence(["I-Y", "I-Y", "I-X"], 5)], "BIO")
    assert found.illegal == (
        IllegalStep("f", 2, "O", "I-X"),
        IllegalStep("f", 5, None, "I-Y"),
        IllegalStep("f", 7, "I-Y", "I-X"),
    )
    assert (found.sentences, found.tokens, dict(found.types)) == (3, 5, {"X": 2, "Y": 1})


def test_an_open_end_is_listed_at_the_last_token():
    found = check([sentence(["O"], 1), sentence(["O", "B-X"], 3)], "BIOES")
    assert found.illegal == (IllegalStep("f", 4, "B-X", None),)
    assert found.illegal[0].to_dict() == {"file": "f", "line": 4, "from": "B-X", "to": None}


def test_steps_of_a_sentence_on_one_line_are_listed_at_that_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a"], "tags": ["O"]}\n\n{"tokens": ["b", "c", "d"], "tags": ["O", "O", "I-X"]}\n')
    (tmp_path / "seq.in").write_text("a b\nc d\n")
    (tmp_path / "seq.out").write_text("O B-X\nO I-X\n")
    assert check(read_sentences(path), "BIO").illegal == (IllegalStep(str(path), 3, "O", "I-X"),)
    assert check(read_sentences(tmp_path), "BIO").illegal == (IllegalStep(str(tmp_path / "seq.in"), 2, "O", "I-X"),)
    assert check(read_sentences(tmp_path), "BIOES").illegal == (
        IllegalStep(str(tmp_path / "seq.in"), 1, "B-X", None),
        IllegalStep(str(tmp_path / "seq.in"), 2, "O", "I-X"),
        IllegalStep(str(tmp_path / "seq.in"), 2, "I-X", None),
    )


def test_checks_add_up():
    parts = [sentence(["I-X"], 1, "a"), sentence(["B-X", "I-Y"], 1, "b")]
    assert sum((check([part], "BIO") for part in parts), Checked()) == check(parts, "BIO")


def test_untagged_sentences_and_unknown_tags_are_no_surprise():
    assert check([Sentence(("a",))], "BIO").tokens == 0
    with pytest.raises(DataError, match=r"^f:8: tag 'Q-X' does not fit BIO"):
        check([sentence(["O"], 1), sentence(["O", "Q-X"], 7)], "BIO")
