"""Several seeds of one setting: every run, and the best, the mean and the spread of their scores."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Unpack

from maskedcrf.data.labelled import LabelledData
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger.folder import write_json
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.training.distributed import is_main_process
from maskedcrf.training.settings import Settings
from maskedcrf.training.settings_dict import SettingsDict
from maskedcrf.training.train import train as train_one

MEASURES = {"retain": ("retain", "f1"), "discard": ("discard", "f1"), "illegal": ("illegal",)}


def train_seeds(
    train: LabelledData,
    dev: LabelledData | None = None,
    *,
    seeds: int,
    test: LabelledData | None = None,
    settings: Settings | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **changes: Unpack[SettingsDict],
) -> tuple[list[Tagger], dict[str, Any]]:
    """The taggers of `seeds` runs with seeds counted up from the setting `seed`, and the summary of their scores.

    With `output`, each run is saved as `seed-N` in that folder and the summary as `seeds.json`; runs that are done
    already are not run again.
    """
    if seeds < 1:
        raise MaskedCRFError(f"seeds is a number of runs, got {seeds}")
    folder = Path(output) if output is not None else None
    first = changes.get("seed", 1 if settings is None else settings.seed)
    numbers = range(first, first + seeds)
    taggers = []
    for number in numbers:
        own: SettingsDict = {**changes, "seed": number}
        target = None if folder is None else folder / f"seed-{number}"
        tagger = train_one(
            train,
            dev,
            test=test,
            settings=settings,
            output=target,
            overwrite=overwrite,
            progress=progress,
            **own,
        )
        taggers.append(tagger)
    summary = summarise([tagger.record.scores for tagger in taggers], numbers)
    if folder is not None and is_main_process():  # the others have no scores
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
