"""Words belong to the model: the tokenizer that cuts text into the tokens trained on is found by measurement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf.data import learned_tokenizer
from maskedcrf.data.annotation import AnnotatedText, Span
from maskedcrf.data.learned_tokenizer import learn_habits
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.token_text import join_tokens
from maskedcrf.data.tokenizer_choice import choose_for_spans, choose_for_tokens, choose_tokenizer
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import MaskedCRFError


def tokens_of(tokenizer, text):
    return [token.text for token in tokenizer.tokens(text)]


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("Ann , who left ( in 1996 ) , came back .", "Ann, who left (in 1996), came back."),
        ("He did n't like Neil 's car .", "He didn't like Neil's car."),
        ('She said " no " .', 'She said "no".'),
        ("北 京 ， 好", "北京，好"),
        ("$ 3.50 for 5 %", "$3.50 for 5%"),
        ("", ""),
    ],
)
def test_tokens_are_joined_as_people_write(tokens, text):
    own = tokens.split()
    joined, offsets = join_tokens(own)
    assert joined == text
    assert [joined[start:end] for start, end in offsets] == own


TREEBANK = [
    "The U.N. sent Pamela O'Neil to Lehman Bros. Inc. in Jean-Luc 's car .".split(),
    "Jean-Luc Brassard did n't see the U.S. man of Sony Inc. .".split(),
    "Did n't Neil 's half-brother work for Ford Inc. -- or the U.N. ?".split(),
    "Neil 's father met Neil 's mother -- twice .".split(),
]


def test_the_habits_of_a_corpus_are_learnt():
    habits = learn_habits(TREEBANK)
    assert "-" in habits.joiners
    assert "Inc." in habits.abbreviations
    assert set(habits.clitics) == {"'s", "n't"}
    assert habits.initials
    assert habits.runs


def test_text_is_cut_as_the_corpus_is():
    choice = choose_for_tokens([Sentence(tuple(tokens)) for tokens in TREEBANK])
    assert choice.tokenizer.name == "learned"
    assert choice.warning() is None
    text = "Anne-Marie O'Neil doesn't know B.B. King of Volvo Inc. -- or Ann's U.N. man."
    expected = "Anne-Marie O'Neil does n't know B.B. King of Volvo Inc. -- or Ann 's U.N. man ."
    assert tokens_of(choice.tokenizer, text) == expected.split()
    assert tokens_of(get_tokenizer(choice.tokenizer.to_json(), trusted=False), text) == expected.split()


@pytest.mark.parametrize(
    ("sentences", "name"),
    [
        (["fly to Lima .", "now , please ."], "unicode"),
        (["今 天 好 ABC", "好 天"], "unicode"),
        (["今 天 i p o d 好", "好 2 0 1 2 天"], "characters"),  # written ipod and 2012
        (["#win :-) http://a.b/c?d=e", "(a,b) ;-)"], "whitespace"),
        (["it ' s 3 . 5 a - b", "don ' t"], "simple"),
    ],
)
def test_the_candidate_whose_words_agree_is_chosen(sentences, name):
    given = []
    for text in sentences:
        if name in ("whitespace", "simple"):  # the file says which blanks there are
            cut = get_tokenizer(name)
            raw = text.replace(" ' ", "'").replace("3 . 5", "3.5").replace(" - ", "-") if name == "simple" else text
            given.append(Sentence(tuple(tokens_of(cut, raw)), text=raw, offsets=tuple(cut(raw))))
        else:
            given.append(Sentence(tuple(text.split())))
    choice = choose_for_tokens(given)
    assert (choice.tokenizer.name, choice.agreement) == (name, 100.0)


def test_a_poor_agreement_is_said_with_the_tokens_that_differ():
    choice = choose_for_tokens([Sentence(("New York", "is", "big")), Sentence(("New York", "now"))], ["unicode"])
    assert choice.agreement == pytest.approx(200 * 3 / (5 + 7))  # 3 of 5 given and 7 made
    assert "'New York' 2" in str(choice.warning())
    assert "name a tokenizer (data.tokenizer)" in str(choice.warning())


def test_for_texts_the_candidate_is_chosen_whose_tokens_fit_the_spans():
    inside = AnnotatedText("John's car", (Span(0, 4, "PER"),))
    whole = AnnotatedText("O'Neil left", (Span(0, 6, "PER"),))
    assert choose_for_spans([inside]).name == "simple"
    assert choose_for_spans([whole, whole]).name == "unicode"
    assert choose_for_spans([whole, inside]).name == "simple"


def test_of_texts_and_tokens_the_agreement_is_that_of_the_tokens():
    texts = [AnnotatedText("Fly to Lima.", (Span(7, 11, "LOC"),))]
    assert choose_tokenizer(texts, "auto").agreement == 100
    choice = choose_tokenizer([*texts, Sentence(("the", "U.N.-led", "force"))], "auto")
    assert choice.tokenizer.name == "unicode"
    assert choice.agreement < 70
    assert "'U.N.-led' 1" in (choice.warning() or "")


@pytest.mark.parametrize("name", ["unicode", "whitespace", "characters", "spacy:en"])
@pytest.mark.parametrize("text", ["Ann's U.N. e-mail, 3.5!", "北京 é 👩\u200d🚀", "", " \t\n", "a\u0301 b"])
def test_every_tokenizer_covers_all_but_blanks_in_order(name, text):
    ranges = get_tokenizer(name)(text)
    edges = [edge for each in ranges for edge in each]
    assert edges == sorted(edges)
    assert "".join(text[start:end] for start, end in ranges) == "".join(text.split())


def test_a_tokenizer_of_your_own_is_named_by_its_import_path():
    assert tokens_of(get_tokenizer("own_tokenizer:by_comma"), "New York,Lima") == ["New York", "Lima"]
    with pytest.raises(MaskedCRFError, match="pairs in order, none empty"):
        get_tokenizer("own_tokenizer:backwards")("ab")
    for wrong in ("own_tokenizer:none", "no_such_module:cut", "klingon", "spacy:xyz"):
        with pytest.raises(MaskedCRFError):
            get_tokenizer(wrong)


def test_no_model_folder_chooses_what_code_runs():
    tokenizer = get_tokenizer({"name": "os:system"}, trusted=False)
    with pytest.raises(MaskedCRFError, match="which is code"):
        tokenizer("echo")


@pytest.mark.parametrize(
    "spoilt",
    [
        {"name": 3},
        {"name": "learned", "clitics": "x"},
        {"name": "learned", "abbreviations": [""]},
        {"name": "learned", "runs": 1},
        {},
    ],
)
def test_spoilt_tables_are_refused(spoilt):
    with pytest.raises(MaskedCRFError):
        get_tokenizer(spoilt)


@given(text=st.text(st.sampled_from("ab1. -'n’tIé\u0301李"), max_size=25))
def test_trying_plain_words_first_changes_no_token(text: str) -> None:
    sentences = [("I.n.", "a.", "b.", "n't", "'t", "a-b", "--", "an", ".")] * 3 + [("a", "n't", "I.n.", "b.")] * 3
    habits = learned_tokenizer.learn_habits(sentences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learned_tokenizer, "_PLAIN_WORD", "(?!)")
        slowly = learned_tokenizer.cutter(habits)
    assert learned_tokenizer.cutter(habits)(text) == slowly(text)
