"""Taggers for others to begin with: a recipe that says `start` needs the one it names in the folder of encoders.

python -m experiments.first msra-tagger --corpora DIR --encoders DIR

Trained with MCRF on the corpus's train, the epoch chosen by its dev; one that is there already is left as it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.candidates import STARTS
from experiments.command import command, parser_for
from experiments.extra import corpus_of
from experiments.grid import Run, as_named_now
from experiments.run import policy_of, settings_of
from experiments.tune import SEEDS


@command
def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_for(__doc__, "corpora", "encoders")
    parser.add_argument("names", nargs="+", choices=sorted(STARTS), help="which to make")
    parser.add_argument("--sentences", type=int, default=None, help="train on so many only, to try it out")
    options = parser.parse_args(given)
    for name in options.names:
        make(name, options)
    return 0


def make(name: str, options: argparse.Namespace) -> None:
    """Train one of them and save it beside the encoders."""
    from maskedcrf import Tagger

    target = Path(options.encoders, name)
    if target.exists():
        print(f"{target}: is there already", file=sys.stderr)
        return
    corpus, recipe = STARTS[name]
    known = corpus_of(corpus, options.corpora)
    settings = settings_of(Run(corpus, "tuned", "mcrf", SEEDS[0]), options.encoders, recipe)
    reading: dict[str, Any] = {"file_scheme": known.scheme, "illegal_gold": policy_of(known), "progress": False}
    tagger = Tagger.train(
        known.train[: options.sentences],
        known.dev[: options.sentences],
        output=target,
        **reading,
        **as_named_now(settings),
    )
    found = max(entry["dev"]["retain"]["f1"] for entry in tagger.history)
    print(f"{target}: dev F1 {found:.2f}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
