"""The CRF layer of this checkout against that of another one, their processes taking turns in one run.

Each checkout answers in a process of its own, and every kind of work is timed for a moment in one, then in the other;
figures are minima. What the first call of each method takes, with nothing compiled yet, is measured too.

    git worktree add --detach /tmp/before COMMIT
    python -m benchmarks.against /tmp/before [--threads 2] [--seconds 1]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

import torch

HERE = Path(__file__).resolve().parent.parent
SHAPES = ["32x64x9", "32x128x9", "32x512x9", "32x128x37", "128x64x9", "1x64x9", "1x512x33", "8x512x159"]
WORKS = ("loss", "loss none", "log_partition", "decode", "plain loss")
LEFT_OUT = SHAPES[-1], "plain loss"
"""It takes as long as all others together."""
SECOND_SHAPE = "32x60x9"
SECOND_WORKS = ("decode", "nbest(5)", "marginals", "entropy", "span_probability", "decode_segments", "sample")
FIRST_CALLS = (
    ("loss", "loss none", "log_partition", "marginals", "entropy", "nbest(5)", "sample", "decode", "decode_segments"),
    ("loss none",),
    ("decode",),
)
"""Each row in a process of its own, whose later calls have what the earlier ones compiled."""
TURNS = 6


def works_of(shape: str) -> dict[str, Callable[[], Any]]:
    """Every kind of work on one ragged batch of that shape, by what both checkouts have."""
    from maskedcrf import Constraints, MaskedCRF

    rows, length, size = map(int, shape.split("x"))
    draw = torch.Generator().manual_seed(rows * length * size)
    types = range((size - 1) // 2)
    rules = Constraints.from_scheme(["O", *(f"{prefix}-{n}" for n in types for prefix in "BI")], "BIO")
    emissions = torch.randn(rows, length, size, generator=draw)
    emissions[:, :, 0] += 1.5  # as in text, most tokens are outside
    lengths = torch.randint(max(2, length // 4), length + 1, (rows, 1), generator=draw)
    lengths[0] = length
    mask = torch.arange(length) < lengths
    emissions.requires_grad_()
    crf, plain = MaskedCRF(rules), MaskedCRF(rules, backend="plain")
    for parameter in crf.parameters():
        torch.nn.init.uniform_(parameter, -0.3, 0.3, generator=draw)
    plain.load_state_dict(crf.state_dict())
    gold = torch.zeros(rows, length, dtype=torch.long)
    wanted = [emissions, *crf.parameters()]
    spans = [[(n, n + 1, "0") for n in range(count)] for (count,) in lengths.tolist()]

    def step(layer: MaskedCRF = crf, by: Any = wanted, reduction: Any = "mean") -> Any:
        return torch.autograd.grad(layer(emissions, gold, mask, reduction=reduction).sum(), by)

    found: dict[str, Callable[[], Any]] = {
        "loss": step,
        "loss none": lambda: step(reduction="none"),
        "plain loss": lambda: step(plain, [emissions, *plain.parameters()]),
        "log_partition": lambda: crf.log_partition(emissions, mask),
        "decode": lambda: crf.decode(emissions, mask),
        "nbest(5)": lambda: crf.nbest(emissions, mask, k=5),
        "marginals": lambda: crf.marginals(emissions, mask),
        "entropy": lambda: crf.entropy(emissions, mask),
        "sample": lambda: crf.sample(emissions, mask),
        "span_probability": lambda: crf.span_probability(emissions, spans, mask),
        "decode_segments": lambda: crf.decode_segments(emissions, mask, 0.5),
    }
    return {name: work if "loss" in name else torch.no_grad()(work) for name, work in found.items()}


def answer() -> None:
    """The process of a checkout: a line of shape, work and seconds in, the fewest seconds of a call out."""
    known: dict[str, dict[str, Callable[[], Any]]] = {}
    for line in sys.stdin:
        shape, work, seconds = json.loads(line)
        if shape not in known:
            known = {shape: works_of(shape)}
        try:
            print(json.dumps(_fewest_seconds(known[shape][work], seconds)), flush=True)
        except AttributeError:  # an older checkout may lack the method
            print("null", flush=True)


def _fewest_seconds(call: Callable[[], Any], seconds: float) -> float:
    times = list[float]()
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


class Checkout:
    """The process of one checkout."""

    def __init__(self, folder: Path, threads: int, cache: str | None = None) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")} | ({"NUMBA_CACHE_DIR": cache} if cache else {})
        # -P: beside this file are modules whose names others have too.
        command = [sys.executable, "-P", "-W", "ignore", __file__, "--answer", "--threads", str(threads)]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, shape: str, work: str, seconds: float) -> float | None:
        """The fewest seconds of one call, at least one call and `seconds` long; None of what the checkout lacks."""
        given, taken = cast(IO[str], self.process.stdin), cast(IO[str], self.process.stdout)
        print(json.dumps((shape, work, seconds)), file=given, flush=True)
        return cast(float | None, json.loads(taken.readline()))

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def in_turns(checkouts: list[Checkout], shape: str, work: str, seconds: float) -> list[float | None]:
    """The fewest seconds of each, after a call that is not counted."""
    for one in checkouts:
        one.ask(shape, work, 0)
    turns = [[one.ask(shape, work, seconds / TURNS / len(checkouts)) for one in checkouts] for _ in range(TURNS)]
    return [min((each for each in found if each), default=None) for found in zip(*turns, strict=True)]


def first_calls(folder: Path, threads: int) -> list[dict[str, float | None]]:
    """Seconds of first calls, nothing having been compiled."""
    rows = []
    for row in FIRST_CALLS:
        with tempfile.TemporaryDirectory() as cache, Checkout(folder, threads, cache) as checkout:
            checkout.ask("2x4x5", "plain loss", 0)  # what torch itself does only once
            rows.append({work: checkout.ask("2x4x5", work, 0) for work in row})
    return rows


def compare(before: Path, threads: int, seconds: float) -> dict[str, Any]:
    """All figures, as one record; those of the other checkout come first in each pair."""
    with ExitStack() as stack:
        both = [stack.enter_context(Checkout(folder, threads)) for folder in (before, HERE)]
        cases = [(shape, work) for shape in SHAPES for work in WORKS if (shape, work) != LEFT_OUT]
        cases += [(SECOND_SHAPE, work) for work in SECOND_WORKS]
        rows = list[dict[str, Any]]()
        for shape, work in cases:
            old, new = in_turns(both, shape, work, seconds)
            ratio = new / old if old and new else None
            rows.append({"shape": shape, "work": work, "seconds": [old, new], "ratio": ratio})
            print(f"{shape:>10} {work:<17} {_milliseconds(old)} {_milliseconds(new)} {ratio or 0:5.2f}", flush=True)
    own = {row["work"]: row["seconds"][1] or float("nan") for row in rows if row["shape"] == SECOND_SHAPE}
    shares = {work: own[work] / own["marginals"] for work in ("entropy", "span_probability", "decode_segments")}
    shares = {f"{work} / marginals": share for work, share in shares.items()}
    return {
        "rows": rows,
        "within": {"nbest(5) / decode": own["nbest(5)"] / own["decode"], **shares},
        "first_calls": {"before": first_calls(before, threads), "here": first_calls(HERE, threads)},
    }


def _milliseconds(seconds: float | None) -> str:
    return f"{1e3 * seconds:9.3f} ms" if seconds else "         -  "


def main() -> None:
    """Run, print, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?", type=Path, help="the folder of the other checkout")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each shape and kind of work")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.answer:
        answer()
        return
    from benchmarks.crf import RESULTS, signature

    folder = given.before.resolve()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    found = compare(folder, given.threads, given.seconds)
    record = {"signature": {**signature("cpu"), "before": commit.stdout.strip()}, **found}
    print(json.dumps({key: record[key] for key in ("within", "first_calls")}, indent=1))
    (RESULTS / "against.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
