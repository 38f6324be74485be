"""The patterns that ship, on cases of our own; pattern files; and lines made to be slow."""

from __future__ import annotations

import ipaddress
import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction import checks, patterns
from maskedcrf.redaction.patterns import BUILTIN, Pattern, read_patterns

MEGABYTE = 1 << 20
SLOW_PIECES = json.loads((Path(__file__).parent / "slow_pieces.json").read_text(encoding="utf-8"))
"""By pattern, what a long line repeats: beginnings of matches, whole matches that fail their check, separators.

The slowest comes first: it is the one that every run of the tests searches.
"""
SLOW_LINES = [
    pytest.param(name, piece, marks=[pytest.mark.slow] if number else [])
    for name, pieces in SLOW_PIECES.items()
    for number, piece in enumerate(pieces)
]


def cases(name: str) -> list[tuple[str, list[str]]]:
    """Each text of a pattern's file, and what is to be found in it; none in lines that begin with a minus."""
    found = []
    for line in (Path(__file__).parent / "patterns" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        parts = line[2:].replace("»", "«").split("«")
        assert line[:2] in ("+ ", "- "), line
        assert (line[0] == "+") == (len(parts) > 1), line
        found.append(("".join(parts), parts[1::2]))
    return found


def write(path: Path, *entries: object) -> Path:
    path.write_text(json.dumps({"patterns": entries}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", BUILTIN)
def test_each_pattern_finds_what_it_should_and_nothing_else(name):
    for text, expected in cases(name):
        assert [text[start:end] for start, end, _ in BUILTIN[name].find(text)] == expected, text


@pytest.mark.parametrize("name", BUILTIN)
def test_each_pattern_has_twenty_cases_of_either_kind(name):
    positive = [text for text, expected in cases(name) if expected]
    negative = [text for text, expected in cases(name) if not expected]
    assert len(set(positive)) >= 20
    assert len(set(negative)) >= 20


@pytest.mark.parametrize("name", BUILTIN)
def test_no_repetition_of_a_pattern_is_unbounded(name):
    expression = BUILTIN[name].expression.pattern
    outside = []
    depth = 0
    for before, character in zip(" " + expression, expression, strict=False):
        depth += (character == "[" and before != "\\" and not depth) - (character == "]" and before != "\\" and depth)
        if not depth and before != "\\":
            outside.append(character)
    bare = "".join(outside).replace("]", "")
    assert "*" not in bare
    assert ",}" not in bare
    assert all(bare[at - 1] == "}" for at, character in enumerate(bare) if character == "+"), "possessive only"


@pytest.mark.parametrize(("name", "piece"), SLOW_LINES)
def test_a_megabyte_made_to_be_slow_is_searched_to_its_end(name, piece):
    line = piece * (MEGABYTE // len(piece)) + "»"
    for found in BUILTIN[name].find(line):
        assert 0 < found.end - found.start <= 2100
    assert set(SLOW_PIECES) == set(BUILTIN)


@given(st.text(st.sampled_from(string.digits + "+-.:@/ aAzZ中é()"), max_size=60))
def test_matches_are_in_order_without_overlap_and_pass_their_check(text):
    for pattern in BUILTIN.values():
        end = 0
        for found in pattern.find(text):
            assert end <= found.start < found.end <= len(text)
            assert pattern.check is None or pattern.check(text[found.start : found.end])
            end = found.end


def test_a_match_that_fails_its_check_does_not_hide_one_that_begins_inside_it(tmp_path):
    entry = {"name": "n", "type": "ID", "pattern": "[0-9]{4}", "check": "luhn"}
    (own,) = read_patterns(write(tmp_path / "p.json", entry))
    assert [found[:2] for found in own.find("91826")] == [(1, 5)]  # 1826: 6+4+8+2 = 20; 9182: 2+7+1+9 = 19


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (checks.has_luhn_digit, ["0", "18", "1826", "79927398713"], ["1", "17", "9182", "79927398710", "18a", ""]),
        (checks.is_ipv4, ["0.0.0.0", "255.255.255.255"], ["256.0.0.0", "0.0.0.999"]),
        (checks.is_ipv6, ["::1", "1::"], ["::", ":", "1:2", "1.2.3.4"]),
    ],
)
def test_checks_by_hand(check, right, wrong):
    assert [text for text in right if not check(text)] == []
    assert [text for text in wrong if check(text)] == []


@given(st.text(st.sampled_from("019aF:."), max_size=24))
def test_what_is_an_ipv6_address_is_what_python_says(text):
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        assert not checks.is_ipv6(text)
    else:
        assert checks.is_ipv6(text) == (text != "::")


@pytest.mark.parametrize("changed", [place for place in range(22) if place not in (2, 3)])
def test_every_single_wrong_digit_of_an_iban_and_a_card_is_noticed(changed):
    iban, card = "DE32945807302157368193", "4826980134110565"
    for text, check in ((iban, checks.is_iban), (card, checks.has_luhn_digit)):
        if changed < len(text) and text[changed].isdigit():
            others = [text[:changed] + digit + text[changed + 1 :] for digit in string.digits]
            assert [other for other in others if check(other)] == [text]


FILE = """
[[patterns]]
name = "customer"
type = "ID"
pattern = 'C-[0-9]{6}'

[[patterns]]
name = "ward"
type = "LOC"
pattern = '(?i)ward [0-9]+'
weight = 2.5

[[patterns]]
name = "luhn-digit"
type = "ID"
pattern = '[0-9]+'
check = "luhn"
"""


def test_a_file_of_patterns_in_toml_and_in_json_reads_alike(tmp_path):
    (tmp_path / "own.toml").write_text(FILE, encoding="utf-8")
    entries = [
        {"name": "customer", "type": "ID", "pattern": "C-[0-9]{6}"},
        {"name": "ward", "type": "LOC", "pattern": "(?i)ward [0-9]+", "weight": 2.5},
        {"name": "luhn-digit", "type": "ID", "pattern": "[0-9]+", "check": "luhn"},
    ]
    first = read_patterns(tmp_path / "own.toml")
    assert first == read_patterns(write(tmp_path / "own.json", *entries))
    customer, ward, luhn = first
    assert [found for found in customer.find("C-123456, C-12345")] == [(0, 8, "ID")]
    assert (customer.weight, ward.weight) == (None, 2.5)
    assert list(ward.find("on Ward 12")) == [(3, 10, "LOC")]
    assert list(luhn.find("17 18")) == [(3, 5, "ID")]


def test_a_check_of_ones_own_is_named_by_its_import_path(tmp_path, monkeypatch):
    (tmp_path / "own_checks.py").write_text("def is_even(text):\n    return int(text) % 2 == 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    entry = {"name": "n", "type": "ID", "pattern": r"\b[0-9]+\b", "check": "own_checks:is_even"}
    (own,) = read_patterns(write(tmp_path / "p.json", entry))
    assert [found[:2] for found in own.find("12 13 14")] == [(0, 2), (6, 8)]


def test_a_check_that_fails_is_named_without_the_text_it_failed_on(tmp_path):
    own = Pattern("n", "ID", patterns._compile("[a-z]+", "p"), int)
    with pytest.raises(MaskedCRFError, match="pattern 'n': its check fails with ValueError") as caught:
        list(own.find("secret"))
    assert "secret" not in str(caught.value)


GOOD = {"name": "n", "type": "ID", "pattern": "a"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**GOOD, "pattern": "("}, "pattern 2 (n): not a regular expression"),
        ({**GOOD, "pattern": "a*"}, "pattern 2 (n): it matches the empty text"),
        ({**GOOD, "pattern": "(?=a)|"}, "pattern 2 (n): it matches the empty text"),
        ({**GOOD, "pattern": ""}, "pattern 2: pattern is missing or no text"),
        ({"name": "n", "type": "ID"}, "pattern 2: pattern is missing or no text"),
        ({**GOOD, "name": 3}, "pattern 2: name is missing or no text"),
        ({**GOOD, "type": " "}, "pattern 2: type is missing or no text"),
        ({**GOOD, "check": "lun"}, "pattern 2 (n): unknown check 'lun'"),
        ({**GOOD, "check": 7}, "pattern 2 (n): unknown check 7"),
        (
            {**GOOD, "check": "no_such_module:f"},
            "pattern 2 (n): check no_such_module:f: ModuleNotFoundError (No module named",
        ),
        (
            {**GOOD, "check": "math:no_such"},
            "pattern 2 (n): check math:no_such: AttributeError (module 'math' has no attribute",
        ),
        ({**GOOD, "check": "math:pi"}, "pattern 2 (n): check math:pi is not a function"),
        ({**GOOD, "weight": 0}, "pattern 2 (n): a weight is a number above 0"),
        ({**GOOD, "weight": -1.5}, "pattern 2 (n): a weight is a number above 0"),
        ({**GOOD, "weight": True}, "pattern 2 (n): a weight is a number above 0"),
        ({**GOOD, "wieght": 1}, "pattern 2: a table with the keys name, type, pattern, check, weight"),
        ("a", "pattern 2: a table with the keys"),
        ({**GOOD, "name": "first"}, "two patterns are called 'first'"),
    ],
)
def test_a_bad_entry_is_refused_with_its_file_and_number(tmp_path, entry, words):
    path = write(tmp_path / "own.json", {**GOOD, "name": "first"}, entry)
    with pytest.raises(MaskedCRFError) as caught:
        read_patterns(path)
    assert str(caught.value).startswith(f"{path}: {words}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.toml", b"[[patterns]", "neither TOML nor"),
        ("p.json", b"{", "neither TOML nor"),
        ("p.json", b"[" * 100_000, "neither TOML nor"),
        ("p.toml", b"\xff\xfe", "neither TOML nor"),
        ("p.toml", b"", "a pattern file holds"),
        ("p.json", b"[]", "a pattern file holds"),
        ("p.json", b'{"patterns": []}', "a pattern file holds"),
        ("p.json", b'{"patterns": [], "more": 1}', "a pattern file holds"),
        ("missing.toml", None, "No such file"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name(tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MaskedCRFError, match=words) as caught:
        read_patterns(path)
    assert str(caught.value).startswith(f"{path}: ")


@given(st.text(st.sampled_from("ab(|)[]{}*+?\\^$<>=!:,-0129pPNx&~"), min_size=1, max_size=12))
def test_any_expression_is_compiled_or_refused_in_one_line(expression):
    try:
        compiled = patterns._compile(expression, "p.toml: pattern 1")
    except MaskedCRFError:
        return
    assert compiled.search("") is None


def test_an_empty_match_inside_a_text_is_no_match():
    own = Pattern("n", "ID", patterns._compile("(?<=a)b*", "p"))
    assert list(own.find("acab")) == [(3, 4, "ID")]


def test_an_expression_that_backtracks_without_end_is_stopped_and_named(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT", 0.05)  # of more steps than a machine makes in a lifetime
    own = Pattern("slow", "ID", patterns._compile("(a|a|aa)+c(?=d)", "p"))
    with pytest.raises(MaskedCRFError, match="pattern 'slow' has searched one text"):
        list(own.find("a" * 200 + "c"))
