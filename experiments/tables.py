"""The tables of both pages: first those of the short page, then those of the page behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from experiments.choice import Chosen
from experiments.claims import LINKS, OURS, Evidence, all_claims, seeds_each
from experiments.decoded import decoding_table, thresholds_table
from experiments.learning import learning, learning_by_corpus
from experiments.statistics import Mean, holm, over_corpora
from experiments.table_format import Cell, Number, Probability, Table, markdown
from experiments.trainings import BASE, BIOES, CORPORA, CRF_ROWS, PRETRAINED, RATES, ROWS, TENTH
from maskedcrf.data.corpora import CORPORA as KNOWN

VARIANTS = {BIOES: "BIOES", TENTH: "a tenth of train", BASE: "MPNet, twelve layers"}
"""What else a pretrained encoder was trained with."""
TITLES = {name: corpus.title for name, corpus in CORPORA.items()}


def best_rates(evidence: Evidence) -> Table:
    """Every row at its own best rate."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in evidence.trial.corpora(evidence.encoder):
        chosen = evidence.trial.choose_rows(corpus, ROWS, evidence.encoder)
        rows.append((TITLES[corpus], *(_at(each) for each in chosen), len(chosen[0].entries)))
    return Table(
        evidence.key("best_rates"),
        "Each head at its own best rate",
        ("test F1", *ROWS, "n"),
        tuple(rows),
        note="Mean over n seeds ± half of the 95 % interval (Student); in parentheses the `crf_rate` that dev chose "
        "for the row. A softmax head has none.",
    )


def _at(chosen: Chosen) -> str:
    mean = Mean.of(chosen.values("test", "f1"))
    spread = f"±{mean.half_width:.1f}" if mean.half_width is not None else ""
    return f"{mean.value:.1f}{spread}" + (f" ({chosen.rate:g})" if chosen.rate is not None else "")


def variants_of(evidence: Evidence) -> list[tuple[Evidence, str]]:
    """Other tags, fewer sentences, a larger encoder: each on some corpora, and how it is called."""
    return [(evidence.of_encoder(encoder), label) for encoder, label in VARIANTS.items()]


def in_one(key: str, title: str, make: Callable[[Evidence], Table], evidence: Evidence) -> Table:
    """A table of every variant in one, each line with the variant's name."""
    made = [(make(each), label) for each, label in variants_of(evidence)]
    rows = [(f"{row[0]}, {label}", *row[1:]) for table, label in made for row in table.rows]
    return Table(key, title, made[0][0].columns, tuple(rows), made[0][0].note)


def against_rate(evidence: Evidence) -> Table:
    """The four rows of CRF and MCRF at every rate of the grid, and what became of the transitions."""
    rows: list[tuple[Cell, ...]] = []
    for corpus in evidence.trial.corpora(evidence.encoder):
        for rate in RATES:
            at = {row: evidence.trial.at_rate(corpus, row, rate, evidence.encoder) for row in CRF_ROWS}
            scores = [Mean.of(each.values("test", "f1")) for each in at.values()]
            illegal = at["CRF-retain"].mean("test", "illegal")
            sizes = [at[row].mean("transitions", "largest") for row in ("CRF-retain", "MCRF-training")]
            seeds = len(at["CRF-retain"].entries)
            figures = [Number(each) for each in (illegal, *sizes)]
            rows.append((TITLES[corpus], f"{rate:g}", *scores, *figures, seeds))
    columns = ("", "crf_rate", *CRF_ROWS, "CRF illegal %", "largest transition, CRF", "MCRF", "n")
    note = "Test F1, mean over n seeds ± half of the 95 % interval. Every row's epoch is its own best on dev. Illegal: "
    note += "segments of CRF-retain that begin with I-, in percent of all that it predicts."
    return Table(evidence.key("against_rate"), "F1 against the rate", columns, tuple(rows), note)


def mean_by_rate(evidence: Evidence, corpus: str, row: str, part: str = "test") -> list[float]:
    """Mean F1 of a row at each rate of the grid."""
    chosen = [evidence.trial.at_rate(corpus, row, rate, evidence.encoder) for rate in RATES]
    return [each.mean(part, "f1") for each in chosen]


def claims_table(evidence: Evidence) -> Table:
    """The paper's claims under the fair protocol."""
    rows = tuple(
        (each.text, each.verdict, each.ours, Probability(each.p_value) if each.p_value is not None else "-", each.paper)
        for each in all_claims(evidence)
    )
    names = ", ".join(TITLES[corpus] for corpus in evidence.corpora) or "no corpus"
    note = (
        f"Mean and p of every line but the last are over {names} with {seeds_each(evidence)} seeds each; the last line "
        "counts all trainings. *Holds*: significant at 0.05 after Holm's correction for the number of claims, with no "
        "corpus significantly against it (*not everywhere* if there is one). A claim with ≥ holds unless the mean is "
        "below 0. *Fails*: significantly the other way. *Not shown*: neither; with few seeds that does not prove that "
        "there is no difference. Claims with > or ≥ are tested over sentences and over seeds, and the larger p counts; "
        "the others are tested over seeds alone. Paper: the mean over its corpora, and the range."
    )
    return Table(
        evidence.key("claims"),
        "The paper's claims again",
        ("claim", "verdict", "ours", "p (Holm)", "paper"),
        rows,
        note,
    )


def pairs_by_corpus(evidence: Evidence) -> Table:
    """Each comparison of the claims, corpus by corpus."""
    pairs = {**LINKS, **OURS}
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs.values():
        found = evidence.compare(pair)
        corrected = holm([each.p_value for each in found if each.p_value is not None])
        for each, p_value in zip(found, corrected, strict=True):
            rows.append((f"{pair[1]} over {pair[0]}", TITLES[each.corpus], each, Probability(p_value), each.seeds))
        mean_p = over_corpora(found)
        if mean_p is not None:
            mean = Number(float(np.mean([each.difference for each in found])), "+.2f")
            rows.append((f"{pair[1]} over {pair[0]}", "**mean**", mean, Probability(mean_p), f"{len(found)} corpora"))
    note = "Points of test F1 [95 % interval over seeds and sentences], each row at its own best rate. p of a corpus: "
    note += "after Holm over the corpora of the pair; p of a mean: before the correction for the number of claims."
    return Table(evidence.key("pairs"), "Each comparison by corpus", ("pair", "", "gain", "p", "n"), tuple(rows), note)


def corpora_table(evidence: Evidence) -> Table:
    """What was learnt and scored."""
    rows: list[tuple[Cell, ...]] = []
    for corpus, how in CORPORA.items():
        found = next((e for e in evidence.trial.entries.values() if e["training"]["corpus"] == corpus), None)
        sizes = [found["sentences"][part] if found else None for part in ("train", "dev", "test")]
        whole = KNOWN[corpus].train.counts[0].sentences
        drawn = f"of {whole:,}" if how.sentences else "all"
        illegal = sum(each.counts[0].illegal for each in (KNOWN[corpus].train, KNOWN[corpus].test))
        seeds = len(evidence.trial.seeds(corpus, evidence.encoder))
        rows.append((how.title, KNOWN[corpus].task, sizes[0], drawn, *sizes[1:], how.epochs, illegal, seeds))
    columns = ("", "task", "train", "", "dev", "test", "epochs", "illegal steps in gold", "n")
    note = (
        "Sentences. CoNLL2000's dev is a tenth of its train. Illegal gold is repaired for training and read leniently "
    )
    note += "when scoring. Not run in this trial: MSRA (45,000 sentences), Ontonotes 4 (needs a licence)."
    return Table("corpora", "Corpora", columns, tuple(rows), note)


def readme_table(evidence: Evidence) -> str:
    """The README's table: each row at its own best rate."""
    names = ("softmax-retain", "softmax-masked", "CRF-retain", "MCRF-decoding", "MCRF-training")
    rows: list[tuple[Cell, ...]] = []
    for corpus in evidence.corpora:
        chosen = evidence.trial.choose_rows(corpus, names, evidence.encoder)
        means = [Mean.of(each.values("test", "f1")) for each in chosen]
        rows.append((TITLES[corpus], *means, Number(chosen[2].mean("test", "illegal")), means[0].seeds))
    columns = ("test F1, each at its best rate", *names, "illegal %, CRF-retain", "seeds")
    return markdown(Table("readme", "", columns, tuple(rows)))


def all_tables(evidence: Evidence) -> tuple[Sequence[Table], Sequence[Table]]:
    """The tables of docs/paper.md, and those of the page behind it."""
    decoded, pretrained = evidence.decoded, evidence.of_encoder(PRETRAINED)
    variants = in_one("best_rates_variants", "Other tags, fewer sentences, a larger encoder", best_rates, evidence)
    first = [make(evidence) for make in (best_rates, against_rate, learning, claims_table)]
    behind = [make(evidence) for make in (pairs_by_corpus, learning_by_corpus, corpora_table)]
    behind += [make(pretrained) for make in (claims_table, pairs_by_corpus, against_rate)]
    behind += [in_one("against_rate_variants", "The same at every rate", against_rate, evidence)]
    return (
        [*first, best_rates(pretrained), decoding_table(decoded)],
        [variants, *behind, thresholds_table(decoded)],
    )
