"""Patterns: regular expressions with a type and a check, those that ship and those of a user's file.

>>> [(found.type, found.start, found.end) for found in BUILTIN["email"].find("Write to ann@example.org.")]
[('EMAIL', 9, 24)]
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import regex

from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction import checks

TIMEOUT = 60.0
"""Seconds for one search by an expression of a user's own, which may backtrack without end."""
KEYS = ("name", "type", "pattern", "check", "weight")
CHECKS: dict[str, Callable[[str], bool]] = {
    "luhn": checks.has_luhn_digit,
    "card": checks.is_card,
    "iban": checks.is_iban,
    "ipv4": checks.is_ipv4,
    "ipv6": checks.is_ipv6,
}
"""Those a pattern file may name, beside `module:function`."""


class Match(NamedTuple):
    """A part of a text, in characters, end exclusive, and its type."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, what it finds, and a check that a match must pass."""

    name: str
    type: str
    expression: Any
    """Compiled by the `regex` library."""
    check: Callable[[str], bool] | None = None
    weight: float | None = None
    """Log-odds that a match adds to its type in the model's lattice; None makes it certain."""

    def find(self, text: str) -> Iterator[Match]:
        """Matches from left to right, without overlap; after one that fails its check, from the next character on."""
        start = 0
        while found := self._search(text, start):
            right = found.group() != "" and (self.check is None or self._passes(self.check, found.group()))
            if right:
                yield Match(found.start(), found.end(), self.type)
            start = found.end() if right else found.start() + 1

    def _passes(self, check: Callable[[str], bool], text: str) -> bool:
        try:
            return bool(check(text))
        except Exception as error:  # the message may hold the text that was found
            raise MaskedCRFError(
                f"pattern {self.name!r}: its check fails with {type(error).__name__}; let it return True or False"
            ) from error

    def _search(self, text: str, start: int) -> Any:
        try:
            return self.expression.search(text, start, timeout=TIMEOUT)
        except TimeoutError:
            raise MaskedCRFError(
                f"pattern {self.name!r} has searched one text for {TIMEOUT:g} s; write it without nested repetition"
            ) from None


IBAN_LENGTHS = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
"""Characters of an IBAN, by country."""
_LETTER = r"\p{Latin}\p{Greek}\p{Cyrillic}\u0300-\u036f"
"""The last are accents that follow their letter."""
_GAP = r"[ \u00a0\u2011-]"
_GAP_OR_DOT = r"[ \u00a0\u2011.-]"
_IBAN = "|".join(
    rf"(?i:{countries.replace(' ', '|')}){_GAP}?[0-9]{{2}}(?:{_GAP}?[A-Za-z0-9]){{{length - 4}}}"
    for length, countries in IBAN_LENGTHS.items()
)
_IPV4 = r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}"
_MORE = r"(?:(?:[ \u00a0\u2011./()-]{0,2}| / )[0-9])"
"""A further digit of a telephone number."""
_EXTENSION = r"(?: ?(?i:x|ext\.?) ?[0-9]{1,6})?"
_PHONES = (
    rf"\+[1-9]{_MORE}{{6,14}}",
    rf"00[1-9]{_MORE}{{7,13}}",
    rf"\(?0[1-9]{_MORE}{{7,10}}",
    rf"(?:1{_GAP_OR_DOT})?(?:\([2-9][0-9]{{2}}\){_GAP_OR_DOT}{{0,2}}|[2-9][0-9]{{2}}{_GAP_OR_DOT}{{1,2}})"
    rf"[2-9][0-9]{{2}}{_GAP_OR_DOT}[0-9]{{4}}",
    r"1[3-9][0-9][ -]?[0-9]{4}[ -]?[0-9]{4}",
)
_CARDS = (
    rf"[0-9]{{4}}({_GAP})[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}",
    rf"3[0-9]{{3}}({_GAP})[0-9]{{6}}\2[0-9]{{4,5}}",
    r"[0-9]{13,19}",
)
_URL = rf"[{_LETTER}0-9\[\]@._~:/?#!$&()*+,;=%-]"

# Every repetition is bounded, so that the search is linear: the work at one character is bounded too.
_TABLE: tuple[tuple[str, str, str, Callable[[str], bool] | None], ...] = (
    (
        "email",
        "EMAIL",
        rf"(?<![{_LETTER}0-9_])[{_LETTER}0-9_][{_LETTER}0-9._%+'-]{{0,63}}+"
        rf"@(?:[{_LETTER}0-9-]{{1,63}}+\.){{1,8}}(?:xn--[a-z0-9-]{{2,59}}+|[{_LETTER}]{{2,24}}+)(?![0-9])",
        None,
    ),
    (
        "url",
        "URL",
        rf"(?<![{_LETTER}0-9_])(?i:https?://|ftp://|www\.){_URL}{{0,2000}}[{_LETTER}0-9/_=&#%+~$-]",
        None,
    ),
    ("ipv4", "IP", rf"(?<![A-Za-z0-9_]|[0-9][.]){_IPV4}(?![A-Za-z0-9_]|[.][0-9])", checks.is_ipv4),
    (
        "ipv6",
        "IP",
        r"(?:(?<![A-Za-z0-9_:.])|(?<=[G-Zg-z][0-9]?:))"
        r"(?=[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:)"
        r"[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{0,40}(?:[0-9A-Fa-f]|(?<=:):)(?![A-Za-z0-9_])",
        checks.is_ipv6,
    ),
    (
        "phone",
        "PHONE",
        rf"(?=[+(0-9])(?<![A-Za-z0-9_+]|[0-9][.,/-])(?:{'|'.join(_PHONES)}){_EXTENSION}(?![A-Za-z0-9])",
        checks.is_phone,
    ),
    ("iban", "IBAN", rf"(?<![A-Za-z0-9])(?=[A-Za-z]{{2}}{_GAP}?[0-9])(?:{_IBAN})(?![A-Za-z0-9])", checks.is_iban),
    ("card", "CARD", rf"(?=[0-9])(?<![A-Za-z0-9]|[0-9][.,-])(?:{'|'.join(_CARDS)})(?![A-Za-z0-9])", checks.is_card),
    (
        "us-ssn",
        "ID",
        r"(?<![0-9]|[0-9]-)[0-9]{3}([ \u00a0\u2011-])[0-9]{2}\1[0-9]{4}(?![0-9]|-[0-9])",
        checks.is_us_social_security,
    ),
    (
        "cn-identity",
        "ID",
        r"(?<![A-Za-z0-9])[1-9][0-9]{5}(?:18|19|20)[0-9]{9}[0-9Xx](?![A-Za-z0-9])",
        checks.is_chinese_identity,
    ),
)
BUILTIN: Mapping[str, Pattern] = {
    name: Pattern(name, kind, regex.compile(expression), check) for name, kind, expression, check in _TABLE
}
"""The patterns that ship. They are tested, and they are not complete: no table of patterns is."""


def read_patterns(path: str | Path) -> tuple[Pattern, ...]:
    """The patterns of a TOML or JSON file: a list `patterns` of tables with `KEYS`, `check` and `weight` optional."""
    try:
        content = Path(path).read_text(encoding="utf-8")
        values = json.loads(content) if str(path).lower().endswith(".json") else tomllib.loads(content)
    except OSError as error:
        raise MaskedCRFError(f"{path}: {error.strerror or error}; give a readable TOML or JSON file") from error
    except (ValueError, RecursionError) as error:  # of either format, or no UTF-8
        raise MaskedCRFError(f"{path}: neither TOML nor, named .json, JSON ({str(error)[:200]})") from error
    entries = values.get("patterns") if isinstance(values, dict) and set(values) == {"patterns"} else None
    if not isinstance(entries, list) or not entries:
        raise MaskedCRFError(f"{path}: a pattern file holds [[patterns]] tables and nothing else; see `redact --help`")
    found = tuple(_pattern(entry, f"{path}: pattern {number}") for number, entry in enumerate(entries, start=1))
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise MaskedCRFError(f"{path}: two patterns are called {twice!r}; the ledger needs different names")
    return found


def _pattern(entry: object, where: str) -> Pattern:
    """One table of a pattern file; what is wrong with it is said after `where`."""
    if not isinstance(entry, dict) or not set(entry) <= set(KEYS):
        raise MaskedCRFError(f"{where}: a table with the keys {', '.join(KEYS)}; got {entry!r:.80}")
    for key in ("name", "type", "pattern"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise MaskedCRFError(f"{where}: {key} is missing or no text")
    where = f"{where} ({entry['name']})"
    return Pattern(
        entry["name"],
        entry["type"],
        _compile(entry["pattern"], where),
        _check(entry.get("check"), where),
        require_weight(entry.get("weight"), where),
    )


def _compile(expression: str, where: str) -> Any:
    try:
        compiled = regex.compile(expression)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise MaskedCRFError(f"{where}: not a regular expression ({error})") from error
    if compiled.search("") is not None:
        raise MaskedCRFError(f"{where}: it matches the empty text, so it would match everywhere; ask for a character")
    return compiled


def _check(name: object, where: str) -> Callable[[str], bool] | None:
    """The check of this name: one of `CHECKS`, or `module:function` of the user's own."""
    if name is None:
        return None
    if isinstance(name, str) and name in CHECKS:
        return CHECKS[name]
    module, colon, function = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not (module and colon and function.isidentifier()):
        raise MaskedCRFError(f"{where}: unknown check {name!r:.60}; known are {', '.join(CHECKS)} and module:function")
    try:
        found = getattr(import_module(module), function)
    except Exception as error:  # whatever the module does when it is imported
        raise MaskedCRFError(
            f"{where}: check {name}: {type(error).__name__} ({str(error)[:200]}); give the module's import path"
        ) from error
    if not callable(found):
        raise MaskedCRFError(f"{where}: check {name} is not a function")
    return found  # type: ignore[no-any-return]


def require_weight(weight: object, where: str) -> float | None:
    """A weight as given, or None; below zero it would uncover what the model covers."""
    if weight is None:
        return None
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise MaskedCRFError(f"{where}: a weight is a number above 0, log-odds for the type; got {weight!r:.40}")
    return float(weight)
