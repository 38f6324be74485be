"""What rules find, in the model's lattice: constraints on tags, evidence for them, and the cover that results.

A certain finding of a type the model has must lie within one segment of that type; the model says where the segment
begins and ends. One of another type must lie outside all segments. A finding with a weight adds it to the scores of the
paths that read it so, and everything else is left to the model. Probabilities are exact either way.

A token is covered at the higher of two scores, with the rules and without: rules only ever add cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction.cover import Cover, Floats, TypeTags, covers_of, marginals_of
from maskedcrf.redaction.rules import Finding, RuleFinder, Rules
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Bools


class RuleCover:
    """Adds what rules find to the cover of a model's probabilities."""

    def __init__(self, rules: Rules, model: TaggerModel, tags: TypeTags) -> None:
        self._model, self._tags = model, tags
        self._finder = RuleFinder(rules, model.tokenizer)
        self._lattice = RuleLattice(model.crf.constraints)
        self.names = tuple(dict.fromkeys((*tags.names, *rules.types)))
        """The types of its covers: those to be hidden in any case, then those that only rules know."""
        for each in rules:
            if each.weight is not None and each.type not in tags.names:
                raise MaskedCRFError(
                    f"{each.name}: its weight is for {each.type}, which the model does not hide; leave the weight out, "
                    f"or take one of {', '.join(tags.names)}"
                )

    def add(
        self, covers: Sequence[Cover], sentences: Sequence[Sentence], emissions: Tensor, mask: Tensor
    ) -> list[Cover]:
        """The covers of a batch, with what rules find in its sentences."""
        found = [self._finder.find(sentence) for sentence in sentences]
        rows = [row for row, own in enumerate(found) if own]
        together = list(covers)
        if not rows:
            return together
        emissions, mask = emissions[rows].clone(), mask[rows]
        narrowed = []
        for number, row in enumerate(rows):
            sentence = sentences[row]
            narrowed.append(replace(sentence, allowed=self._lattice.allowed(found[row], sentence)))
            evidence = torch.from_numpy(self._lattice.evidence(found[row], len(sentence))).to(emissions)
            emissions[number, mask[number]] += evidence
        marginals = marginals_of(self._model, narrowed, emissions, mask)
        for row, ruled in zip(rows, covers_of(marginals, narrowed, self._tags), strict=True):
            together[row] = self._merge(covers[row], ruled, found[row])
        return together

    def _merge(self, alone: Cover, ruled: Cover, found: Sequence[Finding]) -> Cover:
        """The higher score of the two; what is certain is covered at any threshold, as a run of its own type."""
        scores, types, joined = np.maximum(alone.scores, ruled.scores), ruled.types.copy(), ruled.joined.copy()
        certain = [each for each in found if each.weight is None]
        for start, end, kind, *_ in certain:
            scores[start:end] = 1
            types[start:end] = self.names.index(kind)
            joined[start + 1 : end] = True
        for edge in {edge for each in certain for edge in (each.start, each.end)} - {0, len(types)}:
            joined[edge] &= types[edge - 1] == types[edge]
        return Cover(scores, types, joined, tuple(found))


class RuleLattice:
    """Findings as constraints and evidence over a model's tags."""

    def __init__(self, constraints: Constraints) -> None:
        self._constraints = constraints
        matrices = constraints.matrices
        continues = matrices.continues[:-1, :-1]
        self._types = matrices.types
        self._of_type = matrices.type_index[:-1]
        self._from_before, self._to_next = continues.any(axis=0), continues.any(axis=1)

    def allowed(self, found: Sequence[Finding], sentence: Sentence) -> Bools | None:
        """(T, D): the tags that certain findings leave, on top of the sentence's own.

        If no legal path keeps to all of them, the findings that leave none are left out, from left to right.
        """
        free = np.ones((len(sentence), len(self._constraints)), dtype=bool)
        own = free if sentence.allowed is None else sentence.allowed
        certain = [each for each in found if each.weight is None]
        cells = own.copy()
        for each in certain:
            cells[each.start : each.end] &= self._tags_of(each)
        if self._constraints.has_path(cells):
            return cells
        kept = own
        for each in certain:
            cells = kept.copy()
            cells[each.start : each.end] &= self._tags_of(each)
            kept = cells if self._constraints.has_path(cells) else kept
        return kept

    def evidence(self, found: Sequence[Finding], length: int) -> Floats:
        """(T, D): what findings with a weight add to the emissions, shared out over their tokens.

        A path that reads the whole finding as part of one segment of its type gains the weight.
        """
        added = np.zeros((length, len(self._constraints)))
        for each in found:
            if each.weight is not None:
                added[each.start : each.end] += self._tags_of(each) * (each.weight / (each.end - each.start))
        return added

    def _tags_of(self, finding: Finding) -> Bools:
        """(n, D): the tags with which these tokens lie within one segment of the type; outside all for another type."""
        length = finding.end - finding.start
        if finding.type not in self._types:
            outside = self._of_type < 0
            return np.tile(outside if outside.any() else True, (length, 1 if outside.any() else len(outside)))
        inside = np.tile(self._of_type == self._types.index(finding.type), (length, 1))
        within = inside.copy()
        within[1:] &= self._from_before
        within[:-1] &= self._to_next
        return within if within.any(axis=1).all() else inside
