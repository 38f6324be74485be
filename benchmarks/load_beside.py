"""Loading a model beside an older checkout of this package: folders and ONNX files, in turns, in one run.

    git worktree add --detach OLD COMMIT
    python -m benchmarks.load_beside OLD [ROUNDS]    # prints a table, writes benchmarks/results/load-beside.json

Each checkout writes its own models, of the same shape and weights, and loads them in a process of its own, round about.
What counts is the least of each, since whatever else the machine does only makes it slower.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from importlib.metadata import version
from itertools import product
from pathlib import Path

from benchmarks.serve_beside import HERE, environment
from maskedcrf.evaluation.compare import signature

RESULTS = HERE / "benchmarks" / "results" / "load-beside.json"
KINDS = ("lstm", "minilm", "lstm.onnx", "minilm.onnx")
PROGRAM = """
import sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from maskedcrf import Tagger
from maskedcrf.cli import main
from benchmarks.serve import MODELS
try:
    from maskedcrf.onnx.tagger import OnnxTagger
except ImportError:
    from maskedcrf.deploy.runtime import OnnxTagger
folder = Path(sys.argv[1])
for name, build in MODELS.items():
    build(folder / name)
    assert main(["export", str(folder / name), str(folder / name) + ".onnx"]) == 0
print("ready", flush=True)
for line in sys.stdin:
    path = folder / line.strip()
    load = OnnxTagger.load if path.suffix else Tagger.load
    begun = time.perf_counter(), time.process_time()
    load(path)
    print(time.perf_counter() - begun[0], time.process_time() - begun[1], flush=True)
"""
"""What each checkout runs: it answers the name of a model with the seconds of wall and processor that loading took."""


def main() -> None:
    """Measure, print, write."""
    old, rounds = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 15
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        loaders = {}
        for name, checkout in {"old": old, "new": HERE}.items():
            Path(folder, name).mkdir()
            loaders[name] = stack.enter_context(loader(checkout, Path(folder, name)))
        for _, kind, name in product(range(rounds), KINDS, loaders):
            found.setdefault((name, kind), []).append(load(loaders[name], kind))
    rows = []
    for kind, (place, clock) in product(KINDS, enumerate(("wall", "processor"))):
        old_ms, new_ms = (1000 * min(times[place] for times in found[name, kind]) for name in loaders)
        row = {"model": kind, "clock": clock, "old_ms": round(old_ms, 1), "new_ms": round(new_ms, 1)}
        rows.append(row | {"new_over_old": round(new_ms / old_ms, 2)})
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=old, capture_output=True, text=True).stdout
    answer = {
        "signature": signature(benchmark="load-beside", old=commit.strip(), rounds=rounds, time="least of interleaved"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} during the run",
        "versions": {"python": platform.python_version()} | {n: version(n) for n in ("torch", "onnxruntime")},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n")


def loader(checkout: Path, folder: Path) -> subprocess.Popen[str]:
    """A process of this checkout that has written its models into the folder and waits for their names."""
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment(checkout), cwd=checkout)
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "ready\n":
        if not line:
            raise SystemExit(f"{checkout}: could not build its models")
    return process


def load(process: subprocess.Popen[str], kind: str) -> tuple[float, float]:
    """Seconds of wall and processor that the process needs to load this model."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{kind}\n")
    process.stdin.flush()
    wall, processor = process.stdout.readline().split()
    return float(wall), float(processor)


if __name__ == "__main__":
    main()
