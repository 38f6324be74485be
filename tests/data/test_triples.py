"""ATIS and SNIPS folders: lines run in step, blanks do not count."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

import pytest

from maskedcrf.data.formats import read_sentences
from maskedcrf.errors import DataError

read_triples = partial(read_sentences, format="triples")


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return root


def test_doubled_and_trailing_blanks_are_no_tokens(tmp_path: Path) -> None:
    path = folder(tmp_path, seq_in="fly  to lima \nnow\n", seq_out="O O B-city \nB-time \n", label="flight\ntime\n")
    assert [(s.tokens, s.tags, s.line) for s in read_triples(path)] == [
        (("fly", "to", "lima"), ("O", "O", "B-city"), 1),
        (("now",), ("B-time",), 2),
    ]


def test_other_white_space_stays_in_its_token(tmp_path: Path) -> None:
    path = folder(tmp_path, seq_in="new\u00a0york \u2028x\n", seq_out="B-city O\n")
    assert next(read_triples(path)).tokens == ("new\u00a0york", "\u2028x")


def test_every_token_of_a_sentence_is_said_to_stand_on_its_line(tmp_path: Path) -> None:
    path = folder(tmp_path, seq_in="a b\nc d\n", seq_out="O O\nO O\n")
    assert [s.where(1) for s in read_triples(path)] == [f"{path / 'seq.in'}:1", f"{path / 'seq.in'}:2"]


def test_files_may_be_packed_and_tags_absent(tmp_path: Path) -> None:
    (tmp_path / "seq.in.gz").write_bytes(gzip.compress(b"fly to lima\n"))
    sentence = next(read_triples(tmp_path))
    assert (sentence.tokens, sentence.tags) == (("fly", "to", "lima"), None)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"seq_out": "O\n"}, "no seq.in here"),
        ({"seq_in": "a\na b\n", "seq_out": "O\nO\n"}, "seq.in:2: 2 tokens but 1 tags"),
        ({"seq_in": "a\n\n", "seq_out": "O\nO\n"}, "seq.in:2: 0 tokens but 1 tags"),
        ({"seq_in": "a\nb\n", "seq_out": "O\n"}, "seq.out:2: the file ends here"),
        ({"seq_in": "a\n", "seq_out": "O\nO\n"}, "seq.in:2: the file ends here"),
        ({"seq_in": "a\nb\n", "seq_out": "O\nO\n", "label": "x\n"}, "label:2: the file ends here"),
    ],
)
def test_files_out_of_step_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(read_triples(folder(tmp_path, **files)))
    assert message in str(caught.value)
