"""Scoring 1,000,000 tokens: maskedcrf against seqeval on the same lists, and its command against a Perl scorer.

Runs are interleaved; times are processor time, ratios are of minima.
No figure is kept unless the answers agree.

    python benchmarks/evaluation.py [REPEATS]    # prints a table, writes benchmarks/results/evaluation.json
"""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from maskedcrf import evaluate
from maskedcrf.evaluation.compare import signature

TOKENS = 1_000_000
RESULTS = Path(__file__).parent / "results" / "evaluation.json"
PERL = r"""
use strict; use warnings;
my ($tokens, $same, $right, $line) = (0, 0, 0, 0);
my (%wanted, %found, %right);
my @sides = ({tag => "O", kind => "", start => 0}, {tag => "O", kind => "", start => 0});
sub step {
    my ($side, $tag, $kind, $tally) = @_;
    my $goes_on = $tag eq "I" && $side->{tag} ne "O" && $side->{kind} eq $kind;
    my $ended = ($side->{tag} ne "O" && !$goes_on) ? "$side->{start} $side->{kind}" : "";
    if ($tag ne "O" && !$goes_on) { $side->{start} = $line; $tally->{$kind}++; }
    $side->{tag} = $tag; $side->{kind} = $kind;
    return $ended;
}
while (<STDIN>) {
    my @cells = split;
    my ($gold, $guess) = @cells ? @cells[-2, -1] : ("O", "O");
    my ($gold_tag, $gold_kind) = $gold =~ /^([^-]*)-(.*)$/ ? ($1, $2) : ($gold, "");
    my ($guess_tag, $guess_kind) = $guess =~ /^([^-]*)-(.*)$/ ? ($1, $2) : ($guess, "");
    $line++;
    my $one = step($sides[0], $gold_tag, $gold_kind, \%wanted);
    my $two = step($sides[1], $guess_tag, $guess_kind, \%found);
    if ($one ne "" && $one eq $two) { $right++; $right{(split / /, $one)[1]}++; }
    if (@cells) { $tokens++; $same++ if $gold eq $guess; }
}
my ($all_wanted, $all_found) = (0, 0);
$all_wanted += $_ for values %wanted;
$all_found += $_ for values %found;
print "$tokens $same $all_wanted $all_found $right\n";
"""

Tags = list[list[str]]


def main() -> None:
    """Measure, print, write."""
    gold, predicted = corpus(random.Random(0), TOKENS)
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rows = [*against_seqeval(gold, predicted, repeats), *against_perl(gold, predicted, repeats)]
    memory = [streaming_peak(gold, predicted, times) for times in (1, 4)]
    for each in rows:
        times = f"{each['ours_s']:8.3f} s   {each['theirs']:<34} {each['theirs_s']:8.3f} s"
        print(f"{each['what']:<42} {times}   {each['ratio']:6.1f}x")
    print(f"peak memory of the command: {memory[0]:.0f} MiB on one file, {memory[1]:.0f} MiB on four times as much")
    answer = {
        "signature": signature(
            benchmark="evaluation", tokens=TOKENS, scheme="BIO", time="processor, interleaved minima"
        ),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "seqeval": version("seqeval")},
        "rows": rows,
        "peak_mib": {"one file": memory[0], "four times as much": memory[1]},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n")


def corpus(generator: random.Random, tokens: int) -> tuple[Tags, Tags]:
    """Legal BIO gold, and predictions that differ in one token of twenty, often illegally."""
    gold: Tags = []
    predicted: Tags = []
    made = 0
    while made < tokens:
        sentence: list[str] = []
        size = min(generator.randint(5, 40), tokens - made)
        while len(sentence) < size:
            kind = generator.choice(["PER", "LOC", "ORG", "MISC"])
            length = min(generator.randint(1, 3), size - len(sentence))
            inside = [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
            sentence += inside if generator.random() < 0.15 else ["O"] * length
        gold.append(sentence)
        noise = ["O", "I-PER", "B-LOC", "I-ORG"]
        predicted.append([generator.choice(noise) if generator.random() < 0.05 else tag for tag in sentence])
        made += size
    return gold, predicted


def against_seqeval(gold: Tags, predicted: Tags, repeats: int) -> list[dict[str, object]]:
    """Our two strategies against seqeval's two modes: its F1 alone, and its report, which is what ours holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from seqeval.metrics import classification_report, f1_score
        from seqeval.scheme import IOB2

    modes = {"seqeval": {}, "strict": {"mode": "strict", "scheme": IOB2}}
    rows = []
    for strategy, options in modes.items():
        jobs: dict[str, Callable[[], object]] = {
            "ours": partial(evaluate, gold, predicted, strategy=strategy),
            "f1_score": partial(f1_score, gold, predicted, zero_division=0, **options),
            "classification_report": partial(
                classification_report, gold, predicted, output_dict=True, zero_division=0, **options
            ),
        }
        best, answers = minima(jobs, repeats=repeats)
        ours, report = answers["ours"], answers["classification_report"]
        assert abs(answers["f1_score"] * 100 - ours.f1) < 1e-9
        assert all(abs(report[kind]["f1-score"] * 100 - tally.f1) < 1e-9 for kind, tally in ours.types.items())
        for name in ("classification_report", "f1_score"):
            rows.append(row(f"evaluate(strategy={strategy!r})", best["ours"], f"seqeval {name}", best[name]))
    return rows


def against_perl(gold: Tags, predicted: Tags, repeats: int) -> list[dict[str, object]]:
    """`maskedcrf evaluate` on a file, start-up and all, against a Perl scorer that goes line by line."""
    perl = shutil.which("perl")
    if perl is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "scored.conll", gold, predicted)
        script = Path(folder) / "score.pl"
        script.write_text(PERL)

        def run_perl() -> str:
            with path.open() as handle:
                return subprocess.run(
                    [perl, str(script)], stdin=handle, capture_output=True, check=True, text=True
                ).stdout

        def run_ours() -> dict[str, int]:
            command = [sys.executable, "-m", "maskedcrf", "evaluate", "--json", str(path)]
            return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

        best, answers = minima({"ours": run_ours, "perl": run_perl}, repeats=repeats)
        ours = answers["ours"]
        tokens, _, wanted, found, right = map(int, answers["perl"].split())
        assert (ours["tokens"], ours["gold"], ours["predicted"], ours["correct"]) == (tokens, wanted, found, right)
    return [
        row("maskedcrf evaluate FILE (whole process)", best["ours"], "Perl, line by line (whole process)", best["perl"])
    ]


def streaming_peak(gold: Tags, predicted: Tags, times: int) -> float:
    """Peak resident memory in MiB of the command on this many copies of the corpus."""
    code = (
        "import resource, subprocess, sys;"
        "subprocess.run([sys.executable, '-m', 'maskedcrf', 'evaluate', sys.argv[1]], capture_output=True, check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "scored.conll", gold * times, predicted * times)
        peak = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, check=True, text=True
        ).stdout
    return int(peak) / (1024 if sys.platform != "darwin" else 1024**2)


def written(path: Path, gold: Tags, predicted: Tags) -> Path:
    """The corpus as a column file."""
    with path.open("w") as handle:
        for one, two in zip(gold, predicted, strict=True):
            handle.writelines(f"word NN {a} {b}\n" for a, b in zip(one, two, strict=True))
            handle.write("\n")
    return path


def minima(jobs: dict[str, Callable[[], object]], *, repeats: int) -> tuple[dict[str, float], dict[str, Any]]:
    """The least processor time of several runs of each job, taken in turns, and what each job returned."""
    best = dict.fromkeys(jobs, float("inf"))
    answers = {}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = processor_time()
            answers[name] = job()
            best[name] = min(best[name], processor_time() - start)
    return best, answers


def processor_time() -> float:
    """Seconds that this process and its finished children have computed.

    All jobs run on one thread. On the wall, a busy machine would slow long jobs more than short ones: in our favour.
    """
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def row(what: str, ours: float, theirs: str, their_time: float) -> dict[str, object]:
    """One line of the table."""
    return {"what": what, "ours_s": ours, "theirs": theirs, "theirs_s": their_time, "ratio": their_time / ours}


if __name__ == "__main__":
    main()
