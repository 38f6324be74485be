"""Bulk tagging: sentences a second with one and two workers, and memory for an input ten times the object store.

A model of the default size with random weights, since speed does not depend on what a model has learnt. The clock runs
from the first piece that comes back to the last, so that the start of Ray and of the workers is not in it. Every run's
output is counted and compared with the one before; a difference stops the benchmark.

    python benchmarks/bulk.py [SENTENCES]    # prints a table, writes benchmarks/results/bulk.json
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from maskedcrf.bulk.cluster import Cluster
from maskedcrf.bulk.rows import Options
from maskedcrf.bulk.run import tag_files
from maskedcrf.data.demo_corpus import TYPES, demo_corpus
from maskedcrf.evaluation.compare import signature

RESULTS = Path(__file__).parent / "results" / "bulk.json"
STORE = 80_000_000
"""Bytes of the object store, the least that Ray takes."""
TIMES = 10
ROUNDS = 3
"""Runs with each number of workers, in turn, so that a busy moment does not fall on one of them alone."""


def main() -> None:
    """Measure, print, write."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "model")
        write_sentences(folder / "plain.jsonl", size, ballast=0)
        runs = [measure(folder, "plain.jsonl", workers) for _ in range(ROUNDS) for workers in (1, 2)]
        rows = [summary([run for run in runs if run["workers"] == workers]) for workers in (1, 2)]
        # Ballast travels with its row: the input outgrows the store without more sentences to tag.
        count = size // 10
        write_sentences(folder / "heavy.jsonl", count, ballast=TIMES * STORE // count)
        heavy = measure(folder, "heavy.jsonl", 2)
        light = rows[1]
    answer = {
        "signature": signature(benchmark="bulk", sentences=size, rounds=ROUNDS, encoder="words+characters+lstm200"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} during the run",
        "versions": {"python": platform.python_version()} | {n: version(n) for n in ("torch", "ray", "pyarrow")},
        "rows": rows,
        "two_workers_over_one": round(rows[1]["sentences_a_second"] / rows[0]["sentences_a_second"], 2),
        "heavy": {"times_the_store": round(heavy["input_bytes"] / STORE, 1), **heavy},
        "driver_grows_by_mb": round(heavy["driver_peak_mb"] - light["driver_peak_mb"], 1),
    }
    print(json.dumps(answer, indent=2))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n")


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run of median speed, with the speeds of all."""
    ordered = sorted(runs, key=lambda run: run["sentences_a_second"])
    return {**ordered[len(ordered) // 2], "all_runs": [run["sentences_a_second"] for run in runs]}


def save_model(folder: Path) -> None:
    """Words, characters and a bidirectional LSTM, 200 wide each way."""
    import torch

    from maskedcrf.encoders.config import EncoderConfig
    from maskedcrf.encoders.encoder import build_encoder
    from maskedcrf.tagger.model import TaggerModel
    from maskedcrf.tagger.tagger import Tagger
    from maskedcrf.tags.constraints import Constraints

    torch.manual_seed(0)
    tags = ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")]
    encoder = build_encoder(EncoderConfig(words=100, characters=50, lstm_hidden=200), demo_corpus().train)
    Tagger(TaggerModel(encoder, Constraints.from_scheme(tags, "BIO"), dropout=0.0).eval()).save(folder)


def write_sentences(path: Path, size: int, *, ballast: int) -> None:
    """Sentences of two utterances each, some twenty tokens long, and so many bytes beside each."""
    test = demo_corpus().test
    with path.open("w", encoding="utf-8") as handle:
        for number in range(size):
            tokens = [*test[number % len(test)].tokens, *test[(number * 7 + 1) % len(test)].tokens]
            handle.write(json.dumps({"id": number, "tokens": tokens, "ballast": "x" * ballast}) + "\n")


def measure(folder: Path, name: str, workers: int) -> dict[str, Any]:
    """One run: its speed after the first piece, and the most memory that it took."""
    output = Path(tempfile.mkdtemp(dir=folder))
    cluster = Cluster(workers=workers, device="cpu", store=STORE, temp_dir=folder / "ray")
    origin = time.perf_counter()
    with Watch(folder / "ray") as watch:
        marks = [
            (time.perf_counter(), progress.sentences)
            for progress in tag_files(
                folder / "model", [folder / name], output=output, cluster=cluster, options=Options()
            )
        ]
    whole = time.perf_counter() - origin
    pieces = marks[:-1]  # the last is said after Ray has stopped
    (start, before), (end, after) = pieces[0], pieces[-1]
    if tally_of(output / name) != after:
        raise SystemExit(f"{name}: {after} sentences counted, but not written")
    digest = hashlib.sha256((output / name).read_bytes()).hexdigest()
    if DIGESTS.setdefault(name, digest) != digest:
        raise SystemExit(f"{name}: another output with {workers} workers")
    return {
        "workers": workers,
        "sentences": after,
        "input_bytes": (folder / name).stat().st_size,
        "sentences_a_second": round((after - before) / (end - start), 1),
        "seconds_with_start": round(whole, 1),
        **watch.peaks(),
    }


DIGESTS: dict[str, str] = {}


def tally_of(path: Path) -> int:
    """Rows of the output, each of which must be the next."""
    with path.open(encoding="utf-8") as handle:
        numbers = [json.loads(line)["id"] for line in handle]
    if numbers != list(range(len(numbers))):
        raise SystemExit(f"{path.name}: rows are lost, doubled or out of order")
    return len(numbers)


class Watch:
    """The peaks of this process's memory, of its workers', and of what the store put on the disk, for want of room."""

    def __init__(self, ray_files: Path) -> None:
        self._ray_files = ray_files

    def __enter__(self) -> Watch:
        self._driver = self._worker = self._spilled = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.1):
            self._driver = max(self._driver, me.memory_info().rss)
            for child in me.children(recursive=True):
                try:
                    memory, command = child.memory_info(), " ".join(child.cmdline())
                except psutil.Error:
                    continue
                if "MapWorker" in command:
                    self._worker = max(self._worker, memory.rss - memory.shared)
            spilled = [path for path in self._ray_files.glob("session_2*/ray_spilled_objects*/*") if path.is_file()]
            self._spilled = max(self._spilled, sum(path.stat().st_size for path in spilled))

    def peaks(self) -> dict[str, float]:
        """In megabytes."""
        found = {"driver": self._driver, "worker_private": self._worker, "spilled": self._spilled}
        return {f"{name}_peak_mb": round(value / 1e6, 1) for name, value in found.items()}


if __name__ == "__main__":
    main()
