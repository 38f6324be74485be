"""maskedcrf tag: exit codes, messages, and a cluster by its address."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from service_helpers import build_tagger

from maskedcrf.bulk.cluster import Cluster, connect_ray
from maskedcrf.bulk.run import Progress
from maskedcrf.cli import main
from maskedcrf.cli.tag import _show_progress as show_progress
from maskedcrf.cli.tag import _summary as summary
from maskedcrf.files import SUFFIXES
from maskedcrf.machine_code import NOTICE, cache_folder

ray = pytest.importorskip("ray")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`use_(push_based_shuffle|polars|arrow_tensor_v2)` is deprecated"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(build_tagger().save(tmp_path_factory.mktemp("tag") / "model"))


def refused(arguments, capsys) -> str:
    assert main(["tag", *arguments]) == 2
    [line] = capsys.readouterr().err.strip().split("\n")
    return line


def test_a_threshold_that_needs_all_texts_is_refused(model, tmp_path, capsys):
    flags = ["--decoding", "segments", "--segment-threshold", "expected"]
    assert "needs all texts at once" in refused([model, str(tmp_path), "-o", str(tmp_path / "out"), *flags], capsys)


def test_a_cluster_is_found_by_its_address_and_the_exit_code_tells_of_rejects(model, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Ann flew to Oslo."}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "Oslo"}\n{]\n')
    home = tmp_path / "home"
    home.mkdir()
    with connect_ray(Cluster(workers=1)):
        address = ray.get_runtime_context().gcs_address
        command = [sys.executable, "-m", "maskedcrf", "tag", model, str(tmp_path / "a.jsonl"), "-o"]
        command += [str(tmp_path / "out"), "--address", address, "--workers", "1", "--json"]
        environment = {**os.environ, "HOME": str(home), "NUMBA_CACHE_DIR": str(cache_folder().parents[1])}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert (done.returncode, done.stderr.replace(NOTICE, "")) == (0, "")  # an empty cache is told of
        report = json.loads(done.stdout)
        assert (report["finished"], report["sentences"], report["tokens"], report["rejected"]) == (1, 1, 5, 0)
        assert main(["tag", model, str(tmp_path / "b.jsonl"), "-o", str(tmp_path / "out"), "--workers", "1"]) == 1
    assert json.loads((tmp_path / "out/a.jsonl").read_text())["tags"] == ["B-PER", "O", "O", "B-LOC", "O"]
    assert json.loads((tmp_path / "out/b.jsonl.rejects.jsonl").read_text())["place"] == 2
    assert list(home.iterdir()) == []


def test_an_address_where_nobody_answers_is_refused_at_once(model, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("{}\n")
    rest = [model, str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out"), "--address"]
    assert "no Ray cluster answers" in refused([*rest, "127.0.0.1:1"], capsys)
    assert "host:port" in refused([*rest, "somewhere"], capsys)
    assert "ray job submit" in refused([*rest, "ray://127.0.0.1:1"], capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "extra", "message"),
    [
        ("missing.jsonl", [], "no such file"),
        ("a.txt", [], "plain text; what is tagged here is Parquet, JSON lines and columns: use maskedcrf predict"),
        ("a.conll", ["--probabilities"], "no room for probabilities"),
    ],
)
def test_what_cannot_be_begun_writes_nothing(name, extra, message, model, tmp_path, capsys):
    for given in ("a.txt", "a.conll"):
        (tmp_path / given).write_text("Ann\n")
    assert message in refused([model, str(tmp_path / name), "-o", str(tmp_path / "out"), *extra], capsys)
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused(model, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("{}\n")
    message = refused([model, str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "a.jsonl")], capsys)
    assert message.endswith("a.jsonl: File exists; give a folder that can be written")


def test_a_folder_that_is_no_model_is_refused(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert "model.safetensors" in refused(
        [str(tmp_path), str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out")], capsys
    )


def test_without_ray_the_message_says_how_to_install_it(model, tmp_path, capsys, monkeypatch):
    (tmp_path / "a.jsonl").write_text("{}\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = refused([model, str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out")], capsys)
    assert "pip install 'maskedcrf[ray]'" in message


@pytest.mark.parametrize(("flags", "same"), [([], ""), (["--overwrite"], " without --overwrite")])
def test_a_stopped_run_says_what_is_kept_and_ends_with_130(flags, same, tmp_path, capsys, monkeypatch):
    def stopped(*_, **__):
        yield Progress(2, finished=1)
        raise KeyboardInterrupt

    monkeypatch.setattr("maskedcrf.bulk.run.tag_files", stopped)
    assert main(["tag", "model", "a.jsonl", "-o", str(tmp_path), *flags]) == 130
    message = f"maskedcrf: stopped; finished files are kept, the same command{same} does the rest\n"
    assert capsys.readouterr().err == message


def test_help_has_an_example(capsys):
    assert main(["tag", "--help"]) == 0
    assert "maskedcrf tag my-model" in capsys.readouterr().out


def test_help_names_every_ending_that_a_file_may_have(capsys):
    assert main(["tag", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert all(", ".join(endings) in out for endings in SUFFIXES.values())


def test_the_summary_says_where_what_was_set_aside_lies_in_subfolders_too(tmp_path):
    report = summary(Progress(3, finished=3, sentences=9, rejected=2), tmp_path)
    assert report.endswith(f"2 rows set aside, see *.rejects.jsonl below {tmp_path}")


def test_a_terminal_sees_how_far_it_is_and_the_last_tally_counts(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    steps = [Progress(3, skipped=1, sentences=100), Progress(3, skipped=1, finished=1, sentences=2600, rejected=7)]
    assert show_progress(steps) is steps[-1]
    first, second = screen.getvalue().split("\r")[1:3]
    assert first.startswith("1 of 3 files, 100 sentences, 0 a second")
    assert second.startswith("2 of 3 files, 2,600 sentences, 7 set aside, ")
    assert screen.getvalue().endswith("\r\033[K")
