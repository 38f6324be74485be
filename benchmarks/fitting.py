"""How long fitting the transitions of an adopted tagger takes once its emissions are there.

Made-up emissions over 3,000 sentences of 5 to 26 words, right at most of them, as a trained classifier's are: bias,
transitions, both and a joint scale, four strengths of l2, three folds, one temperature, as `Tagger.fit_transitions`
runs them. Wall and processor time are both kept; on a busy machine the second one says more.

    python -m benchmarks.fitting [ROUNDS]    # prints a table, writes benchmarks/results/fitting.json
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from maskedcrf import Constraints, MaskedCRF
from maskedcrf.evaluation.compare import signature
from maskedcrf.tagger.fitting import fit_lattice
from maskedcrf.tagger.lattice import Example
from maskedcrf.tags.segments import read_paths

RESULTS = Path(__file__).parent / "results" / "fitting.json"
SENTENCES = 3000
TARGETS = {9: 5.0, 44: 30.0}
"""Seconds by number of tags."""


def main() -> None:
    """Measure, print, write."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    rows = [row for size in TARGETS for row in measure(size, rounds)]
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    answer = {
        "signature": signature(
            benchmark="fitting", sentences=SENTENCES, rounds=rounds, threads=torch.get_num_threads()
        ),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} during the run",
        "versions": {name: version(name) for name in ("torch", "numpy")},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n")


def measure(size: int, rounds: int) -> list[dict[str, Any]]:
    """The least of a few rounds, by either clock."""
    rules = Constraints.from_scheme(tags_of(size), "BIO")
    crf = MaskedCRF(rules, mask="decode")
    examples = make_examples(crf, SENTENCES)
    crf.zero_transitions()
    fit_lattice(crf, examples[:40])  # compile first
    least = {"wall": float("inf"), "processor": float("inf")}
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    for _ in range(rounds):
        start = {name: clock() for name, clock in clocks.items()}
        fit_lattice(crf, examples)
        least = {name: min(least[name], clock() - start[name]) for name, clock in clocks.items()}
    return [
        {"tags": size, "clock": name, "seconds": round(seconds, 1), "target": TARGETS[size] if name == "wall" else None}
        for name, seconds in least.items()
    ]


def tags_of(size: int) -> list[str]:
    """O and B- and I- of as many types as fit; of an even number, the last type has B- alone."""
    return ["O", *(f"{prefix}-{number}" for number in range(size // 2) for prefix in "BI")][:size]


def make_examples(crf: MaskedCRF, number: int) -> list[Example]:
    """Gold paths drawn through random scores, and emissions that favour them with noise on top."""
    torch.manual_seed(0)
    size, examples = len(crf.tags), []
    for length in torch.randint(5, 27, (number,)).tolist():
        noise = torch.randn(1, length, size)
        noise[..., 0] += 2
        [path] = crf.decode(noise)
        gold = torch.tensor(path)
        emissions = 4 * torch.nn.functional.one_hot(gold, size).float() + 2 * torch.randn(length, size)
        segments = read_paths([path], crf.tags, crf.constraints.scheme)[0]
        examples.append(Example(emissions, gold, frozenset(segments)))
    return examples


if __name__ == "__main__":
    main()
