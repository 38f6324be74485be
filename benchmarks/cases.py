"""What the benchmark of the CRF layer times: ragged batches, ours on every backend and peers; each is checked first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.peers import PEERS, Parameters
from maskedcrf import Constraints, MaskedCRF
from maskedcrf.crf import reference

OURS = "maskedcrf"
Shape = tuple[int, int, int]


class Case(NamedTuple):
    """A ragged batch of BIO sentences, and the parameters that every candidate gets."""

    rules: Constraints
    emissions: Tensor
    tags: Tensor
    mask: Tensor
    parameters: Parameters


class Candidate(NamedTuple):
    """What is timed: a training step of the layer alone, decoding to lists, decoding to a tensor."""

    step: Callable[[], Any]
    decode: Callable[[], Any] | None = None
    decode_tensor: Callable[[], Any] | None = None


def make_case(shape: Shape, device: str) -> Case:
    """Lengths uniform in [T / 4, T], at least one full; gold drawn from the legal paths."""
    rows, length, size = shape
    generator = torch.Generator().manual_seed(rows * length * size)
    tags = ["O", *(f"{prefix}-{n}" for n in range((size - 1) // 2) for prefix in "BI")]
    rules = Constraints.from_scheme(tags, "BIO")
    emissions = torch.randn(shape, generator=generator)
    lengths = torch.randint(max(2, length // 4), length + 1, (rows, 1), generator=generator)
    lengths[0] = length
    mask = torch.arange(length) < lengths
    parameters = {
        name: torch.randn(*of, generator=generator) * 0.1
        for name, of in (("start", (size,)), ("end", (size,)), ("transitions", (size, size)))
    }
    gold = MaskedCRF(rules, backend="plain").sample(emissions, mask, generator=generator)[:, 0].clamp(min=0)
    parameters = {name: value.to(device) for name, value in parameters.items()}
    return Case(rules, emissions.to(device).requires_grad_(), gold.to(device), mask.to(device), parameters)


def step_of(case: Case, parameters: list[Tensor], loss: Callable[[], Tensor]) -> Callable[[], Any]:
    """A training step of the layer alone: the loss and all gradients."""
    wanted = [case.emissions, *parameters]
    return lambda: torch.autograd.grad(loss(), wanted, allow_unused=True)


def our_layer(case: Case, backend: str, mask: Any = "train") -> MaskedCRF:
    """Our layer with the parameters of the case."""
    crf = MaskedCRF(case.rules, backend=backend, mask=mask).to(case.emissions.device)
    names = {"start": "start_transitions", "end": "end_transitions", "transitions": "transitions"}
    crf.load_state_dict({names[name]: value for name, value in case.parameters.items()})
    return crf


def our_candidates(case: Case) -> dict[str, Candidate]:
    """Ours on every backend that this machine has, each held to the reference first."""
    backends = ("gpu", "plain") if case.emissions.is_cuda else ("cpu", "plain")
    found = {}
    for backend in backends:
        crf = our_layer(case, backend)
        _verify(case, crf, backend)
        found[f"{OURS} {backend}"] = Candidate(
            step_of(case, list(crf.parameters()), lambda crf=crf: crf(case.emissions, case.tags, case.mask)),
            lambda crf=crf: crf.decode(case.emissions, case.mask),
            lambda crf=crf: crf.decode_tensor(case.emissions, case.mask),
        )
    if case.emissions.is_cuda:
        found[f"{OURS} gpu graph"] = _captured(found[f"{OURS} gpu"])
    return found


def _captured(candidate: Candidate) -> Candidate:
    """The same work replayed from a CUDA graph."""

    def capture(work: Callable[[], Any] | None) -> Callable[[], Any]:
        assert work is not None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = work()

        def replay(kept: Any = kept) -> None:
            graph.replay()

        return replay

    return Candidate(capture(candidate.step), None, capture(candidate.decode_tensor))


def _verify(case: Case, crf: MaskedCRF, backend: str) -> None:
    """Refuse to time what is wrong: loss and all gradients against the reference in float64."""
    wanted = [case.emissions, *crf.parameters()]
    loss = crf(case.emissions, case.tags, case.mask)
    found = [loss, *torch.autograd.grad(loss, wanted)]
    exact = our_layer(case, "reference").double()
    emissions = case.emissions.detach().double().requires_grad_()
    true_loss = exact(emissions, case.tags, case.mask)
    true = [true_loss, *torch.autograd.grad(true_loss, [emissions, *exact.parameters()])]
    for one, other in zip(found, true, strict=True):
        if not torch.allclose(one.double(), other, rtol=1e-5, atol=1e-5):
            worst = (one.double() - other).abs().max().item()
            raise SystemExit(
                f"backend {backend} differs from float64 by {worst:.1e} at {tuple(emissions.shape)}: not timed"
            )


def peer_candidates(case: Case) -> tuple[dict[str, Candidate], dict[str, str]]:
    """The peers that can be imported and whose loss is right; and why the others are not timed."""
    values = [case.parameters[name].double() for name in ("transitions", "start", "end")]
    with torch.no_grad():
        expected = (
            reference.negative_log_likelihood(case.emissions.double(), case.tags, case.mask, *values).mean().item()
        )
    found, refused = {}, {}
    for name, build in PEERS.items():
        try:
            peer = build(case.parameters)
            loss = lambda peer=peer: peer.loss(case.emissions, case.tags, case.mask)  # noqa: E731
            given = loss().item()
        except (ImportError, RuntimeError, ValueError, IndexError) as error:
            refused[name] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            continue
        if abs(given - expected) > 1e-3 * abs(expected):
            refused[name] = f"loss {given:.4f} instead of {expected:.4f}"
            continue
        decode = peer.decode and (lambda peer=peer: peer.decode(case.emissions.detach(), case.mask))
        found[name] = Candidate(step_of(case, peer.parameters, loss), decode)
    return found, refused
