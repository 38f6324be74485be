"""The HTTP service beside an older checkout of itself: the same model and requests, round about, in one run.

    git worktree add --detach OLD COMMIT
    python -m benchmarks.serve_beside OLD [ROUNDS]    # prints a table, writes benchmarks/results/serve-beside.json

The older checkout builds the model, which both can read. One client asks them in turns, request by request; more
clients ask one server and then the other, each first in every second round. What counts is the best of each, since
whatever else the machine does only makes it slower. How often the server's threads wait depends on the code alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import quantiles

from benchmarks.serve import CLIENTS, answers, ask, load, sentences
from maskedcrf.evaluation.compare import signature

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "benchmarks" / "results" / "serve-beside.json"
REQUESTS = {1: 60, 8: 120, 64: 320}
"""In a round, by number of clients."""
BUILD = "import sys; from pathlib import Path; from benchmarks.serve import lstm; lstm(Path(sys.argv[1]))"
BEST = {
    "sentences_per_s": max,
    "fastest_ms": min,
    "p10_ms": min,
    "p50_ms": min,
    "p95_ms": min,
    "cpu_ms": min,
    "waits": min,
}


Server = tuple[int, int]
"""Port and process."""


def main() -> None:
    """Measure, print, write."""
    old, rounds = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 15
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    texts = sentences()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder, "model")
        subprocess.run([sys.executable, "-c", BUILD, str(model)], cwd=old, env=environment(old), check=True)
        expected = answers(model, texts)
        servers = {"old": stack.enter_context(serving(old, model)), "new": stack.enter_context(serving(HERE, model))}
        for number, clients in product(range(rounds), CLIENTS):
            for name, row in one_round(servers, texts, expected, clients=clients, reverse=number % 2 == 1).items():
                found.setdefault((name, clients), []).append(row)
    best = {
        case: {key: pick(row[key] for row in rows) for key, pick in BEST.items() if key in rows[0]}
        for case, rows in found.items()
    }
    rows = [{"version": name, "clients": clients, **figures} for (name, clients), figures in best.items()]
    for row in sorted(rows, key=lambda row: row["clients"]):
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    ratios = {
        str(clients): {
            key: round(best["new", clients][key] / value, 2) for key, value in best["old", clients].items() if value
        }
        for clients in CLIENTS
    }
    print(f"new over old: {ratios}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=old, capture_output=True, text=True).stdout
    answer = {
        "signature": signature(benchmark="serve-beside", old=commit.strip(), rounds=rounds, model="lstm"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} during the run",
        "versions": {"python": platform.python_version()} | {n: version(n) for n in ("torch", "uvicorn", "fastapi")},
        "rows": rows,
        "new_over_old": ratios,
    }
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n")


def one_round(
    servers: dict[str, Server], texts: list[str], expected: list[list[str]], *, clients: int, reverse: bool
) -> dict[str, dict[str, float]]:
    """Figures of each server in one round."""
    count = REQUESTS[clients]
    order = list(servers)[::-1] if reverse else list(servers)
    before = {name: used(process) for name, (_, process) in servers.items()}
    if clients == 1:
        rows = asyncio.run(in_turns([(name, servers[name][0]) for name in order], texts, expected, count))
    else:
        loads = (load(servers[name][0], texts, expected, clients=clients, requests=count) for name in order)
        rows = {name: asyncio.run(one) for name, one in zip(order, loads, strict=True)}
    for name, row in rows.items():
        seconds, waits = (late - early for late, early in zip(used(servers[name][1]), before[name], strict=True))
        row |= {"cpu_ms": round(1000 * seconds / count, 2), "waits": round(waits / count, 2)}
    return rows


async def in_turns(
    ports: list[tuple[str, int]], texts: list[str], expected: list[list[str]], requests: int
) -> dict[str, dict[str, float]]:
    """Latencies of one client that asks each sentence of one server and then of the other."""
    seconds: dict[str, list[float]] = {name: [] for name, _ in ports}
    connections = {name: await asyncio.open_connection("127.0.0.1", port) for name, port in ports}
    for number in range(requests):
        place = number % len(texts)
        for name, (reader, writer) in connections.items():
            start = time.perf_counter()
            status, body = await ask(reader, writer, {"text": texts[place]})
            seconds[name].append(time.perf_counter() - start)
            if status != 200 or json.loads(body)["tags"] != expected[place]:
                raise SystemExit(f"request {number}: status {status}, {body[:200]!r}")
    for _, writer in connections.values():
        writer.close()
    return {name: _latency(each) for name, each in seconds.items()}


def _latency(seconds: list[float]) -> dict[str, float]:
    cuts = quantiles(seconds, n=100)
    shares = {f"p{share}_ms": round(1000 * cuts[share - 1], 2) for share in (10, 50, 95)}
    return {
        "sentences_per_s": round(len(seconds) / sum(seconds), 1),
        "fastest_ms": round(1000 * min(seconds), 2),
        **shares,
    }


def environment(checkout: Path) -> dict[str, str]:
    """Of a process that imports from this checkout."""
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}


@contextmanager
def serving(checkout: Path, model: Path) -> Iterator[Server]:
    """Port and process of a server of this checkout."""
    command = [sys.executable, str(checkout / "benchmarks" / "serve.py"), "--serve", str(model), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(checkout)) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def used(process: int) -> tuple[float, int]:
    """Processor seconds of a process so far, and how often its threads have waited to be woken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    waits = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        waits += int((task / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), waits


if __name__ == "__main__":
    main()
