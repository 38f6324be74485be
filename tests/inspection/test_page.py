"""The page: all of it there, without a script, whatever the text holds."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from small_corpus import corpus

from maskedcrf.data.sentence import Sentence
from maskedcrf.inspection.collect import Collector
from maskedcrf.inspection.comparison import inspect_pair
from maskedcrf.inspection.page import difference_line, page
from maskedcrf.inspection.reading import read_sentences
from maskedcrf.tags.scheme import Scheme

BIO = Scheme.get("BIO")
TEST = corpus(40, 9)
EVIL = '<script>alert("x")</script>\x1b[31m\u202e'


class Reader(HTMLParser):
    """Headings and tags of a page; every tag is closed."""

    VOID = ("meta", "line", "polyline")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.headings: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_the_page_has_every_section_and_no_script(vague):
    found = Collector().add_all(read_sentences(vague, TEST, gold_scheme=BIO))
    parsed = read(page("a model on a file", found, signature="v:1"))
    assert "script" not in parsed.tags
    beginnings = ("In short", "Scores", "Errors by kind", "Which type", "Labels to look at", "Wrong sentences")
    beginnings += ("Most uncertain", "Calibration", "By length of the sentence", "By length of the segment", "By words")
    for beginning in beginnings:
        assert any(heading.startswith(beginning) for heading in parsed.headings), beginning


def test_a_second_model_has_its_sections(vague, able):
    found, comparison = inspect_pair(vague, able, TEST, gold_scheme=BIO)
    text = page("two", found, comparison=comparison, signature="v:1")
    headings = read(text).headings
    assert "The two models" in headings
    assert "Where the second model has fewer errors" in headings
    gain = comparison.test(found.counts)
    assert gain.difference > 0
    assert f"F1 is {gain.difference:.2f} points higher than the first" in text


def test_a_difference_that_chance_never_makes_is_not_told_as_impossible(vague, able):
    found, comparison = inspect_pair(able, vague, TEST, gold_scheme=BIO)
    test = comparison.test(found.counts)
    assert (test.difference < 0, f"{test.p_value:.3f}") == (True, "0.000")
    expected = f"{-test.difference:.2f} points lower than the first's; by chance a difference as large comes with "
    assert f"{expected}probability less than 0.001" in difference_line(found, comparison)
    same = difference_line(*inspect_pair(able, able, TEST, gold_scheme=BIO))
    assert "the same as the first's; by chance a difference as large comes with probability 1.000" in same


def test_text_of_strangers_is_shown_and_never_obeyed(vague):
    sentence = Sentence((EVIL, "flew", "to", "oslo"), ("B-PER", "O", "O", "B-LOC"), f"{EVIL}.conll")
    found = Collector().add_all(read_sentences(vague, [sentence], gold_scheme=BIO))
    text = page(EVIL, found, signature=EVIL)
    assert "script" not in read(text).tags
    assert not any(character in text for character in "\x1b\u202e")
    assert "\\x1b[31m\\u202e" in text


def test_a_sentence_of_a_text_is_shown_as_the_text_has_it(vague):
    [reading] = read_sentences(vague, [TEST[0]], gold_scheme=BIO)
    sentence = Sentence(
        ("O", "'", "Neil", "left"), None, text="O'Neil\tleft", offsets=((0, 1), (1, 2), (2, 6), (7, 11))
    )
    person = (0, 3, "PER")
    found = replace(reading, sentence=sentence, gold=(person,), predicted=(), probabilities={person: 0.2}, unseen=None)
    text = page("text", Collector().add_all([replace(found, outside=(0.9,) * 4)]), signature="v:1")
    assert "<mark class=wrong>O&#x27;Neil&nbsp;<small>PER</small></mark> left</bdi>" in text


def test_a_long_sentence_is_shown_around_what_is_wrong(vague):
    (short,) = read_sentences(vague, [TEST[0]], gold_scheme=BIO)
    tokens = (*(f"before{n}" for n in range(500)), "oslo", *(f"after{n}" for n in range(500)))
    gold, predicted = (500, 501, "LOC"), (500, 501, "PER")
    long = replace(
        short,
        sentence=Sentence(tokens, ("O",) * 1001),
        gold=(gold,),
        predicted=(predicted,),
        probabilities={gold: 0.2, predicted: 0.7},
        outside=(0.9,) * 1001,
        unseen=None,
    )
    text = page("long", Collector().add_all([long]), signature="v:1")
    assert "before499 <mark" in text
    assert "before480" not in text.partition("Most uncertain")[0]
    assert "By words" not in text


def test_nothing_to_tell_is_a_page_too(able):
    sentence = Sentence(("the", "rain"), ("O", "O"))
    found = Collector().add_all(read_sentences(able, [sentence], gold_scheme=BIO))
    read(page("nothing", found, signature="v:1"))
