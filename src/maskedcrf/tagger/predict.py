"""Predictions by the batch: sorted by length inside a buffer, given back in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat, tee
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import Numbered, Place, next_buffer, number_parts
from maskedcrf.errors import IllegalPathError, MaskedCRFError
from maskedcrf.segmentation.choice import require_threshold
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tagger.prediction import Prediction, RankedPath, join_by_text
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, encode, read_paths

FORWARD_TOKENS = {"cpu": 1024, "cpu lstm": 2048, "cuda": 32768}
"""Tokens in one forward pass, with the padding if there is any: enough to keep a core or a GPU busy (measured).

A transformer's tokens are word pieces; with fewer, a core mostly waits for the weights. An LSTM steps through a batch
word by word and wants it wide.
"""
READ_AHEAD_BATCHES = 64
"""Batches' worth of sentences read ahead, so that neighbours in length can share a batch."""
MAX_BATCH_SENTENCES = 256
"""Sentences in one forward pass, however short."""
MIN_LENGTH_RATIO = 0.8
"""A batch that is large enough is not filled up with sentences shorter than this times its longest: they would pad."""
MAX_NBEST = 1000
"""To be ranked: their beginnings are all kept for every word and tag of a batch."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What is asked beside the tags; each costs something, so each is off by default."""

    probabilities: bool = False
    """Exact probability of each entity."""
    nbest: int = 0
    """How many paths to rank."""
    threshold: float | None = None
    """Entities with at least this probability, also those not on the best path, in place of the best path's."""
    segment_threshold: float | None = None
    """Decode by segments at this threshold; None decodes by the best path."""
    output_scheme: Scheme | None = None
    """The scheme the tags are written in; None is the model's own."""

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise MaskedCRFError(f"threshold is a probability above 0 and up to 1, got {self.threshold}")
        if self.segment_threshold is not None:
            require_threshold(self.segment_threshold)
        if not 0 <= self.nbest <= MAX_NBEST:
            raise MaskedCRFError(f"nbest is a number of paths, {MAX_NBEST:,} at most, got {self.nbest}")


def stream(
    model: TaggerModel, sentences: Iterable[Sentence], *, question: OutputOptions, forward_tokens: int | None = None
) -> Iterator[Prediction]:
    """A prediction for each text, in order; memory holds one buffer of their sentences, whatever their number."""
    limit = forward_tokens or default_forward_tokens(model)
    read, texts = tee(sentences)
    numbered = number_parts(read, model.encoder.config.context)

    def answer_parts() -> Iterator[Prediction]:
        while buffer := next_buffer(numbered, limit * READ_AHEAD_BATCHES):
            answers = {place: Prediction(sentence, (), ()) for place, sentence in buffer}
            full = [(place, sentence) for place, sentence in buffer if sentence.tokens]
            answers |= _answers(model, full, question, limit=limit)
            yield from (answers.pop(place) for place, _ in buffer)

    return join_by_text(texts, answer_parts())


def default_forward_tokens(model: TaggerModel) -> int:
    """The batch that suits the model on its device."""
    if model.device.type != "cpu":
        return FORWARD_TOKENS["cuda"]
    return FORWARD_TOKENS["cpu lstm" if model.encoder.config.lstm_layers else "cpu"]


@torch.inference_mode()
def _answers(
    model: TaggerModel, numbered: Sequence[Numbered], question: OutputOptions, *, limit: int
) -> dict[Place, Prediction]:
    """Predictions for sentences that have tokens, by their place."""
    answers: dict[Place, Prediction] = {}
    sentences = [sentence for _, sentence in numbered]
    with compute_emissions(
        model, sentences, size=MAX_BATCH_SENTENCES, tokens=limit, similar=MIN_LENGTH_RATIO
    ) as batches:
        for indices, emissions, mask in batches:
            chosen = [numbered[index] for index in indices]
            allowed = allowed_of_batch([sentence for _, sentence in chosen], mask, len(model.crf.tags))
            found = _predict_batch(model, chosen, _BatchScores(emissions, mask, allowed), question)
            answers |= zip((place for place, _ in chosen), found, strict=True)
    return answers


class _BatchScores(NamedTuple):
    emissions: Tensor
    mask: Tensor
    allowed: Tensor | None

    def row(self, number: int) -> _BatchScores:
        """One sentence of the batch."""
        on = slice(number, number + 1)
        return _BatchScores(self.emissions[on], self.mask[on], None if self.allowed is None else self.allowed[on])


def _predict_batch(
    model: TaggerModel, numbered: Sequence[Numbered], lattice: _BatchScores, question: OutputOptions
) -> list[Prediction]:
    """Predictions for one batch; a sentence that cannot be answered is named by the number of its text."""
    try:
        return _predictions(model, [sentence for _, sentence in numbered], lattice, question)
    except IllegalPathError as error:
        if len(numbered) == 1:
            raise IllegalPathError(f"input {numbered[0][0].text} (counted from 0): {error}") from error
        alone = (_predict_batch(model, [one], lattice.row(row), question) for row, one in enumerate(numbered))
        return list(chain.from_iterable(alone))


def _predictions(
    model: TaggerModel, sentences: Sequence[Sentence], lattice: _BatchScores, question: OutputOptions
) -> list[Prediction]:
    paths = model.decode(
        lattice.emissions, lattice.mask, segment_threshold=question.segment_threshold, allowed=lattice.allowed
    )
    best = rows = read_paths(paths, model.crf.tags, model.scheme)
    ranked: Iterable[tuple[RankedPath, ...]] = repeat(())
    shares: Iterable[tuple[float, ...] | None] = repeat(None)
    if question.nbest:
        ranked = _ranked(model, lattice, question)
    if question.threshold is not None:
        rows, shares = _spans_above(model, lattice, question.threshold)
    elif question.probabilities:
        shares = _probabilities(model, lattice, rows)
    written = _tags_of_paths(model, paths, question.output_scheme, best)
    predictions = []
    for sentence, tags, segments, share, ranks in zip(sentences, written, rows, shares, ranked, strict=False):
        assert len(tags) == len(sentence.tokens), "tags out = tokens in"
        predictions.append(Prediction(sentence, tags, tuple(segments), share, ranks))
    return predictions


def allowed_of_batch(sentences: Sequence[Sentence], mask: Tensor, size: int) -> Tensor | None:
    """(B, T, D) on the words of the batch, or None where nothing is narrowed."""
    if all(sentence.allowed is None for sentence in sentences):
        return None
    words = mask.cpu()
    allowed = torch.ones((*words.shape, size), dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        if sentence.allowed is not None:
            allowed[row, words[row]] = torch.from_numpy(sentence.allowed)
    return allowed.to(mask.device)


def _tags_of_paths(
    model: TaggerModel,
    paths: Sequence[Sequence[int]],
    scheme: Scheme | None,
    rows: Sequence[Sequence[Segment]] | None = None,
) -> list[tuple[str, ...]]:
    """The tags of each path of tag ids, in this scheme, or the model's own; `rows` are its segments, if read."""
    names = model.crf.tags
    if scheme is None:
        return [tuple([names[number] for number in path]) for path in paths]
    rows = read_paths(paths, names, model.scheme) if rows is None else rows
    return [tuple(encode(row, len(path), scheme)) for row, path in zip(rows, paths, strict=True)]


def _ranked(model: TaggerModel, lattice: _BatchScores, question: OutputOptions) -> list[tuple[RankedPath, ...]]:
    ranked = []
    for row in model.crf.nbest(lattice.emissions, lattice.mask, k=question.nbest, allowed=lattice.allowed):
        tags = _tags_of_paths(model, [path for path, _ in row], question.output_scheme)
        ranked.append(tuple(RankedPath(own, float(np.exp(score))) for own, (_, score) in zip(tags, row, strict=True)))
    return ranked


def _probabilities(
    model: TaggerModel, lattice: _BatchScores, rows: Sequence[Sequence[Segment]]
) -> list[tuple[float, ...]]:
    spans = [[(start, end, kind) for start, end, kind, _ in row] for row in rows]
    shares = model.crf.span_probability(lattice.emissions, spans, lattice.mask, allowed=lattice.allowed)
    return [tuple(row.tolist()) for row in shares]


def _spans_above(
    model: TaggerModel, lattice: _BatchScores, threshold: float
) -> tuple[list[list[Segment]], list[tuple[float, ...]]]:
    """All segments of each row with at least this probability, and their probabilities."""
    candidates = model.crf.segment_candidates(lattice.emissions, lattice.mask, least=threshold, allowed=lattice.allowed)
    kept = [[each for each in sorted(row) if each.probability >= threshold] for row in candidates.by_row()]
    rows = [[Segment(*each[:3]) for each in row] for row in kept]
    return rows, [tuple(each.probability for each in row) for row in kept]
