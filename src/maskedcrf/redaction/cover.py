"""Which tokens to hide: the exact probability of lying inside an entity, widened to segments and whole words.

A token is hidden where its score reaches the threshold. The score is the highest probability of any token whose most
probable segment, or whose word, it belongs to. So it does not depend on the threshold, and a higher threshold never
hides what a lower one left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import next_buffer
from maskedcrf.data.tokenizers import parts_word
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tagger.predict import (
    MAX_BATCH_SENTENCES,
    MIN_LENGTH_RATIO,
    READ_AHEAD_BATCHES,
    allowed_of_batch,
    default_forward_tokens,
)
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Bools

if TYPE_CHECKING:
    from maskedcrf.redaction.rule_lattice import RuleCover
    from maskedcrf.redaction.rules import Finding

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Cover(NamedTuple):
    """The tokens of a sentence, as hiding them needs to know them."""

    scores: Floats
    """(T,): each token is hidden at thresholds up to this one."""
    types: Ints
    """(T,): which of the chosen types it most probably has."""
    joined: Bools
    """(T,): whether it belongs to the segment or word of the token before it."""
    findings: tuple[Finding, ...] = ()
    """What rules beside the model found."""

    def hidden(self, threshold: float) -> list[tuple[int, int]]:
        """The runs of tokens to be hidden together, end exclusive."""
        runs: list[tuple[int, int]] = []
        for token, (score, joined) in enumerate(zip(self.scores.tolist(), self.joined.tolist(), strict=True)):
            if score >= threshold:
                goes_on = joined and runs and runs[-1][1] == token
                runs.append((runs.pop()[0] if goes_on else token, token + 1))
        return runs

    def type_of(self, start: int, end: int) -> tuple[int, float]:
        """The type and the score of a run's most probable token."""
        best = max(range(start, end), key=self.scores.__getitem__)
        return int(self.types[best]), float(self.scores[best])

    def source_of(self, start: int, end: int) -> str:
        """What found a run: a rule, the model, or both where a rule found only a part or made it likelier."""
        if not self.findings:
            return "model"
        inside = [each for each in self.findings if each.start < end and start < each.end]
        certain = sum(each.end - each.start for each in inside if each.weight is None)
        return "+".join(dict.fromkeys((["model"] if certain < end - start else []) + [each.source for each in inside]))


NOTHING = Cover(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, bool))


class TypeTags:
    """Which tags belong to each of the chosen types, and which of them go on with a segment or let it go on."""

    def __init__(self, constraints: Constraints, types: Collection[str] | None = None) -> None:
        if isinstance(types, str):
            raise MaskedCRFError(f"types are a list of names: write [{types!r}]")
        matrices = constraints.matrices
        self.names = tuple(matrices.types if types is None else dict.fromkeys(types))
        unknown = [name for name in self.names if name not in matrices.types]
        if unknown or not self.names:
            wrong = f"{unknown[0]!r} is not one" if unknown else "types is empty; name some"
            raise MaskedCRFError(f"{wrong} of the model's types: {', '.join(matrices.types)}")
        index = [matrices.types.index(name) for name in self.names]
        continues = matrices.continues[:-1, :-1]
        self.inside: Bools = np.equal.outer(matrices.type_index[:-1], index)  # (D, K)
        self.from_before = self.inside & np.asarray(continues.any(axis=0))[:, None]
        self.to_next = self.inside & np.asarray(continues.any(axis=1))[:, None]


def stream_covers(
    model: TaggerModel,
    sentences: Iterable[Sentence],
    tags: TypeTags,
    *,
    rules: RuleCover | None = None,
    forward_tokens: int | None = None,
) -> Iterator[Cover]:
    """The cover of each sentence, in order; memory holds one buffer of them, whatever their number."""
    limit = forward_tokens or default_forward_tokens(model)
    numbered = enumerate(sentences)
    while buffer := next_buffer(numbered, limit * READ_AHEAD_BATCHES):
        covers = dict.fromkeys((number for number, _ in buffer), NOTHING)
        covers |= _covers(model, [each for each in buffer if each[1].tokens], tags, rules, limit)
        yield from covers.values()


@torch.inference_mode()
def _covers(
    model: TaggerModel, numbered: Sequence[tuple[int, Sentence]], tags: TypeTags, rules: RuleCover | None, limit: int
) -> dict[int, Cover]:
    covers: dict[int, Cover] = {}
    sentences = [sentence for _, sentence in numbered]
    with compute_emissions(
        model, sentences, size=MAX_BATCH_SENTENCES, tokens=limit, similar=MIN_LENGTH_RATIO
    ) as batches:
        for indices, emissions, mask in batches:
            chosen = [sentences[index] for index in indices]
            found = covers_of(marginals_of(model, chosen, emissions, mask), chosen, tags)
            if rules is not None:
                found = rules.add(found, chosen, emissions, mask)
            covers |= zip((numbered[index][0] for index in indices), found, strict=True)
    return covers


def marginals_of(model: TaggerModel, sentences: Sequence[Sentence], emissions: Tensor, mask: Tensor) -> Floats:
    """(N, D): the exact probability of each tag for each token, one sentence after the other."""
    allowed = allowed_of_batch(sentences, mask, len(model.crf.tags))
    marginals = model.crf.marginals(emissions, mask, allowed=allowed).cpu().numpy()
    found: Floats = marginals[mask.cpu().numpy()].astype(np.float64)  # torch's threads would wait for the encoder's
    return found


def covers_of(marginals: NDArray[np.float64], sentences: Sequence[Sentence], tags: TypeTags) -> list[Cover]:
    """The covers of sentences from the marginals of their tokens, one sentence after the other: (N, D)."""
    lengths = [len(sentence.tokens) for sentence in sentences]
    ends = np.cumsum(lengths)
    words = np.zeros((len(marginals), 1), dtype=bool)
    words[_inside_words(sentences)] = True
    inside = marginals @ tags.inside  # (N, K)
    # How probably a token and the one before it are of one segment; exact where the scheme marks beginnings or ends.
    together = np.minimum(marginals @ tags.from_before, _shift(marginals @ tags.to_next))
    together[ends - lengths] = 0
    to_left, to_right = ((together > 0) & (2 * together >= own) for own in (inside, _shift(inside)))
    types = inside.argmax(axis=1)
    own = np.zeros_like(inside)
    own[np.arange(len(own)), types] = inside.sum(axis=1)
    reached = np.maximum(_carry(own, to_right), _carry(own[::-1], _shift(to_left[::-1]))[::-1])
    types = reached.argmax(axis=1)
    scores = reached.max(axis=1, keepdims=True)
    scores = np.maximum(_carry(scores, words), _carry(scores[::-1], _shift(words[::-1]))[::-1])[:, 0]
    same = (to_left | to_right)[np.arange(len(types)), types] & (types == _shift(types))
    joined = same | words[:, 0]
    parts = (np.split(each, ends[:-1]) for each in (np.minimum(scores, 1.0), types, joined))
    return [Cover(*each) for each in zip(*parts, strict=True)]


def _shift(rows: NDArray[Any]) -> NDArray[Any]:
    """The row before, for each row; zeros for the first."""
    shifted = np.zeros_like(rows)
    shifted[1:] = rows[:-1]
    return shifted


def _carry(values: Floats, passes: Bools) -> Floats:
    """The highest value that reaches each row from rows before it, through rows where `passes` is on (N, K).

    In steps of 1, 2, 4 ... rows: after each, a value has come as far as all steps together.
    """
    values, passes, step = values.copy(), passes.copy(), 1
    while passes.any():
        values[step:] = np.maximum(values[step:], np.where(passes[step:], values[:-step], 0))
        passes[step:] &= passes[:-step].copy()
        passes[:step] = False
        step *= 2
    return values


def _inside_words(sentences: Sequence[Sentence]) -> list[int]:
    """The tokens, counted over all sentences, that go on with the word of the token before."""
    found, first = [], 0
    for sentence in sentences:
        text, offsets = sentence.text, sentence.offsets
        if text is not None and offsets is not None:
            touching = (n for n in range(1, len(offsets)) if offsets[n][0] <= offsets[n - 1][1])
            found += [first + number for number in touching if parts_word(text, offsets[number][0])]
        first += len(sentence.tokens)
    return found
