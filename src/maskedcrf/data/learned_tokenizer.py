"""A tokenizer learnt from tokens: Unicode's words, and the habits of a corpus in three short lists.

Corpora cut text by rules of their own: `U.N.` and `Inc.` keep their full stop, `Jean-Luc` is one token, `Neil's` two.
What they keep together and what they cut off can be counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import regex

LEAST = 2
"""How often a habit must be seen."""
MAX_LISTED = 5000
_INNER_SIGN = regex.compile(r"(?<=\w)[^\w\s](?=\w)")
_ABBREVIATION = regex.compile(r"\w\S*\.")
_INITIALS = regex.compile(r"(?:\p{L}\.){2,}")
_CLITIC = regex.compile(r"['’]\w{1,3}|n['’]t")
_RUN = regex.compile(r"([^\w\s])\1+")
_WORD = regex.compile(r"\w")
_PLAIN_WORD = r"[A-Za-z0-9]+(?!\S)"
"""Most words of Western text: no habit cuts or lengthens them, so they are tried first, which takes half the time."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What a corpus keeps together and cuts off."""

    joiners: str = ""
    """Signs that join two words into one token: the hyphen of Jean-Luc."""
    abbreviations: tuple[str, ...] = ()
    """Tokens that end with a full stop."""
    clitics: tuple[str, ...] = ()
    """Ends of words that are tokens: 's, n't."""
    initials: bool = False
    """Whether single letters keep their full stops: U.N."""
    runs: bool = False
    """Whether equal signs in a row are one token: --."""

    def to_json(self) -> dict[str, Any]:
        """The habits as a model folder keeps them."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def learn_habits(sentences: Iterable[Sequence[str]]) -> Habits:
    """Count what the tokens of a corpus keep and cut off."""
    inner: Counter[str] = Counter()
    parted: Counter[str] = Counter()
    full: Counter[str] = Counter()
    bare: Counter[str] = Counter()
    clitics: Counter[str] = Counter()
    joined_clitics: Counter[str] = Counter()
    runs = 0
    for tokens in sentences:
        for number, token in enumerate(tokens):
            before = tokens[number - 1] if number else ""
            after = tokens[number + 1] if number + 1 < len(tokens) else ""
            if len(token) == 1:
                parted[token] += bool(_WORD.search(before[-1:]) and _WORD.match(after))
                continue
            runs += bool(_RUN.fullmatch(token))
            inner.update(set(_INNER_SIGN.findall(token)))
            if _ABBREVIATION.fullmatch(token):
                full[token] += 1
            elif after == ".":
                bare[token + "."] += number + 2 < len(tokens)  # at the end of a sentence every word has one
            if _CLITIC.fullmatch(token) and _WORD.search(before[-1:]):
                clitics[token] += 1
            elif found := regex.search(r"\w(['’]\w{1,3}|n['’]t)$", token):
                joined_clitics[found[1]] += 1
    signs = [sign for sign, count in inner.items() if count >= LEAST and (sign in "-‐‑–" or count > parted[sign])]
    short = [each for each, count in full.most_common(MAX_LISTED) if count > bare[each]]
    ends = [each for each, count in clitics.items() if count >= LEAST and count > joined_clitics[each]]
    initials = [count for each, count in full.items() if _INITIALS.fullmatch(each)]
    return Habits(
        "".join(sorted(signs)), tuple(sorted(short)), tuple(sorted(ends)), sum(initials) >= LEAST, runs >= LEAST
    )


def cutter(habits: Habits) -> Callable[[str], list[tuple[int, int]]]:
    """Cuts text by these habits."""
    clitic = r"\L<clitics>(?!\w)" if habits.clitics else r"(?!)"
    signs = regex.escape(habits.joiners, special_only=False)
    word = rf"\w\S*?(?:\b|(?={clitic}))"
    joined = rf"(?:(?!{clitic})[{signs}]+{word})*" if habits.joiners else ""
    kept = [r"\L<abbreviations>(?!\w)"] if habits.abbreviations else []
    kept += [r"(?:\p{L}\.){2,}(?!\w)"] if habits.initials else []
    kept += [r"([^\w\s])\1+"] if habits.runs else []
    kept += [clitic, word + joined, r"\S+?\b"]
    kept = [_PLAIN_WORD, *kept]
    lists = {"clitics": habits.clitics, "abbreviations": habits.abbreviations}
    used = {name: list(each) for name, each in lists.items() if each}
    pattern = regex.compile("(?V1w)" + "|".join(kept), **used)

    def cut(text: str) -> list[tuple[int, int]]:
        return [found.span() for found in pattern.finditer(text)]

    return cut
