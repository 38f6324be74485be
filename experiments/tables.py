"""The paper's tables with ours beside, as data, and what writes any table as Markdown, LaTeX and CSV.

A cell is what was measured, not its text; None says "not run".
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.grid import OF_THE_PAPERS_SIZE
from experiments.reading import CORPORA, VARIANTS, Score, Setting, main_setting, paper_score, ratios
from experiments.statistics import Comparison, Evidence
from maskedcrf.data.corpora import CORPORA as KNOWN
from maskedcrf.tags.segments import discard, retain

NOT_RUN, NOT_THERE = "not run", "-"


class Number(NamedTuple):
    """A figure and how it is written."""

    value: float
    form: str = ".1f"


class Probability(NamedTuple):
    """A p-value."""

    value: float


Cell = str | int | Number | Probability | Score | Comparison | None


@dataclass(frozen=True)
class Table:
    """One table: its file's name, what it shows, its columns and rows, and what to know when reading it."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def text(cell: Cell) -> str:
    """A cell as it is read."""
    writer = _WRITERS.get(type(cell), str)
    return writer(cell)


def _score(cell: Score) -> str:
    if cell.mean is None:
        return f"{cell.best:.1f}"
    spread = f" ± {cell.deviation:.1f}" if cell.deviation is not None else ""
    return f"{cell.best:.1f} ({cell.mean:.1f}{spread})"


def _comparison(cell: Comparison) -> str:
    p_value = cell.p_corrected if cell.p_corrected is not None else cell.p_value
    tail = f"{probability(p_value)}: {cell.word}" if p_value is not None else f"{cell.runs} seed{'s' * (cell.runs > 1)}"
    return f"{cell.difference:+.2f} [{cell.low:+.2f}, {cell.high:+.2f}], {tail}"


def probability(value: float) -> str:
    """A p-value to three places."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: NOT_RUN,
    Number: lambda cell: format(cell.value, cell.form),
    Probability: lambda cell: probability(cell.value),
    Score: _score,
    Comparison: _comparison,
}


def markdown(table: Table) -> str:
    """The table in Markdown; the first column names the row."""
    rules = ["---" if _words(table, place) else "---:" for place in range(len(table.columns))]
    lines: list[Sequence[str]] = [table.columns, rules]
    lines += [tuple(text(cell).replace("|", "\\|") for cell in row) for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


LONG = 60
"""Characters of a cell that is more than a line."""
_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}"}
_LATEX |= {
    "±": r"$\pm$",
    "≥": r"$\geq$",
    ">": "$>$",
    "<": "$<$",
    "Δ": r"$\Delta$",
}


def _words(table: Table, place: int) -> bool:
    """Whether a column holds words alone, and is read from the left."""
    return all(isinstance(row[place], str) for row in table.rows)


def latex(table: Table) -> str:
    """The table in LaTeX, for the package booktabs; columns of long text are broken into lines."""

    def line(cells: Sequence[str]) -> str:
        escaped = ("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells)
        return re.sub("`(.*?)`", r"\\texttt{\1}", " & ".join(escaped)) + r" \\"

    written = [[text(cell) for cell in row] for row in table.rows]
    longest = [max(map(len, column)) for column in zip(*written, strict=True)]
    kinds = ["p{8cm}" if size > LONG else "l" if _words(table, place) else "r" for place, size in enumerate(longest)]
    body = [line(row) for row in written]
    top = [f"% {table.title}", f"\\begin{{tabular}}{{{''.join(kinds)}}}", r"\toprule"]
    return "\n".join([*top, line(table.columns), r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


def as_csv(table: Table) -> str:
    """The table in CSV, unrounded: a score takes four columns, a comparison six; what was not run stays empty."""
    columns: list[str] = []
    cells: list[list[object]] = [[] for _ in table.rows]
    for place, name in enumerate(table.columns):
        column = [row[place] for row in table.rows]
        parts = next((parts for kind, parts in _PARTS.items() if any(isinstance(cell, kind) for cell in column)), None)
        columns += [f"{name} {part}" for part in parts] if parts else [name]
        for row, cell in zip(cells, column, strict=True):
            row += _parts(cell, len(parts) if parts else 1)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([columns, *cells])
    return file.getvalue()


_PARTS: dict[type, tuple[str, ...]] = {
    Score: ("best", "mean", "deviation", "runs"),
    Comparison: ("difference", "low", "high", "p", "verdict", "runs"),
}


def _parts(cell: Cell, width: int) -> list[object]:
    found: list[object] = [cell]
    if isinstance(cell, Comparison):
        p_value = cell.p_corrected if cell.p_corrected is not None else cell.p_value
        found = [cell.difference, cell.low, cell.high, p_value, cell.word, cell.runs]
    elif isinstance(cell, Score):
        found = list(cell)
    elif isinstance(cell, Number | Probability):
        found = [cell.value]
    found = ["" if value is None else round(value, 6) if isinstance(value, float) else value for value in found]
    return found + [""] * (width - len(found))


def number(value: float | None, form: str = ".1f") -> Number | None:
    """A figure, or None where there is none."""
    return None if value is None else Number(value, form)


# The paper's tables, in its order.


def paper_tables(evidence: Evidence) -> list[Table]:
    """All of them, by the label the paper gives each."""
    return [
        illegal_segments(evidence),
        corpora(evidence),
        main_scores(evidence, "main_result", "Chinese named entities"),
        strategies(evidence),
        main_scores(evidence, "result_sf", "Slot filling"),
        main_scores(evidence, "RES_CHUNKING", "Chunking"),
        main_scores(evidence, "code_readme", "English named entities"),
        schemes(evidence),
        tenth(evidence),
        encoders(evidence),
    ]


CELLS = {"legal_tp": "legal TP", "illegal_tp": "illegal TP", "legal_fp": "legal FP", "illegal_fp": "illegal FP"}
RATIOS = {
    "illegal_tp_over_illegal": "illegal TP / illegal",
    "illegal_fp_over_fp": "illegal FP / FP",
    "illegal_over_total": "illegal / total",
}


def illegal_segments(evidence: Evidence) -> Table:
    """Table 1: a CRF's segments by legality and correctness, on dev; the paper's ratios also recomputed."""
    rows: list[tuple[Cell, ...]] = []
    for corpus, printed in evidence.paper["tables"]["illegal_proportion"]["rows"].items():
        right = ratios(printed)
        pairs = [f"{printed[name]:g} % ({right[name]:.1f} %)" for name in RATIOS]
        rows.append((f"{CORPORA[corpus]}, paper", *(printed[name] for name in CELLS), *pairs))
        cells = evidence.results.cells(main_setting(corpus), "CRF-retain", "dev")
        if cells is None:
            rows.append((f"{CORPORA[corpus]}, ours", *[None] * (len(CELLS) + len(RATIOS))))
            continue
        own = [NOT_THERE if share is None else f"{share:.1f} %" for share in ratios(cells).values()]
        rows.append((f"{CORPORA[corpus]}, ours", *(Number(cells[name]) for name in CELLS), *own))
    wrong = wrong_ratios(evidence.paper)
    count = len(evidence.paper["tables"]["illegal_proportion"]["rows"])
    note = (
        f"In parentheses what the paper's own counts give: its first ratio is wrong in {len(wrong)} of {count} rows, "
        "where it divides by illegal TP + legal FP. Ours: means over the seeds, on dev."
    )
    return Table("illegal_proportion", "Illegal segments", ("", *CELLS.values(), *RATIOS.values()), tuple(rows), note)


def wrong_ratios(paper: Mapping[str, Any]) -> list[str]:
    """Corpora whose printed share of right illegal segments does not follow from their counts."""
    rows = paper["tables"]["illegal_proportion"]["rows"]
    name = "illegal_tp_over_illegal"
    return [corpus for corpus, row in rows.items() if abs((ratios(row)[name] or 0.0) - row[name]) > 0.1]


def corpora(evidence: Evidence) -> Table:
    """Table 2: what is in each corpus, the paper's figure and ours."""
    rows: list[tuple[Cell, ...]] = []
    for corpus, printed in evidence.paper["tables"]["dataset_statistics"]["rows"].items():
        info = KNOWN[corpus]
        sizes = [part.counts[0].sentences if part else "10 % of train" for part in (info.train, info.dev, info.test)]
        illegal = sum(part.counts[0].illegal for part in (info.train, info.dev, info.test) if part)
        own = [info.train.counts[0].types, *sizes]
        pairs = [
            f"{printed[name]} / {ours}" for name, ours in zip(("labels", "train", "dev", "test"), own, strict=True)
        ]
        rows.append((CORPORA[corpus], info.task, info.language, *pairs, illegal))
    columns = ("", "task", "language", "types", "train", "dev", "test", "illegal steps in gold")
    note = "Paper / ours, in sentences. Illegal gold is read leniently when scoring and repaired for training."
    return Table("dataset_statistics", "Corpora", columns, tuple(rows), note)


TEST_F1 = "Test F1: best (mean ± standard deviation)."


def main_scores(evidence: Evidence, label: str, title: str) -> Table:
    """A main table: best (mean ± deviation) test F1 of the six rows, the paper's and ours side by side."""
    corpora = next(iter(evidence.paper["tables"][label]["rows"].values()))
    return beside_the_paper(evidence, {corpus: main_setting(corpus) for corpus in corpora}, label, title)


def of_the_papers_size(evidence: Evidence) -> Table:
    """Table 3 again, with an encoder of the paper's kind and size."""
    ours = {corpus: Setting(corpus, encoder) for corpus, encoder in OF_THE_PAPERS_SIZE.items()}
    note = f"{TEST_F1} The encoder has the paper's size, its weights from 8 bits (`experiments.from_onnx`)."
    return beside_the_paper(evidence, ours, "bert_base", "Chinese named entities with BERT-base", note)


def beside_the_paper(
    evidence: Evidence, ours: Mapping[str, Setting], key: str, title: str, note: str = TEST_F1
) -> Table:
    """The paper's six rows of each corpus, and ours of a setting."""
    rows: list[tuple[Cell, ...]] = []
    for variant in VARIANTS:
        row: list[Cell] = [variant]
        for corpus, setting in ours.items():
            row += [paper_score(evidence.paper, corpus, variant), evidence.results.score(setting, variant)]
        rows.append(tuple(row))
    runs: list[Cell] = ["seeds"]
    columns = [""]
    for corpus, setting in ours.items():
        seeds = [len(evidence.results.f1(setting, variant)) for variant in VARIANTS]
        same = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
        runs += [evidence.paper["runs"], same if max(seeds) else None]
        columns += [f"{CORPORA[corpus]}, paper (BERT)", f"{CORPORA[corpus]}, ours ({setting.encoder})"]
    return Table(key, title, tuple(columns), (*rows, tuple(runs)), note)


def strategies(evidence: Evidence) -> Table:
    """Table 4: one path under retain and discard, the paper's and what our code makes of it."""
    rows = evidence.paper["tables"]["table_example"]["rows"]
    original = rows["original"]
    ours = {"retain": retain(original, "BIO"), "discard": discard(original, "BIO")}
    found: list[tuple[Cell, ...]] = [("original", *original)]
    for name, tags in ours.items():
        found += [(f"{name}, paper", *rows[name]), (f"{name}, ours", *tags)]
    return Table("table_example", "Retain and discard", ("", *map(str, range(1, len(original) + 1))), tuple(found))


def schemes(evidence: Evidence) -> Table:
    """Table 7: what MCRF-training gains over the two baselines, in BIO and in BIOES."""
    rows: list[tuple[Cell, ...]] = []
    for corpus, printed in evidence.paper["tables"]["mcrf_gain"]["rows"].items():
        row: list[Cell] = [CORPORA[corpus]]
        for scheme in ("BIO", "BIOES"):
            for baseline in ("retain", "discard"):
                found = evidence.gains(f"CRF-{baseline}", "MCRF-training", scheme=scheme)
                row += [Number(printed[scheme][baseline], "+.1f"), found.get(main_setting(corpus, scheme))]
        rows.append(tuple(row))
    columns = [
        f"{scheme}, over {name}, {who}"
        for scheme in ("BIO", "BIOES")
        for name in ("retain", "discard")
        for who in ("paper", "ours")
    ]
    note = "Gain of MCRF-training in test F1 with its 95 % interval over seeds and sentences."
    return Table("mcrf_gain", "BIO and BIOES", ("", *columns), tuple(rows), note)


SMALL = {"retain": "CRF-retain", "discard": "CRF-discard", "MCRF": "MCRF-training"}


def tenth(evidence: Evidence) -> Table:
    """Table 8: all and a tenth of the training data; illegal segments, F1 and gain."""
    printed = evidence.paper["tables"]["small_sample_table"]["rows"]
    measured = {setting.corpus: None for setting in evidence.results.settings() if setting.share == 0.1}
    rows: list[tuple[Cell, ...]] = []
    for corpus in {**printed, **measured}:
        for share in (1.0, 0.1):
            for short, variant in SMALL.items():
                name = f"{CORPORA[corpus]}, {100 * share:g} %, {variant}"
                row = printed.get(corpus, {}).get(short, {}).get(f"{share:g}", {})
                rows.append(
                    (name, *_small_paper(row), *_small_ours(evidence, main_setting(corpus, share=share), variant))
                )
    columns = ("", *(f"{name}, {who}" for who in ("paper", "ours") for name in ("illegal", "F1", "Δ")))
    note = "Δ: what MCRF-training gains over the row. Ours on test; SNIPS and CoNLL2003 are not in the paper's table."
    return Table("small_sample_table", "A tenth of the training data", columns, tuple(rows), note)


def _small_paper(row: Mapping[str, float | None]) -> list[Cell]:
    forms = {"illegal": "{:.1f} %", "f1": "{:.1f}", "gain": "{:+.1f}"}
    return [form.format(row[key]) if row.get(key) is not None else NOT_THERE for key, form in forms.items()]


def _small_ours(evidence: Evidence, setting: Setting, variant: str) -> list[Cell]:
    cells = evidence.results.cells(setting, variant)
    if cells is None:
        return [None, None, None]
    share = ratios(cells)["illegal_over_total"]
    illegal = NOT_THERE if share is None or variant == "CRF-discard" else f"{share:.2f} %"
    if variant == "MCRF-training":
        return [illegal, evidence.results.score(setting, variant), NOT_THERE]
    found = evidence.gains(variant, "MCRF-training", share=setting.share)
    return [illegal, evidence.results.score(setting, variant), found.get(setting)]


ENCODER_NAMES = {
    "LSTM-1": "lstm1",
    "LSTM-2": "lstm2",
    "ELMo + LSTM-1": "elmo+lstm1",
    "ELMo + LSTM-2": "elmo+lstm2",
    "BERT": "bert",
    "BERT + LSTM-1": "bert+lstm1",
    "BERT + LSTM-2": "bert+lstm2",
}
"""The paper's encoders that the grid has under its own name."""


def encoders(evidence: Evidence) -> Table:
    """Table 9: encoders on CoNLL2003 dev; those that only one side has say so on the other."""
    results, printed = evidence.results, evidence.paper["tables"]["ablation_encoder"]["rows"]
    known = set(ENCODER_NAMES.values())
    extra = [s.encoder for s in results.settings() if s == Setting("conll2003", s.encoder) and s.encoder not in known]
    rows: list[tuple[Cell, ...]] = []
    for name, encoder in [*((name, ENCODER_NAMES.get(name)) for name in printed), *((None, each) for each in extra)]:
        row = printed.get(name)
        forms = ("{illegal:.1f} %", "{illegal_fp_over_fp:.1f} %", "{crf:.1f}", "{mcrf:.1f}", "{gain:+.1f}")
        paper = [form.format(**row) if row else NOT_THERE for form in forms]
        ours = _encoder_ours(evidence, Setting("conll2003", encoder)) if encoder else [None] * 5
        rows.append((name or encoder, *paper, *ours))
    names = ("illegal", "errors due to it", "CRF", "MCRF", "Δ")
    columns = ("", *(f"{name}, {who}" for who in ("paper", "ours") for name in names))
    note = "Dev F1, as in the paper; CRF-retain against MCRF-training. Δ of ours: mean over the seeds."
    return Table("ablation_encoder", "Encoders on CoNLL2003", columns, tuple(rows), note)


def _encoder_ours(evidence: Evidence, setting: Setting) -> list[Cell]:
    results = evidence.results
    cells = results.cells(setting, "CRF-retain", "dev")
    crf, mcrf = (results.f1(setting, variant, "dev") for variant in ("CRF-retain", "MCRF-training"))
    shares = (
        [number(ratios(cells)[name], ".2f") for name in ("illegal_over_total", "illegal_fp_over_fp")] if cells else []
    )
    texts: list[Cell] = [f"{text(share)} %" if share else NOT_THERE for share in shares] or [None, None]
    pairs = [mcrf[seed] - crf[seed] for seed in crf.keys() & mcrf.keys()]
    gain = Number(sum(pairs) / len(pairs), "+.2f") if pairs else None
    return [*texts, Score.of(crf), Score.of(mcrf), gain]
