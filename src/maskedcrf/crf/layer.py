"""MaskedCRF: a linear-chain CRF whose path space holds only the legal paths."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn

from maskedcrf.crf import backends, functional, reference, validation
from maskedcrf.crf.deferred_errors import DeferredErrors, Results, new_host_flag
from maskedcrf.crf.scores import ExcludedSteps, LatticeScores, widest_dtype
from maskedcrf.crf.segments import SegmentCandidates
from maskedcrf.errors import ConstraintError
from maskedcrf.segmentation.choice import SegmentPath
from maskedcrf.tags.constraints import Constraints, MaskMode
from maskedcrf.tags.scheme import Scheme

Reduction = Literal["mean", "sum", "token_mean", "none"]
Weighting = Literal["emission", "emission_transition", "lannoy"]
_RULE_BUFFERS = ("illegal", "illegal_start", "illegal_end")


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
        self.backend = backends.require_backend(backend)
        size = len(self.constraints)
        self.start_transitions = nn.Parameter(torch.empty(size))
        self.end_transitions = nn.Parameter(torch.empty(size))
        self.transitions = nn.Parameter(torch.empty(size, size))
        self.illegal: Tensor
        self.illegal_start: Tensor
        self.illegal_end: Tensor
        self.weights: Tensor | None
        # Not persistent: a state dict holds the three parameters alone, as pytorch-crf's does.
        self._rules = validation.rule_buffers(self.constraints, weights)
        for name, values in self._rules.items():
            self.register_buffer(name, None if values is None else values.clone(), persistent=False)
        self._deferred = DeferredErrors()
        self.reset_parameters()

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags, in the order of their ids."""
        return self.constraints.tags

    def reset_parameters(self) -> None:
        """Draw all transition scores from U(-0.1, 0.1), as pytorch-crf does."""
        self.reset_rule_buffers()
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            nn.init.uniform_(parameter, -0.1, 0.1)

    def zero_transitions(self) -> Self:
        """Set all transition scores to 0, so that the emissions and the rules alone decide; returns the layer."""
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            nn.init.zeros_(parameter)
        return self

    def reset_rule_buffers(self) -> None:
        """Restore the rules and the class weights, which `to_empty` leaves undefined."""
        for name, values in self._rules.items():
            known = self._buffers[name]
            if values is None or known is None:
                continue
            if known.device == self.transitions.device:
                known.copy_(values)  # in place: a captured graph may read it
            else:
                self._buffers[name] = values.to(self.transitions.device, known.dtype, copy=True)

    def _load_from_state_dict(self, *given: Any, **named: Any) -> None:
        super()._load_from_state_dict(*given, **named)
        self.reset_rule_buffers()

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
        scores = self._scores(emissions, mask, masked=self.mask_mode == "train", weighted=True)
        if self.weighting == "lannoy" and self.weights is not None:
            losses = functional.lannoy_loss(scores, tags, self.weights)
        elif reduction == "none":
            losses = functional.negative_log_likelihood(scores, tags, backend=self.backend)
        else:
            total = self._reduced_loss(scores, tags, mean=reduction == "mean")
            return _per_token(total, mask) if reduction == "token_mean" else total
        self._check(losses, scores, tags)
        return _reduce(losses, mask, reduction)

    def _reduced_loss(self, scores: LatticeScores, tags: Tensor, *, mean: bool) -> Tensor:
        """The sum or the mean of the losses, whose gradients come with it."""
        flag, mean = new_host_flag(scores.emissions), mean and len(scores.emissions) > 0  # no rows have a mean of 0
        total, losses = functional.reduced_loss(
            scores, tags, mean=mean, backend=self.backend, flag=None if flag is None else flag.value
        )
        self._deferred.check_or_defer(Results(losses, scores, tags, self.constraints), total=total, flag=flag)
        return total

    def log_prob(
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None
    ) -> Tensor:
        """(B,): log P(tags); -inf for an illegal path."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        tags = validation.tags(tags, mask)
        scores = self._scores(emissions, mask)
        losses = functional.negative_log_likelihood(scores, tags, backend=self.backend)
        # An illegal path has no probability, which is an answer; a row without any path has no answer.
        known = losses.detach()
        self._check(known.where(known.isnan(), 0), scores)
        return -losses

    def log_partition(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B,): log of the summed exp-scores of all legal paths."""
        scores = self._scores(*self._prepare(emissions, mask, allowed))
        log_z = functional.log_partition(scores, backend=self.backend)
        self._check(log_z, scores)
        return log_z

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
        masked = self.mask_mode == "train"
        inside = self._wide_log_partition(
            self._scores(validation.apply_allowed(emissions, allowed), mask, masked=masked)
        )
        whole = self._wide_log_partition(self._scores(emissions, mask, masked=masked))
        return _reduce((whole - inside).to(emissions.dtype), mask, reduction)

    def decode(
        self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None
    ) -> list[list[int]]:
        """The best legal path of each row, as a list of the tag ids of its labelled positions."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        lists = _lists(self._best_paths(emissions, mask).tags)
        self._deferred.raise_arrived()
        return lists

    def decode_tensor(
        self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None, pad: int = reference.PAD
    ) -> Tensor:
        """(B, T): the best legal path of each row, `pad` where not labelled; no host synchronisation."""
        emissions, mask = self._prepare(emissions, mask, allowed)
        tags = self._best_paths(emissions, mask).tags
        return tags if pad == reference.PAD else tags.masked_fill(~mask, pad)

    def _best_paths(self, emissions: Tensor, mask: Tensor) -> reference.Paths:
        scores = self._scores(emissions.detach(), mask)
        paths = functional.viterbi(scores, backend=self.backend)
        self._check(paths.scores, scores)
        return paths

    def nbest(
        self, emissions: Tensor, mask: Tensor | None = None, *, k: int, allowed: Tensor | None = None
    ) -> list[list[tuple[list[int], float]]]:
        """The k best legal paths of each row, best first, as (tag ids, log-probability); fewer if there are fewer."""
        validation.at_least_one(k, "k")
        emissions, mask = self._prepare(emissions, mask, allowed)
        scores = self._scores(emissions.detach(), mask)
        paths = functional.nbest(scores.widen(), k, backend=self.backend)
        log_z = self._wide_log_partition(scores)
        log_probs = (paths.scores - log_z[:, None]).clamp(max=0).tolist()  # as rounding may go beyond
        self._deferred.raise_arrived()
        ids = [_lists(paths.tags[:, rank]) for rank in range(k)]
        return [
            [(ids[rank][row], log_probs[row][rank]) for rank in range(k) if log_probs[row][rank] > -torch.inf]
            for row in range(len(mask))
        ]

    def marginals(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B, T, D): P(tag at position); zero where not labelled. Differentiable."""
        scores = self._scores_of_paths(emissions, mask, allowed)
        return functional.marginals(scores, backend=self.backend)

    @torch.no_grad()
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
        scores = self._scores_of_paths(emissions, mask, allowed)
        (rows, length), dtype = scores.mask.shape, widest_dtype(scores.emissions)
        uniforms = torch.rand(rows, n, length, dtype=dtype, generator=generator, device=scores.mask.device)
        return functional.sample(scores, uniforms, backend=self.backend)

    def entropy(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B,): entropy of the path distribution in nats; 0 where one path is certain. Differentiable."""
        scores = self._scores_of_paths(emissions, mask, allowed)
        return functional.entropy(scores, backend=self.backend)

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
        scores, matrices = self._scores_of_paths(emissions, mask, allowed), self.constraints.matrices
        index, member = validation.spans(spans, scores.mask, matrices)
        continues = torch.from_numpy(matrices.continues[:-1, :-1]).to(index.device)
        probability = functional.span_probability(scores, index, member, continues, backend=self.backend)
        return list(torch.split(probability.to(scores.emissions.dtype), [len(row) for row in spans]))

    def decode_segments(
        self, emissions: Tensor, mask: Tensor | None = None, threshold: float = 0.5, *, allowed: Tensor | None = None
    ) -> list[SegmentPath]:
        """Per row the legal path that maximises the sum of (P(segment) - threshold) over segments that reach it.

        Each answer has the `tags` (ids) of the path and its `segments` (start, end, type, probability). A segment
        below the threshold is chosen only where `allowed` or the rules leave no other path. Of equal sums the one
        that covers more tokens wins.
        """
        return self.segment_candidates(emissions, mask, least=threshold, allowed=allowed).choose(threshold)

    @torch.no_grad()
    def segment_candidates(
        self, emissions: Tensor, mask: Tensor | None = None, *, least: float, allowed: Tensor | None = None
    ) -> SegmentCandidates:
        """All segments at least this probable; its `choose` answers as `decode_segments` for many thresholds."""
        scores = self._scores_of_paths(emissions, mask, allowed)
        return SegmentCandidates(scores, self.constraints, least=least)

    def illegal_mass(self, emissions: Tensor, mask: Tensor | None = None, *, allowed: Tensor | None = None) -> Tensor:
        """(B,): P(illegal), the probability that these weights without the mask give to illegal paths.

        It means something only if the layer was trained with `mask="decode"` or `"off"`. With `mask="train"`, illegal
        transitions never get a gradient and still have their random initial scores.
        """
        emissions, mask = self._prepare(emissions, mask, allowed)
        legal = functional.log_partition(self._scores(emissions, mask, masked=True).widen(), backend=self.backend)
        whole = self._wide_log_partition(self._scores(emissions, mask, masked=False))
        return -torch.expm1((legal - whole).clamp(max=0)).to(emissions.dtype)

    def _prepare(self, emissions: Tensor, mask: Tensor | None, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Checked emissions (B, T, D), -inf where not allowed, and a Boolean mask (B, T)."""
        emissions = validation.emissions(emissions, len(self.constraints), self.transitions.device)
        mask = validation.mask(mask, emissions)
        return (emissions if allowed is None else validation.apply_allowed(emissions, allowed)), mask

    def _scores(
        self, emissions: Tensor, mask: Tensor, *, masked: bool | None = None, weighted: bool = False
    ) -> LatticeScores:
        """The scores of the lattice, illegal steps excluded if `masked` (default: unless the mask is off)."""
        transitions: Tensor = self.transitions
        # nn.Module takes a microsecond to find each of these as an attribute, which a small loss would notice.
        buffers = cast(dict[str, Tensor], self._buffers)
        weights = buffers["weights"] if weighted and self.weighting != "lannoy" else None
        if weights is not None:
            emissions = validation.apply_weights(emissions, weights)
            if self.weighting == "emission_transition":
                transitions = transitions * weights[:, None]
        masked = self.mask_mode != "off" if masked is None else masked
        excluded = ExcludedSteps(*[buffers[name] for name in _RULE_BUFFERS]) if masked else None
        return LatticeScores(emissions, mask, transitions, self.start_transitions, self.end_transitions, excluded)

    def _wide_log_partition(self, scores: LatticeScores) -> Tensor:
        """(B,): log Z in the widest precision, to be set against another; there must be a path."""
        log_z = functional.log_partition(scores.widen(), backend=self.backend)
        self._check(log_z, scores)
        return log_z

    def _scores_of_paths(self, emissions: Tensor, mask: Tensor | None, allowed: Tensor | None) -> LatticeScores:
        """The scores, if each row has a path: ratios of masses have no value where there is none."""
        scores = self._scores(*self._prepare(emissions, mask, allowed))
        with torch.no_grad():
            self._check(functional.log_partition(scores, backend=self.backend), scores)
        return scores

    def _check(self, results: Tensor, scores: LatticeScores, tags: Tensor | None = None) -> None:
        """Raise where a result (B,) is not finite, on a GPU in a later call."""
        self._deferred.check_or_defer(Results(results, scores, tags, self.constraints))

    def extra_repr(self) -> str:
        """What `print(crf)` shows: tags, rules, mode, backend."""
        rules = self.constraints.scheme.name if self.constraints.scheme else "own rules"
        chosen = backends.choose_backend(self.backend, self.transitions.device.type, len(self.constraints))
        return f"{len(self.constraints)} tags, {rules}, mask={self.mask_mode}, backend={chosen.title}"


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


def _lists(tags: Tensor) -> list[list[int]]:
    """Each row's labelled ids as a list."""
    ids = tags.cpu().numpy()
    on = ids != reference.PAD
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
