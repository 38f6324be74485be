"""The page that answers "does the paper hold?", from results files alone.

python -m experiments.page            writes docs/paper.md, its tables and figures, and the README's table

Every figure on the page comes from a results file, from paper.json or from the table of corpora.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.beyond import beyond_tables, claims_table
from experiments.cells import NOT_THERE, Cell, Table, as_csv, latex, markdown, probability
from experiments.claims import ELSEWHERE, Verdict, all_claims, judge, mean_gain, paper_gain
from experiments.command import command, folder, parser_for
from experiments.figures import figure_1, write_figures
from experiments.grid import FEWEST_STEPS, MAIN, Run
from experiments.level import best_on_dev
from experiments.reading import (
    CORPORA,
    VARIANTS,
    Results,
    counted_f1,
    main_setting,
    paper_score,
    ratios,
    read_paper,
)
from experiments.run import superseded
from experiments.statistics import Evidence, over_corpora
from experiments.store import RESULTS
from experiments.tables import paper_tables, wrong_ratios

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- paper:begin -->", "<!-- paper:end -->"
FIGURES_OF = {
    "significance": "gains",
    "main_result": "losses",
    "mcrf_gain": "schemes",
    "ablation_encoder": "encoders",
    "calibration": "reliability",
    "when": "when",
}
"""The figure that stands below each table."""
NEARNESS = ("how_far", "where_we_part", "without_the_cut", "levels", "scheme_inside", "parts", "tuning")
"""The tables on the level that we reach, and how; the paper's comparisons need none of them."""
NOT_DRAWN = {"losses": "Dev-loss curves", "schemes": "BIO and BIOES", "reliability": "Reliability diagrams"}


def write_page(results: Results, *, docs: Path, readme: Path | None = None) -> None:
    """Everything: page, tables, figures, and the README's table if it has a place for it."""
    evidence = Evidence(results, read_paper())
    claims = claims_table(all_claims(evidence))
    theirs, ours = paper_tables(evidence), beyond_tables(evidence)
    folder = docs / "tables" / "paper"
    folder.mkdir(parents=True, exist_ok=True)
    for table in [claims, *theirs, *ours]:
        (folder / f"{table.key}.csv").write_text(as_csv(table), encoding="utf-8")
        (folder / f"{table.key}.tex").write_text(latex(table), encoding="utf-8")
    shown = write_figures(evidence, docs / "images" / "paper")
    (docs / "images" / "lattice.svg").write_text(figure_1(evidence) + "\n", encoding="utf-8")
    (docs / "paper.md").write_text(compose(evidence, claims, theirs, ours=ours, shown=shown), encoding="utf-8")
    if readme is not None:
        text = readme.read_text(encoding="utf-8")
        readme.write_text(between_markers(text, readme_table(evidence)), encoding="utf-8")


def compose(
    evidence: Evidence, claims: Table, theirs: Sequence[Table], *, ours: Sequence[Table], shown: Mapping[str, str]
) -> str:
    """The page as Markdown."""
    numbers = {label: table["number"] for label, table in evidence.paper["tables"].items()}
    order, beyond = [[each for each in ours if (each.key == "significance") is first] for first in (True, False)]
    parts = [
        "# Does the paper hold?",
        f"<!-- Written by `make paper` from results {evidence.results.digest}: change those, not this. -->",
        introduction(evidence),
        in_short(evidence),
        NAMES,
        section(claims, shown),
        *(section(table, shown) for table in order),
        "## The paper's tables, ours beside",
        *(section(replace(table, title=f"{table.title} ({numbers[table.key]})"), shown, level=3) for table in theirs),
        "### The two pictures (Figures 1 and 2)",
        "![The CRF's path takes an illegal step; the masked CRF's does not](images/lattice.svg)",
        _figure("matrix", shown),
        "## Beyond the paper",
        *(section(table, shown, level=3) for table in beyond if table.key not in NEARNESS),
        "## How near to the paper's level",
        *(section(table, shown, level=3) for table in beyond if table.key in NEARNESS),
        differences(),
        inconsistencies(evidence),
        "## Run it yourself\n\n"
        "`make paper` rebuilds this page from the results in `experiments/results`, without corpora or GPU. "
        "`MASKEDCRF_CORPORA=DIR MASKEDCRF_ENCODERS=DIR make paper-run BUDGET=5` trains what is missing for five "
        "minutes, the most informative runs first; what is finished is never run again. Each line of a results file "
        "holds a run's settings, its signature and the counts of every sentence. Recipes with an adapted encoder, a "
        "lexicon or a tagger to begin with need it made first, beside the other encoders: `python -m "
        "experiments.adapt`, `experiments.lexicon` and `experiments.first`; `experiments.extra` says what else "
        "than the corpora they read, `experiments.from_onnx` which package the Chinese BERT-base comes from, "
        "`experiments/grid.py` which ones MPNet-base; `experiments.tune` chooses the recipes anew.",
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def introduction(evidence: Evidence) -> str:
    """What was done, in figures."""
    paper, results = evidence.paper, evidence.results
    source = f"{paper['authors']}, *{paper['title']}*, {paper['venue']}"
    if not len(results):
        state = "**No run is in the results yet**: every cell of ours says *not run*."
    else:
        corpora = {setting.corpus for setting in results.settings()}
        runs = [run for found in results.runs.values() for run in found.values()]
        hours = sum(run["seconds"] for run in runs) / 3600
        trainings = sum(len(Run(**run["run"]).seeds) for run in runs)
        devices = Counter("an H200" if "H200" in run["signature"] else "a CPU" for run in runs)
        where = ", ".join(f"{count} on {device}" for device, count in devices.most_common())
        state = (
            f"From {len(results)} runs on {len(corpora)} corpora ({where}): {trainings} trainings of {hours:.1f} hours "
            "in all, tuning apart."
        )
    return f"{source}, says that a CRF should know its tagging scheme's rules already in training. {state}"


NAMES = (
    "**Rows.** *Tagger*: a softmax for each token; *CRF*: a plain one; of both, illegal segments are kept as a lenient "
    "reader finds them (*retain*) or dropped (*discard*). *MCRF-decoding*: the plain CRF, its decoding masked. "
    "*MCRF-training*: masked in training too.\n\n"
    "**Encoders.** `uer`: a Chinese RoBERTa of two layers; `minilm`: MiniLM-L6; `bert-zh`: a Chinese BERT-base; "
    "`mpnet`: MPNet-base, an English encoder of BERT-base's size; `lstm1`, `lstm2`: LSTMs over word vectors that begin "
    "at random; `glove`, `chars`: GloVe and a character CNN below them."
)


ANSWERS: dict[Verdict, str] = {"holds": "shown", "not shown": "not shown", "fails": "contradicted"}


def in_short(evidence: Evidence) -> str:
    """What MCRF-training gains over a CRF's raw output, and over a mask in decoding alone; in every place measured."""
    places = {"with the small encoders of the main tables": {}, **ELSEWHERE}
    verdicts: dict[str, dict[str, Verdict]] = {"CRF-retain": {}, "MCRF-decoding": {}}
    rows: list[tuple[Cell, ...]] = []
    for where, asked in places.items():
        row: list[Cell] = [where]
        for baseline, found in verdicts.items():
            gains = evidence.gains(baseline, "MCRF-training", **asked)
            p_value = over_corpora(gains)
            found[where] = judge(gains, p_value)
            row.append(f"{mean_gain(gains.values()):+.2f}, {probability(p_value)}" if p_value is not None else None)
        rows.append((*row, _signed({setting.corpus: each.difference for setting, each in gains.items()}, ".2f")))
    reached = {verdict for found in verdicts.values() for verdict in found.values()}
    if "not run" in reached:
        return ""
    answer = "Yes." if reached == {"holds"} else "In part." if "holds" in reached else "No."
    columns = ("MCRF-training gains in test F1", "over CRF-retain", "over MCRF-decoding", "the latter by corpus")
    return (
        f"**{answer}** Keeping illegal paths out of a CRF's output pays: {_where(verdicts['CRF-retain'])}. What the "
        "paper adds is to mask the training and not the decoding alone, which any trained CRF can be given. That this "
        f"pays is {_where(verdicts['MCRF-decoding'])}.\n\n"
        f"{markdown(Table('in_short', '', columns, tuple(rows)))}\n"
        "A plain CRF's epoch was chosen by its unmasked output on dev, which may favour MCRF-training."
    )


def _where(verdicts: Mapping[str, Verdict]) -> str:
    """Where something is shown, where not, and where the reverse."""
    groups = {
        said: [where for where, found in verdicts.items() if found == verdict] for verdict, said in ANSWERS.items()
    }
    if len(groups["shown"]) == len(verdicts):
        return "shown in every setting"
    return "; ".join(f"{said} {' and '.join(places)}" for said, places in groups.items() if places)


def section(table: Table, shown: Mapping[str, str], *, level: int = 2) -> str:
    """A table under its title and what it says, with its note, its files and its figure."""
    figure = _figure(FIGURES_OF.get(table.key, ""), shown)
    note = f"{table.note} {_links(table)}"
    parts = [f"{'#' * level} {table.title}", table.answer, markdown(table), note, figure]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _links(table: Table) -> str:
    return f"[CSV](tables/paper/{table.key}.csv), [LaTeX](tables/paper/{table.key}.tex)"


def _figure(key: str, shown: Mapping[str, str]) -> str:
    if key in shown:
        return f"![{shown[key]}](images/paper/{key}.svg)\n\n*{shown[key]}*"
    return f"{NOT_DRAWN[key]}: not run." if key in NOT_DRAWN else ""


def differences() -> str:
    """What is the same as in the paper, and what is not, and why."""
    small = sorted({encoder for corpus, encoder in MAIN.items() if corpus in CORPORA})
    known = "; ".join(
        _names(corpus for corpus, chosen in MAIN.items() if chosen == encoder) + f": `{encoder}`" for encoder in small
    )
    return (
        "## What is the same, what differs and why\n\n"
        "Same: the corpora but one, the six rows, retain and discard, best and mean over seeds, the model best on dev, "
        "layer-wise rates, a tenth of train as dev where there is none, and in the LSTM rows the architecture.\n\n"
        "- **Encoders.** The paper fine-tunes BERT-base. Our main tables use small ones "
        f"({known}): MiniLM-L6 has six layers and is uncased, UER's Chinese RoBERTa has two. So levels are not "
        "comparable cell by cell; differences between rows are. The Chinese BERT-base (`bert-zh`, `tuned+bert`) has "
        "its weights from an ONNX file of 8 bits, tuned to another task before (`experiments.from_onnx`); the "
        "package it comes from does not say which checkpoint that began with, but vocabulary and sizes are those of "
        "bert-base-chinese. In English the encoder of that size is MPNet-base (`mpnet`), uncased, as "
        "all-mpnet-base-v2 has it: pretrained on about ten times BERT's text, and tuned to tell similar sentences. The "
        "English BERT and ELMo are names in the grid for whoever has their weights.\n"
        "- **Ontonotes** needs a licence; its cells are *not run*.\n"
        "- **Sentences.** MSRA's train has other sentence breaks than the paper's (the text is the same, and the test "
        "sentences are the paper's). Long sentences are not cut: every gold entity counts. The authors' code cuts at "
        "128 pieces and does not count what it loses; under the level are our scores without the sentences concerned.\n"
        "- **Training.** Batch, epochs and rates were tuned on dev (the table of settings), with a warm-up, and on a "
        f"tenth of train at least {FEWEST_STEPS} steps; the paper's batches are of 32, for 5 epochs or 10,000 steps. "
        "The epoch kept is the best on dev with illegal segments retained, also for the rows that discard them or mask "
        "the decoding of the same model; that may favour MCRF-training, whose own reading is the one that chooses.\n"
        "- **Start and end.** The paper's rules are for transitions alone; ours say how a sentence may begin and end.\n"
        "- **Exclusion** instead of a large negative constant: an illegal path has no probability at all.\n"
        "- **Seeds.** Five in the main tables, three for BIOES, a tenth of train and encoders, two to five of MPNet, "
        "three to ten of the nearest recipes; the paper has ten."
    )


def inconsistencies(evidence: Evidence) -> str:
    """Where the paper's own numbers do not agree with each other."""
    rows = evidence.paper["tables"]["illegal_proportion"]["rows"]
    wrong = wrong_ratios(evidence.paper)
    worst = max(wrong, key=lambda corpus: ratios(rows[corpus])["illegal_tp_over_illegal"] or 0.0)
    share = ratios(rows[worst])["illegal_tp_over_illegal"]
    snips = paper_score(evidence.paper, "snips", "CRF-retain")
    whole = evidence.paper["tables"]["small_sample_table"]["rows"]
    again = {corpus: row["discard"]["1"]["gain"] for corpus, row in whole.items()}
    first = {corpus: evidence.paper["tables"]["mcrf_gain"]["rows"][corpus]["BIO"]["discard"] for corpus in whole}
    main = paper_score(evidence.paper, "ontonotes4", "MCRF-training")
    assert snips is not None
    assert main is not None
    of_dev = ("resume", "weibo", "atis")
    counted = {
        each: counted_f1(evidence.paper, each, kinds=("legal",)) - counted_f1(evidence.paper, each) for each in of_dev
    }
    printed = {each: paper_gain(evidence.paper, each, ("CRF-retain", "CRF-discard")) for each in of_dev}
    return (
        "## The paper's own inconsistencies\n\n"
        f"- Table 1's first ratio is wrong in {len(wrong)} of {len(rows)} rows ({_names(wrong)}): it divides by the "
        f"wrong sum. {CORPORA[worst]} is {share:.1f} %, not {rows[worst]['illegal_tp_over_illegal']:g} %.\n"
        '- Its "dev" rows of MSRA, CoNLL2000 and CoNLL2003 have about as many segments as the *test* sets, and '
        f"MSRA and CoNLL2000 have no dev set. Its SNIPS row implies F1 near "
        f"{counted_f1(evidence.paper, 'snips'):.0f}, where Table 5 has {snips.mean}.\n"
        f"- By Table 1's counts, on dev, discarding illegal segments is worth {_signed(counted)}; by the mean scores "
        f"of CRF-discard and CRF-retain, on test, {_signed(printed)}. Most of the step on Resume is not explained by "
        "the segments that were counted.\n"
        f"- Table 8 has F1 {whole['ontonotes4']['MCRF']['1']['f1']} for MCRF on Ontonotes, Table 3 a best of "
        f"{main.best} and a mean of {main.mean}; of the gain over CRF-discard with all of train Table 8 has "
        f"{_signed(again)}, Table 7 {_signed(first)}.\n"
        "- CoNLL2003's test scores are not in the paper but in the README of its code; the encoders' table is on dev.\n"
        '- The paper chooses the model "best on dev"; its code chooses the lowest dev loss. Its layer-wise rates scale '
        "gradients before Adam, which undoes most of that."
    )


def _signed(gains: Mapping[str, float | None], form: str = ".1f") -> str:
    return ", ".join(f"{CORPORA[corpus]} {gain:+{form}}" for corpus, gain in gains.items() if gain is not None)


def _names(corpora: Iterable[str]) -> str:
    return ", ".join(CORPORA[corpus] for corpus in corpora)


def readme_table(evidence: Evidence) -> str:
    """The README's table: one row a corpus; ours, then with the encoder that dev likes best, then the paper's."""
    chosen = [variant for variant in VARIANTS if not variant.startswith("tagger")]
    rows: list[tuple[Cell, ...]] = []
    for corpus in sorted(MAIN, key=list(CORPORA).index):
        setting = main_setting(corpus)
        scores = [evidence.results.score(setting, variant) for variant in chosen]
        printed = paper_score(evidence.paper, corpus, "MCRF-training")
        best = evidence.results.score(best_on_dev(evidence, corpus), "MCRF-training")
        rows.append((CORPORA[corpus], *scores, best, printed or NOT_THERE))
    columns = ("", *chosen, "MCRF-training, best encoder", "paper (BERT-base)")
    return markdown(Table("readme", "", columns, tuple(rows)))


def between_markers(text: str, table: str) -> str:
    """The text with what is between the markers replaced; a text without markers stays as it is."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{table.strip()}\n{END}", text)


@command
def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_for(__doc__)
    parser.add_argument("--results", type=folder, default=RESULTS, help="folder of the results files")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the documentation")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", help="file with the markers")
    options = parser.parse_args(given)
    results = Results.read(Path(options.results))
    if old := [entry["name"] for found in results.runs.values() for entry in found.values() if superseded(entry)]:
        print(f"{len(old)} runs were made by recipes that tuning has given up, as {old[0]}: run them", file=sys.stderr)
    write_page(results, docs=options.docs, readme=options.readme)
    print(f"{options.docs / 'paper.md'}: from {len(results)} runs", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
