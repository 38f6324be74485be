"""A model's scores on gold sentences: F1 under retain and discard, illegal segments, loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.evaluation.audit import Cells, audit
from maskedcrf.evaluation.counts import Counts, Tally, count
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.parallel import compute_emissions
from maskedcrf.tagger.predict import MAX_BATCH_SENTENCES, default_forward_tokens
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import convert_batch


@dataclass(frozen=True, slots=True)
class Scores:
    """Retain and discard are always both there; where no segment is illegal they are the same."""

    retain: Counts
    discard: Counts
    cells: Cells
    """Predicted segments by legality and correctness."""
    loss: float | None = None
    """Mean over the sentences whose gold the model can express; None if there is none."""

    @property
    def f1(self) -> float:
        """F1 in percent, illegal segments retained (conlleval's reading): what the best epoch is chosen by."""
        return self.retain.total.f1

    @property
    def illegal(self) -> float:
        """Illegal segments in percent of the predicted ones."""
        return 100 * (self.cells.illegal_over_total or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "retain": _tally(self.retain.total),
            "discard": _tally(self.discard.total),
            "illegal": self.illegal,
            "illegal_segments": self.cells.illegal,
            "loss": self.loss,
        }


def _tally(tally: Tally) -> dict[str, float]:
    names = ("f1", "precision", "recall", "correct", "predicted", "gold")
    return {name: getattr(tally, name) for name in names}


@torch.inference_mode()
def score(
    model: TaggerModel, sentences: Sequence[Sentence], *, gold_scheme: Scheme, segment_threshold: float | None = None
) -> Scores:
    """Scores of the model on sentences with the words around them; gold of types it does not know is not found."""
    scheme = model.scheme
    gold = convert_batch([_gold(sentence) for sentence in sentences], gold_scheme, scheme)
    index = {tag: number for number, tag in enumerate(model.crf.tags)}
    predicted: list[list[str]] = [[] for _ in sentences]
    losses: list[float] = []
    non_empty = [place for place, sentence in enumerate(sentences) if sentence.tokens]
    chosen = [sentences[place] for place in non_empty]
    with compute_emissions(model, chosen, size=MAX_BATCH_SENTENCES, tokens=default_forward_tokens(model)) as batches:
        for batch, emissions, mask in batches:
            places = [non_empty[number] for number in batch]
            paths = model.decode(emissions, mask, segment_threshold=segment_threshold)
            for place, path in zip(places, paths, strict=True):
                predicted[place] = [model.crf.tags[number] for number in path]
            known = [row for row, place in enumerate(places) if _is_in_path_space(model, gold[place], index)]
            if known:
                words = mask.cpu()
                rows = torch.tensor(known, device=mask.device)
                ids = torch.zeros(mask.shape, dtype=torch.long)
                for row in known:
                    ids[row, words[row]] = torch.tensor([index[tag] for tag in gold[places[row]]])
                some = model.crf(emissions[rows], ids.to(mask.device)[rows], mask[rows], reduction="none")
                losses += some.tolist()
    return Scores(
        count(gold, predicted, scheme=scheme, strategy="retain"),
        count(gold, predicted, scheme=scheme, strategy="discard"),
        audit(gold, predicted, scheme=scheme).total,
        sum(losses) / len(losses) if losses else None,
    )


def _gold(sentence: Sentence) -> tuple[str, ...]:
    if sentence.tags is None:
        raise DataError(f"{sentence.where(0)}: no gold tags; scores need them")
    return sentence.tags


def _is_in_path_space(model: TaggerModel, tags: Sequence[str], index: dict[str, int]) -> bool:
    """Every tag is known, and the path is in the model's path space."""
    if any(tag not in index for tag in tags):
        return False
    return model.crf.mask_mode != "train" or not model.crf.constraints.violations([index[tag] for tag in tags])
