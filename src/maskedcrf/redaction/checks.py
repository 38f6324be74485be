"""Checks that tell an account number, an address or an identity number from other text of the same shape.

Each takes the text that a pattern matched. A check of your own does the same: `module:function` in a pattern file.
"""

from __future__ import annotations

import socket
from datetime import date

import regex

DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
"""A digit doubled, and the digits of that added up: what Luhn's sum takes of every second digit."""
SEPARATORS = str.maketrans("", "", " -\u00a0\u2011")
CARD_LENGTHS = {
    "4": (13, 16, 19),
    **dict.fromkeys(("51", "52", "53", "54", "55"), (16,)),
    **dict.fromkeys(("22", "23", "24", "25", "26", "27"), (16,)),
    **dict.fromkeys(("34", "37"), (15,)),
    **dict.fromkeys(("30", "36", "38", "39"), (14,)),
    **dict.fromkeys(("35", "60", "64", "65"), (16,)),
    "62": (16, 17, 18, 19),
}
"""First digits of payment cards, by network, and how many digits such a card has."""
IDENTITY_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
"""ISO 7064 mod 11-2, for the first 17 digits of a Chinese identity number."""
_DATE = regex.compile(r"\(?(?:[0-3]?[0-9][ ./-][01]?[0-9][ ./-])(?:19|20)[0-9]{2}(?![0-9])")


def has_luhn_digit(text: str) -> bool:
    """Whether the last digit is the one that Luhn's formula gives for the others."""
    digits = text.translate(SEPARATORS).encode()
    total = sum(digits[-1::-2]) + sum(digits[-2::-2].translate(DOUBLED)) - len(digits) * ord("0")
    return total % 10 == 0 and digits.isdigit()


def is_card(text: str) -> bool:
    """Whether this is a payment card's number: first digits and length of a network, and Luhn's digit."""
    digits = text.translate(SEPARATORS)
    lengths = CARD_LENGTHS.get(digits[:1]) or CARD_LENGTHS.get(digits[:2], ())
    return len(digits) in lengths and has_luhn_digit(digits)


def is_iban(text: str) -> bool:
    """Whether the check digits of an IBAN are right: 1 modulo 97, letters read as 10 to 35 (ISO 13616)."""
    code = text.translate(SEPARATORS)
    return int("".join([str(int(character, 36)) for character in code[4:] + code[:4]])) % 97 == 1


def is_ipv4(text: str) -> bool:
    """Whether this is four numbers up to 255."""
    return all(int(part) <= 255 for part in text.split("."))


def is_ipv6(text: str) -> bool:
    """Whether this is an IPv6 address; `::` alone, which is punctuation in many a programme, is none."""
    if not text.strip(":."):
        return False
    try:
        socket.inet_pton(socket.AF_INET6, text)  # three times as fast as `ipaddress`
    except (OSError, ValueError):
        return False
    return True


def is_phone(text: str) -> bool:
    """Whether a run of digits that may be a telephone number does not begin with a date."""
    return _DATE.match(text) is None


def is_us_social_security(text: str) -> bool:
    """Whether the three parts are ones that are given out; these numbers have no check digit."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_chinese_identity(text: str) -> bool:
    """Whether the date of birth is a date, and the last character the right check digit."""
    try:
        date(int(text[6:10]), int(text[10:12]), int(text[12:14]))
    except ValueError:
        return False
    total = sum(weight * int(digit) for weight, digit in zip(IDENTITY_WEIGHTS, text[:17], strict=True))
    return "10X98765432"[total % 11] == text[17].upper()
