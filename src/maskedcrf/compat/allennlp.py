"""AllenNLP's `ConditionalRandomField` and `allowed_transitions`, call for call.

As in AllenNLP the constraints steer `viterbi_tags` and leave the likelihood alone; `mask="train"` takes the
illegal paths out of the likelihood as well. Unlike AllenNLP's, illegal means excluded, and the likelihood
understands masks of any pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maskedcrf.crf.layer import MaskedCRF, Weighting
from maskedcrf.tags.constraints import Constraints, MaskMode

Path = tuple[list[int], float]


def allowed_transitions(constraint_type: str, labels: Mapping[int, str]) -> list[tuple[int, int]]:
    """All legal (from, to) pairs of ids for `BIO`, `IOB1`, `BIOUL`, `BMES` or any other of our schemes.

    `labels` maps each id to its tag; len(labels) stands for the start and len(labels) + 1 for the end.
    """
    size = len(labels)
    rules = Constraints.from_scheme([labels[number] for number in range(size)], constraint_type)
    pairs = [(int(before), int(after)) for before, after in zip(*rules.legal.nonzero(), strict=True)]
    pairs += [(size, int(tag)) for tag in rules.start.nonzero()[0]]
    return pairs + [(int(tag), size + 1) for tag in rules.end.nonzero()[0]]


class ConditionalRandomField(MaskedCRF):
    """AllenNLP's interface: batch first, `forward` gives the summed log-likelihood."""

    def __init__(
        self,
        num_tags: int,
        constraints: Iterable[tuple[int, int]] | None = None,
        include_start_end_transitions: bool = True,
        *,
        label_weights: Sequence[float] | None = None,
        weight_strategy: Weighting = "emission",
        mask: MaskMode = "decode",
        backend: str = "auto",
    ) -> None:
        names = [str(tag) for tag in range(num_tags)]
        rules = Constraints.free(names) if constraints is None else Constraints.from_allennlp(names, constraints)
        self.include_start_end_transitions = include_start_end_transitions
        super().__init__(rules, mask=mask, backend=backend, weights=label_weights, weighting=weight_strategy)
        self.num_tags = num_tags

    def reset_parameters(self) -> None:
        """Draw the scores as AllenNLP does: Xavier-normal steps, standard-normal start and end."""
        self.reset_rule_buffers()
        nn.init.xavier_normal_(self.transitions)
        for edge in (self.start_transitions, self.end_transitions):
            nn.init.normal_(edge) if self.include_start_end_transitions else nn.init.zeros_(edge)
            edge.requires_grad_(self.include_start_end_transitions)

    def forward(self, inputs: Tensor, tags: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """The log-likelihood of `tags`, summed over the batch."""
        return -super().forward(inputs, tags, mask, reduction="sum")

    def viterbi_tags(
        self, logits: Tensor, mask: Tensor | None = None, top_k: int | None = None
    ) -> list[Path] | list[list[Path]]:
        """The best path of each row with its unnormalised score; with `top_k`, a list of the best of each row."""
        mass = self.log_partition(logits, mask).tolist()
        found = [
            [(path, log_prob + log_z) for path, log_prob in row]
            for row, log_z in zip(self.nbest(logits, mask, k=top_k or 1), mass, strict=True)
        ]
        return [row[0] for row in found] if top_k is None else found

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.pop(prefix + "_constraint_mask", None)  # AllenNLP keeps the constraints there; ours are given
        if not self.include_start_end_transitions:
            for name in ("start_transitions", "end_transitions"):
                state_dict.setdefault(prefix + name, torch.zeros(self.num_tags))
        super()._load_from_state_dict(state_dict, prefix, *rest)
