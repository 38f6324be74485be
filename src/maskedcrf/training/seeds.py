"""Several seeds of one setting: every run, and the best, the mean and the spread of their scores."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger.folder import write_json
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.training.dataset import Data
from maskedcrf.training.distributed import is_first
from maskedcrf.training.train import train

MEASURES = {"retain": ("retain", "f1"), "discard": ("discard", "f1"), "illegal": ("illegal",)}


def train_seeds(
    data: Data, dev: Data = None, *, seeds: int, output: str | Path | None = None, seed: int = 1, **settings: Any
) -> tuple[list[Tagger], dict[str, Any]]:
    """The taggers of `seeds` runs with seeds counted up from `seed`, and the summary of their scores.

    With `output`, each run is saved as `seed-N` in that folder and the summary as `seeds.json`; runs that are done
    already are not run again.
    """
    if seeds < 1:
        raise MaskedCRFError(f"seeds is a number of runs, got {seeds}")
    folder = Path(output) if output is not None else None
    taggers = []
    for number in range(seed, seed + seeds):
        target = None if folder is None else folder / f"seed-{number}"
        taggers.append(train(data, dev, output=target, seed=number, **settings))
    summary = summarise([tagger.record.scores for tagger in taggers], range(seed, seed + seeds))
    if folder is not None and is_first():  # the others have no scores
        write_json(folder / "seeds.json", summary)
    return taggers, summary


def summarise(scores: list[dict[str, Any]], seeds: range) -> dict[str, Any]:
    """Of dev and test, under retain and discard: each seed's F1, the best, the mean, the standard deviation.

    The standard deviation is that of a sample (n - 1); 0 for one run. A part that some run lacks is left out.
    """
    parts: dict[str, Any] = {}
    for part in (name for name in scores[0] if all(name in run for run in scores)):
        parts[part] = {}
        for name, path in MEASURES.items():
            values = [float(_at(run[part], path)) for run in scores]
            best = min(values) if name == "illegal" else max(values)
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            parts[part][name] = {"best": best, "mean": statistics.fmean(values), "std": spread, "runs": values}
    return {"seeds": list(seeds), **parts}


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = values[name]
    return values
