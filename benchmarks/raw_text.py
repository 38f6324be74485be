"""What raw text costs: F1 on character spans from text, against F1 from the corpus's own tokens.

    python -m benchmarks.raw_text words conll2003 atis weibo dotted --corpora FOLDER [--finer]
    python -m benchmarks.raw_text models conll2003=MODEL ... --corpora FOLDER     # of token_classifiers.py --mcrf
    python -m benchmarks.raw_text table                                           # writes the guide's table

Test sentences are written as text by Moses's detokenizer (pip install sacremoses), Chinese without blanks; our own
corpus is written as text. `simple` is the expression that cut all text before models had words of their own. With
--finer a second model is trained on the pieces that `simple` makes of the tokens, and its tags are read back on the
tokens. Rows go to results/raw_text.json, each with its signature. The column of a tokenizer is the same model with that
one in the place of its own.
"""

from __future__ import annotations

import argparse
import json
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch

from benchmarks.dotted_corpus import dotted_corpus
from maskedcrf.data.corpora import load
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.token_text import join_tokens
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.evaluation.compare import signature
from maskedcrf.tagger import Tagger
from maskedcrf.tags.segments import Segment, convert, encode, segments

RESULTS = Path(__file__).parent / "results" / "raw_text.json"
GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "data.md"
BEGIN, END = "<!-- raw-text:begin -->", "<!-- raw-text:end -->"
TOKENIZERS = ("simple", "unicode", "spacy:en")
Found = set[tuple[int, int, int, str]]
Written = tuple[str, Sequence[tuple[int, int]]]
Row = dict[str, Any]


class Corpus(NamedTuple):
    """How much of a corpus is used, and how a word model is trained on it."""

    title: str
    train: int
    dev: int
    epochs: int
    characters: int = 0
    """Width of the encoder's character CNN."""
    is_chinese: bool = False


CORPORA = {
    "conll2003": Corpus("CoNLL2003", 5000, 500, 6, characters=30),
    "atis": Corpus("ATIS", 5000, 500, 6),
    "weibo": Corpus("Weibo, by character", 1350, 270, 6, is_chinese=True),
    "dotted": Corpus("English of our own, full of `U.N.` and `O'Neil`", 600, 100, 6, characters=30),
}


def main() -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["words", "models", "table"])
    parser.add_argument("names", nargs="*", help="corpora; of models CORPUS=FOLDER")
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--finer", action="store_true")
    parser.add_argument("--train", type=int, help="at most so many training sentences")
    parser.add_argument("--every", type=int, default=1, help="every n-th sentence of the test")
    options = parser.parse_args()
    if options.part == "table":
        GUIDE.write_text(written(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for given in options.names:
        name, _, folder = given.partition("=")
        train, dev, test = parts_of(name, options.corpora)
        train, test = train[: options.train], test[:: options.every]
        if folder:
            row = {"corpus": name} | measure(Tagger.load(folder), test)
        else:
            row = {"corpus": name} | measure(_train(train, dev, CORPORA[name]), test)
            if options.finer:
                row |= {"finer": finer(train, dev, test, CORPORA[name])}
        keep(row)


def parts_of(name: str, folder: Path) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """Train, dev and test in BIO; the sentences of test have the text that a person would write."""
    info = CORPORA[name]
    if name == "dotted":
        train, dev = dotted_corpus(info.train, 0, test=False), dotted_corpus(info.dev, 1, test=False)
        return _tokens_alone(train), _tokens_alone(dev), dotted_corpus(1000, 2, test=True)
    corpus = load(name, folder)
    train, dev, test = (
        [replace(each, tags=tuple(convert(each.tags or (), corpus.scheme, "BIO"))) for each in part if each.tokens]
        for part in (corpus.train, corpus.dev, corpus.test)
    )
    write = _without_blanks if info.is_chinese else _moses()
    written = [write(each.tokens) for each in test]
    test = [
        replace(each, text=text, offsets=tuple(offsets)) for each, (text, offsets) in zip(test, written, strict=True)
    ]
    return train[: info.train], dev[: info.dev], test


def _tokens_alone(sentences: Iterable[Sentence]) -> list[Sentence]:
    return [Sentence(each.tokens, each.tags) for each in sentences]


def _without_blanks(tokens: Sequence[str]) -> Written:
    return "".join(tokens), list(pairwise(accumulate(map(len, tokens), initial=0)))


def _moses() -> Callable[[Sequence[str]], Written]:
    """Moses's detokenizer; each token is found again in its text."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang="en")

    def write(tokens: Sequence[str]) -> Written:
        text = moses.detokenize(list(tokens), unescape=False)
        at, offsets = 0, []
        for token in tokens:
            start = text.find(token, at)
            if start < 0:  # it rewrote a token
                return join_tokens(tokens)
            at = start + len(token)
            offsets.append((start, at))
        return text, offsets

    return write


def _train(train: Sequence[Sentence], dev: Sequence[Sentence], info: Corpus) -> Tagger:
    encoder: Any = {"characters": info.characters}
    return Tagger.train(train, dev, epochs=info.epochs, illegal_gold="repair", encoder=encoder, progress=False)


def measure(tagger: Tagger, test: Sequence[Sentence]) -> Row:
    """F1 from the given tokens, from text as the model cuts it, and from text as others would."""
    gold = _gold(test)
    settings, own = tagger.record.settings, tagger.tokenizer
    from_tokens = {
        (number, *_characters(sentence, segment))
        for number, (answer, sentence) in enumerate(
            zip(tagger.predict([each.tokens for each in test]), test, strict=True)
        )
        for segment in answer.segments
    }
    found = {"given": _f1(from_tokens, gold), "raw": _f1(_from_text(tagger, test), gold)}
    for name in TOKENIZERS:
        tagger.tokenizer = get_tokenizer(name)
        found[name] = _f1(_from_text(tagger, test), gold)
    tagger.tokenizer = own
    return {
        "model": Path(tagger.model.encoder.config.transformer or "words").name,
        "train": tagger.record.data["train"]["sentences"],
        "epochs": settings["epochs"],
        "seed": settings["seed"],
        "test": len(test),
        "tokenizer": own.name,
        "agreement": tagger.record.data["train"].get("tokenizer_agreement"),
        "f1": found,
    }


def finer(
    train: Sequence[Sentence], dev: Sequence[Sentence], test: Sequence[Sentence], info: Corpus
) -> dict[str, float]:
    """The other way: trained on finer pieces, read back on the tokens where tokens are given."""
    tagger = _train([_pieces(each)[0] for each in train], [_pieces(each)[0] for each in dev], info)
    tagger.tokenizer = get_tokenizer("simple")
    gold, cut = _gold(test), [_pieces(each) for each in test]
    from_tokens: Found = set()
    for number, answer in enumerate(tagger.predict([pieces.tokens for pieces, _ in cut])):
        firsts = cut[number][1]
        for start, end, kind, _ in answer.segments:
            tokens = bisect_right(firsts, start) - 1, bisect_left(firsts, end)
            from_tokens.add((number, *_characters(test[number], Segment(*tokens, kind))))
    return {"given": _f1(from_tokens, gold), "raw": _f1(_from_text(tagger, test), gold)}


def _pieces(sentence: Sentence) -> tuple[Sentence, list[int]]:
    """The tokens cut again, and which piece is the first of each token."""
    cut = get_tokenizer("simple")
    parts = [[token[start:end] for start, end in cut(token)] or [token] for token in sentence.tokens]
    firsts = list(accumulate(map(len, parts), initial=0))
    moved = [Segment(firsts[start], firsts[end], kind) for start, end, kind, _ in segments(sentence.tags or (), "BIO")]
    return Sentence(tuple(chain.from_iterable(parts)), tuple(encode(moved, firsts[-1], "BIO"))), firsts


def _gold(test: Iterable[Sentence]) -> Found:
    return {
        (number, *_characters(sentence, segment))
        for number, sentence in enumerate(test)
        for segment in segments(sentence.tags or (), "BIO")
    }


def _characters(sentence: Sentence, segment: Segment) -> tuple[int, int, str]:
    offsets = sentence.offsets or ()
    return offsets[segment.start][0], offsets[segment.end - 1][1], segment.type


def _from_text(tagger: Tagger, test: Iterable[Sentence]) -> Found:
    answers = tagger.predict([each.text or "" for each in test])
    return {
        (number, entity.start, entity.end, entity.type)
        for number, answer in enumerate(answers)
        for entity in answer.entities
    }


def _f1(found: Found, gold: Found) -> float:
    return 200 * len(found & gold) / (len(found) + len(gold))


def keep(row: Row) -> None:
    """Write this row in the place of the one that was made alike."""
    keys = ("corpus", "model", "train", "epochs", "seed", "test")
    row = {"signature": signature(benchmark="raw-text", **{name: row[name] for name in keys}, scheme="BIO")} | row
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    others = [each for each in kept if each["signature"] != row["signature"]]
    RESULTS.write_text(json.dumps([*others, row], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(row, ensure_ascii=False), flush=True)


HEADER = (
    "| trained on | given tokens | raw text | cost | before: `simple` | `unicode` | spaCy's words "
    "| trained on finer pieces: given tokens, raw text |\n|---|---|---|---|---|---|---|---|"
)


def table(rows: Sequence[Row]) -> str:
    """A line for each corpus, model and size of the training, a mean where several seeds were run."""
    lines = [HEADER]
    for name, info in CORPORA.items():
        alike: dict[tuple[bool, str, int, int], list[Row]] = {}
        for row in (row for row in rows if row["corpus"] == name):
            key = row["model"] != "words", row["model"], row["train"], row["epochs"]
            alike.setdefault(key, []).append(row)
        lines += [_line(info.title, own) for _, own in sorted(alike.items(), key=lambda each: each[0])]
    return "\n".join(lines)


def _line(title: str, rows: Sequence[Row]) -> str:
    first = rows[0]
    f1 = {key: mean(row["f1"][key] for row in rows) for key in first["f1"]}
    what = "words and LSTM" if first["model"] == "words" else first["model"]
    seeds = "1 seed" if len(rows) == 1 else f"{len(rows)} seeds"
    label = f"{title}, {first['train']:,} sentences: {what} ({first['epochs']} epochs, {seeds})"
    fine = "{given:.1f}, {raw:.1f}".format(**first["finer"]) if "finer" in first else "-"
    cells = [f"{f1['given']:.1f}", f"{f1['raw']:.1f} (`{first['tokenizer']}`)", f"{f1['given'] - f1['raw']:.1f}"]
    cells += [f"{f1[name]:.1f}" for name in TOKENIZERS]
    return f"| {' | '.join([label, *cells, fine])} |"


def written(guide: str) -> str:
    """The guide's text with the table of today's results between the markers."""
    before, _, rest = guide.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{GUIDE.name} lacks {BEGIN} or {END}"
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    return f"{before}{BEGIN}\n{table(kept)}\n{END}{after}"


if __name__ == "__main__":
    main()
