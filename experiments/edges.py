"""What rules for a sentence's start and end are worth, which the paper does not have: in decoding, and in training."""

from __future__ import annotations

from experiments.cells import Cell, Number, Table, number
from experiments.grid import EDGES
from experiments.reading import (
    CORPORA,
    PAPERS_OWN,
    TRAINED_WITHOUT_EDGES,
    WITHOUT_EDGES,
    Setting,
    main_setting,
    ratios,
)
from experiments.statistics import Comparison, Evidence, compare_all
from experiments.tables import CORRECTED, seeds_of


def edges(evidence: Evidence) -> Table:
    """What the rules for sentence start and end add to masked decoding."""
    rows: list[tuple[Cell, ...]] = []
    for scheme in ("BIO", "BIOES"):
        found = evidence.gains(WITHOUT_EDGES, "MCRF-decoding", scheme=scheme)
        for corpus, name in CORPORA.items():
            setting = main_setting(corpus, scheme)
            cells = evidence.results.cells(setting, WITHOUT_EDGES)
            if scheme == "BIO" or cells:
                illegal = ratios(cells)["illegal_over_total"] if cells else None
                rows.append((f"{name}, {scheme}", found.get(setting), number(illegal, ".3f")))
    columns = ("", "gain in test F1", "illegal segments in % without the edge rules")
    settings = [main_setting(corpus, scheme) for corpus in CORPORA for scheme in ("BIO", "BIOES")]
    changed = [any(row[1].differences) for row in rows if isinstance(row[1], Comparison)]
    answer = (
        "With these encoders the rules change no score: the few paths that they change (last column) hold the same "
        "segments for a lenient reader, and hold them legally."
    )
    note = (
        "The paper has rules for transitions alone. Gain of MCRF-decoding over the same model decoded with those, "
        f"{seeds_of(evidence, settings)}; {CORRECTED}"
    )
    said = answer if changed and not any(changed) else ""
    return Table("edges", "Start and end rules in decoding", columns, tuple(rows), note, said)


def edges_in_training(evidence: Evidence) -> Table:
    """What they add to masked training, and to both together: ours over MCRF as the paper has it."""
    settings = [Setting(*each) for each in EDGES]
    in_training, in_both = (
        compare_all(evidence.results, settings, first=without, second="MCRF-training")
        for without in (TRAINED_WITHOUT_EDGES, PAPERS_OWN)
    )
    rows: list[tuple[Cell, ...]] = []
    for setting in settings:
        cells = evidence.results.cells(setting, PAPERS_OWN)
        illegal = ratios(cells)["illegal_over_total"] if cells else None
        name = f"{CORPORA[setting.corpus]}, {setting.scheme}"
        rows.append((name, in_training.get(setting), in_both.get(setting), number(illegal, ".3f")))
    columns = ("", "rules in training", "in training and decoding", "illegal segments in % without them")
    shown = [found for found in in_both.values() if found.word != "level"]
    left = [cell.value for *_, cell in rows if isinstance(cell, Number)]
    answer = (
        "In training they are not shown to change the score either. But without them, as in the paper, MCRF still "
        f"gives illegal segments: up to {max(left, default=0):.2f} % of them, where a sentence starts or ends."
    )
    note = (
        "Gain of MCRF-training in test F1 over the same trained with rules for transitions alone: decoded with all "
        "rules, and decoded with those for transitions, which is the paper's MCRF. The encoder is `lstm1`, "
        f"{seeds_of(evidence, settings, [PAPERS_OWN])}; {CORRECTED}"
    )
    return Table(
        "edges_in_training",
        "Start and end rules in training",
        columns,
        tuple(rows),
        note,
        "" if shown or not any(left) else answer,
    )
