"""What patterns and dictionaries cost: a megabyte made to be slow for each pattern, and redaction with rules beside it.

Times are processor time, minima over interleaved repeats; the long lines are those of tests/redaction/slow_pieces.json.

    python -m benchmarks.patterns [REPEATS]    # prints a table, writes benchmarks/results/patterns.json
"""

from __future__ import annotations

import json
import random
import string
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maskedcrf import Tagger
from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.evaluation.compare import signature
from maskedcrf.redaction.patterns import BUILTIN
from maskedcrf.redaction.redactor import Redactor
from maskedcrf.redaction.rules import Dictionary, Rules

ROOT = Path(__file__).parents[1]
PIECES = ROOT / "tests" / "redaction" / "slow_pieces.json"
RESULTS = Path(__file__).parent / "results" / "patterns.json"
MEGABYTE = 1 << 20
NAMES = 100_000
TEXTS = 2_000


def main() -> None:
    """Measure, print, write."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    worst = slow_lines(repeats)
    for name, (seconds, piece) in worst.items():
        print(f"{name:<12} {seconds:6.3f} s for 1 MiB of {piece!r:.40}")
    cost = redaction(repeats)
    for name, seconds in cost.items():
        print(f"{name:<45} {seconds:6.3f} s, {seconds / cost['model alone']:.2f} times the model alone")
    answer = {
        "signature": signature(benchmark="patterns", time="processor, interleaved minima", repeats=repeats),
        "slowest_megabyte_s": {name: seconds for name, (seconds, _) in worst.items()},
        "slowest_piece": {name: piece for name, (_, piece) in worst.items()},
        "redaction_s": cost,
        "texts": TEXTS,
        "names": NAMES,
    }
    RESULTS.write_text(json.dumps(answer, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def slow_lines(repeats: int) -> dict[str, tuple[float, str]]:
    """For each pattern the seconds of its slowest line, and what that line repeats."""
    found = {}
    for name, pieces in json.loads(PIECES.read_text(encoding="utf-8")).items():
        lines = {piece: piece * (MEGABYTE // len(piece)) for piece in pieces}
        search = {
            piece: (lambda own=line, name=name: sum(1 for _ in BUILTIN[name].find(own)))
            for piece, line in lines.items()
        }
        seconds = interleaved(search, repeats)
        piece = max(seconds, key=lambda each: seconds[each])
        found[name] = seconds[piece], piece
    return found


def redaction(repeats: int) -> dict[str, float]:
    """Seconds to redact texts of the demo corpus, with and without rules; a tenth of them has an address to find."""
    corpus, draw = demo_corpus(), random.Random(0)
    parts: Any = {"encoder": {"words": 64, "characters": 0, "lstm_hidden": 128}, "batch_sentences": 8, "epochs": 1}
    tagger = Tagger.train(corpus.train[:500], progress=False, **parts)
    texts = [" ".join(sentence.tokens) for sentence in (corpus.train * 4)[:TEXTS]]
    texts = [text + (" ann@example.org" if number % 10 == 0 else "") for number, text in enumerate(texts)]
    names = tuple("".join(draw.choices(string.ascii_lowercase, k=9)) for _ in range(NAMES))
    rules = {
        "model alone": None,
        "with the patterns that ship": Rules(tuple(BUILTIN.values())),
        f"with a dictionary of {NAMES:,} names": Rules((), (Dictionary("names", "PER", names),)),
    }
    redactors = {name: Redactor(tagger, threshold=0.2, rules=own) for name, own in rules.items()}
    tasks = {name: (lambda own=redactor: list(own.texts(texts))) for name, redactor in redactors.items()}
    return interleaved(tasks, repeats)


def interleaved(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least processor time of each call, all of them once in every round."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            least[name] = min(least[name], time.process_time() - begin)
    return least


if __name__ == "__main__":
    main()
