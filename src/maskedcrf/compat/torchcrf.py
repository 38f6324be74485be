"""pytorch-crf's `CRF`, call for call: `from maskedcrf.compat.torchcrf import CRF`.

The same numbers on every input pytorch-crf takes, its state dicts load, and two things more: masks of any
pattern, and `constraints=` to take illegal paths out.
"""

from __future__ import annotations

from torch import Generator, Tensor

from maskedcrf.crf.layer import MaskedCRF, Reduction
from maskedcrf.crf.reference import PAD
from maskedcrf.tags.constraints import Constraints, MaskMode


class CRF(MaskedCRF):
    """pytorch-crf's interface: `forward` gives the log-likelihood (not a loss), summed, time first by default.

    Time first means that batch and time are swapped in every tensor that has both, given or returned, also in the
    methods that pytorch-crf does not have: `marginals` is (T, B, D), and `sample` (T, n, B).
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
        return -super().forward(emissions, self._swap(tags), mask, reduction=reduction)

    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:  # type: ignore[override]
        """The best path of each sequence; (T, B, D) emissions unless `batch_first`."""
        return super().decode(emissions, mask)

    def log_prob(
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None
    ) -> Tensor:
        """(B,): log P(tags); -inf for an illegal path."""
        return super().log_prob(emissions, self._swap(tags), mask, allowed=allowed)

    def partial_loss(
        self, emissions: Tensor, allowed: Tensor, mask: Tensor | None = None, *, reduction: Reduction = "mean"
    ) -> Tensor:
        """-log P(the path stays inside the `allowed` sets), which have the shape of the emissions."""
        return super().partial_loss(emissions, self._swap(allowed), mask, reduction=reduction)

    def decode_tensor(
        self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None, pad: int = PAD
    ) -> Tensor:
        """(T, B), or (B, T) if `batch_first`: the best legal path of each sequence, `pad` where not labelled."""
        return self._swap(super().decode_tensor(emissions, mask, allowed=allowed, pad=pad))

    def marginals(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(T, B, D), or (B, T, D) if `batch_first`: P(tag at position)."""
        return self._swap(super().marginals(emissions, mask, allowed=allowed))

    def sample(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        n: int = 1,
        allowed: Tensor | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """(T, n, B), or (B, n, T) if `batch_first`: n legal paths of each sequence drawn by their probability."""
        tags = super().sample(emissions, mask, n=n, allowed=allowed, generator=generator)
        return tags if self.batch_first else tags.transpose(0, 2)

    def _prepare(self, emissions: Tensor, mask: Tensor | None, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Every method comes by here: what it is given, batch first from now on."""
        return super()._prepare(
            self._swap(emissions),
            None if mask is None else self._swap(mask),
            None if allowed is None else self._swap(allowed),
        )

    def _swap(self, tensor: Tensor) -> Tensor:
        """Batch and time in the other order, unless they are batch first here, too."""
        swapped = not self.batch_first and isinstance(tensor, Tensor) and tensor.ndim >= 2
        return tensor.transpose(0, 1) if swapped else tensor

    def extra_repr(self) -> str:
        """What `print(crf)` shows."""
        return f"num_tags={self.num_tags}, {super().extra_repr()}"
