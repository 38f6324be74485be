"""A small English corpus of our own, full of tokens that naive tokenizers cut: `U.N.`, `Inc.`, `O'Neil`, `Jean-Luc`.

Sentences are written as text; `|` marks where two tokens touch, as in the Penn Treebank. The names of the test are not
those of training.
"""

from __future__ import annotations

from itertools import product
from random import Random

from maskedcrf.data.sentence import Sentence

FRAMES = (
    "The {ORG} sent {PER} to {LOC} on Monday|.",
    "{PER}|'s firm|, {ORG}|, is based in {LOC}|, he said|.",
    "{PER} did|n't leave {LOC} until Nov. 3|, according to {ORG} staff|.",
    "Mr. {PER} and Ms. {PER} met the {ORG} in {LOC} (|see p. 7|)|.",
    '"|The {ORG} ca|n\'t stay in {LOC}|,|" said Dr. {PER}|.',
    "At 9 a.m. {PER} of {ORG} flew from {LOC} to {LOC} for talks|.",
    "A {LOC} court fined {ORG} $|1.5 million|; {PER} was|n't there|.",
)
FIRST = ("Pamela", "Jean-Luc", "J.R.", "Mary-Ann", "Bob", "Ann", "K.C.", "Peter")
LAST = ("O'Neil", "Brassard", "Smith-Jones", "D'Amato", "Ek", "McIntyre", "St. Clair", "O'Brien", "Lee", "Al-Masri")
STEMS = ("Acme", "Half-Moon", "J.P. Morgan", "O'Reilly", "Smith", "AT&T", "Baker|'s", "Northern")
ENDS = ("Inc.", "Corp.", "Co.", "Ltd.", "Bros.")
ACRONYMS = ("U.N.", "E.U.", "F.B.I.", "I.M.F.", "NATO", "I.R.A.", "C.I.A.", "S.E.C.")
PLACES = ("U.S.", "U.K.", "St. Louis", "Washington D.C.", "L.A.", "Oslo", "Aix-en-Provence", "Coeur d'Alene", "Lima")


def names() -> dict[str, tuple[list[str], list[str]]]:
    """Names of each type: those of training and those of the test."""
    people = [" ".join(each) for each in product(FIRST, LAST)]
    firms = [" ".join(each) for each in product(STEMS, ENDS)]
    places = list(PLACES)
    every: dict[str, tuple[list[str], list[str]]] = {}
    for kind, known, step in (("PER", people, 3), ("ORG", firms, 3), ("LOC", places, 4)):
        test = known[::step]
        every[kind] = [name for name in known if name not in test], test
    every["ORG"][0].extend(ACRONYMS[::2])
    every["ORG"][1].extend(ACRONYMS[1::2])
    return every


def dotted_corpus(size: int, seed: int, *, test: bool) -> list[Sentence]:
    """Sentences with tokens, tags in BIO, and the text that they are written as."""
    random = Random(seed)
    chosen = {kind: both[test] for kind, both in names().items()}
    return [_sentence(random.choice(FRAMES), chosen, random) for _ in range(size)]


def _sentence(frame: str, names: dict[str, list[str]], random: Random) -> Sentence:
    text = ""
    tokens: list[str] = []
    tags: list[str] = []
    offsets: list[tuple[int, int]] = []

    def add(token: str, tag: str, blank: str) -> None:
        nonlocal text
        text += blank
        offsets.append((len(text), len(text) + len(token)))
        text += token
        tokens.append(token)
        tags.append(tag)

    for number, word in enumerate(frame.split(" ")):
        for part, piece in enumerate(word.split("|")):
            blank = " " if number and not part else ""
            kind = piece.strip("{}")
            if piece != kind:
                name = random.choice(names[kind]).replace("|", " |").split(" ")
                for place, own in enumerate(name):
                    between = "" if own.startswith("|") else " "
                    add(own.removeprefix("|"), f"{'I' if place else 'B'}-{kind}", between if place else blank)
            else:
                add(piece, "O", blank)
    return Sentence(tuple(tokens), tuple(tags), text=text, offsets=tuple(offsets))
