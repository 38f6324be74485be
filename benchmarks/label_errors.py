"""Wrong labels put into good training data, and how many of the first suspects are among them.

    pip install --no-deps cleanlab termcolor tqdm
    python benchmarks/label_errors.py atis conll2003 --corpora FOLDER --seed 2
    python benchmarks/label_errors.py --table

5 % of the segments are corrupted: a fourth each gets another type, has a boundary moved by a token, is dropped, or is
invented where the gold has none. Five taggers, each trained on four fifths of the corrupted sentences, read the fifth
that is left. `maskedcrf inspect`, cleanlab's filter for token classification and the lowest probability of a token's
label rank what they saw, from the same out-of-fold probabilities. Rows go to results/label-errors.json, `--table`
writes the guide's table. `--work` keeps the trained taggers for another run.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch

from maskedcrf.data.corpora import load
from maskedcrf.data.sentence import Sentence
from maskedcrf.evaluation.compare import signature
from maskedcrf.inspection.folds import Fold, draw_folds, train_folds
from maskedcrf.inspection.reading import read_sentences
from maskedcrf.inspection.suspects import Suspect, SuspectList
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, encode, segments
from maskedcrf.training.settings import Settings

RESULTS = Path(__file__).parent / "results" / "label-errors.json"
GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "inspect.md"
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
SHARE, FOLDS = 0.05, 5
SENTENCES = {"atis": None, "conll2003": 5000}
CHARACTERS = {"atis": 0, "conll2003": 50}
METHODS = {
    "inspect": "`maskedcrf inspect --folds 5`",
    "cleanlab": "cleanlab's filter, as it comes",
    "cleanlab margin": "cleanlab's filter, ranked by `normalized_margin`",
    "lowest": "lowest probability of a token's label",
}
KINDS = ("type", "boundary", "dropped", "invented")


class Corruption(NamedTuple):
    """A place where gold was made wrong."""

    sentence: int
    kind: str
    start: int
    end: int
    """Tokens of the segment that was there or is there now, or of both."""


Item = tuple[int, int, int]
"""A suspect: sentence, first token, the one after the last."""


def corrupt(sentences: Sequence[Sentence], *, share: float, seed: int) -> tuple[list[Sentence], list[Corruption]]:
    """The sentences with this share of their BIO segments made wrong, never two in one place, and the places."""
    random = Random(seed)
    gold = [[Segment(*each) for each in segments(sentence.tags or (), "BIO")] for sentence in sentences]
    pool = [(number, each) for number, row in enumerate(gold) for each in row]
    wanted = round(share * len(pool))
    done: list[Corruption] = []
    touched: set[tuple[int, int]] = set()
    while len(done) < wanted:
        kind = KINDS[len(done) % len(KINDS)]
        number, old = random.choice(pool)
        types = random.choice(pool)[1]
        if kind == "invented":
            number = random.randrange(len(sentences))
            size, length = types.end - types.start, len(sentences[number].tokens)
            old = Segment(begin := random.randrange(length), begin + size, "")
        new = _changed(kind, old, types.type, random)
        region = [token for each in (old, new) if each for token in range(each.start, each.end)]
        place = {(number, token) for token in range(min(region) - 1, max(region) + 2)}
        others = [each for each in gold[number] if each != old]
        inside = min(region) >= 0 and max(region) < len(sentences[number].tokens)
        free = new is None or all(each.end <= new.start or new.end <= each.start for each in others)
        if (kind != "invented" and old not in gold[number]) or not inside or not free or touched & place:
            continue
        if (new is None and kind != "dropped") or (new and new[:3] == old[:3]):
            continue
        gold[number] = sorted([*others, new] if new else others)
        touched |= place
        done.append(Corruption(number, kind, min(region), max(region) + 1))
    written = [
        replace(each, tags=tuple(encode(row, len(each.tokens), "BIO")))
        for each, row in zip(sentences, gold, strict=True)
    ]
    return written, done


def _changed(kind: str, old: Segment, other_type: str, random: Random) -> Segment | None:
    """What stands in the place of a segment; None for nothing."""
    if kind == "dropped":
        return None
    if kind in ("type", "invented"):
        return Segment(old.start, old.end, other_type)
    start, end = random.choice([(-1, 0), (1, 0), (0, -1), (0, 1)])
    new = Segment(old.start + start, old.end + end, old.type)
    return new if new.start < new.end else None


def main() -> None:
    """Measure corpora and keep their rows, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *SENTENCES])
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of the corruption")
    parser.add_argument("--work", type=Path, help="folder for the trained taggers")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.names:
        kept[f"{name} seed {options.seed}"] = measure(name, options.corpora, options.seed, options.work)
        RESULTS.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
    if options.table:
        before, _, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
        GUIDE.write_text(f"{before}{BEGIN}\n{table(kept)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def measure(name: str, corpora: Path, seed: int, work: Path | None) -> dict[str, Any]:
    """Every method on one corpus."""
    torch.set_num_threads(1)
    good = [each for each in load(name, corpora).train if each.tokens][: SENTENCES[name]]
    bad, wrong = corrupt(good, share=SHARE, seed=seed)
    encoder = {"words": 100, "characters": CHARACTERS[name], "lstm_hidden": 100}
    chosen = {"encoder": encoder, "optim": {"head_rate": 0.002}, "epochs": 12, "device": "cpu"}
    numbers = {id(sentence): number for number, sentence in enumerate(bad)}
    tags = sorted({tag for sentence in bad for tag in sentence.tags or ()})
    suspects, labels, shares, owners = SuspectList(), [], [], []
    for fold in folds_of(bad, Settings.of(chosen), None if work is None else work / f"{name}-{seed}"):
        for reading in read_sentences(fold.tagger, fold.sentences, gold_scheme=Scheme.get("BIO")):
            suspects.add(reading)
        for sentence, own in zip(fold.sentences, token_probabilities(fold, tags), strict=True):
            labels.append([tags.index(tag) for tag in sentence.tags or ()])
            shares.append(own)
            owners.append(numbers[id(sentence)])
    ranked = [(numbers[id(place.sentence)], place.suspect) for place in suspects.ranked()]
    places = [(number, *suspect.tokens) for number, suspect in ranked]
    tokens = [(number, token, token + 1) for number, suspect in ranked for token in doubted_tokens(suspect)]
    lists = {name: (found, found) for name, found in rivals(labels, shares, owners).items()}
    lists["inspect"] = (places, tokens)
    gold = [[Segment(*each) for each in segments(sentence.tags or (), "BIO")] for sentence in bad]
    return {
        "corrupted": len(wrong),
        "sentences": len(bad),
        "methods": {method: score(*items, wrong, gold) for method, items in lists.items()},
        "cleanlab": _version("cleanlab"),
        "signature": signature(
            corpus=f"{name}/train[:{len(bad)}]", scheme="BIO", corrupted=SHARE, seeds=seed, folds=FOLDS, encoder="lstm"
        ),
    }


def doubted_tokens(suspect: Suspect) -> list[int]:
    """Tokens whose tag would be another one."""
    _, end = suspect.tokens
    sides = (encode([Segment(*span)] if span else [], end, "BIO") for span in (suspect.gold, suspect.reading))
    return [token for token, (gold, reading) in enumerate(zip(*sides, strict=True)) if gold != reading]


def folds_of(sentences: Sequence[Sentence], settings: Settings, work: Path | None) -> Iterator[Fold]:
    """The folds and their taggers, trained now or in an earlier run."""
    if work is not None and (work / str(FOLDS - 1)).exists():
        for number, held_out in enumerate(draw_folds(len(sentences), FOLDS)):
            yield Fold(Tagger.load(work / str(number), device="cpu"), [sentences[place] for place in held_out])
        return
    for number, fold in enumerate(train_folds(sentences, settings, folds=FOLDS)):
        if work is not None:
            fold.tagger.save(work / str(number), overwrite=True)
        yield fold


@torch.inference_mode()
def token_probabilities(fold: Fold, tags: Sequence[str]) -> list[Any]:
    """(T, all tags) of each sentence: exact P(tag at token); tags that the tagger does not know have none."""
    model, found = fold.tagger.model, {}
    columns = [tags.index(tag) for tag in model.crf.tags if tag in tags]
    known = [number for number, tag in enumerate(model.crf.tags) if tag in tags]
    with compute_emissions(model, fold.sentences, size=64, tokens=2048) as batches:
        for places, emissions, mask in batches:
            marginals = model.crf.marginals(emissions, mask).double().numpy()
            for row, place in enumerate(places):
                own = marginals[row, mask[row].numpy()][:, known]
                found[place] = np.zeros((len(own), len(tags)))
                found[place][:, columns] = own / own.sum(1, keepdims=True)
    return [found[place] for place in range(len(fold.sentences))]


def rivals(labels: list[list[int]], shares: list[Any], owners: list[int]) -> dict[str, list[Item]]:
    """The rankings of tokens."""
    from cleanlab.token_classification.filter import find_label_issues

    def items(found: Iterable[tuple[int, int]]) -> list[Item]:
        return [(owners[row], token, token + 1) for row, token in found]

    rows = ((row, token, label) for row, own in enumerate(labels) for token, label in enumerate(own))
    lowest = sorted(rows, key=lambda each: shares[each[0]][each[1], each[2]])
    margin = find_label_issues(labels, shares, return_indices_ranked_by="normalized_margin")
    return {
        "cleanlab": items(find_label_issues(labels, shares)),
        "cleanlab margin": items(margin),
        "lowest": items((row, token) for row, token, _ in lowest),
    }


def score(
    items: Sequence[Item], tokens: Sequence[Item], wrong: Sequence[Corruption], gold: Sequence[Sequence[Segment]]
) -> dict[str, Any]:
    """Precision among the first n in percent, n being the number corrupted.

    `tokens`: of the first n tokens, which may be several of one wrong place. `places`: of the first n places that a
    person looks at. A token stands for the gold segment it is in; what points to a wrong place found before is
    passed over.
    """
    by_sentence: dict[int, list[Corruption]] = {}
    for each in wrong:
        by_sentence.setdefault(each.sentence, []).append(each)

    def hits(item: Item) -> set[Corruption]:
        return {each for each in by_sentence.get(item[0], ()) if item[1] < each.end and each.start < item[2]}

    places: dict[Item, None] = {}
    for number, start, end in items:
        around = next((each for each in gold[number] if each.start <= start and end <= each.end), None)
        places[(number, start, end) if around is None else (number, around.start, around.end)] = None
    found: set[Corruption] = set()
    looked = right = 0
    for item in places:
        own = hits(item)
        if looked == len(wrong):
            break
        if own and own <= found:
            continue
        looked, right = looked + 1, right + bool(own)
        found |= own
    listed = sum(bool(hits(item)) for item in islice(tokens, len(wrong)))
    return {
        "tokens": 100 * listed / len(wrong),
        "places": 100 * right / len(wrong),
        "kinds": dict(sorted(Counter(each.kind for each in found).items())),
        "length": len(items),
    }


def table(kept: dict[str, Any]) -> str:
    """A row for each method."""
    columns = sorted(kept)
    titles = [
        f"{name.partition(' ')[0]}, seed {name.rpartition(' ')[2]}: {kept[name]['corrupted']}" for name in columns
    ]
    lines = [
        f"| precision among the first n places / tokens, % | {' | '.join(titles)} |",
        "|---|" + "---:|" * len(columns),
    ]
    for method, title in METHODS.items():
        cells = [kept[name]["methods"][method] for name in columns]
        texts = [f"{each['places']:.1f} / {each['tokens']:.1f}" for each in cells]
        lines.append(f"| {title} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
