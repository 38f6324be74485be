"""Attacks on a server of its own: hand-made requests of every kind, then 1,000 connections at once.

`maskedcrf serve` runs on a small model in a process of its own. Every connection must get a status that is right for
it and come to an end; afterwards the server answers, its memory is what it was, and its log holds no error and no text.

    python -m benchmarks.attacks [ROUNDS]    # prints a table, writes benchmarks/results/attacks.json
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.attack_cases import SECRET, Attack, attacks, head, post
from benchmarks.serve import resident, save
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.evaluation.compare import signature

RESULTS = Path(__file__).parent / "results" / "attacks.json"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
AT_ONCE = 48
CROWD = 1000
LONGEST = 120.0
"""Seconds after which a connection that the server leaves open has failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attack."""

    attack: Attack
    statuses: tuple[int, ...]
    seconds: float
    ended: bool
    """Whether the server closed the connection (or we did, where that is the attack)."""

    @property
    def problem(self) -> str:
        """What is wrong with it, or nothing."""
        if not self.ended:
            return f"still open after {self.seconds:.0f} s"
        wrong = set(self.statuses) - self.attack.statuses
        if wrong:
            return f"answered {sorted(wrong)}, right were {sorted(self.attack.statuses)}"
        return "" if self.statuses or not self.attack.statuses or 200 in self.attack.statuses else "not answered"


def main() -> None:
    """Attack, print, write."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cases, problems, memory, outcomes = attacks(), list[str](), list[float](), list[Outcome]()
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder, "model"), EncoderConfig(words=20, characters=0, lstm_hidden=20))
        log = Path(folder, "log")
        with serving(Path(folder, "model"), log) as (port, process):
            memory.append(resident(process.pid))
            for _ in range(rounds):
                outcomes = asyncio.run(attack_all(port, cases))
                problems += [
                    f"{one.attack.family}, {one.attack.name}: {one.problem}" for one in outcomes if one.problem
                ]
                memory.append(resident(process.pid))
            crowd = asyncio.run(attack_in_a_crowd(port))
            memory.append(resident(process.pid))
            problems += [f"{status} in the crowd" for status in crowd if status not in (0, 200, 503)]
            problems += [] if asyncio.run(health(port)) and process.poll() is None else ["the server is not alive"]
            problems += _problems_of_memory(memory)
            problems += _problems_of_log(log.read_text(encoding="utf-8", errors="replace"))
            size = log.stat().st_size
    table = _table(outcomes)
    for family, row in table.items():
        print(f"{family:<16}{row['attacks']:>4} attacks  {row['seconds']:>6} s at most  {row['statuses']}")
    print(f"{CROWD} at once: {crowd}; memory in MiB: {memory}; log {size} bytes; problems: {problems or 'none'}")
    answer: dict[str, Any] = {
        "signature": signature(benchmark="attacks", attacks=len(cases), rounds=rounds, connections=CROWD),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} during the run",
        "versions": {"python": platform.python_version()} | {n: version(n) for n in ("uvicorn", "h11", "fastapi")},
        "families": table,
        "crowd": {str(status) if status else "closed": count for status, count in sorted(crowd.items())},
        "memory_mib": {"before": memory[0], "after_each_round": memory[1:-1], "after_the_crowd": memory[-1]},
        "log_bytes": size,
        "problems": problems,
    }
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n")
    raise SystemExit(int(bool(problems)))


@contextmanager
def serving(model: Path, log: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Port and process of `maskedcrf serve` on this model, which writes what it says into the log."""
    command = [sys.executable, "-m", "maskedcrf", "serve", str(model), "--port", "0", "--log"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())):
                if process.poll() is not None:
                    raise SystemExit(f"the server did not start: {log.read_text()}")
                time.sleep(0.2)
            yield int(found[1]), process
        finally:
            process.terminate()


async def attack_all(port: int, cases: Sequence[Attack]) -> list[Outcome]:
    """Each attack once, some of them at a time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(attack: Attack) -> Outcome:
        async with places:
            return await run_attack(port, attack)

    return await asyncio.gather(*map(one, cases))


async def run_attack(port: int, attack: Attack) -> Outcome:
    """Send what is to be sent, and read until the server closes the connection."""
    start = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reading = asyncio.create_task(_read_all(reader))
    with suppress(ConnectionError):
        for number, part in enumerate(attack.parts):
            if number:
                await asyncio.wait([reading], timeout=1.0)
            writer.write(part)
            await writer.drain()
        if attack.ending == "half-close":
            writer.write_eof()
    if attack.ending == "reset":
        await asyncio.sleep(0.05)
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    await asyncio.wait([reading], timeout=LONGEST)
    ended = reading.done()
    reading.cancel()
    answer = reading.result() if ended else b""
    writer.transport.abort()
    statuses = () if attack.ending == "reset" else tuple(int(status) for status in STATUS.findall(answer))
    return Outcome(attack, statuses, time.monotonic() - start, ended)


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    answer = bytearray()
    with suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            answer += part
    return bytes(answer)


async def attack_in_a_crowd(port: int) -> Counter[int]:
    """1,000 connections that stand open at once; each then asks. Statuses, 0 for no answer."""
    _raise_file_limit()
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CROWD)]
    if not await health(port):
        raise SystemExit("with so many connections open, /health is not answered")
    found: Counter[int] = Counter()

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = b""
        with suppress(ConnectionError):
            writer.write(post())
            answer = await _read_all(reader)
        first = STATUS.search(answer)
        found[int(first[1]) if first else 0] += 1
        writer.transport.abort()

    await asyncio.gather(*(ask(*connection) for connection in connections))
    return found


async def health(port: int) -> bool:
    """Whether the server says that it is well."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head("GET /health HTTP/1.1"))
    answer = await asyncio.wait_for(_read_all(reader), LONGEST)
    writer.transport.abort()
    return answer.startswith(b"HTTP/1.1 200 ") and b'"status": "ok"' in answer


def _raise_file_limit() -> None:
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    _, most = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (most, most))


def _problems_of_memory(memory: Sequence[float]) -> list[str]:
    """More than 5 % between the first round and the last, or more than 64 MiB for the crowd."""
    first, last, crowd = memory[1], *memory[-2:]
    problems = [f"{last - first:.0f} MiB more after the last round than after the first"] if last > 1.05 * first else []
    return problems + ([f"{crowd - last:.0f} MiB more after the crowd"] if crowd - last > 64 else [])


def _problems_of_log(log: str) -> list[str]:
    words = (SECRET, "Traceback", "failed", " 500 ")
    return [f"the log holds {word!r}" for word in words if word in log]


def _table(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """For each family: how many attacks, what they were answered, and how long the longest connection stood."""
    table: dict[str, dict[str, Any]] = {}
    for family in dict.fromkeys(one.attack.family for one in outcomes):
        chosen = [one for one in outcomes if one.attack.family == family]
        statuses = Counter(str(status) for one in chosen for status in one.statuses)
        longest = round(max(one.seconds for one in chosen), 1)
        table[family] = {"attacks": len(chosen), "statuses": dict(sorted(statuses.items())), "seconds": longest}
    return table


if __name__ == "__main__":
    main()
