"""A promised miss rate: kept on sentences like the sample, saved with the model, void for any other."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_corpus import SMALL, corpus
from unknown_names import unknown_names

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import DataError, MaskedCRFError, ModelFolderError, VoidPromiseError
from maskedcrf.evaluation.risk import expected_threshold, interval, sample_of
from maskedcrf.redaction.check_promise import check_promise
from maskedcrf.redaction.cover import TypeTags, stream_covers
from maskedcrf.redaction.measure import choose_unit, measure
from maskedcrf.redaction.promise import MAX_THRESHOLD, Promise
from maskedcrf.redaction.redactor import Redactor
from maskedcrf.redaction.rules import Rules
from maskedcrf.tagger import Tagger
from maskedcrf.tags.segments import segments

GOLD = unknown_names(150, 11)


def missed_share(tagger: Tagger, sentences: list[Sentence], threshold: float, types: set[str]) -> float:
    """By hand: the mean over sentences of the share of entities with a token that is left."""
    tags = TypeTags(tagger.model.crf.constraints, types)
    shares = []
    for sentence, cover in zip(sentences, stream_covers(tagger.model, sentences, tags), strict=True):
        hidden = {token for start, end in cover.hidden(threshold) for token in range(start, end)}
        gold = [each for each in segments(sentence.tags, "BIO") if each.type in types]
        if gold:
            shares.append(np.mean([not set(range(each.start, each.end)) <= hidden for each in gold]))
    return float(np.mean(shares))


@pytest.mark.parametrize(("rate", "types"), [(0.02, None), (0.1, None), (0.3, ["PER"])])
def test_the_threshold_is_the_highest_that_the_sample_allows(tagger, rate, types) -> None:
    promise = tagger.promise(GOLD, rate, types=types)
    kinds = set(types or ["PER", "LOC", "ORG"])
    assert set(promise.types) == kinds
    missed, size = missed_share(tagger, GOLD, promise.threshold, kinds), promise.units
    assert (size * missed + 1) / (size + 1) <= rate
    higher = promise.threshold * 1.002 + 1e-6
    above = missed_share(tagger, GOLD, higher, kinds)
    assert higher > MAX_THRESHOLD or (size * above + 1) / (size + 1) > rate


def test_the_promise_holds_on_average_over_samples(trained) -> None:
    """Splits of one pool; the mean miss rate of the rest, with two standard errors to spare."""
    pool = unknown_names(400, 21)
    tags = TypeTags(trained.model.crf.constraints)
    covers = stream_covers(trained.model, pool, tags)
    measured = measure(pool, covers, scheme=trained.scheme, types=tags.names, unit="sentence")
    units: dict[int, list[float]] = {}
    for each in measured.entities:
        units.setdefault(each.unit, []).append(min(each.scores))
    rows = list(units.values())
    random = np.random.default_rng(5)
    for alpha in (0.1, 0.05):
        rates = []
        for _ in range(200):
            order = random.permutation(len(rows))
            chosen, rest = ([rows[place] for place in part] for part in (order[:150], order[150:]))
            rates.append(sample_of(rest).mean_loss(expected_threshold(sample_of(chosen), alpha)))
        assert np.mean(rates) <= alpha + 2 * np.std(rates) / np.sqrt(len(rates))


def test_hidden_is_the_share_of_innocent_tokens(tagger) -> None:
    promise = tagger.promise(GOLD, 0.02)
    tags = TypeTags(tagger.model.crf.constraints)
    innocent = [
        score >= promise.threshold
        for sentence, cover in zip(GOLD, stream_covers(tagger.model, GOLD, tags), strict=True)
        for tag, score in zip(sentence.tags, cover.scores, strict=True)
        if tag == "O"
    ]
    assert promise.hidden == pytest.approx(np.mean(innocent), abs=1e-6)


def test_the_curve_gives_more_away_at_higher_thresholds_and_holds_the_promise(tagger) -> None:
    promise = tagger.promise(GOLD, 0.05)
    rates, thresholds, hidden = zip(*promise.curve, strict=True)
    assert list(rates) == sorted(rates)
    assert list(thresholds) == sorted(set(thresholds))
    assert list(hidden) == sorted(hidden, reverse=True)
    assert rates[0] >= 1 / (promise.units + 1)
    for point in promise.curve[::5]:
        assert tagger.promise(GOLD, point.miss_rate).threshold == point.threshold


def test_confidence_and_each_type_by_itself_ask_for_more(tagger) -> None:
    plain = tagger.promise(GOLD, 0.1)
    sure = tagger.promise(GOLD, 0.1, confidence=0.9)
    each = tagger.promise(GOLD, 0.1, loss="types")
    tokens = tagger.promise(GOLD, 0.1, loss="tokens")
    assert sure.threshold < plain.threshold
    for kind in ("PER", "LOC", "ORG"):
        own = missed_by_type(tagger, each.threshold, kind)
        assert own <= 0.1
    assert tokens.threshold >= plain.threshold  # an entity is missed with its first token, a token by itself
    assert "with 90% confidence" in sure.sentence
    assert "with 99.7% confidence" in sure.model_copy(update={"confidence": 0.997}).sentence
    assert "the entities of each type in a sentence" in each.sentence
    assert "the words of entities in a sentence" in tokens.sentence


def missed_by_type(tagger: Tagger, threshold: float, kind: str) -> float:
    """Of the entities of this type, the mean share that is left, whatever they are taken for."""
    tags = TypeTags(tagger.model.crf.constraints)
    shares = []
    for sentence, cover in zip(GOLD, stream_covers(tagger.model, GOLD, tags), strict=True):
        own = [each for each in segments(sentence.tags, "BIO") if each.type == kind]
        if own:
            shares.append(np.mean([cover.scores[each.start : each.end].min() < threshold for each in own]))
    return float(np.mean(shares))


def test_it_is_saved_with_the_model_and_stands_on_its_card(tagger, tmp_path) -> None:
    promise = tagger.promise(GOLD, 0.05)
    assert promise.model_dump_json() == Promise.model_validate_json(promise.model_dump_json()).model_dump_json()
    text = "ann flew to new york ."
    before = tagger.redact(text)
    loaded = Tagger.load(tagger.save(tmp_path / "model"))
    assert loaded.redact(text).text == before.text
    assert promise.sentence in (tmp_path / "model" / "README.md").read_text()


def spoil_weights(tagger: Tagger) -> None:
    with torch.no_grad():
        tagger.model.linear.bias[0] += 1e-3


def spoil_transitions(tagger: Tagger) -> None:
    with torch.no_grad():
        tagger.model.crf.transitions[1, 2] += 1e-3


def spoil_tokenizer(tagger: Tagger) -> None:
    tagger.tokenizer = get_tokenizer("whitespace")


def spoil_mask(tagger: Tagger) -> None:
    tagger.mask = "off"


def spoil_temperature(tagger: Tagger) -> None:
    tagger.calibrate(corpus(30, 8))


def spoil_encoder(tagger: Tagger) -> None:
    encoder = tagger.model.encoder
    encoder.config = encoder.config.model_copy(update={"pooling": "mean"})


def spoil_fit(tagger: Tagger) -> None:
    tagger.fit_transitions(corpus(30, 8))


@pytest.mark.parametrize(
    "spoil",
    [spoil_weights, spoil_transitions, spoil_tokenizer, spoil_mask, spoil_encoder, spoil_temperature, spoil_fit],
)
def test_a_promise_for_one_model_is_void_for_another(tagger, spoil, tmp_path) -> None:
    promise = tagger.promise(GOLD, 0.05)
    spoil(tagger)
    for use in (lambda: tagger.redact("ann"), lambda: tagger.redact("ann", promise=promise)):
        with pytest.raises(VoidPromiseError, match="the promise was made for another model"):
            use()
    loaded = Tagger.load(tagger.save(tmp_path / "model"))
    with pytest.raises(VoidPromiseError):
        loaded.redact("ann")
    card = (tmp_path / "model" / "README.md").read_text()
    assert "Void: the model has changed since a miss rate was promised of it." in card
    assert promise.sentence not in card
    tagger.redact("ann", threshold=0.5)  # without a promise


def test_the_decoding_is_no_part_of_a_promise(tagger) -> None:
    tagger.promise(GOLD, 0.05)
    before = tagger.redact("ann flew to oslo .")
    tagger.decoding = "segments" if tagger.decoding == "path" else "path"
    assert tagger.redact("ann flew to oslo .") == before


def test_a_promise_for_another_model_and_about_other_types_is_refused(tagger, trained) -> None:
    promise = tagger.promise(GOLD, 0.1, types=["PER", "LOC"])
    assert tagger.redact("ann", types=["LOC", "PER"])
    with pytest.raises(VoidPromiseError, match="about PER, LOC, not about PER; promise anew"):
        tagger.redact("ann", types=["PER"])
    other = Tagger.train(corpus(12), **{**SMALL, "epochs": 1, "dev_fraction": 0.0})
    with pytest.raises(VoidPromiseError):
        other.redact("ann", promise=promise)
    same = Tagger(copy.deepcopy(trained.model))
    assert same.redact("ann", promise=promise) == tagger.redact("ann")


def test_what_is_promised_but_cannot_be_read_is_refused(tagger) -> None:
    tagger.promise(GOLD, 0.1)
    settings = {**tagger.record.settings, "promise": {**tagger.record.settings["promise"], "threshold": 2}}
    tagger.record = tagger.record.model_copy(update={"settings": settings})
    with pytest.raises(ModelFolderError, match="the model's promise cannot be read"):
        tagger.redact("ann")


def test_units_are_documents_where_the_data_have_them() -> None:
    documents = [replace(each, file="a", document=number // 3) for number, each in enumerate(GOLD)]
    assert choose_unit(GOLD, "auto") == "sentence"
    assert choose_unit(documents, "auto") == "document"
    assert choose_unit([replace(each, file="a", document=1) for each in GOLD], "auto") == "sentence"
    records = [replace(each, text="t", line=number // 2, one_line=True) for number, each in enumerate(GOLD)]
    assert choose_unit(records, "auto") == "document"
    files = [replace(each, file=str(number % 5), document=number % 5) for number, each in enumerate(GOLD)]
    assert choose_unit(files, "auto") == "document"
    with pytest.raises(MaskedCRFError, match="unit must be one of auto, sentence, document, file"):
        choose_unit(GOLD, "page")


def test_documents_count_as_units(tagger) -> None:
    documents = [replace(each, file="a", document=number // 3) for number, each in enumerate(GOLD)]
    promise = tagger.promise(documents, 0.1)
    assert (promise.unit, promise.units, promise.sentences) == ("document", 50, 150)
    with pytest.raises(DataError, match=r"1.00% needs at least 99 units with entities, the sample has 50"):
        tagger.promise(documents)
    with pytest.raises(DataError, match=r"needs at least 29 units with entities, the sample has 1;"):
        tagger.promise(documents, 0.1, confidence=0.95, unit="file")


@pytest.mark.parametrize(
    ("gold", "options", "message"),
    [
        ([Sentence(("a",), ("O",))] * 9, {}, "no entity of the chosen types in the gold"),
        ([Sentence(("a",))], {}, "no gold tags; a miss rate needs them"),
        ([Sentence(("a",), ("B-FOOD",))], {}, "gold has entities of type FOOD, which the model does not know"),
        (GOLD, {"miss_rate": 0}, "miss_rate is a share between 0 and 1"),
        (GOLD, {"miss_rate": "1%"}, "miss_rate is a share between 0 and 1, such as 0.01; got '1%'"),
        (GOLD, {"miss_rate": 0.1, "confidence": 1.0}, "confidence is a share between 0 and 1"),
        (GOLD, {"types": "PER"}, "types are a list of names: write"),
        (GOLD, {"loss": "words"}, "loss must be one of entities, tokens, types"),
        (GOLD, {"types": ["FOOD"]}, "'FOOD' is not one of the model's types"),
        (GOLD[:3], {"loss": "types"}, r"(LOC|ORG|PER): a miss rate of 1.00% needs at least 99 units"),
    ],
)
def test_what_cannot_be_promised_is_refused(tagger, gold, options, message) -> None:
    with pytest.raises(MaskedCRFError, match=message):
        tagger.promise(gold, **options)
    assert "promise" not in tagger.record.settings


def test_a_check_allows_for_the_luck_of_the_promises_own_sample(tagger) -> None:
    gold = unknown_names(300, 7, share=0.5)
    promise = tagger.promise(GOLD, 0.1)
    assert promise.at_most == pytest.approx(interval((0.1 * 151 - 1) / 150, 150)[1])
    assert tagger.promise(GOLD, 0.1, confidence=0.9).at_most is None
    low = check_promise(Redactor(tagger, promise=promise), gold, scheme=tagger.scheme).low
    strict, lucky = (promise.model_copy(update={"miss_rate": low / 2, "at_most": low * by}) for by in (0.9, 1.1))
    found = [check_promise(Redactor(tagger, promise=own), gold, scheme=tagger.scheme) for own in (strict, lucky)]
    assert [each.agrees for each in found] == [False, True]
    assert "an average over samples: the one it was made on may miss up to" in str(found[1])
    assert "average over samples" not in str(found[0])


def test_a_check_counts_what_rules_hide(tagger, tmp_path) -> None:
    gold = unknown_names(60, 7)
    (tmp_path / "names.txt").write_text("zork\n")
    rules = Rules.read([], [("PER", str(tmp_path / "names.txt"))])
    without, with_rules = (
        check_promise(Redactor(tagger, threshold=0.6, rules=own), gold, scheme=tagger.scheme) for own in (None, rules)
    )
    assert with_rules.missed < without.missed
    assert with_rules.hidden == pytest.approx(without.hidden)  # zork is part of names only
