"""Bulk tagging on a real cluster of this machine, with workers and drivers killed in the middle."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from bulk_inputs import BAD_LINES, TEXTS, columns, json_lines, table, write_all
from service_helpers import build_tagger
from small_corpus import SMALL, corpus

from maskedcrf.bulk.cluster import Cluster, allocate_workers, connect_ray
from maskedcrf.bulk.output import find_sources
from maskedcrf.bulk.rows import Options
from maskedcrf.bulk.run import tag_files
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.tagger import Tagger

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = [
    # Ray Data's own settings class warns about its own fields when it is built.
    pytest.mark.filterwarnings("ignore:`use_(push_based_shuffle|polars|arrow_tensor_v2)` is deprecated"),
]
TWO = Cluster(workers=2)


@pytest.fixture(scope="module")
def cluster():
    """Two workers' worth of Ray, for all tests of this file."""
    with connect_ray(Cluster(workers=2, store=150_000_000)) as connection:
        yield connection


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return build_tagger().save(tmp_path_factory.mktemp("bulk") / "model")


@pytest.fixture(scope="module")
def trained_model(tmp_path_factory):
    """One that computes its answers, unlike `model`, which looks them up."""
    folder = tmp_path_factory.mktemp("bulk") / "trained"
    settings = {**SMALL, "encoder": {"words": 64, "characters": 0, "lstm_hidden": 32, "dropout": 0.0}, "epochs": 1}
    Tagger.train(corpus(8), corpus(4, 1), output=folder, progress=False, **settings)
    return folder


@pytest.fixture(scope="module")
def ran(cluster, model, tmp_path_factory):
    """One run over every kind of file: the output folder, and what the run said last."""
    folder = tmp_path_factory.mktemp("bulk")
    write_all(folder / "in")
    steps = tag_files(
        model, [folder / "in"], output=folder / "out", options=Options(piece=500, comment="#"), cluster=TWO
    )
    return folder, list(steps)[-1]


def lines_of(path: Path) -> list[dict]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


def long_sentences(seed: int, size: int) -> bytes:
    tokens = [list(sentence.tokens) * 60 for sentence in corpus(size, seed)]
    return "".join(json.dumps({"id": n, "tokens": words}) + "\n" for n, words in enumerate(tokens)).encode()


def assert_same_as_the_tagger(path: Path, given: bytes, tagger: Tagger) -> None:
    """Every row once, in its order, with the tags that the tagger itself gives."""
    rows = [json.loads(line) for line in given.splitlines()]
    answers = tagger.predict([row["tokens"] for row in rows])
    expected = [{**row, "tags": list(answer.tags)} for row, answer in zip(rows, answers, strict=True)]
    found = [{key: row[key] for key in ("id", "tokens", "tags")} for row in lines_of(path)]
    assert found == expected


def workers_below(process) -> list:
    """Processes with a model that this process's own cluster has."""
    return [child for child in process.children(recursive=True) if "MapWorker" in " ".join(_command(child))]


def _command(process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize(("name", "size"), [("a/same.jsonl", 50), ("packed.jsonl.gz", 20)])
def test_every_line_comes_back_in_order_with_the_tags_of_the_tagger(ran, name, size):
    folder, _ = ran
    found = lines_of(folder / "out" / name)
    answers = build_tagger().predict([TEXTS[n % 5] for n in range(size)])
    assert [row["id"] for row in found] == list(range(size))
    assert [row["tags"] for row in found] == [list(answer.tags) for answer in answers]
    assert [row["entities"] for row in found] == [answer.to_json()["entities"] for answer in answers]


def test_a_table_of_several_row_groups_comes_back_whole(ran):
    folder, _ = ran
    found = pq.read_table(folder / "out" / "rows.parquet")
    kept = table(100).take([n for n in range(100) if n != 7])
    assert found.select(kept.column_names).equals(kept)
    answers = build_tagger().predict(kept["tokens"].to_pylist())
    assert found["tags"].to_pylist() == [list(answer.tags) for answer in answers]


def test_columns_come_back_with_one_more(ran):
    folder, _ = ran
    found = (folder / "out" / "words.conll").read_text()
    assert found.count("# id 7\nAnn NNP B-PER\nflew VB O\n\n\nto TO O\nOslo NNP B-LOC\n\n") == 30
    assert found.count("\n") == columns(30).count(b"\n")


def test_bad_rows_are_in_the_reject_file_and_nowhere_else(ran):
    folder, _ = ran
    assert [row["id"] for row in lines_of(folder / "out/b/same.jsonl")] == [*range(7), *range(3)]
    rejects = lines_of(folder / "out/b/same.jsonl.rejects.jsonl")
    assert [reject["place"] for reject in rejects] == list(range(8, 8 + len(BAD_LINES)))
    assert all(reason in reject["reason"] for reject, reason in zip(rejects, BAD_LINES.values(), strict=True))
    assert {reject["file"] for reject in rejects} == {str(folder / "in/b/same.jsonl")}


def test_empty_files_stay_empty_and_keep_their_columns(ran):
    folder, _ = ran
    assert (folder / "out/empty.jsonl").read_bytes() == b""
    assert (folder / "out/empty.conll").read_bytes() == b""
    found = pq.read_table(folder / "out/empty.parquet")
    assert (len(found), found.column_names) == (0, ["id", "tokens", "when", "tags", "entities"])


def test_damaged_files_are_named_and_leave_nothing(ran):
    folder, last = ran
    assert sorted(last.failed) == [str(folder / "in" / name) for name in ("broken.parquet", "cut.jsonl.gz")]
    assert "damaged gzip" in last.failed[str(folder / "in/cut.jsonl.gz")]
    names = {path.name for path in (folder / "out").rglob("*")}
    assert not names & {"broken.parquet", "cut.jsonl.gz", "notes.txt", "_SUCCESS"}
    assert not [name for name in names if name.endswith(".part")]


def test_the_counts_add_up(ran):
    _, last = ran
    assert last.sentences == 50 + 10 + 20 + 60 + 99
    assert last.rejected == len(BAD_LINES) + 1
    assert (last.files, last.finished, last.skipped) == (10, 8, 0)
    assert not last.is_complete


def test_what_is_done_is_not_done_again_and_starts_no_worker(ran, model):
    folder, _ = ran
    done = [folder / "in" / name for name in ("words.conll", "rows.parquet")]
    times = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*.*")}
    [last] = tag_files(model, done, output=folder / "out", options=Options(comment="#"), cluster=TWO)
    assert (last.skipped, last.finished, last.sentences, last.rejected) == (2, 0, 60 + 99, 1)
    assert last.workers == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*.*")} == times


def test_a_folder_of_another_model_or_other_options_is_refused(ran, model):
    folder, _ = ran
    with pytest.raises(MaskedCRFError, match="other options"):
        list(tag_files(model, [folder / "in/words.conll"], output=folder / "out", cluster=TWO))


def workers_now() -> set[int]:
    """The workers of this process's cluster."""
    return {worker.pid for worker in workers_below(psutil.Process())}


def test_killed_workers_change_nothing_in_the_output(cluster, trained_model, tmp_path):
    given = long_sentences(5, 150)
    (tmp_path / "a.jsonl").write_bytes(given)
    steps = tag_files(trained_model, [tmp_path / "a.jsonl"], output=tmp_path / "out", options=Options(piece=3000))
    killed, seen, pieces, due = set(), set(), 0, [3, 10]
    for _ in steps:
        pieces += 1
        if due and pieces == due[0]:
            while not (running := workers_now() - killed):  # none may be there at the very moment
                pass
            killed.add(min(running))
            os.kill(min(running), signal.SIGKILL)
            due.pop(0)
        seen |= workers_now()
    assert len(killed) == 2
    assert pieces > 20
    assert len(seen) > 2  # those killed were replaced while the run went on
    assert_same_as_the_tagger(tmp_path / "out/a.jsonl", given, Tagger.load(trained_model))
    assert not (tmp_path / "out/a.jsonl.rejects.jsonl").exists()


DRIVER = """
import os, signal, sys
from maskedcrf.bulk.cluster import Cluster
from maskedcrf.bulk.run import tag_files

model, folder, output, address = sys.argv[1:]
for step in tag_files(model, [folder], output=output, cluster=Cluster(workers=1, address=address)):
    if step.finished:
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""Killed as soon as the first file is finished."""


def test_a_run_whose_driver_was_killed_goes_on_where_it_was(cluster, trained_model, tmp_path):
    given = {f"{n}.jsonl": long_sentences(n, 60) for n in range(4)}
    (tmp_path / "in").mkdir()
    for name, content in given.items():
        (tmp_path / "in" / name).write_bytes(content)
    output = tmp_path / "out"
    command = [sys.executable, "-c", DRIVER, trained_model, tmp_path / "in", output]
    driver = subprocess.run([*map(str, command), ray.get_runtime_context().gcs_address], stderr=subprocess.DEVNULL)
    assert driver.returncode == -signal.SIGKILL
    finished = sorted(path.name for path in output.glob("*.jsonl") if path.name != "manifest.jsonl")
    assert 1 <= len(finished) < len(given)
    for name in finished:
        assert_same_as_the_tagger(output / name, given[name], Tagger.load(trained_model))
    last = list(tag_files(trained_model, [tmp_path / "in"], output=output, cluster=TWO))[-1]
    assert last.skipped >= len(finished) - 1  # the last may have been killed before it was entered
    assert last.is_complete
    for name, content in given.items():
        assert_same_as_the_tagger(output / name, content, Tagger.load(trained_model))
    assert not list(output.rglob("*.part"))


DRIVER_WITH_A_CLUSTER = """
import sys
import psutil
from maskedcrf.bulk.cluster import Cluster
from maskedcrf.bulk.run import tag_files

steps = tag_files(sys.argv[1], [sys.argv[2]], output=sys.argv[3], cluster=Cluster(workers=1))
next(steps)
print(*(process.pid for process in psutil.Process().children(recursive=True)), flush=True)
sys.stdin.read()
"""
"""Tags one piece on a cluster of its own, says which processes that takes, and waits to be killed."""


@pytest.mark.slow
def test_a_cluster_of_its_own_goes_with_a_killed_driver(model, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines(20_000))
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", DRIVER_WITH_A_CLUSTER, model, tmp_path / "a.jsonl", tmp_path / "out"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*map(str, command)], env=own, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as driver:
        below = [psutil.Process(int(pid)) for pid in driver.stdout.readline().split()]
        assert below
        driver.kill()
    assert psutil.wait_procs(below, timeout=120)[1] == []


def test_a_run_that_is_given_up_leaves_whole_files_only(cluster, trained_model, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(long_sentences(1, 40))
    steps = tag_files(trained_model, [tmp_path / "a.jsonl"], output=tmp_path / "out", options=Options(piece=2000))
    next(steps)
    steps.close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.jsonl"]


@pytest.mark.parametrize(
    ("resources", "cluster_options", "is_folder", "expected"),
    [
        ({"CPU": 5.0}, Cluster(), True, (4, "cpu")),
        ({"CPU": 5.0}, Cluster(workers=2), True, (2, "cpu")),
        ({"CPU": 64.0, "GPU": 8.0}, Cluster(), True, (8, "cuda")),
        ({"CPU": 64.0, "GPU": 8.0}, Cluster(workers=3), True, (3, "cuda")),
        ({"CPU": 64.0, "GPU": 8.0}, Cluster(device="cpu"), True, (63, "cpu")),
        ({"CPU": 64.0, "GPU": 8.0}, Cluster(), False, (63, "cpu")),
        ({"CPU": 5.0}, Cluster(workers=5), True, "5 workers, but the cluster has 4"),
        ({"CPU": 5.0}, Cluster(device="cuda"), True, "has 0 GPUs"),
        ({"CPU": 64.0, "GPU": 8.0}, Cluster(device="cuda"), False, "ONNX"),
    ],
)
def test_workers_take_gpus_where_there_are_any_and_never_more_than_there_is(
    resources, cluster_options, is_folder, expected
):
    fake = SimpleNamespace(cluster_resources=lambda: resources)
    if isinstance(expected, str):
        with pytest.raises(MaskedCRFError, match=expected):
            allocate_workers(fake, cluster_options, gpu_able=is_folder)
    else:
        assert allocate_workers(fake, cluster_options, gpu_able=is_folder) == expected


def test_two_files_of_one_name_are_kept_apart_or_refused(tmp_path):
    write_all(tmp_path / "in")
    both = [tmp_path / "in/a/same.jsonl", tmp_path / "in/b/same.jsonl"]
    with pytest.raises(DataError, match="same.jsonl.*common folder"):
        find_sources(both, tmp_path / "out")
    names = [source.name for source in find_sources([tmp_path / "in"], tmp_path / "out")]
    assert {"a/same.jsonl", "b/same.jsonl"} <= set(names)


def test_an_input_is_never_written_over(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines(1))
    with pytest.raises(DataError, match="is an input itself"):
        find_sources([tmp_path / "a.jsonl"], tmp_path)
    with pytest.raises(DataError, match="inside the input folder"):
        find_sources([tmp_path], tmp_path / "out")


def test_a_file_that_another_program_wrote_is_not_written_over(model, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines(1))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.jsonl").write_text("precious")
    with pytest.raises(DataError, match="--overwrite"):
        list(tag_files(model, [tmp_path / "a.jsonl"], output=tmp_path / "out"))
    assert (tmp_path / "out/a.jsonl").read_text() == "precious"


def test_two_runs_do_not_share_a_folder(model, tmp_path):
    from maskedcrf.bulk.output import Manifest

    with (
        Manifest.open(tmp_path, {}, overwrite=False),
        pytest.raises(MaskedCRFError, match="another run"),
        Manifest.open(tmp_path, {}, overwrite=False),
    ):
        pass


def test_a_manifest_cut_short_by_a_kill_is_read_to_its_last_whole_line(tmp_path):
    from maskedcrf.bulk.output import Manifest, Source

    (tmp_path / "x").write_text("x")
    source = Source(str(tmp_path / "x"), "jsonl", "x")
    with Manifest.open(tmp_path, {"model": "m"}, overwrite=False) as manifest:
        manifest.add(source, source.state(), {"sentences": 1})
    with (tmp_path / "manifest.jsonl").open("ab") as handle:
        handle.write(b'{"file": "y", "sou')
    with Manifest.open(tmp_path, {"model": "m"}, overwrite=False) as manifest:
        assert manifest.has(source)
    (tmp_path / "x").write_text("changed")
    with Manifest.open(tmp_path, {"model": "m"}, overwrite=False) as manifest:
        assert not manifest.has(source)
