"""Words found in sentences of shorter tokens: every one, at its places, with the vectors of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoders.tiny import LEXICON, write_lexicon
from hypothesis import given
from hypothesis import strategies as st
from token_lists import sentences_of

from maskedcrf import Tagger
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder, load_encoder
from maskedcrf.encoders.features import WORD_POSITIONS, lexicon_features, word_mask
from maskedcrf.encoders.lexicon import SIZE, LexiconWords
from maskedcrf.encoders.vocabulary import Lexicon
from maskedcrf.errors import DataError

LETTERS = st.text("ab", min_size=1, max_size=4)
SENTENCES = st.lists(st.lists(st.text("abA", max_size=2), max_size=7), min_size=1, max_size=3)
BEGIN, INSIDE, END, ALONE = range(WORD_POSITIONS)


def by_looking(lexicon: Lexicon, tokens: list[str]) -> set[tuple[int, int, int]]:
    """Every stretch of tokens that begins with a letter and spells a word."""
    stretches = [(i, j) for i in range(len(tokens)) for j in range(i, len(tokens)) if tokens[i]]
    spelt = {(i, j): "".join(tokens[i : j + 1]).lower() for i, j in stretches}
    return {(i, j, lexicon.words.index(text)) for (i, j), text in spelt.items() if text in lexicon.words}


@given(st.lists(LETTERS, unique=True), SENTENCES)
def test_every_word_of_whole_tokens_is_found_and_no_other(words: list[str], sentences: list[list[str]]) -> None:
    lexicon = Lexicon(tuple(words))
    for tokens in sentences:
        found = list(lexicon.find_words(tokens))
        assert len(found) == len(set(found))
        assert set(found) == by_looking(lexicon, tokens)


@given(st.lists(LETTERS, unique=True, min_size=1), SENTENCES)
def test_the_words_at_a_place_share_it_evenly(words: list[str], sentences: list[list[str]]) -> None:
    lexicon = Lexicon(tuple(words))
    mask = word_mask(sentences_of(sentences))
    arrays = lexicon_features(lexicon, sentences_of(sentences), mask)
    means = np.zeros((*mask.shape, WORD_POSITIONS, len(words)))
    np.add.at(
        means.reshape(-1, len(words)), (arrays["lexicon_places"], arrays["lexicon_words"]), arrays["lexicon_shares"]
    )
    expected = np.zeros_like(means)
    for row, tokens in enumerate(sentences):
        for first, last, number in by_looking(lexicon, tokens):
            for token in range(first, last + 1):
                several = {first: BEGIN, last: END}.get(token, INSIDE)
                expected[row, token, ALONE if first == last else several, number] += 1
    expected /= np.maximum(expected.sum(axis=-1, keepdims=True), 1)
    np.testing.assert_allclose(means, expected, atol=1e-6)


@pytest.fixture
def part(tmp_path: Path) -> LexiconWords:
    config = EncoderConfig(words=0, characters=0, lexicon=str(write_lexicon(tmp_path / "words.npz")), lstm_layers=0)
    built = build_encoder(config, sentences_of([["the"]])).parts["lexicon"]
    assert isinstance(built, LexiconWords)
    return built


def vector(part: LexiconWords, word: str) -> torch.Tensor:
    return part.vectors[part.lexicon.words.index(word)].float()


def test_a_token_sees_the_words_that_begin_go_on_and_end_with_it_and_the_one_it_is(part: LexiconWords) -> None:
    sentences = sentences_of([["北", "京", "The", "cat", "sat"], ["x"]])
    mask = word_mask(sentences)
    features = {"mask": torch.from_numpy(mask), **part.prepare(sentences, mask)}
    vectors = part(features).view(2, 5, WORD_POSITIONS, -1)
    nothing = torch.zeros(3)
    capital, cat = vectors[0, 1], vectors[0, 3]
    for place, word in ((BEGIN, None), (INSIDE, None), (END, "北京"), (ALONE, "京")):
        torch.testing.assert_close(capital[place], vector(part, word) if word else nothing)
    for place, word in ((BEGIN, "catsat"), (INSIDE, None), (END, "thecat"), (ALONE, "cat")):
        torch.testing.assert_close(cat[place], vector(part, word) if word else nothing)
    assert not vectors[1].any(), "nothing is found in x, nor in padding"


def test_the_first_of_two_spellings_counts_and_blanks_do_not(part: LexiconWords, tmp_path: Path) -> None:
    assert part.lexicon.words == tuple("".join(word.lower().split()) for word in LEXICON)
    raw = np.load(tmp_path / "words.npz")["vec"][: len(LEXICON)].astype(np.float32)
    torch.testing.assert_close(part.vectors.float(), torch.from_numpy(raw * (SIZE / raw.std())), rtol=0, atol=1e-3)


def test_nothing_of_it_is_trained(part: LexiconWords) -> None:
    assert not list(part.parameters())
    assert part.vectors.dtype == torch.float16


def test_a_saved_file_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    config = EncoderConfig(words=4, lexicon=str(write_lexicon(tmp_path / "words.npz")))
    build_encoder(config, sentences_of([["the"]])).save(tmp_path / "saved")
    for text in ('{"words": ["a", "a"], "vector": 3}', '{"words": ["a"], "vector": 0}'):
        (tmp_path / "saved" / "lexicon.json").write_text(text)
        with pytest.raises(DataError, match=r"lexicon\.json:1: a word stands twice, or vectors have no width"):
            load_encoder(tmp_path / "saved")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt:1: cannot read word vectors: .*No such file"):
        build_encoder(EncoderConfig(lexicon=str(tmp_path / "nowhere.txt")), sentences_of([["the"]]))


def test_a_lexicon_of_another_language_is_refused_before_training(tmp_path: Path) -> None:
    file = write_lexicon(tmp_path / "words.npz")
    with pytest.raises(DataError, match=r"words\.npz:1: none of its 10 words stands in the training sentences; give"):
        build_encoder(EncoderConfig(lexicon=str(file)), sentences_of([["Привет", "мир"], []]))


def test_only_a_tagger_with_the_lexicon_knows_a_name_that_training_never_saw(tmp_path: Path) -> None:
    cities = ["北京", "上海", "广州", "天津", "重庆", "南京", "武汉", "西安", "成都", "杭州"]
    others = ["天气", "今日", "时间", "工作", "学习", "音乐", "电影", "朋友", "问题", "办法"]
    vectors = np.array([[1, 0]] * len(cities) + [[0, 1]] * len(others), dtype=np.float16)
    np.savez(tmp_path / "zh.npz", words=np.array(cities + others), vec=vectors)

    def sentences(words: list[str], city: bool) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        tags = ("B-LOC", "I-LOC") if city else ("O", "O")
        return [(("我", "想", *word, "了"), ("O", "O", *tags, "O")) for word in words]

    train = (sentences(cities[:5], True) + sentences(others[:5], False)) * 8
    unseen = sentences(cities[5:], True) + sentences(others[5:], False)
    settings: dict[str, Any] = {"epochs": 15, "batch_sentences": 8, "device": "cpu", "progress": False, "patience": 0}
    small = {"words": 8, "characters": 0, "lstm_hidden": 16, "dropout": 0.2}
    right = []
    for encoder in (small, {**small, "lexicon": str(tmp_path / "zh.npz")}):
        tagger = Tagger.train(train, train[:10], encoder=encoder, **settings)
        found = tagger.predict([tokens for tokens, _ in unseen])
        right.append(sum(answer.tags == tags for answer, (_, tags) in zip(found, unseen, strict=True)))
    assert right[1] == len(unseen)
    assert right[0] <= len(unseen) // 2 + 1
