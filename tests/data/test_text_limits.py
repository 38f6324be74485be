"""A text of any length is tagged in bounded memory or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_helpers import build_tagger

from maskedcrf import files
from maskedcrf.cli import main
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import MAX_CHARACTERS, MAX_TOKENS, to_sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import DataError

SIMPLE = get_tokenizer("simple")


@pytest.mark.parametrize(
    "text",
    [
        "a " * (MAX_TOKENS + 1),
        ["a"] * (MAX_TOKENS + 1),
        Sentence(("a",) * (MAX_TOKENS + 1)),
        "a" * (MAX_CHARACTERS + 1),
    ],
    ids=["text", "tokens", "sentence", "one word"],
)
def test_a_text_beyond_the_limit_is_refused_and_the_limit_named(text: str | list[str] | Sentence) -> None:
    with pytest.raises(
        DataError, match=r"^a text of more than [\d,]+ (tokens|characters); cut it into several"
    ) as error:
        to_sentence(text, SIMPLE)
    assert "\n" not in str(error.value)


def test_a_text_up_to_the_limit_is_taken_whole() -> None:
    assert len(to_sentence("a " * MAX_TOKENS, SIMPLE).tokens) == MAX_TOKENS


def test_a_line_of_twenty_megabytes_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = build_tagger().save(tmp_path / "model")
    (tmp_path / "long.txt").write_text("a short line\n" + "a b, " * (4 << 20))
    assert main(["predict", str(model), str(tmp_path / "long.txt"), "--output", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert "a text of more than 2,097,152 characters" in message
    assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_line_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "lines.txt"
    path.write_text("a" * (1 << 20) + "\nshort")
    with pytest.raises(DataError, match=r"lines\.txt:1: a line of more than 1 MiB"):
        list(files.numbered_lines(path))
    path.write_text("short\r\nlines")
    assert list(files.numbered_lines(path)) == [(1, "short"), (2, "lines")]
