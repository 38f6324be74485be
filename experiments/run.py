"""The runner: trains what the grid asks for and is not in the results yet, one JSON line a finished run.

python -m experiments.run main --corpora DIR --encoders DIR --jobs 8 --budget 30
python -m experiments.run demo                     (built-in corpus, a minute on a CPU)
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from experiments.board import Board
from experiments.command import command, minutes, parser_for, positive, workers
from experiments.grid import (
    ENCODERS,
    FAMILY,
    FEWEST_STEPS,
    GROUPS,
    OPEN,
    WITH_DEV,
    Run,
    as_named_now,
    informative_order,
)
from experiments.store import RESULTS, finished, put
from maskedcrf.errors import DataError, MaskedCRFError, MissingExtraError

TUNED = Path(__file__).parent / "tuned.json"
"""What `experiments.tune` found best on dev."""


def settings_of(run: Run, encoders: str, candidate: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything `Tagger.train` is told, with a candidate's settings in the place of the tuned ones if given."""
    if candidate is None:
        candidate = tuned().get(f"{run.corpus}/{FAMILY.get(run.encoder, run.encoder)}", {}).get("settings", {})
    chosen = json.loads(json.dumps({**ENCODERS[run.encoder], **candidate}).replace("{folder}", encoders))
    if "encoder" not in chosen:
        raise MaskedCRFError(f"{run.name}: no encoder chosen yet: python -m experiments.tune --only {run.encoder}")
    if run.share < 1:
        chosen["minimum_steps"] = FEWEST_STEPS
    return {**run.training, **chosen, "seed": run.seed}


def tuned() -> dict[str, dict[str, Any]]:
    """Of each corpus and encoder the `settings` taken, and all that was `tried`."""
    try:
        found: dict[str, dict[str, Any]] = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
    except ValueError as error:
        raise DataError(f"{TUNED}: not JSON ({error}); fetch it again, or let experiments.tune make it anew") from error
    return found


@cache
def corpus_of(name: str, folder: str) -> Any:
    """A corpus of the folder, read once a process."""
    from maskedcrf.data.corpora import load

    return load(name, folder)


def execute(run: Run, corpora: str, encoders: str, threads: int | None = None) -> dict[str, Any]:
    """Train one run and measure it: the line that goes into the results."""
    import torch

    from experiments.measure import opened

    if threads:
        torch.set_num_threads(threads)
    with opened(run.scheme) if run.head == OPEN else nullcontext():
        return _measured(run, corpora, encoders)


def _measured(run: Run, corpora: str, encoders: str) -> dict[str, Any]:
    from experiments.committee import together
    from experiments.measure import initial_mass, measure
    from maskedcrf import Tagger, __version__
    from maskedcrf.data.splits import part_of

    corpus = corpus_of(run.corpus, corpora)
    train, dev = (corpus.train + corpus.dev, None) if run.encoder in WITH_DEV else (corpus.train, corpus.dev)
    train = train if run.share == 1 else part_of(train, run.share, seed=0)
    settings = settings_of(run, encoders)
    reading = {"file_scheme": corpus.scheme, "illegal_gold": policy_of(corpus), "dev_fraction": 0}
    told, settings = settings, as_named_now(settings)
    # CRF and MCRF start from the same weights: one of them says what both begin with.
    initial = initial_mass(train, dev, corpus.test, **reading, **settings) if run.head in ("softmax", "crf") else None
    started = time.perf_counter()
    members = [Tagger.train(train, dev, progress=False, **reading, **settings | {"seed": seed}) for seed in run.seeds]
    tagger = together(members)
    seconds = time.perf_counter() - started
    return {
        "name": run.name,
        "run": run.as_dict(),
        "signature": _signature(run, tagger),
        "version": __version__,
        "settings": _without_paths(told, encoders),
        "seconds": round(seconds, 1),
        "sentences": {"train": len(train), "dev": len(dev or ()), "test": len(corpus.test)},
        "initial": {"illegal_mass": initial},
        "best_epoch": tagger.record.epoch,
        "epochs": [_epoch(entry) for entry in tagger.history],
        "dev": measure(tagger, dev, corpus.scheme, run.head) if dev else None,
        "test": measure(tagger, corpus.test, corpus.scheme, run.head),
    }


def _signature(run: Run, tagger: Any) -> str:
    """What the run's numbers were measured on and with, in one line."""
    import torch

    from maskedcrf.evaluation.compare import signature

    return signature(
        corpus=f"{run.corpus}/test",
        share=run.share,
        scheme=run.scheme,
        encoder=run.encoder,
        head=run.head,
        seeds="+".join(map(str, run.seeds)),
        device=torch.cuda.get_device_name() if tagger.model.device.type == "cuda" else platform.machine(),
        torch=torch.__version__,
    )


def policy_of(corpus: Any) -> str:
    """What is done about illegal gold: where the corpus is known to have some, it is repaired."""
    return "error" if corpus.gold == "error" else "repair"


def _epoch(entry: dict[str, Any]) -> list[float]:
    """Train loss, and where there is a dev its loss, F1 and illegal %, of one epoch, rounded."""
    dev = entry.get("dev")
    found = (entry["loss"], dev["loss"], dev["retain"]["f1"], dev["illegal"]) if dev else (entry["loss"],)
    return [round(float(value), 4) for value in found]


def _without_paths(settings: dict[str, Any], encoders: str) -> Any:
    return json.loads(json.dumps(settings).replace(f'"{encoders}/', '"{folder}/'))


def needed(run: Run) -> set[str]:
    """What the run reads from the folder of encoders."""
    return set(re.findall(r"\{folder\}/([^\"]+)", json.dumps(settings_of(run, "{folder}"))))


def with_their_encoders(runs: Sequence[Run], encoders: str) -> list[Run]:
    """Those whose encoders lie in the folder; of the others it is said what they lack."""
    lacking = {run: {name for name in needed(run) if not encoders or not Path(encoders, name).exists()} for run in runs}
    if names := sorted(set().union(*lacking.values())):
        where = f"which {encoders} lacks" if encoders else "and no folder of encoders is given (MASKEDCRF_ENCODERS)"
        count = sum(map(bool, lacking.values()))
        print(f"{count} runs are left out: they need {', '.join(names)}, {where}", file=sys.stderr)
    return [run for run in runs if not lacking[run]]


def superseded(entry: dict[str, Any]) -> bool:
    """Whether a run was made by a recipe that tuning has since given up."""
    return bool(settings_of(Run(**entry["run"]), "{folder}") != entry["settings"])


Event = tuple[Run, dict[str, Any] | BaseException | None]
"""A run with its result or its error; with None it has only begun."""


def in_processes(runs: Sequence[Run], jobs: int, budget: float, arguments: tuple[Any, ...]) -> Iterator[Event]:
    """Runs as they begin and end, `jobs` at a time; none is begun after so many minutes."""
    waiting, deadline = list(runs), time.monotonic() + 60 * budget
    with workers(jobs) as pool:
        under_way: dict[Any, Run] = {}
        while waiting or under_way:
            while waiting and len(under_way) < jobs and time.monotonic() < deadline:
                run = waiting.pop(0)
                under_way[pool.submit(execute, run, *arguments)] = run
                yield run, None
            if not under_way:
                return
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(done), done.exception() or done.result()


def on_ray(runs: Sequence[Run], jobs: int, budget: float, arguments: tuple[Any, ...]) -> Iterator[Event]:
    """The same on a Ray cluster: the one of RAY_ADDRESS, or this machine; the minutes begin when it is there."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("--ray needs Ray: pip install 'maskedcrf[ray]'") from error

    ray.init(ignore_reinit_error=True, log_to_driver=False)
    gpus = ray.cluster_resources().get("GPU", 0)  # type: ignore[no-untyped-call]
    remote = ray.remote(num_cpus=1, num_gpus=gpus / jobs if gpus else 0)(execute)
    waiting, under_way, deadline = list(runs), dict[Any, Run](), time.monotonic() + 60 * budget
    while waiting or under_way:
        while waiting and len(under_way) < jobs and time.monotonic() < deadline:
            run = waiting.pop(0)
            under_way[remote.remote(run, *arguments)] = run
            yield run, None
        if not under_way:
            return
        ready, _ = ray.wait(list(under_way), num_returns=1)
        for reference in ready:
            run = under_way.pop(reference)
            try:
                yield run, ray.get(reference)
            except ray.exceptions.RayError as error:
                yield run, error


def run_grid(runs: Iterable[Run], options: argparse.Namespace) -> int:
    """Run what is missing, or was made by a recipe that tuning has since given up; returns how many failed."""
    ordered = list(dict.fromkeys(runs)) if options.as_listed else informative_order(list(runs))
    done = {name: entry for name, entry in finished(options.results).items() if not superseded(entry)}
    missing = with_their_encoders([run for run in ordered if run.name not in done], options.encoders)
    drive = on_ray if options.ray else in_processes
    arguments = (options.corpora, options.encoders, options.threads)
    options.results.mkdir(parents=True, exist_ok=True)  # a folder that cannot be is named before anything is trained
    board = Board([run for run in ordered if run.name in done or run in missing], done)
    with board.shown():
        for run, result in drive(missing, options.jobs, options.budget, arguments):
            if isinstance(result, dict):
                put(options.results, result)
            board.note(run, result)
    return board.failed


@command
def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_for(__doc__, "corpora", "encoders")
    parser.add_argument("groups", nargs="+", choices=sorted(GROUPS), help="parts of the grid")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results files")
    parser.add_argument("--jobs", type=positive, default=1, help="runs side by side")
    parser.add_argument("--threads", type=positive, default=None, help="CPU threads of each run")
    parser.add_argument("--budget", type=minutes, default=float("inf"), help="minutes after which no run is begun")
    parser.add_argument("--only", default="", help="only runs whose name contains this")
    parser.add_argument("--as-listed", action="store_true", help="group after group, not every group's seed 1 first")
    parser.add_argument("--ray", action="store_true", help="on a Ray cluster instead of local processes")
    options = parser.parse_args(given)
    runs = [run for group in options.groups for run in GROUPS[group] if options.only in run.name]
    if not runs:
        example = GROUPS[options.groups[0]][0].name
        raise MaskedCRFError(f"--only {options.only}: no run's name contains this; they are like {example}")
    return 1 if run_grid(runs, options) else 0


if __name__ == "__main__":
    # Ray's workers look functions up in their module, and have another `__main__`.
    from experiments.run import main as start

    sys.exit(start())
