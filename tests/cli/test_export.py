"""maskedcrf export: a folder becomes a file that predict takes, and --check says how the two compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_corpus import SMALL, corpus, write_conll

from maskedcrf.cli import main
from maskedcrf.onnx import layers
from maskedcrf.tagger import Tagger

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("export")
    Tagger.train(corpus(60), corpus(20, 1), output=target / "model", **{**SMALL, "epochs": 6})
    write_conll(target / "test.conll", corpus(30, 7))
    return target


def test_the_file_is_checked_against_the_folder_and_predicts_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, file = str(folder / "test.conll"), str(folder / "model.onnx")
    assert main(["export", str(folder / "model"), file, "--check", data, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["file"], report["bytes"], report["int8"]) == (file, Path(file).stat().st_size, False)
    assert report["check"]["sentences"] == 30
    assert report["check"]["different_tags"] == 0
    assert report["check"]["f1_onnx"] == report["check"]["f1_model"] > 90
    answers = []
    for model in (file, str(folder / "model")):
        assert main(["predict", model, data]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert main(["predict", file, data, "--format", "jsonl", "--probabilities"]) == 2
    assert capsys.readouterr().err.startswith("maskedcrf: an ONNX file gives the best path")


def test_eight_bits_and_the_check_are_told_in_a_line_each(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SMALL_TABLE", 1)
    file = str(folder / "int8.onnx")
    assert main(["export", str(folder / "model"), file, "--int8", "--check", str(folder / "test.conll")]) == 0
    report = capsys.readouterr()
    assert report.err.startswith(f"maskedcrf: {file}: 0.")
    assert report.err.endswith(" MB, int8\n")
    assert report.out.startswith("30 sentences, ")
    assert report.out.count("\n") == 1


def test_eight_bits_are_refused_where_there_is_nothing_to_store_in_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "int8.onnx"
    assert main(["export", str(folder / "model"), str(file), "--int8", "--json"]) == 2
    report = capsys.readouterr()
    assert report.out == ""
    assert report.err == (
        f"maskedcrf: {file}: nothing to store in 8 bits: an LSTM, characters and tables of fewer than 1024 words stay "
        "as they are; leave --int8 out\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_model_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, more in (("m.onnx", "; maskedcrf predict and maskedcrf tag take ONNX files"), ("m.bin", "")):
        (tmp_path / name).write_bytes(b"")
        assert main(["export", str(tmp_path / name), str(tmp_path / "out.onnx")]) == 2
        needs = "a file; a model folder is what `maskedcrf train` writes"
        assert capsys.readouterr().err == f"maskedcrf: {tmp_path / name}: {needs}{more}\n"
    assert not (tmp_path / "out.onnx").exists()


def test_a_folder_that_is_none_is_refused_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(tmp_path / "nothing"), str(tmp_path / "model.onnx")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_check_file_whose_tags_do_not_fit_is_refused_and_nothing_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.conll").write_text("a\nb\n")
    command = ["export", str(folder / "model"), str(tmp_path / "model.onnx"), "--check", str(tmp_path / "words.conll")]
    assert main(command) == 2
    assert capsys.readouterr().err.startswith(f"maskedcrf: {tmp_path / 'words.conll'}:1: tag 'a' does not fit BIO")
    assert not (tmp_path / "model.onnx").exists()


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\x80\x04nonsense")
    assert main(["predict", str(tmp_path / "model.onnx"), "-"]) == 2
    assert capsys.readouterr().err.startswith(f"maskedcrf: {tmp_path / 'model.onnx'}: ")
