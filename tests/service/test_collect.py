"""Corrected sentences: what is fixed becomes gold, what is not is left open, and a training learns from the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from service_helpers import TEXT, asynchronous, connected

from maskedcrf.cli import main
from maskedcrf.data.formats import read_sentences
from maskedcrf.errors import MaskedCRFError
from maskedcrf.service.collect import Collector

TOKENS = ["Ann", "Lee", "flew", "to", "Oslo", "."]
LEGAL = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gold.jsonl"


def test_fixed_tags_are_kept_and_the_others_left_open(file: Path) -> None:
    @asynchronous
    async def ask() -> None:
        async with connected(collector=Collector(file)) as client:
            assert (await client.get("/health")).json()["collects"] is True
            fixed = {"3": "B-LOC", "5": "O", "0": ["B-PER", "O"]}
            kept = await client.post("/collect", json={"text": TEXT, "fixed": fixed})
            assert kept.json() == {"sentences": 1, "open": 4}
            whole = await client.post("/collect", json={"tokens": TOKENS, "complete": True})
            assert whole.json() == {"sentences": 2, "open": 0}

    ask()
    # With B-LOC on "to" the best path goes on with I-LOC, which scores higher on "Oslo".
    first = {"tokens": TOKENS, "tags": ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O"], "open": [0, 1, 2, 4]}
    assert lines(file) == [first, {"tokens": TOKENS, "tags": LEGAL}]
    assert [sentence.open for sentence in read_sentences(file)] == [(0, 1, 2, 4), ()]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"text": TEXT}, "no token has a tag of its own"),
        ({"text": TEXT, "fixed": {"0": ["B-PER", "O"]}}, "no token has a tag of its own"),
        ({"text": " ", "complete": True}, "no token has a tag of its own"),
        ({"text": TEXT, "fixed": {"0": "I-PER"}}, "no legal path"),
        ({"text": TEXT, "fixed": {"9": "O"}}, "position 9 of 6 tokens"),
        ({"text": "Ann\nLee", "fixed": {"0": "O"}}, "this is for one sentence, and the text has 2"),
    ],
)
def test_what_says_nothing_is_not_kept(file: Path, request_: dict[str, Any], message: str) -> None:
    @asynchronous
    async def ask() -> None:
        async with connected(collector=Collector(file)) as client:
            answer = await client.post("/collect", json=request_)
            assert answer.status_code == 422
            assert message in answer.json()["message"]

    ask()
    assert file.read_bytes() == b""


def test_a_server_that_was_not_told_to_keeps_nothing() -> None:
    @asynchronous
    async def ask() -> None:
        async with connected() as client:
            assert (await client.get("/health")).json()["collects"] is False
            assert (await client.post("/collect", json={"text": TEXT, "complete": True})).status_code == 404

    ask()


def test_the_file_goes_on_after_what_stands_in_it(file: Path) -> None:
    file.write_bytes(b'{"tokens": ["a"], "tags": ["O"]}')  # as an editor may leave it
    Collector(file).add({"tokens": ["b"], "tags": ["O"]}, [0])
    Collector(file).add({"tokens": ["c", "d"], "tags": ["O", "O"]}, [1])
    assert [each["tokens"] for each in lines(file)] == [["a"], ["b"], ["c", "d"]]
    assert lines(file)[2]["open"] == [0]


def test_what_cannot_be_written_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(file)
    collector.add({"tokens": ["a"], "tags": ["O"]}, None)
    before = file.read_bytes()

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    @asynchronous
    async def ask() -> None:
        async with connected(collector=collector) as client:
            answer = await client.post("/collect", json={"text": TEXT, "complete": True})
            assert answer.status_code == 500
            assert "No space left on device" in answer.json()["message"]

    monkeypatch.setattr(os, "fsync", fail)
    ask()
    assert file.read_bytes() == before
    assert collector.sentences == 1


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    with pytest.raises(MaskedCRFError, match=r"gold.jsonl: could not be written \(No such file or directory\)"):
        Collector(tmp_path / "none" / "gold.jsonl")


def test_the_command_takes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from service_helpers import build_tagger

    model = build_tagger().save(tmp_path / "model")
    assert main(["serve", str(model), "--port", "0", "--collect", str(tmp_path)]) == 2
    assert "could not be written (Is a directory)" in capsys.readouterr().err
