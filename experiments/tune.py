"""The settings of each corpus and encoder, chosen by dev F1 of a plain CRF: never by test, never in favour of the mask.

python -m experiments.tune --corpora DIR --encoders DIR --jobs 16      (writes experiments/tuned.json)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from experiments.grid import CANDIDATES, Run
from experiments.run import TUNED, corpus_of, policy_of, settings_of

SEED = 100
"""Not one of the grid's seeds."""


def dev_score(corpus: str, encoder: str, candidate: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Best dev F1 of one candidate, illegal segments retained, and how long it took."""
    import torch

    from maskedcrf import Tagger

    torch.set_num_threads(options.threads)
    given = corpus_of(corpus, options.corpora)
    settings = {**settings_of(Run(corpus, encoder, "crf", SEED), options.encoders), **candidate}
    tagger = Tagger.train(
        given.train, given.dev, bar=False, file_scheme=given.scheme, gold=policy_of(given), **settings
    )
    best = max(tagger.history, key=lambda entry: entry["dev"]["retain"]["f1"])
    seconds = sum(entry["seconds"] for entry in tagger.history)
    return {"dev_f1": round(best["dev"]["retain"]["f1"], 3), "epoch": best["epoch"], "seconds": round(seconds, 1)}


def chosen(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Of each corpus and encoder the best candidate's settings, and what all of them reached."""
    return {
        name: {"settings": max(tried, key=lambda entry: entry["dev_f1"])["settings"], "tried": tried}
        for name, tried in sorted(found.items())
    }


def tune(options: argparse.Namespace) -> int:
    """Run all candidates side by side and write what was found; returns how many failed."""
    found: dict[str, list[dict[str, Any]]] = {}
    failed = 0
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        under_way = {
            pool.submit(dev_score, corpus, encoder, candidate, options): (f"{corpus}/{encoder}", candidate)
            for (corpus, encoder), candidates in CANDIDATES.items()
            for candidate in candidates
            if options.only in f"{corpus}/{encoder}"
        }
        for done in as_completed(under_way):
            name, candidate = under_way[done]
            if done.exception() is not None:
                failed += 1
                print(f"{name}: failed: {done.exception()}", file=sys.stderr)
                continue
            entry = {**done.result(), "settings": candidate}
            print(name, json.dumps(entry), file=sys.stderr)
            found.setdefault(name, []).append(entry)
            # After each: whoever stops this early has the best so far.
            TUNED.write_text(json.dumps(chosen(found), indent=1) + "\n", encoding="utf-8")
    return failed


def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", default=os.environ.get("MASKEDCRF_CORPORA", "."), help="folder of the corpora")
    parser.add_argument("--encoders", default=os.environ.get("MASKEDCRF_ENCODERS", ""), help="folder of the encoders")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each run")
    parser.add_argument("--only", default="", help="only corpus/encoder names that contain this")
    return 1 if tune(parser.parse_args(given)) else 0


if __name__ == "__main__":
    sys.exit(main())
