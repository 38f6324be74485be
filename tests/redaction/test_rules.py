"""Rules beside the model: what they find, what that does to the lattice, and that it only adds cover."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import regex
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedcrf import Constraints, MaskedCRF, Scheme
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import to_sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction.cover import TypeTags, stream_covers
from maskedcrf.redaction.patterns import BUILTIN, Pattern
from maskedcrf.redaction.redactor import Redactor
from maskedcrf.redaction.rule_lattice import RuleCover, RuleLattice
from maskedcrf.redaction.rules import Dictionary, Finding, RuleFinder, Rules, read_dictionary, settle
from maskedcrf.tags.segments import segments

SIMPLE = get_tokenizer("simple")
TYPES = ["PER", "LOC"]
WORDS = ["ann", "bob", "lee", "oslo", "new", "york", "flew", "to", ".", "zzz", "ann@example.org", "10.0.0.1"]


def pattern(expression: str, kind: str, weight: float | None = None) -> Pattern:
    return Pattern("own", kind, regex.compile(expression), None, weight)


def found(text: str, *, tokenizer=SIMPLE, patterns=(), names=()) -> list[tuple[str, str, str]]:
    """What rules find in a text: the words, the type, the source."""
    dictionaries = tuple(Dictionary(f"{kind}.txt", kind, own) for kind, own in names)
    sentence = to_sentence(text, tokenizer)
    findings = RuleFinder(Rules(tuple(patterns), dictionaries), tokenizer).find(sentence)
    return [
        (text[sentence.offsets[start][0] : sentence.offsets[end - 1][1]], kind, source)
        for start, end, kind, source, _ in findings
    ]


def test_names_are_found_as_whole_words_the_longest_first() -> None:
    names = [("PER", ("Ann", "Ann Lee", "O'Neil")), ("LOC", ("Lee Town",))]
    assert found("Ann Lee, Ann, Anna and Joann met O'Neil.", names=names) == [
        ("Ann Lee", "PER", "dictionary:PER.txt"),
        ("Ann", "PER", "dictionary:PER.txt"),
        ("O'Neil", "PER", "dictionary:PER.txt"),
    ]
    assert found("Lee Town", names=names) == [("Lee Town", "LOC", "dictionary:LOC.txt")]
    characters = get_tokenizer("characters")
    assert found("Ann met Anna", tokenizer=characters, names=names) == [("Ann", "PER", "dictionary:PER.txt")]
    assert found("我在北京市", tokenizer=characters, names=[("LOC", ("北京",))]) == [
        ("北京", "LOC", "dictionary:LOC.txt")
    ]


def test_a_match_inside_a_word_hides_the_word_whole() -> None:
    digits = [pattern("[0-9]{4}", "ID")]
    assert found("no A1234B, ok", tokenizer=get_tokenizer("characters"), patterns=digits) == [
        ("A1234B", "ID", "pattern:own")
    ]
    assert found("see ann@example.org, now", tokenizer=get_tokenizer("whitespace"), patterns=BUILTIN.values()) == [
        ("ann@example.org,", "EMAIL", "pattern:email")
    ]
    assert found("see ann@example.org, now", patterns=BUILTIN.values()) == [
        ("ann@example.org", "EMAIL", "pattern:email")
    ]


def test_tokens_given_are_searched_with_blanks_between_them() -> None:
    finder = RuleFinder(Rules((BUILTIN["iban"],), (Dictionary("d", "LOC", ("New York",)),)), SIMPLE)
    tokens = ("in", "New", "York", "BE36", "4279", "2877", "5744", ".")
    assert finder.find(Sentence(tokens)) == [
        Finding(1, 3, "LOC", "dictionary:d"),
        Finding(3, 7, "IBAN", "pattern:iban"),
    ]
    assert finder.find(Sentence(())) == []


def test_of_overlapping_findings_the_longer_keeps_what_both_have() -> None:
    assert found("Write ann@example.org", patterns=[BUILTIN["email"]], names=[("PER", ("ann", "Write ann"))]) == [
        ("Write", "PER", "dictionary:PER.txt"),
        ("ann@example.org", "EMAIL", "pattern:email"),
    ]


def a(start: int, end: int, source: str, weight: float | None = None) -> Finding:
    return Finding(start, end, source.upper(), source, weight)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ([], []),
        ([a(3, 4, "b"), a(0, 2, "a")], [a(0, 2, "a"), a(3, 4, "b")]),
        ([a(0, 2, "a"), a(1, 4, "b")], [a(0, 1, "a"), a(1, 4, "b")]),
        ([a(0, 2, "a"), a(1, 3, "b")], [a(0, 2, "a"), a(2, 3, "b")]),
        ([a(0, 2, "a"), a(0, 2, "b")], [a(0, 2, "a")]),
        ([a(0, 5, "a", 1.0), a(2, 3, "b")], [a(0, 2, "a", 1.0), a(2, 3, "b"), a(3, 5, "a", 1.0)]),
        ([a(0, 1, "a"), a(1, 2, "a")], [a(0, 1, "a"), a(1, 2, "a")]),
    ],
)
def test_conflicts_by_hand(given_, expected) -> None:
    assert settle(given_) == expected


@given(
    st.lists(
        st.builds(lambda s, n, w: a(s, s + n, "x", w), st.integers(0, 9), st.integers(1, 5), st.none() | st.just(1.0)),
        max_size=6,
    )
)
def test_settled_findings_do_not_overlap_and_lose_no_token(findings) -> None:
    settled = settle(findings)
    tokens = [token for each in settled for token in range(each.start, each.end)]
    assert tokens == sorted({token for each in findings for token in range(each.start, each.end)})
    certain = {token for each in findings if each.weight is None for token in range(each.start, each.end)}
    assert certain == {token for each in settled if each.weight is None for token in range(each.start, each.end)}


def drawn(scheme: str, length: int, seed: int) -> tuple[MaskedCRF, torch.Tensor]:
    """A CRF and the emissions of one sentence."""
    generator = torch.Generator().manual_seed(seed)
    layer = MaskedCRF(Scheme.get(scheme).tags(TYPES), scheme).double()
    with torch.no_grad():
        for own in layer.parameters():
            own.copy_(torch.randn(own.shape, generator=generator, dtype=torch.float64))
    return layer, 2 * torch.randn(1, length, len(layer.tags), generator=generator, dtype=torch.float64)


def paths_of(layer: MaskedCRF, emissions: torch.Tensor) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All legal paths and their scores."""
    length = emissions.shape[1]
    paths = [p for p in itertools.product(range(len(layer.tags)), repeat=length) if not layer.constraints.violations(p)]
    step, first, last = (
        each.detach().numpy() for each in (layer.transitions, layer.start_transitions, layer.end_transitions)
    )
    cells = emissions[0].numpy()
    scores = [
        first[p[0]]
        + last[p[-1]]
        + sum(cells[t, tag] for t, tag in enumerate(p))
        + sum(step[x, y] for x, y in itertools.pairwise(p))
        for p in paths
    ]
    return paths, np.array(scores)


def lies_within(layer: MaskedCRF, path: tuple[int, ...], each: Finding) -> bool:
    """Whether a path reads a finding as part of one segment of its type, or outside all if its type is another."""
    read = segments([layer.tags[tag] for tag in path], layer.constraints.scheme)
    if each.type not in TYPES:
        return all(own.end <= each.start or each.end <= own.start for own in read)
    return any(own.start <= each.start and each.end <= own.end and own.type == each.type for own in read)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["IO", "IOB1", "BIO", "IOE2", "BIOES"]),
    st.integers(0, 1000),
    st.sampled_from([*TYPES, "EMAIL"]),
    st.sampled_from([(0, 1), (1, 3), (2, 4), (0, 4), (1, 2)]),
)
def test_a_certain_finding_leaves_exactly_the_paths_that_read_it_so(scheme, seed, kind, place) -> None:
    layer, emissions = drawn(scheme, 4, seed)
    each = Finding(*place, kind, "pattern:x")
    allowed = RuleLattice(layer.constraints).allowed([each], Sentence(("x",) * 4))
    paths, scores = paths_of(layer, emissions)
    kept = [lies_within(layer, path, each) for path in paths]
    shares = np.exp(scores - scores.max()) * kept
    expected = np.zeros((4, len(layer.tags)))
    for path, share in zip(paths, shares / shares.sum(), strict=True):
        expected[range(4), path] += share
    mask = torch.ones(1, 4, dtype=torch.bool)
    marginals = layer.marginals(emissions, mask, allowed=torch.from_numpy(allowed)[None])[0].detach().numpy()
    np.testing.assert_allclose(marginals, expected, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["IO", "BIO", "BIOES"]),
    st.integers(0, 1000),
    st.sampled_from([(0, 1), (1, 3), (0, 4)]),
    st.floats(0.1, 8),
)
def test_a_weight_multiplies_the_odds_of_reading_a_finding_so_against_not_at_all(scheme, seed, place, weight) -> None:
    layer, emissions = drawn(scheme, 4, seed)
    each = Finding(*place, "PER", "pattern:x", weight)
    added = RuleLattice(layer.constraints).evidence([each], 4)
    paths, before = paths_of(layer, emissions)
    _, after = paths_of(layer, emissions + torch.from_numpy(added))
    for path, gained in zip(paths, after - before, strict=True):
        assert -1e-9 <= gained <= weight + 1e-9
        if lies_within(layer, path, each):
            assert gained == pytest.approx(weight)
        if not any(layer.tags[tag].endswith("PER") for tag in path[slice(*place)]):
            assert gained == pytest.approx(0, abs=1e-12)


def test_findings_that_leave_no_legal_path_are_left_out_of_the_lattice_from_left_to_right() -> None:
    lattice = RuleLattice(Constraints.from_scheme(["O", "B-X", "E-X"], "BIOES"))  # no segment of one token
    sentence = Sentence(("a", "b", "c"))
    every, outside, inside = [True] * 3, [True, False, False], [False, True, True]
    first, second, both = Finding(0, 1, "X", "s"), Finding(1, 2, "Y", "s"), Finding(0, 2, "X", "s")
    assert lattice.allowed([both], sentence).tolist() == [[False, True, False], [False, False, True], every]
    assert lattice.allowed([first], sentence).tolist() == [inside, every, every]
    assert lattice.allowed([second], sentence).tolist() == [every, outside, every]
    assert lattice.allowed([first, second], sentence).tolist() == [inside, every, every]
    fixed = replace(sentence, allowed=np.array([outside] * 3))
    assert lattice.allowed([both], fixed).tolist() == [outside] * 3


RULES = [
    Rules((BUILTIN["email"], BUILTIN["ipv4"])),
    Rules((pattern("zzz|flew to", "PER"),), (Dictionary("d", "LOC", ("new york", "lee", "ann bob")),)),
    Rules((pattern("to [a-z]+", "LOC", 3.0),), (Dictionary("d", "PER", ("zzz", "oslo"), 1.0),)),
    Rules((pattern("a", "NEW"), BUILTIN["email"]), (Dictionary("d", "ORG", ("ann", "bob lee")),)),
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=9), st.sampled_from(RULES), st.sampled_from([["PER"], None]))
def test_rules_only_add_cover(trained, words, rules, types) -> None:
    if types and any(each.weight and each.type not in types for each in rules):
        types = None
    sentence, tags = to_sentence(" ".join(words), trained.tokenizer), TypeTags(trained.model.crf.constraints, types)
    (alone,) = stream_covers(trained.model, [sentence], tags)
    (together,) = stream_covers(trained.model, [sentence], tags, rules=RuleCover(rules, trained.model, tags))
    assert (together.scores >= alone.scores).all()
    for each in RuleFinder(rules, trained.tokenizer).find(sentence):
        if each.weight is None:
            assert (together.scores[each.start : each.end] == 1).all()
    for threshold in (0.0, 0.1, 0.5, 1.0):
        hidden = {token for run in together.hidden(threshold) for token in range(*run)}
        assert hidden >= {token for run in alone.hidden(threshold) for token in range(*run)}


def test_what_rules_find_is_hidden_with_its_type_and_its_source(trained) -> None:
    text = "ann (ann@example.org) flew to zzz on 10.0.0.1 ."
    rules = Rules((BUILTIN["email"], BUILTIN["ipv4"]), (Dictionary("places", "LOC", ("zzz",)),))
    answer = Redactor(trained, threshold=1.0, rules=rules).text(text)
    assert answer.text == "ann ([EMAIL]) flew to [LOC] on [IP] ."
    assert [(text[h.start : h.end], h.type, h.probability, h.source) for h in answer.hidden] == [
        ("ann@example.org", "EMAIL", 1.0, "pattern:email"),
        ("zzz", "LOC", 1.0, "dictionary:places"),
        ("10.0.0.1", "IP", 1.0, "pattern:ipv4"),
    ]
    assert Redactor(trained, threshold=1.0, rules=Rules()).text(text).text == text


PIECES = [
    "ann",
    "ann@example.org",
    "10.0.0.1",
    "zzz",
    " ",
    "\n",
    "\t",
    "\0",
    "\r\n",
    "e\u0301",
    "\U0001f469\u200d\U0001f467",
    "中国",
    "\u05e9",
    "@",
    ".",
]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=10).map("".join), st.sampled_from([0.2, 1.0]))
def test_texts_keep_all_but_what_the_model_and_the_rules_hide(trained, text, threshold) -> None:
    rules = Rules((BUILTIN["email"], BUILTIN["ipv4"]), (Dictionary("d", "LOC", ("zzz", "中国")),))
    answer = Redactor(trained, threshold=threshold, rules=rules, replace="blank").text(text)
    expected, end = list(text), 0
    for each in answer.hidden:
        assert end <= each.start < each.end <= len(text)
        expected[each.start : each.end] = " " * (each.end - each.start)
        end = each.end
    assert answer.text == "".join(expected)
    for own in rules.patterns:
        for start, end_of_match, _ in own.find(text):
            assert answer.text[start:end_of_match].strip() == ""


def test_a_model_and_a_rule_that_share_a_segment_are_both_its_source(trained) -> None:
    rules = Rules((), (Dictionary("d", "PER", ("bob",)),))
    answer = Redactor(trained, threshold=0.3, types=["PER"], rules=rules).text("bob lee flew to oslo .")
    assert next((h.start, h.end, h.type, h.source) for h in answer.hidden) == (0, 7, "PER", "model+dictionary:d")


def test_the_more_weight_the_higher_the_probability(trained) -> None:
    sentence, tags = Sentence(("the", "rain", "in", "zzz", "stopped")), TypeTags(trained.model.crf.constraints, ["LOC"])
    scores = []
    for weight in (1e-6, 2.0, 20.0):
        rules = RuleCover(Rules((pattern("zzz", "LOC", weight),)), trained.model, tags)
        (cover,) = stream_covers(trained.model, [sentence], tags, rules=rules)
        scores.append(float(cover.scores[3]))
    assert 0 < scores[0] < scores[1] < scores[2]
    assert scores[2] > 0.999


@pytest.mark.parametrize("types", [["LOC"], None])
def test_a_weight_for_a_type_the_model_does_not_hide_is_refused(trained, types) -> None:
    kind = "PER" if types else "EMAIL"
    rules = Rules((pattern("a", kind, 1.0),))
    with pytest.raises(MaskedCRFError, match=f"own: its weight is for {kind}, which the model does not hide"):
        Redactor(trained, threshold=0.5, types=types, rules=rules)


def test_rules_are_read_from_files(tmp_path) -> None:
    (tmp_path / "clients.txt").write_bytes("Ann Lee\n\n  Bob \r\nAnn Lee\n北京\n".encode())
    (tmp_path / "own.toml").write_text("[[patterns]]\nname='n'\ntype='ID'\npattern='x'\n", encoding="utf-8")
    rules = Rules.read(["builtin", tmp_path / "own.toml"], [("PER", tmp_path / "clients.txt")])
    assert [each.name for each in rules] == [*BUILTIN, "n", "clients.txt"]
    assert rules.dictionaries[0].names == ("Ann Lee", "Bob", "北京")
    assert rules.types == ("EMAIL", "URL", "IP", "PHONE", "IBAN", "CARD", "ID", "PER")
    assert not Rules.read()


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", "PER", "no names"),
        (b" \n", "PER", "no names"),
        (b"a\n", "", "of which type"),
        (b"\xff\n", "PER", ":1: not UTF-8"),
        (None, "PER", "No such file"),
    ],
)
def test_a_bad_dictionary_is_refused_by_name(tmp_path, content, kind, words) -> None:
    path = tmp_path / "d.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MaskedCRFError, match=words) as caught:
        read_dictionary(path, kind)
    assert str(caught.value).startswith(str(path))


def test_two_patterns_of_one_name_are_refused() -> None:
    with pytest.raises(MaskedCRFError, match="two patterns are called 'email'"):
        Rules.read(["builtin", "builtin"])
    with pytest.raises(MaskedCRFError, match="a weight is a number above 0"):
        Dictionary("d", "PER", ("a",), weight=-1.0)
