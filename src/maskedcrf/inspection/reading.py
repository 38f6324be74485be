"""What a model makes of labelled sentences: one after the other, in order, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from maskedcrf.data.sentence import Sentence, with_context
from maskedcrf.data.texts import next_buffer
from maskedcrf.evaluation.check import located
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tagger.predict import MAX_BATCH_SENTENCES, MIN_LENGTH_RATIO, default_forward_tokens
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, read_batch, read_paths, require_known

Span = tuple[int, int, str]
"""Tokens start to end (exclusive) carry this type."""
LEAST = 0.05
"""Segments that are neither gold nor predicted are kept if they are at least this probable."""
READ_AHEAD_BATCHES = 16


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence as the gold has it and as a model reads it."""

    sentence: Sentence
    gold: tuple[Span, ...] | None
    """None if it has no tags."""
    predicted: tuple[Span, ...]
    probabilities: dict[Span, float]
    """Exact, of the gold's segments whose type the model knows, of the predicted ones and of other probable ones."""
    outside: tuple[float, ...]
    """P(no segment) of each token."""
    entropy: float
    """Of the distribution over paths, exact, in nats."""
    unseen: frozenset[int] | None
    """Tokens that training did not have; None if the model keeps no list of words."""

    @property
    def is_right(self) -> bool:
        """Whether every segment is found and none is invented."""
        return self.gold is not None and set(self.gold) == set(self.predicted)


def read_sentences(tagger: Tagger, sentences: Iterable[Sentence], *, gold_scheme: Scheme) -> Iterator[Reading]:
    """The readings of sentences, in order; memory holds a buffer of them. Those without tokens are left out.

    A tagger with a context sees the words around a sentence that it comes with, see `in_context`.
    """
    tokens = default_forward_tokens(tagger.model)
    numbered = enumerate(sentence for sentence in sentences if sentence.tokens)
    while buffer := next_buffer(numbered, tokens * READ_AHEAD_BATCHES):
        yield from _read(tagger, [sentence for _, sentence in buffer], gold_scheme, tokens)


def in_context(tagger: Tagger, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """The sentences of whole documents, with as many words around them as the tagger looks at."""
    return with_context(sentences, tagger.model.encoder.config.context)


@torch.inference_mode()
def _read(tagger: Tagger, sentences: list[Sentence], gold_scheme: Scheme, tokens: int) -> list[Reading]:
    model = tagger.model
    gold = _gold(sentences, gold_scheme)
    readings: dict[int, Reading] = {}
    with compute_emissions(
        model, sentences, size=MAX_BATCH_SENTENCES, tokens=tokens, similar=MIN_LENGTH_RATIO
    ) as batches:
        for places, emissions, mask in batches:
            chosen = [(sentences[place], gold[place]) for place in places]
            readings |= zip(places, _read_batch(tagger, chosen, emissions, mask), strict=True)
    return [readings[place] for place in range(len(sentences))]


def _gold(sentences: Sequence[Sentence], scheme: Scheme) -> list[tuple[Span, ...] | None]:
    tags = [sentence.tags or () for sentence in sentences]
    with located(sentences, f"gold is read as {scheme.name} (--scheme)"):
        require_known(tags, scheme, tags={tag for row in tags for tag in row})
    rows = read_batch(tags, scheme)
    return [None if sentence.tags is None else _spans(row) for sentence, row in zip(sentences, rows, strict=True)]


def _spans(segments: Iterable[Segment]) -> tuple[Span, ...]:
    """Legal or not: illegal segments count as conlleval counts them."""
    return tuple((start, end, kind) for start, end, kind, _ in segments)


def _read_batch(
    tagger: Tagger, chosen: Sequence[tuple[Sentence, tuple[Span, ...] | None]], emissions: Tensor, mask: Tensor
) -> Iterator[Reading]:
    model, crf = tagger.model, tagger.model.crf
    paths = model.decode(emissions, mask, segment_threshold=tagger.threshold_for())
    predicted = [_spans(row) for row in read_paths(paths, crf.tags, model.scheme)]
    shares = crf.marginals(emissions, mask).double().cpu().numpy()
    entropies, on = crf.entropy(emissions, mask).tolist(), mask.cpu().numpy()
    kinds = set(crf.constraints.matrices.types)
    outer = [number for number, tag in enumerate(crf.tags) if tag == model.scheme.outside]
    known = ({span for span in gold or () if span[2] in kinds} for _, gold in chosen)
    asked = [sorted(spans.union(found)) for spans, found in zip(known, predicted, strict=True)]
    exact = crf.span_probability(emissions, asked, mask)
    likely = crf.segment_candidates(emissions, mask, least=LEAST).by_row()
    for row, (sentence, gold) in enumerate(chosen):
        probabilities = {each[:3]: each.probability for each in likely[row] if each.probability >= LEAST}
        probabilities |= zip(asked[row], exact[row].tolist(), strict=True)
        outside = tuple(shares[row, on[row]][:, outer].sum(1).tolist())
        unseen = _unknown_words(model.encoder.parts, sentence.tokens)
        yield Reading(sentence, gold, predicted[row], probabilities, outside, entropies[row], unseen)


def _unknown_words(parts: Any, tokens: Sequence[str]) -> frozenset[int] | None:
    """Which words neither training nor a vector file had."""
    if "words" not in parts:
        return None
    vocabulary = parts["words"].vocabulary
    return frozenset(place for place, token in enumerate(tokens) if not vocabulary.knows(token))
