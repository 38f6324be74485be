"""The paper's tables with ours beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.cells import NOT_THERE, Cell, Number, Table, number, text
from experiments.grid import MAIN, OF_THE_PAPERS_SIZE
from experiments.reading import CORPORA, VARIANTS, Score, Setting, main_setting, paper_score, ratios
from experiments.statistics import Evidence
from maskedcrf.data.corpora import CORPORA as KNOWN
from maskedcrf.evaluation.compare import f1_scores
from maskedcrf.tags.segments import discard, retain


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
        "where it divides by illegal TP + legal FP. Ours: on dev, means over "
        f"{seeds_of(evidence, map(main_setting, CORPORA))}."
    )
    return Table("illegal_proportion", "Illegal segments", ("", *CELLS.values(), *RATIOS.values()), tuple(rows), note)


def seeds_of(evidence: Evidence, settings: Iterable[Setting], variants: Sequence[str] = ("CRF-retain",)) -> str:
    """How many runs stand behind these cells, in words."""
    found = {len(evidence.results.f1(setting, variant)) for setting in settings for variant in variants} - {0}
    if not found:
        return "no seeds yet"
    return f"{max(found)} seeds" if len(found) == 1 else f"{min(found)} to {max(found)} seeds"


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
        here = corpus in MAIN
        own = [info.train.counts[0].types, *sizes] if here else [NOT_THERE] * 4
        pairs = [
            f"{printed[name]} / {ours}" for name, ours in zip(("labels", "train", "dev", "test"), own, strict=True)
        ]
        rows.append((CORPORA[corpus], info.task, info.language, *pairs, illegal if here else NOT_THERE))
    columns = ("", "task", "language", "types", "train", "dev", "test", "illegal steps in gold")
    note = "Paper / ours, in sentences. Illegal gold is read leniently when scoring and repaired for training."
    return Table("dataset_statistics", "Corpora", columns, tuple(rows), note)


TEST_F1 = "Test F1: best (mean ± standard deviation)."
CORRECTED = "p-values are corrected after Holm for the corpora compared, intervals are not."


def main_scores(evidence: Evidence, label: str, title: str) -> Table:
    """A main table: best (mean ± deviation) test F1 of the six rows, the paper's and ours side by side."""
    corpora = next(iter(evidence.paper["tables"][label]["rows"].values()))
    return beside_the_paper(evidence, {corpus: main_setting(corpus) for corpus in corpora}, label, title)


ABOUT_BASE = {
    "bert-zh": ("The Chinese corpora with a BERT-base", "Its weights come from 8 bits (`experiments.from_onnx`)."),
    "mpnet": (
        "The English corpora with an MPNet-base",
        "It has BERT-base's size and was pretrained on about ten times as much text.",
    ),
}


def of_the_papers_size(evidence: Evidence, encoder: str) -> Table:
    """The paper's main tables again, with an encoder of its BERT's size."""
    ours = {corpus: Setting(corpus, name) for corpus, name in OF_THE_PAPERS_SIZE.items() if name == encoder}
    title, said = ABOUT_BASE[encoder]
    return beside_the_paper(evidence, ours, f"of_base_size_{encoder}", title, f"{TEST_F1} {said}")


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
        means = [score.mean for variant in VARIANTS if (score := paper_score(evidence.paper, corpus, variant))]
        runs += [evidence.paper["runs"] if any(means) else "one figure", same if max(seeds) else None]
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
    for scheme in ("BIO", "BIOES"):
        for corpus, printed in evidence.paper["tables"]["mcrf_gain"]["rows"].items():
            row: list[Cell] = [f"{CORPORA[corpus]}, {scheme}"]
            for baseline in ("retain", "discard"):
                found = evidence.gains(f"CRF-{baseline}", "MCRF-training", scheme=scheme)
                row += [Number(printed[scheme][baseline], "+.1f"), found.get(main_setting(corpus, scheme))]
            rows.append(tuple(row))
    columns = [f"over {name}, {who}" for name in ("retain", "discard") for who in ("paper", "ours")]
    settings = [main_setting(corpus, scheme) for corpus in CORPORA for scheme in ("BIO", "BIOES")]
    note = (
        "Gain of MCRF-training in test F1 with its 95 % interval over seeds and sentences, "
        f"{seeds_of(evidence, settings, ['MCRF-training'])}; {CORRECTED}"
    )
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
    settings = [main_setting(corpus, share=share) for corpus in measured for share in (1.0, 0.1)]
    note = (
        "Δ: what MCRF-training gains over the row. Ours on test, best (mean ± standard deviation) of "
        f"{seeds_of(evidence, settings)}; {CORRECTED} SNIPS and CoNLL2003 are not in the paper's table."
        f"{fullest_sentence(evidence, 'msra', 0.1)}"
    )
    return Table("small_sample_table", "A tenth of the training data", columns, tuple(rows), note)


def fullest_sentence(evidence: Evidence, corpus: str, share: float) -> str:
    """A sentence on the test sentence with the most gold segments, where it alone changes the gain."""
    setting, pair = main_setting(corpus, share=share), ("CRF-discard", "MCRF-training")
    low, high = (evidence.results.counts(setting, variant) for variant in pair)
    seeds = low.keys() & high.keys()
    if not seeds:
        return ""
    gold = next(iter(low.values()))[:, 2]
    rest = np.arange(len(gold)) != gold.argmax()
    gains = [
        float(np.mean([f1_scores(high[seed][kept].sum(0)) - f1_scores(low[seed][kept].sum(0)) for seed in seeds]))
        for kept in (np.full(len(gold), fill_value=True), rest)
    ]
    return (
        f" One test sentence of {CORPORA[corpus]}, a list of names, holds {gold.max()} of {gold.sum():,} gold "
        f"segments: with {100 * share:g} % of train the gain over {pair[0]} is {gains[0]:+.2f} with it and "
        f"{gains[1]:+.2f} without."
    )


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
    tried = [s for s in results.settings() if s == Setting("conll2003", s.encoder) and results.of_head(s, "crf")]
    extra = [each.encoder for each in tried if each.encoder not in ENCODER_NAMES.values()]
    rows: list[tuple[Cell, ...]] = []
    for name, encoder in [*((name, ENCODER_NAMES.get(name)) for name in printed), *((None, each) for each in extra)]:
        row = printed.get(name)
        forms = ("{illegal:.1f} %", "{illegal_fp_over_fp:.1f} %", "{crf:.1f}", "{mcrf:.1f}", "{gain:+.1f}")
        paper = [form.format(**row) if row else NOT_THERE for form in forms]
        ours = _encoder_ours(evidence, Setting("conll2003", encoder)) if encoder else [None] * 5
        rows.append((name or encoder, *paper, *ours))
    names = ("illegal", "errors due to it", "CRF", "MCRF", "Δ")
    columns = ("", *(f"{name}, {who}" for who in ("paper", "ours") for name in names))
    note = (
        "Dev F1, as in the paper; CRF-retain against MCRF-training. Δ of ours: mean over the seeds with both, "
        f"{seeds_of(evidence, tried)}."
    )
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
