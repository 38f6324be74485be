"""Which tokens are hidden: against sums over listed segments, loops by hand, and laws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_corpus import corpus

from maskedcrf import Constraints, MaskedCRF, Scheme
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction.cover import NOTHING, Cover, TypeTags, covers_of, stream_covers

SCHEMES = st.sampled_from(["IO", "IOB1", "BIO", "IOE2", "BIOES"])
TYPES = ["PER", "LOC"]


def drawn(scheme: str, lengths: list[int], seed: int) -> tuple[MaskedCRF, torch.Tensor, torch.Tensor]:
    """A CRF and emissions of any size."""
    generator = torch.Generator().manual_seed(seed)
    layer = MaskedCRF(Scheme.get(scheme).tags(TYPES), scheme).double()
    with torch.no_grad():
        for own in layer.parameters():
            own.copy_(torch.randn(own.shape, generator=generator, dtype=torch.float64))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return layer, 2 * torch.randn(*mask.shape, len(layer.tags), generator=generator, dtype=torch.float64), mask


def by_hand(marginals: np.ndarray, layer: MaskedCRF) -> list[float]:
    """Each token's segment is followed step by step; a token's score is the best of the tokens that reach it."""
    scheme, tags = layer.constraints.scheme, layer.tags
    pieces = [scheme.split(tag) for tag in tags]
    inner = {prefix for _, prefix in scheme.inside}
    open_ended = {prefix for prefix, _ in scheme.inside}

    def mass(at: int, kind: str, prefixes: set[str] | None = None) -> float:
        return sum(
            share
            for share, (prefix, own) in zip(marginals[at], pieces, strict=True)
            if prefix != "O" and own == kind and (prefixes is None or prefix in prefixes)
        )

    def together(at: int, kind: str) -> float:
        return min(mass(at, kind, inner), mass(at - 1, kind, open_ended)) if 0 < at < len(marginals) else 0.0

    scores = [0.0] * len(marginals)
    for at in range(len(marginals)):
        kind = max(TYPES, key=lambda kind: mass(at, kind))
        first = last = at
        while 0 < together(first, kind) >= mass(first, kind) / 2:
            first -= 1
        while 0 < together(last + 1, kind) >= mass(last, kind) / 2:
            last += 1
        for reached in range(first, last + 1):
            scores[reached] = max(scores[reached], sum(mass(at, kind) for kind in TYPES))
    return scores


@given(SCHEMES, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 10**6))
def test_scores_reach_as_far_as_segments_probably_do(scheme: str, lengths: list[int], seed: int) -> None:
    layer, emissions, mask = drawn(scheme, lengths, seed)
    marginals = layer.marginals(emissions, mask).detach()
    sentences = [Sentence(tuple("x" * length)) for length in lengths]
    covers = covers_of(marginals[mask].numpy(), sentences, TypeTags(layer.constraints))
    for row, cover in enumerate(covers):
        assert cover.scores == pytest.approx(by_hand(marginals[row, : lengths[row]].numpy(), layer), abs=1e-9)


@given(st.sampled_from(["BIO", "IOE2", "BIOES"]), st.integers(2, 5), st.integers(0, 10**6))
def test_the_step_between_two_tokens_is_the_sum_over_all_segments_that_hold_both(
    scheme: str, length: int, seed: int
) -> None:
    layer, emissions, _ = drawn(scheme, [length], seed)
    tags = TypeTags(layer.constraints)
    marginals = layer.marginals(emissions).detach()[0].numpy()
    for column, kind in enumerate(tags.names):
        for at in range(1, length):
            spans = [(start, end, kind) for start in range(at) for end in range(at + 1, length + 1)]
            (shares,) = layer.span_probability(emissions, [spans])
            step = (marginals @ tags.from_before)[at, column], (marginals @ tags.to_next)[at - 1, column]
            assert min(step) == pytest.approx(float(shares.detach().sum()), abs=1e-9)


@given(SCHEMES, st.integers(1, 12), st.integers(0, 10**6), st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_higher_threshold_hides_nothing_that_a_lower_one_left(scheme, length, seed, thresholds) -> None:
    layer, emissions, mask = drawn(scheme, [length], seed)
    marginals = layer.marginals(emissions, mask).detach()[0].numpy()
    (cover,) = covers_of(marginals, [Sentence(tuple("x" * length))], TypeTags(layer.constraints))
    few, many = (
        {token for start, end in cover.hidden(threshold) for token in range(start, end)}
        for threshold in sorted(thresholds, reverse=True)
    )
    assert few <= many
    assert many == {token for token in range(length) if cover.scores[token] >= min(thresholds)}


def test_runs_are_parted_where_nothing_joins_them() -> None:
    cover = Cover(np.array([0.9, 0.2, 0.5, 0.6, 0.7]), np.array([0, 0, 1, 1, 0]), np.array([0, 1, 1, 1, 0], bool))
    assert cover.hidden(0.95) == []
    assert cover.hidden(0.5) == [(0, 1), (2, 4), (4, 5)]
    assert cover.hidden(0.1) == [(0, 4), (4, 5)]
    assert cover.type_of(2, 4) == (1, 0.6)
    assert NOTHING.hidden(0) == []


@pytest.mark.parametrize(
    ("text", "offsets", "scores"),
    [
        ("abcd", [(0, 2), (2, 4)], [0.9, 0.9]),  # one word in two tokens
        ("ab cd", [(0, 2), (3, 5)], [0.9, 0.1]),
        ("ab-cd", [(0, 2), (2, 3), (3, 5)], [0.9, 0.1, 0.1]),
        ("e\u0301", [(0, 1), (1, 2)], [0.9, 0.9]),  # a letter and its accent
        ("中国", [(0, 1), (1, 2)], [0.9, 0.1]),  # each a word of its own
    ],
)
def test_words_are_hidden_whole(text, offsets, scores) -> None:
    sentence = Sentence(tuple(text[a:b] for a, b in offsets), text=text, offsets=tuple(offsets))
    rules = Constraints.from_scheme(["O", "B-PER"], "BIO")
    shares = np.full(len(offsets), 0.1)
    shares[0] = 0.9
    (cover,) = covers_of(np.stack([1 - shares, shares], axis=1), [sentence], TypeTags(rules))
    assert cover.scores == pytest.approx(scores)
    assert [bool(each) for each in cover.joined] == [False, *(score == 0.9 for score in scores[1:])]


def test_covers_of_a_stream_are_those_of_its_sentences(tagger) -> None:
    tags = TypeTags(tagger.model.crf.constraints, ["PER", "LOC"])
    sentences = [*corpus(30, 3), Sentence(()), *corpus(5, 4)]
    together = list(stream_covers(tagger.model, sentences, tags, forward_tokens=16))
    assert len(together[30].scores) == 0
    for sentence, cover in zip(sentences, together, strict=True):
        (alone,) = stream_covers(tagger.model, [sentence], tags)
        assert alone.scores == pytest.approx(cover.scores, abs=1e-5)


@pytest.mark.parametrize(
    ("types", "message"),
    [(["PER", "FOOD"], "'FOOD' is not one of the model's types: "), ([], "types is empty; name some")],
)
def test_types_the_model_does_not_have_are_refused(tagger, types, message) -> None:
    with pytest.raises(MaskedCRFError, match=message):
        TypeTags(tagger.model.crf.constraints, types)
