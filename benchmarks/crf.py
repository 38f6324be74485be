"""The CRF layer against its peers, in one run: loss with gradients, decoding, memory, cost by length, share of a step.

Candidates take turns, so that a busy machine is unfair to none; on the CPU figures are minima, on the GPU medians of
wall time. Nothing of ours is timed whose loss or gradients differ from the reference in float64, and no peer whose
loss does. Ours runs with the BIO constraint on; the peers run without, which is their fastest way.

    python -m benchmarks.crf [--device cpu|cuda] [--threads 2] [--quick] [--plot]
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.metadata
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import yardstick
from benchmarks.cases import (
    OURS,
    Candidate,
    Case,
    Shape,
    make_case,
    our_candidates,
    our_layer,
    peer_candidates,
    step_of,
)
from benchmarks.peers import PEERS
from maskedcrf import __version__

RESULTS = Path(__file__).parent / "results"
SHAPES = [(32, 64, 9), (32, 128, 9), (32, 512, 9), (32, 128, 37), (128, 64, 9), (1, 64, 9), (1, 512, 33), (8, 512, 159)]
GPU_SHAPES = [*SHAPES, (256, 512, 9), (64, 512, 37)]
QUICK_SHAPES = [(4, 16, 9), (1, 12, 5)]
MEMORY_SHAPE = (64, 512, 37)
LENGTHS, BATCHES, SIZES = (64, 128, 256, 512, 1024, 2048), (8, 16, 32, 64, 128, 256), (5, 9, 17, 33, 65, 129)
LONGEST = 100_000
SLOW = 200
LONG = {"cpu": 1.0, "cuda": 0.05}
"""Seconds; on a CPU a stall could make any candidate take a tenth of that."""
TURN = {"cpu": (10_000, 0.25), "cuda": (30, 0.02)}
"""Calls and seconds, whichever is spent first. After another candidate's turn the first calls of a fast one were seen
to take up to twice as long as later ones, which a turn of a few calls would not get past."""
TURNS = 20
"""Fewest on a GPU, if there is time for them: its host changes its speed, and medians must meet all of its moods."""


def measure(works: dict[str, Callable[[], Any]], device: str, seconds: float) -> dict[str, float]:
    """Seconds of one call of each, in turns; a fast one has many calls a turn.

    One that takes over SLOW times the fastest, and long at that, is not asked again: nothing depends on its digits.
    """
    once = {name: first for name, work in works.items() if (first := _once(work, device))}
    limit = max(SLOW * min(once.values()), LONG[device])
    found: dict[str, list[float]] = {name: [first] if first > limit else [] for name, first in once.items()}
    turns = [name for name in found if not found[name]]
    gc.disable()  # as timeit does: another candidate's rubbish is nobody's time
    calls, enough = TURN[device]
    begin = time.perf_counter()
    for turn in itertools.count():
        spent = time.perf_counter() - begin
        if turn >= 2 and spent >= seconds and (device == "cpu" or turn >= TURNS or spent >= 5 * seconds):
            break
        for name in turns:
            if len(found[name]) < 3 or sum(found[name]) < seconds:
                found[name] += _timed(works[name], device, calls, min(enough, seconds / 4))
    gc.enable()
    gc.collect()
    pick = statistics.median if device == "cuda" else min
    return {name: pick(times) for name, times in found.items()}


def _once(work: Callable[[], Any], device: str) -> float | None:
    """Seconds of a second call; None where the device's memory does not suffice."""
    try:
        return _timed(work, device, 2)[-1]
    except torch.OutOfMemoryError:
        return None
    finally:
        if device == "cuda":
            torch.cuda.empty_cache()


def _timed(work: Callable[[], Any], device: str, calls: int, enough: float = float("inf")) -> list[float]:
    """Seconds of each of `calls` calls, fewer once `enough` seconds are spent; at least one."""
    times: list[float] = []
    while len(times) < calls and (not times or sum(times) < enough):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return times


def by_shape(shapes: list[Shape], device: str, seconds: float) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """For each shape and kind of work, seconds by candidate."""
    rows, refused = [], {}
    for shape in shapes:
        case = make_case(shape, device)
        peers, why_not = peer_candidates(case)
        refused.update({f"{name} at {'x'.join(map(str, shape))}": reason for name, reason in why_not.items()})
        candidates = {**our_candidates(case), **peers}
        for kind in ("step", "decode", "decode_tensor"):
            works = {name: work for name, one in candidates.items() if (work := getattr(one, kind))}
            # Peers decode to lists only: that is what an answer takes them.
            if kind == "decode_tensor" and device == "cpu":
                works |= {name: one.decode for name, one in peers.items() if one.decode}
            found = measure(works, device, seconds)
            if kind == "decode_tensor" and device == "cuda":  # nobody else is there: the row before serves as well
                found |= {name: taken for name, taken in rows[-1]["seconds"].items() if name in peers}
            rows.append({"shape": shape, "work": kind, "seconds": found})
        report_shape(rows[-3:])
    return rows, refused


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """How many times faster each of ours is than the best peer of the same run."""
    peers = [seconds for name, seconds in row["seconds"].items() if not name.startswith(OURS)]
    ours = {name: seconds for name, seconds in row["seconds"].items() if name.startswith(OURS)}
    return {name: min(peers) / seconds for name, seconds in ours.items()} if peers else {}


def report_shape(rows: list[dict[str, Any]]) -> None:
    """One line for each kind of work."""
    for row in rows:
        peers = {name: s for name, s in row["seconds"].items() if not name.startswith(OURS)}
        best = min(peers, key=peers.__getitem__) if peers else "no peer"
        texts = "  ".join(f"{name.removeprefix(OURS + ' ')} {value:.1f}x" for name, value in ratios(row).items())
        milliseconds = "  ".join(f"{name} {1e3 * s:.3f}" for name, s in row["seconds"].items())
        print(f"{'x'.join(map(str, row['shape'])):>12} {row['work']:<13} {texts}  (best peer {best})")
        print(f"{'':>26} ms: {milliseconds}", flush=True)


def by_yardstick(shapes: list[Shape], seconds: float) -> list[dict[str, Any]]:
    """Seconds of an iteration of python-crfsuite for each shape; not comparable as a peer's are, see `yardstick`."""
    try:
        return [
            {"shape": shape, "seconds": yardstick.seconds_an_iteration(make_case(shape, "cpu").mask, shape[2], seconds)}
            for shape in shapes
        ]
    except ImportError as error:
        print(f"no yardstick: {error}")
        return []


def by_axis(device: str, seconds: float, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Seconds of a step as one axis grows, for the plots: ours everywhere, two peers where they are not too slow."""
    found: dict[str, list[dict[str, Any]]] = {}
    for axis, shapes in (
        ("length", [(16, length, 9) for length in LENGTHS]),
        ("batch", [(batch, 64, 9) for batch in BATCHES]),
        ("tags", [(16, 64, size) for size in SIZES]),
    ):
        found[axis] = []
        for shape in shapes[:2] if quick else shapes:
            case = make_case(shape, device)
            peers, _ = peer_candidates(case) if max(shape[:2]) <= 512 else ({}, {})
            known = {name: peers[name] for name in ("pytorch-crf", "torch-struct") if name in peers}
            works = {name: one.step for name, one in {**our_candidates(case), **known}.items()}
            found[axis].append({"shape": shape, "seconds": measure(works, device, seconds / 4)})
    return found


def one_long_sequence(device: str, length: int) -> dict[str, float]:
    """Seconds for one sequence with every position on."""
    case = make_case((1, length, 9), device)
    crf = our_layer(case, "auto")
    step = step_of(case, list(crf.parameters()), lambda: crf(case.emissions, case.tags, case.mask))
    works = {"step": step, "decode": lambda: crf.decode(case.emissions, case.mask)}
    return {"tokens": length, **measure(works, device, 1.0)}


def peak_memory(name: str, shape: Shape, device: str) -> int:
    """Bytes that a step of one candidate needs at its peak, beyond the batch; on the CPU in a process of its own."""
    if device == "cuda":
        work = _one(name, make_case(shape, device)).step
        work()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    command = [sys.executable, "-m", "benchmarks.crf", "--peak", name, "--shape", "x".join(map(str, shape))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    return int(done.stdout.split()[-1])


def _one(name: str, case: Case) -> Candidate:
    if name.startswith(OURS):
        crf = our_layer(case, name.removeprefix(OURS + " "))
        return Candidate(step_of(case, list(crf.parameters()), lambda: crf(case.emissions, case.tags, case.mask)))
    peer = PEERS[name](case.parameters)
    return Candidate(step_of(case, peer.parameters, lambda: peer.loss(case.emissions, case.tags, case.mask)))


def _print_peak(name: str, shape: Shape) -> None:
    """In a process of its own (Linux): the mark is reset and free memory given back, or making the case hides it."""
    _one(name, make_case((2, 8, 9), "cpu")).step()
    work = _one(name, make_case(shape, "cpu")).step
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    work()
    print(_status("VmHWM") - before)


def _status(field: str) -> int:
    """Bytes of memory of this process, from the kernel's own count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(field)))


def share_of_a_step(seconds: float) -> dict[str, float]:
    """Seconds of a fine-tuning step, 32 x 128 tokens and 9 tags in bfloat16, by what stands on the encoder."""
    from transformers import BertConfig, BertModel

    case = make_case((32, 128, 9), "cuda")
    encoder = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False).cuda().train()
    head = torch.nn.Linear(768, 9).cuda()
    tokens = torch.randint(0, 30000, case.mask.shape, device="cuda")
    crf, peer = our_layer(case, "auto"), PEERS["pytorch-crf"](case.parameters)
    target = case.tags.masked_fill(~case.mask, -100)
    losses: dict[str, tuple[Callable[[Tensor], Tensor], list[Tensor]]] = {
        "softmax": (lambda scores: torch.nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten()), []),
        OURS: (lambda scores: crf(scores, case.tags, case.mask), list(crf.parameters())),
        "pytorch-crf": (lambda scores: peer.loss(scores.float(), case.tags, case.mask), peer.parameters),
    }

    def make(loss: Callable[[Tensor], Tensor], extra: list[Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters(), *extra], lr=1e-5, fused=True)

        def step() -> None:
            with torch.autocast("cuda", torch.bfloat16):
                scores = head(encoder(tokens, attention_mask=case.mask.long()).last_hidden_state)
            loss(scores).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    return measure({name: make(*parts) for name, parts in losses.items()}, "cuda", seconds)


def signature(device: str) -> dict[str, Any]:
    """What the figures depend on."""
    packages = ["torch", "numba", "numpy", "triton", "transformers", "pytorch-crf", "torch-struct", yardstick.NAME]
    packages += ["TorchCRF", "allennlp", "fastNLP", "flash-semicrf", "pytorch-partial-crf", "supar"]
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "maskedcrf": __version__,
        "python": platform.python_version(),
        "packages": found,
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg(),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "figures": "medians of wall time" if device == "cuda" else "minima of wall time",
        "dtype": "float32",
        "lengths": "uniform in [T/4, T]",
        "constraint": "BIO for ours, none for peers",
    }


def run(device: str, seconds: float, *, quick: bool) -> dict[str, Any]:
    """Everything, as one record."""
    seconds = 0.05 if quick else seconds
    shapes = QUICK_SHAPES if quick else GPU_SHAPES if device == "cuda" else SHAPES
    rows, refused = by_shape(shapes, device, seconds)
    memory_shape = (4, 16, 9) if quick else MEMORY_SHAPE
    ours = f"{OURS} {'gpu' if device == 'cuda' else 'cpu'}"
    memory = {name: peak_memory(name, memory_shape, device) for name in (ours, f"{OURS} plain", "pytorch-crf")}
    return {
        "signature": signature(device),
        "shapes": [{**row, "times_best_peer": ratios(row)} for row in rows],
        "refused": refused,
        "yardstick": {} if device == "cuda" else {yardstick.NAME: by_yardstick(shapes, seconds / 4)},
        "peak_memory": {"shape": memory_shape, "bytes": memory},
        "axes": by_axis(device, seconds, quick),
        "long": one_long_sequence(device, 1000 if quick else LONGEST),
        "fine_tuning_step": share_of_a_step(5 * seconds) if device == "cuda" and not quick else None,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run, print, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each shape and kind of work")
    parser.add_argument("--quick", action="store_true", help="small shapes, a few seconds, writes nothing")
    parser.add_argument("--plot", action="store_true", help="draw from the results files, run nothing")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # the peers' own
    torch.set_num_threads(given.threads)
    if given.peak:
        rows, length, size = map(int, given.shape.split("x"))
        _print_peak(given.peak, (rows, length, size))
        return
    if not given.plot:
        record = run(given.device, given.seconds, quick=given.quick)
        print(
            json.dumps({key: record[key] for key in ("peak_memory", "long", "fine_tuning_step", "refused")}, indent=1)
        )
        if given.quick:
            return
        RESULTS.mkdir(exist_ok=True)
        target = RESULTS / f"crf-{'gpu' if given.device == 'cuda' else 'cpu'}.json"
        target.write_text(json.dumps(record, indent=1) + "\n")
    from benchmarks.crf_plots import draw, write_page

    draw(RESULTS)
    write_page(RESULTS)


if __name__ == "__main__":
    main()
