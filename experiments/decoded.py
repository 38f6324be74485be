"""What `experiments.decoding` measured: best path against probable segments, its tables, figure and sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.choice import Trial
from experiments.measure import counts_of, unpack
from experiments.result_files import RESULTS, append_line, result_files
from experiments.statistics import FEWEST_SEEDS, LEVEL, Comparison, Mean, compare_counts, holm
from experiments.table_format import Cell, Number, Probability, Table, joined
from experiments.trainings import CORPORA
from maskedcrf.errors import DataError
from maskedcrf.files import numbered_lines

FOLDER = "decoding"
"""Of these results, beside the trial's."""
ROWS = {"softmax-masked": "softmax", "MCRF-decoding": "CRF", "MCRF-training": "MCRF"}
"""The three heads, all with masked decoding."""
Line = Mapping[str, Any]


class Model(NamedTuple):
    """A row's model of one seed, and the line of the trial's results that it comes from."""

    row: str
    training: Mapping[str, Any]

    @property
    def name(self) -> str:
        """That of the training, and the row: where its weights lie, too."""
        return f"{self.training['name']}/{self.row}"


def read_lines(results: Path = RESULTS, kind: str = FOLDER) -> dict[str, Line]:
    """The lines so far, by the model's name; one that was cut short is passed over."""
    found: dict[str, Line] = {}
    for path in result_files(results / kind):
        for number, line in numbered_lines(path):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            if not isinstance(entry, dict) or not entry.keys() >= {"name", "dev", "thresholds", "gold", "test"}:
                raise DataError(f"{path}:{number}: not a model decoded both ways; take the line out")
            found[entry["name"]] = entry
    return found


def append_decoded(line: Line, results: Path = RESULTS, kind: str = FOLDER) -> None:
    """Write a line into the file of its encoder, in the folder of its corpus."""
    made = line["training"]
    append_line(line, results / kind / made["corpus"] / f"{made['encoder']}.jsonl")


def counts_by_seed(lines: Mapping[int, Line], way: str) -> dict[int, np.ndarray]:
    """(N, 3) correct, predicted and gold segments of each test sentence."""
    return {
        seed: counts_of(unpack(line["gold"], 1), unpack(line["test"][way]["errors"], 2)) for seed, line in lines.items()
    }


class Decoded:
    """The lines of those models that the trial's tables take."""

    def __init__(self, trial: Trial, lines: Mapping[str, Line]) -> None:
        self.trial = trial
        self._lines = lines
        self._made: list[Comparison] | None = None

    def lines(self, corpus: str, row: str) -> dict[int, Line]:
        """By seed; seeds of which a row was not measured are left out."""
        found = [self._measured(corpus, each) for each in ROWS]
        shared = set.intersection(*map(set, found))
        return {seed: line for seed, line in self._measured(corpus, row).items() if seed in shared}

    def _measured(self, corpus: str, row: str) -> dict[int, Line]:
        names = {seed: Model(row, entry).name for seed, entry in self.trial.choose(corpus, row).entries.items()}
        return {seed: self._lines[name] for seed, name in names.items() if name in self._lines}

    @property
    def corpora(self) -> list[str]:
        """Corpora of which every row was measured."""
        return [corpus for corpus in self.trial.corpora() if self.lines(corpus, next(iter(ROWS)))]

    def values(self, corpus: str, row: str, way: str) -> dict[int, float]:
        """Test F1 by seed: by `path`, or by segments at the threshold of `dev`, `half` or `expected`."""
        return {seed: float(line["test"][way]["f1"]) for seed, line in self.lines(corpus, row).items()}

    def gain(self, corpus: str, row: str, way: str) -> float:
        """Mean test F1 less that of the path."""
        found, path = (self.values(corpus, row, each) for each in (way, "path"))
        return float(np.mean([found[seed] - path[seed] for seed in path]))

    def thresholds(self, corpus: str, row: str, way: str) -> float:
        """The mean over the seeds."""
        return float(np.mean([line["thresholds"][way] for line in self.lines(corpus, row).values()]))

    def compare(self) -> list[Comparison]:
        """What the threshold of dev gains over the path, for each corpus and row; p-values after Holm over all."""
        if self._made is None:
            pairs = [(corpus, row) for corpus in self.corpora for row in ROWS]
            raw = [
                compare_counts(
                    f"{corpus}/{row} by path/{row}",
                    *(counts_by_seed(self.lines(corpus, row), way) for way in ("path", "dev")),
                )
                for corpus, row in pairs
            ]
            corrected = iter(holm([each.p_value for each in raw if each.p_value is not None]))
            self._made = [each if each.p_value is None else replace(each, p_value=next(corrected)) for each in raw]
        return self._made


def decoding_table(decoded: Decoded) -> Table:
    """Path and segments at the threshold of dev, a line a corpus; a star where the gain is significant."""
    found = {(each.corpus, each.second): each for each in decoded.compare()}
    rows: list[tuple[Cell, ...]] = []
    for corpus in decoded.corpora:
        cells = []
        for row in ROWS:
            each, path = found[corpus, row], Mean.of(decoded.values(corpus, row, "path")).value
            cells.append(f"{path:.1f} {each.difference:+.2f}{'*' if _is_significant(each) else ''}")
        rows.append((CORPORA[corpus].title, *cells, found[corpus, next(iter(ROWS))].seeds))
    note = f"Mean test F1 by the best path, and what segments add. * p < {LEVEL:g} over sentences and seeds after Holm."
    return Table("decoding", "Best path or probable segments", ("test F1", *ROWS.values(), "n"), tuple(rows), note)


def _is_significant(found: Comparison) -> bool:
    return found.p_value is not None and found.p_value < LEVEL


def thresholds_table(decoded: Decoded) -> Table:
    """Every way to find a threshold, for each corpus and head."""
    rows: list[tuple[Cell, ...]] = []
    for each in decoded.compare():
        corpus, row = each.corpus, each.second
        at = [Number(decoded.thresholds(corpus, row, way), ".2f") for way in ("dev", "expected")]
        gains = [Number(decoded.gain(corpus, row, way), "+.2f") for way in ("half", "expected")]
        p_value = None if each.p_value is None else Probability(each.p_value)
        path = Mean.of(decoded.values(corpus, row, "path"))
        rows.append((CORPORA[corpus].title, ROWS[row], path, each, p_value, *gains, *at, each.seeds))
    columns = ("", "head", "path", "dev", "p", "one half", "expected", "threshold of dev", "of expected", "n")
    note = (
        "Test F1 by the best path, and gains of segments: at the threshold of dev [95 % interval], at one half, "
        "and at the one with the best F1 that the model itself expects on test, without gold. p after Holm over all."
    )
    return Table("decoding_thresholds", "Thresholds", columns, tuple(rows), note)


def decoding_sentence(decoded: Decoded) -> str:
    """What segments gain, in how many models, and significantly where; one statement for every page."""
    found = decoded.compare()
    if not found:
        return "No model was decoded both ways yet."
    gain, differences = (
        np.mean([each.difference for each in found]),
        [one for each in found for one in each.differences],
    )
    up = sum(difference > 0 for difference in differences)
    won, lost = ([each for each in found if _is_significant(each) and sign * each.difference > 0] for sign in (1, -1))
    return (
        f"Decoding by probable segments instead of the best path adds {gain:.1f} test F1 on average to models already "
        f"trained (corpora: {len(decoded.corpora)}, three heads). {up} of {len(differences)} models gain; "
        f"{'the gain is significant ' + _where(won) if won else 'no gain is significant'}, "
        f"{'a loss ' + _where(lost) if lost else 'and no loss is'}."
    )


def _where(found: Sequence[Comparison]) -> str:
    """The corpora, and of which heads unless it is all three."""
    heads: dict[str, list[str]] = {}
    for each in found:
        heads.setdefault(CORPORA[each.corpus].title, []).append(ROWS[each.second])
    names = [name + (f" ({', '.join(of)})" if len(of) < len(ROWS) else "") for name, of in heads.items()]
    return f"on {joined(names)}"


def ways_sentence(decoded: Decoded) -> str:
    """How far the thresholds without gold are from that of dev."""
    if not decoded.corpora:
        return ""
    pairs = [(corpus, row) for corpus in decoded.corpora for row in ROWS]
    dev, half, expected = (np.mean([decoded.gain(*pair, way) for pair in pairs]) for way in ("dev", "half", "expected"))
    few = [CORPORA[each].title for each in decoded.corpora if len(decoded.lines(each, next(iter(ROWS)))) < FEWEST_SEEDS]
    note = f" Too few seeds for a test: {', '.join(few)}." if few else ""
    lines = [line for pair in pairs for line in decoded.lines(*pair).values()]
    back = [line for line in lines if line["dev"]["held_out_f1"] <= line["dev"]["path_f1"]]
    lost = sum(line["test"]["dev"]["f1"] > line["test"]["path"]["f1"] for line in back)
    return (
        f"Dev's threshold adds {dev:.2f} on average, one half {half:.2f}, and the one whose F1 the model expects to be "
        f"best {expected:.2f}; the last two need no gold. A rule that asks dev for a gain at held-out thresholds goes "
        f"back to the path for {len(back)} of {len(lines)} models, {lost} of which gain from segments on test.{note}"
    )


def draw_gains(decoded: Decoded, plots: Any, colours: Sequence[str]) -> Any:
    """What segments gain over the path on test, against the threshold; a dot where dev put it."""
    if not decoded.corpora:
        return None
    figure, panels = plots.subplots(1, len(ROWS), figsize=(9, 3.2), sharey=True)
    for panel, (row, head) in zip(panels, ROWS.items(), strict=True):
        panel.axhline(0, color="#8c8c8c", linewidth=0.8)
        panel.set_title(head)
        panel.set_xlabel("threshold")
        for corpus, colour in zip(decoded.corpora, colours, strict=False):
            lines = list(decoded.lines(corpus, row).values())
            across = [at for at, _ in lines[0]["dev"]["curve"]]
            gains = np.mean([np.array(line["curve"]) - line["test"]["path"]["f1"] for line in lines], axis=0)
            panel.plot(across, gains, color=colour, linewidth=1.2, label=CORPORA[corpus].title)
            chosen = decoded.thresholds(corpus, row, "dev")
            panel.plot(chosen, np.interp(chosen, across, gains), "o", color=colour, markersize=5)
        panel.set_ylim(bottom=-3)
    panels[0].set_ylabel("gain in test F1")
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncols=len(decoded.corpora))
    return figure
