"""Tables of tuning: what was tried on dev, and how near it brings us to the paper's level."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from experiments.candidates import ADAPTED, STARTS, parts_of
from experiments.cells import NOT_THERE, Cell, Number, Table
from experiments.extra import NAMES as EXTRA_NAMES
from experiments.grid import (
    CHOSEN_WHOLE,
    COMMITTEES,
    ENCODERS,
    FAMILY,
    LEVEL,
    MAIN,
    OF_THE_PAPERS_SIZE,
    WITH_DEV,
)
from experiments.reading import CORPORA, Score, Setting, counted_f1, gold_in_dev, paper_score
from experiments.run import tuned
from experiments.statistics import Evidence
from experiments.tune import FINALISTS, SEEDS, Tried, by_settings
from maskedcrf.evaluation.compare import f1_scores

TRAINED = "MCRF-training"
Shorts = dict[str, dict[str, float]]
"""Of each corpus, by `best` and `mean`, how much is missing."""
ABOUT: dict[str, str] = {
    "bert": "a Chinese BERT-base, as in the paper, its weights from 8 bits (`experiments.from_onnx`)",
    "mpnet": "MPNet-base as all-mpnet-base-v2 has it, an English encoder of BERT-base's size",
    "lexicon": "the words of a dictionary and their vectors (`experiments.lexicon`)",
} | {f"context{words}": f"{words} words on either side of a sentence, in dev and test too" for words in (32, 64, 128)}
"""What to know of a part of an encoder."""


def how_far(evidence: Evidence) -> Table:
    """Of each corpus the paper's best and mean, those of the main table's encoder, and of those that come nearer."""
    rows: list[tuple[Cell, ...]] = []
    alike: Shorts = {}
    anyhow: Shorts = {}
    for corpus in sorted(MAIN, key=list(CORPORA).index):
        mark = paper_score(evidence.paper, corpus, TRAINED)
        scores: list[tuple[Score | None, bool]] = []
        for encoder in [encoder for name, encoder in SET_BESIDE if name == corpus]:
            ours = evidence.results.score(Setting(corpus, encoder), TRAINED)
            parts, more, tried = chosen(corpus, encoder)
            scores.append((ours, more == NOT_THERE))
            rows.append((str(Setting(corpus, encoder)), ours, ours.runs if ours else None, mark, parts, more, tried))
        alike[CORPORA[corpus]] = nearest(short_of(mark, ours) for ours, same in scores if same)
        anyhow[CORPORA[corpus]] = nearest(short_of(mark, ours) for ours, _ in scores)
    columns = ("", "ours", "seeds", "paper (BERT-base)", "encoder", "has what the paper's had not", "tried")
    answer = (
        "- One encoder as it comes, trained on the corpus alone, which is what the paper has: "
        f"{verdict(alike, 'best')} {verdict(alike, 'mean')}\n"
        f"- With all that helped: {verdict(anyhow, 'best')} {verdict(anyhow, 'mean')}"
    )
    note = (
        "Test F1 of MCRF-training: best (mean ± standard deviation); for CoNLL2003 the authors print one figure, taken "
        "as the best. `mpnet` has BERT-base's size and was pretrained on about ten times its text. *Tuned*: encoder "
        "and training chosen together on dev (under Settings), where the main tables miss the paper's figures. *Tags*: "
        "it begins with a tagger of these. *Other texts*: its encoder has also read texts that are not of the corpus, "
        "for this purpose. *Dev*: the recipe is trained once more on train and dev, and its last epoch "
        "kept. *Five taggers*: their scores averaged, which makes one CRF with five times the parameters. Dev alone "
        "chose among the recipes of a row; but rows, and recipes within them, were added when the test scores of "
        "earlier ones were known, and which row is nearest was seen on test."
    )
    return Table("how_far", "The nearest recipes", columns, tuple(rows), note, answer)


SET_BESIDE = (*MAIN.items(), *OF_THE_PAPERS_SIZE.items(), *LEVEL)
"""Corpora and encoders that stand beside the paper's figures."""


def chosen(corpus: str, encoder: str) -> tuple[Cell, Cell, Cell]:
    """The encoder that tuning took, what it has that the paper's had not, and how many recipes were tried."""
    entry = tuned().get(f"{corpus}/{FAMILY.get(encoder, encoder)}", {"settings": {}, "tried": []})
    settings = {**ENCODERS[encoder], **entry["settings"]}
    if "encoder" not in settings:
        return None, None, None
    more = ", ".join(has_more(Setting(corpus, encoder), settings)) or NOT_THERE
    return parts_of(settings["encoder"]).replace("+", " + "), more, len(by_settings(entry["tried"]))


def has_more(setting: Setting, settings: Mapping[str, Any]) -> list[str]:
    """What a tagger has that the paper's had not, its pretrained encoder apart."""
    parts = settings["encoder"]
    adapted = ADAPTED.get(Path(parts.get("transformer") or "").name)
    found = [f"tags of {' and '.join(seen_by(settings['start']))}"] if "start" in settings else []
    found += ["a lexicon"] if "lexicon" in parts else []
    found += ["other texts"] if adapted and {*adapted.texts} - {setting.corpus} else []
    found += ["the sentences around"] if "context" in parts else []
    found += ["dev"] if setting.encoder in WITH_DEV else []
    return found + (["five taggers"] if setting.encoder in COMMITTEES else [])


def best_on_dev(evidence: Evidence, corpus: str) -> Setting:
    """Of the encoders set beside the paper's the one whose runs are best on dev, in the mean."""
    settings = [Setting(name, encoder) for name, encoder in SET_BESIDE if name == corpus]
    return max(settings, key=lambda each: fmean(evidence.results.f1(each, TRAINED, "dev").values() or [0.0]))


def where_we_part(evidence: Evidence) -> Table:
    """Resume, whose figures we do not reach: row by row and on dev too, with an encoder of the paper's kind."""
    setting, paper = Setting("resume", OF_THE_PAPERS_SIZE["resume"]), evidence.paper
    kept, dropped = counted_f1(paper, "resume"), counted_f1(paper, "resume", kinds=("legal",))
    printed = {variant: paper_score(paper, "resume", variant) for variant in ("CRF-retain", "CRF-discard", TRAINED)}
    theirs = {("CRF-retain", "dev"): kept, ("CRF-discard", "dev"): dropped}
    theirs |= {(variant, "test"): score.mean for variant, score in printed.items() if score and score.mean}
    found = {key: evidence.results.f1(setting, *key).values() for key in theirs}
    ours = {key: fmean(scores) for key, scores in found.items() if scores}
    rows = [
        (
            ", ".join(key),
            Number(figure),
            *((Number(ours[key]), Number(ours[key] - figure, "+.1f")) if key in ours else (None, None)),
        )
        for key, figure in theirs.items()
    ]
    retained, discarded = ("CRF-retain", "test"), ("CRF-discard", "test")
    us = f", us {ours[discarded] - ours[retained]:+.1f}" if discarded in ours else ""
    answer = (
        "Most of the difference is one step on test: dropping a plain CRF's illegal segments gains the paper "
        f"{theirs[discarded] - theirs[retained]:+.1f}{us}; by the paper's own counts of dev it gains "
        f"{dropped - kept:+.1f}."
    )
    note = (
        "Mean F1. Of dev the paper prints no F1 but counts of segments (Table 1; of how many runs it does not say), "
        f"and from these it follows: dev is the same {gold_in_dev('resume'):,} entities for both. Ours: "
        f"{len(evidence.results.f1(setting, TRAINED))} seeds."
    )
    columns = ("", "paper (BERT-base)", "ours (bert-zh)", "difference")
    return Table("where_we_part", "Where Resume parts from the paper", columns, tuple(rows), note, answer)


def ingredients(_: Evidence) -> Table:
    """Of the encoders that tuning took, the parts that need a word: what they have read, or where they come from."""
    taken = [entry["settings"]["encoder"] for name, entry in tuned().items() if name.split("/")[1] in CHOSEN_WHOLE]
    read = {Path(encoder.get("transformer") or "").name for encoder in taken}
    rows: list[tuple[Cell, ...]] = []
    for name, (encoder, texts, epochs, layers, _rate) in ADAPTED.items():
        if name in read:
            grown = f"given {layers} layers, and then " if layers else ""
            first = f"trained to guess hidden pieces of train of {', '.join(map(_name, texts))}, {epochs} times over"
            rows.append((parts_of({"transformer": f"{{folder}}/{name}"}), f"`{encoder}`, {grown}{first}"))
    used = {part.split("-")[0] for encoder in taken for part in parts_of(encoder).split("+")}
    rows += [(part, said) for part, said in ABOUT.items() if part in used]
    note = (
        "Of People's Daily and of the English sentences, what shares a run of twelve characters or of five words with "
        "dev or test was left out (`experiments.extra`); the reviews were not searched."
    )
    return Table("parts", "What the encoders are made of", ("part", "what it is"), tuple(rows or [("all", None)]), note)


def seen_by(start: str) -> list[str]:
    """What a tagger to begin with was trained on, the first of them first."""
    corpus, recipe = STARTS[Path(start).name]
    return [*(seen_by(recipe["start"]) if "start" in recipe else ()), _name(corpus)]


def _name(corpus: str) -> str:
    return CORPORA.get(corpus) or EXTRA_NAMES[corpus]


def short_of(mark: Score | None, ours: Score | None) -> dict[str, float]:
    """How much is missing to the paper's best and mean, all as printed; nothing is said of what was not run."""
    pairs = {name: (getattr(mark, name, None), getattr(ours, name, None)) for name in ("best", "mean")}
    return {name: a - round(b, 1) for name, (a, b) in pairs.items() if a is not None and b is not None}


def nearest(shorts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of each kind the least that is missing."""
    found: dict[str, float] = {}
    for short in shorts:
        found |= {kind: min(value, found.get(kind, value)) for kind, value in short.items()}
    return found


def without_the_cut(evidence: Evidence) -> Table:
    """Test F1 without the sentences that the authors' code cuts: what that may explain of a difference to the paper."""
    rows: list[tuple[Cell, ...]] = []
    for corpus, cut in evidence.paper["cut_at_128_pieces"].items():
        for encoder in (MAIN[corpus], OF_THE_PAPERS_SIZE[corpus], "tuned+bert"):
            setting = Setting(corpus, encoder)
            counts = evidence.results.counts(setting, TRAINED)
            rest = {seed: found[~np.isin(np.arange(len(found)), cut)] for seed, found in counts.items()}
            kept = Score.of({seed: float(f1_scores(found.sum(0))) for seed, found in rest.items()})
            whole = evidence.results.score(setting, TRAINED)
            mark = paper_score(evidence.paper, corpus, TRAINED)
            rows.append((str(setting), len(cut), whole, kept, mark))
    columns = ("", "sentences cut", "ours, all of test", "ours, without them", "paper (BERT-base)")
    note = (
        "Test F1 of MCRF-training: best (mean ± standard deviation). The authors' code cuts a sentence at 128 pieces, "
        "and gold behind the cut does not count; we cut nothing. Here we leave such sentences out whole; the paper's "
        "figures are as printed. By its own counts of segments, MSRA's long sentences were split, not cut."
    )
    return Table("without_the_cut", "Without the sentences that the authors' code cuts", columns, tuple(rows), note)


def verdict(shorts: Mapping[str, Mapping[str, float]], kind: str) -> str:
    """A sentence on where the paper's best, or mean, is reached and where not."""
    known = {corpus: found[kind] for corpus, found in shorts.items() if kind in found}
    reached = [corpus for corpus, short in known.items() if short <= 0]
    missed = [f"{corpus} ({short:.1f} short)" for corpus, short in known.items() if short > 0]
    said = [f"reached on {', '.join(reached)}"] * bool(reached) + [f"not reached on {', '.join(missed)}"] * bool(missed)
    return f"The paper's {kind} is {'; '.join(said) or 'yet to be run against'}."


def scheme_inside(_: Evidence) -> Table:
    """Recipes that tuning tried in the scheme of the tables and in another, all else the same."""
    rows: list[tuple[Cell, ...]] = []
    for name, entry in tuned().items():
        corpus, encoder = name.split("/")
        tried = [(json.loads(recipe), scores) for recipe, scores in by_settings(entry["tried"]).items()]
        for recipe, inside in tried:
            outside = {key: value for key, value in recipe.items() if key != "scheme"}
            for plain in (scores for other, scores in tried if other == outside != recipe):
                seeds = plain.keys() & inside.keys()
                before, after = (fmean(scores[seed] for seed in seeds) for scores in (plain, inside))
                found = (Number(before), Number(after), Number(after - before, "+.1f"))
                varied = recipe.get("adversarial", NOT_THERE), recipe["encoder"].get("context", NOT_THERE)
                rows.append((str(Setting(corpus, encoder)), *varied, *found, len(seeds)))
    columns = ("", "adversarial", "context", "BIO", "BIOES", "gain", "seeds")
    note = (
        "Dev F1 of MCRF-training, mean over the seeds that both ran with: the tagger learns BIOES and gives out the "
        'BIO of the files (`scheme = "BIOES"`, `output_scheme = "BIO"`).'
    )
    return Table("scheme_inside", "BIOES inside, BIO outside", columns, tuple(rows or [("all", *[None] * 6)]), note)


def in_words(settings: Mapping[str, Any]) -> str:
    """A recipe in a line: parts and their sizes, batch and epochs, rates."""
    encoder, rates = settings.get("encoder", {}), settings["optim"]
    figures = {
        "hidden": encoder.get("lstm_hidden"),
        "dropout": encoder.get("dropout"),
        "batch": settings["batch"],
        "epochs": settings["epochs"],
        "average": settings.get("average"),
        "word dropout": settings.get("word_dropout"),
        "adversarial": settings.get("adversarial"),
        **{name.replace("_", " "): value for name, value in rates.items() if name != "schedule"},
    }
    said = [f"{name} {value:.3g}" for name, value in figures.items() if value is not None]
    begun = [f"begun with {Path(settings['start']).name}"] if "start" in settings else []
    inside = [f"{settings['scheme']} inside"] if "scheme" in settings else []
    return ", ".join([parts_of(encoder)] * bool(encoder) + begun + inside + said)


LEVEL_ENCODERS = {encoder for _, encoder in LEVEL}


def settled(tried: Tried) -> bool:
    """Whether the best candidates by the first seed have run with all seeds."""
    first = [scores for scores in by_settings(tried).values() if SEEDS[0] in scores]
    best = sorted(first, key=lambda scores: -scores[SEEDS[0]])[:FINALISTS]
    return all(len(scores) == len(SEEDS) for scores in best)


def tuning(_: Evidence) -> Table:
    """Of each corpus and encoder how many candidates were tried on dev, what they reached, and which was taken."""
    rows: list[tuple[Cell, ...]] = []
    short: list[str] = []
    for name, entry in tuned().items():
        corpus, encoder = name.split("/")
        found = by_settings(entry["tried"])
        taken = found[json.dumps(entry["settings"])]
        first = [scores[SEEDS[0]] for scores in found.values() if SEEDS[0] in scores]
        reached = [Number(value) for value in (max(first), median(first), min(first), fmean(taken.values()))]
        said = in_words(entry["settings"])
        rows.append((str(Setting(corpus, encoder)), len(found), *reached, len(taken), said))
        if encoder in LEVEL_ENCODERS and not settled(entry["tried"]):
            short.append(str(Setting(corpus, encoder)))
    cut = f" Cut short: {'; '.join(short)}: of their best {FINALISTS} not all have run again yet." if short else ""
    columns = ("", "tried", "best", "median", "worst", "taken: mean", "seeds", "taken")
    note = (
        "Dev F1 of a plain CRF, illegal segments retained, so that the choice favours the baseline if anything; of "
        "*tuned*, which no table sets against a plain CRF, of MCRF-training: its recipes vary the best of a first "
        f"sweep of 70. Each candidate was run once (seed {SEEDS[0]}: best, median, worst); where more seeds are given, "
        f"the best {FINALISTS} ran again with seeds {' and '.join(map(str, SEEDS[1:]))}, and the best mean was taken. "
        "No table uses these seeds; all heads, schemes and shares of train use what was taken. Of the candidates dev "
        "chose, never test; but some of *tuned* were thought of when the test scores of earlier ones were known. Every "
        f"run but those of the first sweep is in `experiments/tuned.json`.{cut}"
    )
    return Table("tuning", "Settings", columns, tuple(rows or [("all", *[None] * 7)]), note)
