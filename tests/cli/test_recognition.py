"""One recognition for every command: a file is the same to all of them, or is refused by all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_helpers import build_tagger

from maskedcrf.bulk.output import find_sources
from maskedcrf.cli import main
from maskedcrf.data.formats import read_sentences
from maskedcrf.errors import DataError

COLUMNS_ONLY = ("evaluate", "audit", "repair")
PAGE = "<!doctype html>\n<p>404: not found</p>\n"
DOCCANO = '{"id": 1, "text": "Ann left", "label": [[0, 3, "PER"]]}\n'
STANDOFF = "T1\tPER 0 3\tAnn\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_tagger().save(tmp_path_factory.mktemp("recognition") / "model"))


def run(command: str, path: Path, model: str, *more: str) -> int:
    flags = {"convert": ["--to-format", "jsonl"], "predict": ["--format", "jsonl"]}.get(command, [])
    return main([command, *([model] if command == "predict" else []), str(path), *flags, *more])


@pytest.mark.parametrize("command", [*COLUMNS_ONLY, "check", "convert", "predict"])
def test_columns_are_columns_whatever_the_name(
    command: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Ann B-PER B-PER\nleft O O\n")
    assert run(command, path, model) == 0
    assert find_sources([path], tmp_path / "out")[0].form == "conll"


@pytest.mark.parametrize("command", [*COLUMNS_ONLY, "check", "convert", "predict"])
@pytest.mark.parametrize("name", ["a.html", "notes"])
def test_what_nobody_recognises_is_refused_by_all(
    command: str, name: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(PAGE)
    assert run(command, path, model) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"maskedcrf: {path}: no known format fits what is in it; say what it is")
    for reader in (read_sentences, lambda path: find_sources([path], tmp_path / "out")):
        with pytest.raises(DataError, match="no known format fits"):
            reader(path)


@pytest.mark.parametrize("command", COLUMNS_ONLY)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (DOCCANO, "doccano's JSON lines; this command reads columns: maskedcrf convert writes them"),
        ("Ann left\nfor Oslo today\n", "plain text, it seems; this command reads columns"),
    ],
)
def test_commands_of_columns_take_nothing_else(
    command: str, content: str, message: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("a.conll" if content is DOCCANO else "a.txt")
    path.write_text(content)
    assert run(command, path, model) == 2
    assert message in capsys.readouterr().err
    (tmp_path / "b.txt").write_text("Ann B:PER B:PER\n")  # tags that do not look like tags
    assert run(command, tmp_path / "b.txt", model, "--delimiter", ":") == 2
    assert run(command, tmp_path / "b.txt", model, "--delimiter", ":", "--input-format", "conll") == 0
    assert run(command, path, model, "--input-format", "brat") == 2
    assert "BRAT's standoff; this command reads columns" in capsys.readouterr().err


def test_in_bulk_the_content_decides_and_lines_of_json_stay_so(tmp_path: Path) -> None:
    for name, content in (("a.conll", DOCCANO), ("b.jsonl", "Ann B-PER\nleft O\n"), ("c.tsv", "")):
        (tmp_path / name).write_text(content)
    assert [source.form for source in find_sources([tmp_path], tmp_path.parent / "out")] == ["jsonl", "conll", "conll"]
    (tmp_path / "d.ann").write_text(STANDOFF)
    assert len(find_sources([tmp_path], tmp_path.parent / "out")) == 3
    with pytest.raises(DataError, match="BRAT's standoff; what is tagged here is Parquet, JSON lines and columns"):
        find_sources([tmp_path / "d.ann"], tmp_path / "out")


@pytest.mark.parametrize(
    "line",
    [
        '{"id": 1, "text": "Ann left", "label": [[0, 3, "PER"]]}',
        '{"text": "Ann left", "tokens": [{"text": "Ann", "id": 0}], "spans": [], "answer": "reject", "_task_hash": 3}',
        '{"id": 1, "data": "Ann left", "label": [[0, 3, "PER"]]}',
    ],
    ids=["doccano", "Prodigy", "doccano with data"],
)
def test_lines_of_json_of_any_tool_keep_their_fields_when_they_are_tagged(
    line: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n")
    assert run("predict", path, model) == 0
    out = capsys.readouterr().out
    assert out.startswith(line.removesuffix("}"))
    assert '"tags": [' in out


def test_check_lists_the_spans_that_fit_no_tokens_of_the_tokenizer_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Lima\'s port", "spans": [{"start": 0, "end": 4, "label": "LOC"}]}\n')
    assert main(["check", str(path)]) == 0
    capsys.readouterr()
    assert main(["check", str(path), "--tokenizer", "unicode"]) == 1
    listed = capsys.readouterr().out.splitlines()[0]
    assert listed.endswith("span 0:4 LOC 'Lima' cuts the token \"Lima's\"; the nearest boundaries are 0:6 \"Lima's\"")
