"""Predictions: tags out = tokens in, the same in any company, with exact probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import SMALL, corpus
from token_lists import sentences_of

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import IllegalPathError, MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.fixed_tags import Gazetteer, allowed_tags
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import convert, violations

TAGS = ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER"]


def lattice(tagger: Tagger, tokens: list[str]) -> oracle.Lattice:
    """All legal paths of a short sentence, from the model's scores and rules written here."""
    with torch.inference_mode():
        emissions = tagger.model.emissions(tagger.model.encoder.prepare(sentences_of([tokens])))[0].double().numpy()
    crf = tagger.model.crf
    legal = [[b[0] != "I" or (a != "O" and a[2:] == b[2:]) for b in TAGS] for a in TAGS]
    return oracle.Lattice(
        emissions=emissions,
        transitions=crf.transitions.detach().double().numpy(),
        start=crf.start_transitions.detach().double().numpy(),
        end=crf.end_transitions.detach().double().numpy(),
        legal=np.array(legal),
        start_legal=np.array([tag[0] != "I" for tag in TAGS]),
        end_legal=np.ones(len(TAGS), dtype=bool),
        allowed=np.ones(emissions.shape, dtype=bool),
    )


def test_raw_text_gives_entities_with_their_characters(tagger):
    text = "bob lee flew to new york ."
    answer = tagger.predict(text)
    assert [(e.type, e.text, e.start, e.end, e.tokens) for e in answer.entities] == [
        ("PER", "bob lee", 0, 7, (0, 2)),
        ("LOC", "new york", 16, 24, (4, 6)),
    ]
    assert all(text[e.start : e.end] == e.text for e in answer.entities)
    assert all(e.probability is None for e in answer.entities)


def test_tokens_given_are_tokens_kept(tagger):
    tokens = ["bob lee", "", "flew", "\u2028"]
    answer = tagger.predict([tokens])[0]
    assert answer.tokens == tuple(tokens)
    assert len(answer.tags) == 4
    assert [answer.text[start:end] for start, end in answer.offsets] == tokens


def test_texts_without_tokens_have_no_tags(tagger):
    answers = tagger.predict(["", "  ", "ann"])
    assert [answer.tags for answer in answers] == [(), (), ("B-PER",)]
    assert answers[1].text == "  "
    assert tagger.predict([]) == []
    assert tagger.predict([[]])[0].entities == []


@settings(max_examples=20)
@given(random=st.randoms(use_true_random=False), forward_tokens=st.integers(1, 60))
def test_the_same_tags_alone_and_in_any_batch_order_and_padding(tagger, random, forward_tokens):
    sentences = [sentence.tokens for sentence in corpus(12, 5)] + [("ann",), (), ("x",) * 23]
    alone = [tagger.predict([sentence])[0].tags for sentence in sentences]
    order = list(range(len(sentences)))
    random.shuffle(order)
    together = tagger.predict([sentences[place] for place in order], forward_tokens=forward_tokens)
    assert [answer.tags for answer in together] == [alone[place] for place in order]


def test_a_stream_is_answered_before_it_ends(tagger):
    read = []

    def endless():
        while True:
            read.append(1)
            yield "ann flew to oslo ."

    answers = tagger.stream(endless(), forward_tokens=10)
    assert [next(answers).tags[0] for _ in range(3)] == ["B-PER"] * 3
    assert len(read) < 1000


def test_no_prediction_leaves_the_scheme(vague):
    words = ["ann", "oslo", "north", "bank", ".", "zzz"]
    chance = np.random.default_rng(0)
    texts = [list(chance.choice(words, size=chance.integers(1, 9))) for _ in range(300)]
    for answer in vague.predict(texts):
        assert violations(answer.tags, "BIO") == []


@pytest.mark.parametrize("name", ["tagger", "vague"])
def test_probabilities_and_nbest_are_those_of_listed_paths(name, request):
    tagger = request.getfixturevalue(name)
    tokens = ["ann", "left", "north", "bank"]
    truth = lattice(tagger, tokens)
    assert list(tagger.tags) == TAGS
    answer = tagger.predict([tokens], probabilities=True, nbest=5)[0]
    for entity in answer.entities:
        expected = truth.span_probability(*entity.tokens, entity.type, TAGS)
        assert entity.probability == pytest.approx(expected, rel=1e-4)
    ranked = np.argsort(-truth.scores, kind="stable")[:5]
    assert [path.tags for path in answer.nbest] == [tuple(TAGS[tag] for tag in truth.paths[n]) for n in ranked]
    assert [path.probability for path in answer.nbest] == pytest.approx(truth.probabilities[ranked].tolist(), rel=1e-4)


@pytest.mark.parametrize("threshold", [0.5, 0.05, 0.01, 0.001])
@pytest.mark.parametrize("name", ["tagger", "vague"])
def test_a_threshold_finds_exactly_the_segments_above_it(name, threshold, request):
    tagger = request.getfixturevalue(name)
    tokens = ["ann", "north", "bank", "rome"]
    truth = lattice(tagger, tokens)
    expected = {
        (start, end, kind): share
        for start in range(4)
        for end in range(start + 1, 5)
        for kind in ("LOC", "ORG", "PER")
        if (share := truth.span_probability(start, end, kind, TAGS)) >= threshold
    }
    found = {
        (*entity.tokens, entity.type): entity.probability
        for entity in tagger.predict([tokens], threshold=threshold)[0].entities
    }
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_segment_that_begins_and_ends_at_the_sentences_edges_alone_may_be_above_a_threshold():
    crf = MaskedCRF(Constraints.from_scheme(["I-X"], "IO"))  # no step leads into a segment or out of it
    [found] = crf.segment_candidates(torch.zeros(1, 2, 1), least=0.9).by_row()
    assert found == [(0, 2, "X", pytest.approx(1))]


def test_a_threshold_finds_in_a_batch_what_it_finds_one_by_one(vague):
    texts = [["ann", "north", "bank", "rome"], ["x"], ["rome", "bank"], ["north"] * 7]
    alone = [vague.predict([text], threshold=0.01)[0].entities for text in texts]
    together = [answer.entities for answer in vague.predict(texts, threshold=0.01)]
    for one, other in zip(alone, together, strict=True):
        assert [(entity.tokens, entity.type) for entity in one] == [(entity.tokens, entity.type) for entity in other]
        assert [entity.probability for entity in one] == pytest.approx([entity.probability for entity in other])
    assert sum(map(len, alone)) > 3


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.5}, {"nbest": -1}, {"nbest": 10**8}])
def test_questions_without_an_answer_are_refused(tagger, options):
    with pytest.raises(MaskedCRFError):
        tagger.predict("ann", **options)


def test_tags_the_user_fixes_are_kept_and_the_rest_fits_them(vague):
    tokens = ["x", "y", "z"]
    answer = vague.predict([tokens, tokens], fixed=[{1: "I-ORG"}, {0: ["O", "B-LOC"], 2: "O"}])
    assert answer[0].tags[:2] == ("B-ORG", "I-ORG")
    assert answer[1].tags[0] in {"O", "B-LOC"}
    assert answer[1].tags[2] == "O"


def test_a_gazetteer_fixes_whole_names_and_nothing_longer(vague):
    names = {"san jose": "LOC", "jose": "PER", "acme corp": "ORG"}
    texts = ["in san jose today", ["jose", "of", "acme", "corp", "x"]]
    answers = vague.predict(texts, gazetteer=names)
    found = [{(e.type, e.text) for e in answer.entities} for answer in answers]
    assert ("LOC", "san jose") in found[0]
    assert {("PER", "jose"), ("ORG", "acme corp")} <= found[1]


def test_what_cannot_be_fixed_is_refused_by_name(vague):
    with pytest.raises(MaskedCRFError, match="not one of the model's tags"):
        vague.predict(["x"], fixed=[{0: "B-NEW"}])
    with pytest.raises(MaskedCRFError, match="position 3 of 1"):
        vague.predict(["x"], fixed=[{np.int64(3): "O"}])
    for fixed in ({"0": "O"}, {0: 1}):
        with pytest.raises(MaskedCRFError, match=r"fixed is {token position: tag or tags}"):
            vague.predict(["x"], fixed=[fixed])
    with pytest.raises(MaskedCRFError, match="NEW"):
        vague.predict(["x"], gazetteer={"x": "NEW"})
    with pytest.raises(IllegalPathError, match="input 1 "):
        vague.predict(["x", "y"], fixed=[None, {0: "I-PER"}])
    with pytest.raises(MaskedCRFError, match="fixed ends before text 1"):
        vague.predict(["x", "y"], fixed=[None])


@pytest.mark.parametrize("texts", [[], ["x"], "x", "x " * 200])
def test_more_fixed_than_texts_is_refused_after_the_last_text(vague, texts):
    read = iter([None] * 100)
    with pytest.raises(MaskedCRFError, match="fixed goes on after the last"):
        vague.predict(texts, fixed=read, forward_tokens=1)
    assert len(list(read)) >= 98


def test_the_pipeline_form_has_the_keys_of_hugging_face(tagger):
    [found] = tagger.pipeline("ann")
    assert found.keys() == {"entity_group", "score", "word", "start", "end"}
    assert (found["entity_group"], found["word"], found["start"], found["end"]) == ("PER", "ann", 0, 3)
    assert 0.5 < found["score"] <= 1
    assert [len(row) for row in tagger.pipeline(["ann", "the rain"])] == [1, 0]


def test_one_unmasked_model_serves_all_decodings(vague):
    words = ["north", "bank", "lee", "zz", "york"]
    chance = np.random.default_rng(1)
    texts = [list(chance.choice(words, size=8)) for _ in range(50)]
    masked = [answer.tags for answer in vague.predict(texts)]
    vague.mask = "off"
    try:
        unmasked = [answer.tags for answer in vague.predict(texts)]
    finally:
        vague.mask = "train"
    assert sum(len(violations(tags, "BIO")) for tags in unmasked) > 0
    assert sum(len(violations(tags, "BIO")) for tags in masked) == 0
    with pytest.raises(ValueError, match="mask"):
        vague.mask = "on"


def test_scores_count_both_ways(tagger):
    scores = tagger.evaluate(corpus(20, 2))
    assert scores.f1 > 90
    assert scores.retain.total == scores.discard.total
    assert scores.to_dict() == tagger.record.scores["test"]


def test_a_softmax_head_is_the_softmax_of_each_token():
    tagger = Tagger.train(corpus(10), **{**SMALL, "head": "softmax", "epochs": 1, "dev_fraction": 0.0})
    assert tagger.mask == "off"
    tokens = ["ann", "north", "bank"]
    with torch.inference_mode():
        emissions = tagger.model.emissions(tagger.model.encoder.prepare(sentences_of([tokens])))
        expected = emissions.softmax(-1)
        marginals = tagger.model.crf.marginals(emissions)
    torch.testing.assert_close(marginals, expected)
    assert tagger.predict([tokens])[0].tags == tuple(tagger.tags[n] for n in expected[0].argmax(-1))


def test_no_neighbour_lengthens_a_name_where_segments_have_no_beginning_of_their_own():
    rules = Constraints.from_scheme(["O", "I-LOC", "I-PER"], "IO")
    names = Gazetteer({("new", "york"): "LOC"})
    allowed = allowed_tags(rules, ["in", "new", "york", "today"], fixed=None, gazetteer=names)
    beside, inside = [True, False, True], [False, True, False]
    assert allowed.tolist() == [beside, inside, inside, beside]


def test_what_the_user_fixes_wins_over_the_whole_name_of_a_gazetteer(vague):
    rules, names = vague.model.crf.constraints, Gazetteer({("san", "jose"): "LOC"})
    allowed = allowed_tags(rules, ["in", "san", "jose"], fixed={2: "O"}, gazetteer=names)
    assert allowed[:2].all()
    assert allowed[2].tolist() == [tag == "O" for tag in TAGS]


def test_a_gazetteer_finds_names_in_text_and_in_tokens_cut_by_blanks(vague):
    names = {"st. gallen": "LOC"}
    answers = vague.predict(["in st. gallen", ["in", "st.", "gallen"]], gazetteer=names)
    assert [answer.tokens for answer in answers] == [("in", "st", ".", "gallen"), ("in", "st.", "gallen")]
    for answer in answers:
        assert ("LOC", "st. gallen") in {(entity.type, entity.text) for entity in answer.entities}


def test_a_tag_fixed_before_the_first_token_is_refused(vague):
    with pytest.raises(MaskedCRFError, match="position -1 of 1"):
        vague.predict(["x"], fixed=[{-1: "O"}])


def test_a_threshold_keeps_what_is_exactly_as_probable_and_may_be_certainty(vague):
    tokens = ["ann", "north", "bank", "rome"]
    for entity in vague.predict([tokens], threshold=0.01)[0].entities:
        found = vague.predict([tokens], threshold=entity.probability)[0].entities
        assert entity in found
    assert vague.predict([tokens], threshold=1.0)[0].entities == []


def test_segments_above_a_threshold_may_be_as_long_as_the_text(vague):
    entities = vague.predict([["x"] * 120], threshold=1e-300)[0].entities
    assert {after - first for first, after in (entity.tokens for entity in entities)} >= {1, 2, 101, 120}


def test_without_a_mask_a_threshold_finds_segments_that_begin_illegally(vague):
    texts = [list(text) for text in np.random.default_rng(1).choice(["north", "bank", "zz"], size=(10, 4))]
    vague.mask = "off"
    try:
        answers = vague.predict(texts, threshold=0.2)
        for tokens, answer in zip(texts, answers, strict=True):
            spans = [(a, b, kind) for a in range(4) for b in range(a + 1, 5) for kind in ("LOC", "ORG", "PER")]
            with torch.inference_mode():
                emissions = vague.model.emissions(vague.model.encoder.prepare(sentences_of([tokens])))
                [shares] = vague.model.crf.span_probability(emissions, [spans])
            expected = {span for span, share in zip(spans, shares.tolist(), strict=True) if share >= 0.2}
            assert {(*entity.tokens, entity.type) for entity in answer.entities} == expected != set()
    finally:
        vague.mask = "train"


def test_every_path_comes_in_the_output_scheme_whatever_entities_are_asked_for(vague):
    other = Tagger(vague.model, output_scheme=Scheme.get("BIOES"))
    tokens = ["ann", "north", "bank", "rome"]
    plain, ranked = other.predict([tokens])[0], other.predict([tokens], nbest=5)[0]
    assert plain.tags == tuple(convert(vague.predict([tokens])[0].tags, "BIO", "BIOES"))
    assert ranked.nbest[0].tags == plain.tags
    assert all(violations(path.tags, "BIOES") == [] for path in ranked.nbest)
    assert other.predict([tokens], threshold=0.01)[0].tags == plain.tags


def test_gold_in_another_scheme_is_scored_as_what_it_says(tagger):
    sentences = corpus(20, 2)
    other = [replace(each, tags=tuple(convert(each.tags, "BIO", "BIOES"))) for each in sentences]
    assert tagger.evaluate(other, scheme="BIOES") == tagger.evaluate(sentences)


def test_illegal_gold_has_a_loss_where_the_model_can_express_it(vague):
    illegal = [Sentence(("x", "y"), ("O", "I-LOC"))]
    assert vague.evaluate(illegal).loss is None
    vague.mask = "off"
    try:
        assert vague.evaluate(illegal).loss > 0
    finally:
        vague.mask = "train"


def test_tags_fixed_in_one_text_are_one_mapping(vague):
    for fixed in ({0: "B-ORG"}, {1: "O"}):
        assert vague.predict("ann left", fixed=fixed) == vague.predict(["ann left"], fixed=[fixed])[0]
    with pytest.raises(MaskedCRFError, match="fixed is a list with one entry a text"):
        vague.predict(["ann left"], fixed={0: "B-ORG"})


@pytest.mark.parametrize("texts", [[None], b"abc", [["a", 1]], [3]])
def test_what_is_no_text_is_said(vague, texts):
    with pytest.raises(MaskedCRFError, match="a text is a string, or a list of tokens that are strings"):
        vague.predict(texts)


@pytest.mark.parametrize("texts", [None, 3, {"text": "ann left"}, Sentence(("ann", "left"))])
def test_what_is_no_list_of_texts_is_said(vague, texts):
    with pytest.raises(MaskedCRFError, match=r"in a list: write \[text\]; got a"):
        vague.predict(texts)
