"""The settings of each corpus and encoder, chosen by dev F1, never by test.

The tables that compare heads use what a plain CRF liked best, so that none is in favour of the mask. Encoders that are
chosen whole, which ask only how far MCRF-training goes, are chosen by the MCRF itself.

python -m experiments.tune --corpora DIR --encoders DIR --jobs 16      (writes experiments/tuned.json)

Every candidate is tried once, the best three with two more seeds, and the best mean is taken. What is in the file
already is kept and not tried again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from statistics import fmean
from typing import Any, NamedTuple

from experiments.candidates import CANDIDATES
from experiments.command import command, minutes, parser_for, positive, workers
from experiments.grid import CHOSEN_WHOLE, HeadName, Run, as_named_now
from experiments.run import TUNED, corpus_of, policy_of, settings_of, tuned
from maskedcrf.files import atomic_file

SEEDS = (100, 101, 102)
"""None of them one of the grid's."""
FINALISTS = 3
CHOSEN_BY: dict[str, HeadName] = dict.fromkeys(CHOSEN_WHOLE, "mcrf")
"""The head whose dev F1 chooses an encoder's settings, unless it is the plain CRF's."""

Tried = list[dict[str, Any]]
"""What runs reached: `dev_f1`, `epoch`, `seconds`, `settings`, and `seed` (the first if left out)."""


class Trial(NamedTuple):
    """One run: corpus and encoder, settings as JSON, seed."""

    name: str
    settings: str
    seed: int


def dev_score(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """Best dev F1 of one candidate, illegal segments retained, and how long it took."""
    import torch

    from maskedcrf import Tagger

    torch.set_num_threads(options.threads)
    corpus, encoder = trial.name.split("/")
    given = corpus_of(corpus, options.corpora)
    run = Run(corpus, encoder, CHOSEN_BY.get(encoder, "crf"), trial.seed)
    settings = settings_of(run, options.encoders, json.loads(trial.settings))
    reading: dict[str, Any] = {"file_scheme": given.scheme, "illegal_gold": policy_of(given), "progress": False}
    tagger = Tagger.train(given.train, given.dev, **reading, **as_named_now(settings))
    best = max(tagger.history, key=lambda entry: entry["dev"]["retain"]["f1"])
    seconds = sum(entry["seconds"] for entry in tagger.history)
    return {"dev_f1": round(best["dev"]["retain"]["f1"], 3), "epoch": best["epoch"], "seconds": round(seconds, 1)}


def by_settings(tried: Tried) -> dict[str, dict[int, float]]:
    """Dev F1 of each candidate by seed."""
    found: dict[str, dict[int, float]] = {}
    for entry in tried:
        found.setdefault(json.dumps(entry["settings"]), {})[entry.get("seed", SEEDS[0])] = entry["dev_f1"]
    return found


def winner(tried: Tried) -> dict[str, Any]:
    """The settings with the best mean, of those tried with the most seeds."""
    found = by_settings(tried)
    best = max(found, key=lambda settings: (len(found[settings]), fmean(found[settings].values())))
    settings: dict[str, Any] = json.loads(best)
    return settings


def due(name: str, tried: Tried, failed: set[Trial]) -> list[Trial]:
    """The runs that come next: every candidate once; when all have been tried, the best with the other seeds."""
    corpus, encoder = name.split("/")
    found = by_settings(tried)
    first = {settings: scores[SEEDS[0]] for settings, scores in found.items() if SEEDS[0] in scores}
    once = [Trial(name, json.dumps(candidate), SEEDS[0]) for candidate in CANDIDATES[corpus, encoder]]
    missing = [trial for trial in once if trial.settings not in first and trial not in failed]
    finalists = sorted(first, key=lambda settings: -first[settings])[:FINALISTS]
    again = [Trial(name, settings, seed) for settings in finalists for seed in SEEDS[1:]]
    return missing or [trial for trial in again if trial.seed not in found[trial.settings] and trial not in failed]


def tune(options: argparse.Namespace, pool: Executor) -> int:
    """Run what is due side by side, long runs first, and write what was found; returns how many failed."""
    names = [name for name in map("/".join, CANDIDATES) if options.only in name]
    found = {name: entry["tried"] for name, entry in tuned().items() if not (options.again and name in names)}
    failed: set[Trial] = set()
    waiting = [trial for name in names for trial in due(name, found.setdefault(name, []), failed)]
    under_way: dict[Future[dict[str, Any]], Trial] = {}
    deadline = time.monotonic() + 60 * options.budget
    while True:
        while waiting and len(under_way) < options.jobs and time.monotonic() < deadline:
            trial = waiting.pop(0)
            under_way[pool.submit(dev_score, trial, options)] = trial
        if not under_way:
            return len(failed)
        for done in wait(under_way, return_when=FIRST_COMPLETED).done:
            trial = under_way.pop(done)
            if error := done.exception():
                failed.add(trial)
                print(f"{trial.name}: failed: {error}: {trial.settings}", file=sys.stderr)
            else:
                note(found, trial, done.result())
            if trial.name not in {each.name for each in (*waiting, *under_way.values())}:
                waiting += due(trial.name, found[trial.name], failed)


def note(found: dict[str, Tried], trial: Trial, scores: dict[str, Any]) -> None:
    """Take in one run and put the file in its place: whoever stops this early has the best so far."""
    entry = {**scores, "seed": trial.seed, "settings": json.loads(trial.settings)}
    print(trial.name, json.dumps(entry), file=sys.stderr)
    found[trial.name].append(entry)
    whole = {name: {"settings": winner(tried), "tried": tried} for name, tried in sorted(found.items()) if tried}
    with atomic_file(TUNED) as handle:
        handle.write(json.dumps(whole, indent=1).encode() + b"\n")


@command
def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_for(__doc__, "corpora", "encoders")
    parser.add_argument("--jobs", type=positive, default=1, help="runs side by side")
    parser.add_argument("--threads", type=positive, default=1, help="CPU threads of each run")
    parser.add_argument("--budget", type=minutes, default=float("inf"), help="minutes after which no run is begun")
    parser.add_argument("--only", default="", help="only corpus/encoder names that contain this")
    parser.add_argument("--again", action="store_true", help="forget what was tried of these names, and try it again")
    options = parser.parse_args(given)
    with workers(options.jobs) as pool:
        return 1 if tune(options, pool) else 0


if __name__ == "__main__":
    sys.exit(main())
