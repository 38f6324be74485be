"""MaskedCRF: a linear-chain CRF whose path space holds only the legal paths."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from maskedcrf.crf import backends, functional, reference, validation
from maskedcrf.crf.scores import Illegal, Lattice
from maskedcrf.errors import ConstraintError
from maskedcrf.tags.constraints import Constraints, MaskMode
from maskedcrf.tags.scheme import Scheme

Reduction = Literal["mean", "sum", "token_mean", "none"]
Weighting = Literal["emission", "emission_transition", "lannoy"]
_ILLEGAL = ("illegal", "illegal_start", "illegal_end")


class MaskedCRF(nn.Module):
    """A linear-chain CRF in which illegal tag paths have no probability.

    >>> crf = MaskedCRF(["O", "B-PER", "I-PER"], scheme="BIO")
    >>> emissions = torch.tensor([[[1.0, 0.0, 5.0], [0.0, 0.0, 5.0]]])
    >>> crf.decode(emissions)                       # never I-PER first, whatever the scores
    [[1, 2]]

    Everything is batch first: emissions (B, T, D), tags (B, T), and a Boolean mask (B, T) of any pattern, True
    where a position is labelled; other positions are skipped and never read. Transitions are [from, to].
    Every method takes `allowed` (B, T, D), which narrows the tags per position.

    Args:
        rules: a `Constraints`, or the list of tags together with `scheme`.
        scheme: the tagging scheme of the tags, by name or as a `Scheme`; None leaves every path legal.
        mask: one of the paper's variants. `train`: illegal paths are excluded from the loss and from every answer;
            `decode`: from the answers only; `off`: a conventional CRF.
        backend: `auto` chooses by device; `reference`, `plain`, `cpu` or `gpu` forces one.
        weights: (D,) class weights, for the loss only.
        weighting: what the weights multiply, in AllenNLP's three ways: the emissions of their tag (`emission`), also
            the transitions from it (`emission_transition`), or each position's share of the loss (`lannoy`).
    """

    def __init__(
        self,
        rules: Constraints | Sequence[str],
        scheme: str | Scheme | None = None,
        *,
        mask: MaskMode = "train",
        backend: str = "auto",
        weights: Sequence[float] | Tensor | None = None,
        weighting: Weighting = "emission",
    ) -> None:
        super().__init__()
        validation.one_of(mask, "mask", MaskMode)
        validation.one_of(weighting, "weighting", Weighting)
        self.constraints = _constraints(rules, scheme)
        self.mask_mode: MaskMode = mask
        self.weighting: Weighting = weighting
        self.backend = backends.known_backend(backend)
        size = len(self.constraints)
        self.start_transitions = nn.Parameter(torch.empty(size))
        self.end_transitions = nn.Parameter(torch.empty(size))
        self.transitions = nn.Parameter(torch.empty(size, size))
        self.illegal: Tensor
        self.illegal_start: Tensor
        self.illegal_end: Tensor
        self.weights: Tensor | None
        # Not persistent: a state dict holds the three parameters alone, as pytorch-crf's does.
        self._fixed = validation.fixed_values(self.constraints, weights)
        for name, values in self._fixed.items():
            self.register_buffer(name, None if values is None else values.clone(), persistent=False)
        self._pending = validation.Pending()
        self.reset_parameters()

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags, in the order of their ids."""
        return self.constraints.tags

    def reset_parameters(self) -> None:
        """Draw all transition scores from U(-0.1, 0.1), as pytorch-crf does."""
        self.restore_rules()
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            nn.init.uniform_(parameter, -0.1, 0.1)

    def restore_rules(self) -> None:
        """Restore the rules and the class weights, which `to_empty` leaves undefined."""
        for name, values in self._fixed.items():
            known = self._buffers[name]
            if values is None or known is None:
                continue
            if known.device == self.transitions.device:
                known.copy_(values)  # in place: a captured graph may read it
            else:
                self._buffers[name] = values.to(self.transitions.device, known.dtype, copy=True)

    def _load_from_state_dict(self, *given: Any, **named: Any) -> None:
        super()._load_from_state_dict(*given, **named)
        self.restore_rules()

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        allowed: Tensor | None = None,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """The loss: negative log-likelihood of `tags` (B, T), by default the mean over the rows.

        `reduction` is `mean`, `sum`, `token_mean` or `none` (one loss per row). Labels where the mask is off are not
        read (they may be -100). An illegal gold path raises an `IllegalPathError` that names row, position and the two
        tags.
        """
        validation.one_of(reduction, "reduction", Reduction)
        emissions, mask = self._prepare(emissions, mask, allowed)
        tags = validation.tags(tags, mask)
        lattice = self._lattice(emissions, mask, masked=self.mask_mode == "train", weighted=True)
        if self.weighting == "lannoy" and self.weights is not None:
            scores = lattice.widened().scores()
            losses = reference.lannoy_loss(scores[0], tags, *scores[1:], self.weights.to(scores[0].dtype))
            losses = losses.to(emissions.dtype)
        elif reduction == "none":
            losses = functional.negative_log_likelihood(lattice, tags, backend=self.backend)
        else:
            # The mean of no rows is 0, as their sum is, never NaN.
            notice, mean = validation.notice_from(emissions), reduction == "mean" and len(emissions) > 0
            room = None if notice is None else notice.value
            found = functional.reduced_loss(lattice, tags, mean=mean, backend=self.backend, notice=room)
            self._pending.check(found.losses, lattice, tags, self.constraints, reduced=found, notice=notice)
            return _per_token(found.total, mask) if reduction == "token_mean" else found.total
        self._pending.check(losses, lattice, tags, self.constraints)
        return _reduce(losses, mask, reduction)

    def log_prob(
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None
    ) -> Tensor:
        """(B,): log P(tags); -inf for an illegal path."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        tags = validation.tags(tags, mask)
        lattice = self._lattice(emissions, mask)
        losses = functional.negative_log_likelihood(lattice, tags, backend=self.backend)
        known = losses.detach()
        # An illegal path has no probability, which is an answer; a row without any path has no answer.
        self._pending.check(known.where(known.isnan(), 0), lattice, None, self.constraints)
        return -losses

    def log_partition(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B,): log of the summed exp-scores of all legal paths."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        lattice = self._lattice(emissions, mask)
        result = functional.log_partition(lattice, backend=self.backend)
        self._pending.check(result, lattice, None, self.constraints)
        return result

    def partial_loss(
        self,
        emissions: Tensor,
        allowed: Tensor,
        mask: Tensor | None = None,
        *,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """-log P(the path stays inside the `allowed` (B, T, D) sets): training on partial annotation.

        A position with one allowed tag is labelled, one with several is ambiguous, one with all is unknown.
        """
        validation.one_of(reduction, "reduction", Reduction)
        emissions, mask = self._prepare(emissions, mask, None)
        narrowed = validation.narrow(emissions, allowed)
        masked = self.mask_mode == "train"
        inside = self._mass(self._lattice(narrowed, mask, masked=masked))
        whole = self._mass(self._lattice(emissions, mask, masked=masked))
        return _reduce((whole - inside).to(emissions.dtype), mask, reduction)

    def decode(
        self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None
    ) -> list[list[int]]:
        """The best legal path of each row, as a list of the tag ids of its labelled positions."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        lattice = self._lattice(emissions.detach(), mask)
        paths = functional.viterbi(lattice, backend=self.backend)
        self._pending.check(paths.scores, lattice, None, self.constraints)
        found = _lists(paths.tags, mask)
        self._pending.look()
        return found

    def decode_tensor(
        self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None, pad: int = reference.PAD
    ) -> Tensor:
        """(B, T): the best legal path of each row, `pad` where not labelled; no host synchronisation."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        lattice = self._lattice(emissions.detach(), mask)
        paths = functional.viterbi(lattice, backend=self.backend)
        self._pending.check(paths.scores, lattice, None, self.constraints)
        return paths.tags if pad == reference.PAD else paths.tags.masked_fill(~mask, pad)

    def nbest(
        self, emissions: Tensor, mask: Tensor | None = None, *, k: int, allowed: Tensor | None = None
    ) -> list[list[tuple[list[int], float]]]:
        """The k best legal paths of each row, best first, as (tag ids, log-probability); fewer if there are fewer."""
        validation.at_least_one(k, "k")
        emissions, mask = self._prepare(emissions, mask, allowed)
        lattice = self._lattice(emissions.detach(), mask)
        paths = functional.nbest(lattice.widened(), k, backend=self.backend)
        normaliser = self._mass(lattice)
        log_probs = (paths.scores - normaliser[:, None]).clamp(max=0).tolist()  # as rounding may go beyond
        self._pending.look()
        ids = [_lists(paths.tags[:, rank], mask) for rank in range(k)]
        return [
            [(ids[rank][row], log_probs[row][rank]) for rank in range(k) if log_probs[row][rank] > -torch.inf]
            for row in range(len(mask))
        ]

    def marginals(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B, T, D): P(tag at position); zero where not labelled. Differentiable."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        lattice = self._lattice(emissions, mask)
        self._check_path_exists(lattice)
        return functional.marginals(lattice, backend=self.backend)

    def sample(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        n: int = 1,
        allowed: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """(B, n, T): n legal paths of each row drawn by their probability, -100 where not labelled."""
        validation.at_least_one(n, "n")
        emissions, mask = self._prepare(emissions, mask, allowed)
        lattice = self._lattice(emissions.detach(), mask)
        self._check_path_exists(lattice)
        shape = (len(mask), n, mask.shape[1])
        uniforms = torch.rand(shape, dtype=torch.float64, generator=generator, device=emissions.device)
        return functional.sample(lattice, uniforms, backend=self.backend)

    def entropy(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B,): entropy of the path distribution in nats; 0 where one path is certain. Differentiable."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        lattice = self._lattice(emissions, mask)
        self._check_path_exists(lattice)
        return reference.entropy(*lattice.widened().scores()).to(emissions.dtype)

    def span_probability(
        self,
        emissions: Tensor,
        spans: Sequence[Sequence[tuple[int, int, str]]],
        mask: Tensor | None = None,
        *,
        allowed: Tensor | None = None,
    ) -> list[Tensor]:
        """Per row, (N,): exact P(exactly this segment is in the path) for each (start, end, type) of that row.

        Positions count only labelled tokens and `end` is exclusive, as in the segments of a decoded path. A longer or
        shorter segment is another segment.
        """
        emissions, mask = self._prepare(emissions, mask, allowed)
        matrices = self.constraints.matrices
        index, member = validation.spans(spans, mask, matrices)
        continues = torch.from_numpy(matrices.continues[:-1, :-1]).to(emissions.device)
        lattice = self._lattice(emissions, mask)
        self._check_path_exists(lattice)
        probability = functional.span_probability(lattice, index, member, continues, backend=self.backend)
        return list(torch.split(probability.to(emissions.dtype), [len(row) for row in spans]))

    def illegal_mass(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B,): P(illegal), the probability an unmasked CRF with these weights would spend on illegal paths."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        legal = functional.log_partition(self._lattice(emissions, mask, masked=True).widened(), backend=self.backend)
        whole = self._mass(self._lattice(emissions, mask, masked=False))
        return -torch.expm1((legal - whole).clamp(max=0)).to(emissions.dtype)

    def _prepare(self, emissions: Tensor, mask: Tensor | None, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Checked emissions (B, T, D), -inf where not allowed, and a Boolean mask (B, T)."""
        emissions = validation.emissions(emissions, len(self.constraints), self.transitions.device)
        mask = validation.mask(mask, emissions)
        return (emissions if allowed is None else validation.narrow(emissions, allowed)), mask

    def _lattice(
        self, emissions: Tensor, mask: Tensor, *, masked: bool | None = None, weighted: bool = False
    ) -> Lattice:
        """The scores, with what is illegal if `masked` (default: unless the mask is off)."""
        transitions: Tensor = self.transitions
        # As attributes nn.Module finds each of these in a microsecond, which is a share of what a small loss takes.
        buffers = cast(dict[str, Tensor], self._buffers)
        weights = buffers["weights"] if weighted and self.weighting != "lannoy" else None
        if weights is not None:
            emissions = validation.scale(emissions, weights)
            if self.weighting == "emission_transition":
                transitions = transitions * weights[:, None]
        on = masked if masked is not None else self.mask_mode != "off"
        illegal = Illegal(*[buffers[name] for name in _ILLEGAL]) if on else None
        return Lattice(emissions, mask, transitions, self.start_transitions, self.end_transitions, illegal)

    def _mass(self, lattice: Lattice) -> Tensor:
        """(B,): log of the summed exp-scores of all paths in double, to be set against another; there must be one."""
        found = functional.log_partition(lattice.widened(), backend=self.backend)
        self._pending.check(found, lattice, None, self.constraints)
        return found

    def _check_path_exists(self, lattice: Lattice) -> None:
        """Answers that are ratios of masses have no value where there is no path."""
        with torch.no_grad():
            masses = functional.log_partition(lattice, backend=self.backend)
        self._pending.check(masses, lattice, None, self.constraints)

    def extra_repr(self) -> str:
        """What `print(crf)` shows: tags, rules, mode, backend."""
        rules = self.constraints.scheme.name if self.constraints.scheme else "own rules"
        chosen = backends.describe(self.backend, self.transitions.device)
        return f"{len(self.constraints)} tags, {rules}, mask={self.mask_mode}, backend={chosen}"


def _constraints(rules: Constraints | Sequence[str], scheme: str | Scheme | None) -> Constraints:
    if isinstance(rules, int | str | Mapping):
        raise ConstraintError(
            f"tags are a list of names in the order of their ids, or a Constraints; got {type(rules).__name__} "
            "(pytorch-crf's CRF(5) is maskedcrf.compat.torchcrf.CRF(5); of an id2label take list(id2label.values()))"
        )
    if isinstance(rules, Constraints):
        if scheme is not None:
            raise ConstraintError("give either a Constraints or tags with a scheme, not both")
        return rules
    if scheme is None and {"B-", "I-"} <= {str(tag)[:2] for tag in rules}:
        warnings.warn("no scheme: every step is legal; say scheme='BIO', or Constraints.free(tags)", stacklevel=3)
    return Constraints.free(rules) if scheme is None else Constraints.from_scheme(rules, scheme)


def _lists(tags: Tensor, mask: Tensor) -> list[list[int]]:
    """Each row's labelled ids as a list."""
    ids = tags.cpu().numpy()
    on = ids != reference.PAD if tags.is_cuda else mask.numpy()  # to copy the mask from a device would take as long
    flat = ids[on].tolist()
    ends = on.sum(1).cumsum().tolist()
    return [flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _reduce(losses: Tensor, mask: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    if reduction == "mean" and len(losses):
        return losses.mean()
    total = losses.sum()
    return _per_token(total, mask) if reduction == "token_mean" else total


def _per_token(total: Tensor, mask: Tensor) -> Tensor:
    """Over the labelled positions; 0 where there is none, as the other reductions are."""
    return total / mask.sum().clamp(min=1)
