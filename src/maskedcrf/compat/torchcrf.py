"""pytorch-crf's `CRF`, call for call: `from maskedcrf.compat.torchcrf import CRF`.

The same numbers on every input pytorch-crf takes, its state dicts load, and two things more: masks of any
pattern, and `constraints=` to take illegal paths out.
"""

from __future__ import annotations

from torch import Tensor

from maskedcrf.crf.layer import MaskedCRF, Reduction
from maskedcrf.tags.constraints import Constraints, MaskMode


class CRF(MaskedCRF):
    """pytorch-crf's interface: `forward` gives the log-likelihood (not a loss), summed, time first by default.

    The methods pytorch-crf does not have are MaskedCRF's own, batch first.
    """

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        constraints: Constraints | None = None,
        mask: MaskMode = "train",
        backend: str = "auto",
    ) -> None:
        if num_tags <= 0:
            raise ValueError(f"invalid number of tags: {num_tags}")
        rules = constraints if constraints is not None else [str(tag) for tag in range(num_tags)]
        if len(rules) != num_tags:
            raise ValueError(f"num_tags is {num_tags}, but the constraints have {len(rules)} tags")
        super().__init__(rules, mask=mask, backend=backend)
        self.num_tags = num_tags
        self.batch_first = batch_first

    def forward(  # type: ignore[override]
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, reduction: Reduction = "sum"
    ) -> Tensor:
        """The log-likelihood of `tags`; (T, B, D) emissions unless `batch_first`."""
        emissions, tags = self._batch_first(emissions), self._batch_first(tags)
        return -super().forward(emissions, tags, self._mask(mask), reduction=reduction)

    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:  # type: ignore[override]
        """The best path of each sequence; (T, B, D) emissions unless `batch_first`."""
        return super().decode(self._batch_first(emissions), self._mask(mask))

    def _batch_first(self, tensor: Tensor) -> Tensor:
        return tensor if self.batch_first or tensor.ndim < 2 else tensor.transpose(0, 1)

    def _mask(self, mask: Tensor | None) -> Tensor | None:
        return mask if mask is None else self._batch_first(mask)

    def extra_repr(self) -> str:
        """What `print(crf)` shows."""
        return f"num_tags={self.num_tags}, {super().extra_repr()}"
