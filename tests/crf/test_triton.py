"""The Triton kernels against the plain-torch reference in float64, on a CUDA device."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from maskedcrf import MaskedCRF
from maskedcrf.crf import deferred_errors, reference
from maskedcrf.crf.scores import ExcludedSteps, LatticeScores
from maskedcrf.errors import IllegalPathError

if not torch.cuda.is_available():
    pytest.skip("the GPU kernels need a CUDA device", allow_module_level=True)

gpu = pytest.importorskip("maskedcrf.crf.triton.launch", reason="the GPU kernels need Triton")

pytestmark = pytest.mark.gpu

SIZES = [1, 2, 9, 17, 37, 64, 65, 159]
LENGTHS = [1, 2, 7, 63]
RANGES = [1.0, 500.0, 1e4]
BOTH = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-9}


class Case(NamedTuple):
    """A lattice of four rows: the second empty, the third with one position on, NaN wherever a position is off."""

    emissions: Tensor
    mask: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


def case(size: int, length: int, spread: float = 1.0, dtype: torch.dtype = torch.float64, *, seed: int = 0) -> Case:
    """A random case with exclusions; a step to oneself and one to the next tag are always legal."""
    generator = torch.Generator().manual_seed(seed + 1000 * size + length)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    emissions, transitions = draw(4, length, size) * spread, draw(size, size)
    excluded = torch.rand(size, size, generator=generator) < 0.3
    excluded.fill_diagonal_(False)
    excluded.diagonal(1).fill_(False)
    mask = torch.rand(4, length, generator=generator) < 0.7
    mask[0] = True
    mask[1:3] = False
    mask[2, length // 2] = True
    start, end = draw(size), draw(size)
    start[1::3] = -torch.inf
    end[2::3] = -torch.inf
    transitions = transitions.masked_fill(excluded, -torch.inf)
    emissions[0, 0, size // 2 + 1 :] = -torch.inf
    emissions[~mask] = torch.nan
    parts = (part.to(dtype).cuda() for part in (emissions, transitions, start, end))
    emissions, transitions, start, end = parts
    return Case(emissions, mask.cuda(), transitions, start, end)


def widened(given: Case) -> Case:
    return Case(*(part.double() if part.is_floating_point() else part for part in given))


def close(found: Tensor, expected: Tensor, *, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("spread", RANGES)
@pytest.mark.parametrize("size", SIZES)
def test_losses_and_all_gradients_are_those_of_the_reference(size: int, spread: float, dtype: torch.dtype) -> None:
    torch.manual_seed(size)
    for length in LENGTHS:
        given = case(size, length, spread, dtype)
        wide = [part.requires_grad_(part.is_floating_point()) for part in widened(given)]
        tags = torch.randint(size, given.mask.shape, device="cuda")
        best = reference.viterbi(*(part.detach() for part in wide)).tags
        tags = torch.where(torch.arange(4, device="cuda")[:, None] == 3, tags, best)
        expected = reference.negative_log_likelihood(wide[0], tags, *wide[1:])
        legal = expected.isfinite()
        upstream = torch.where(legal, 2 * torch.rand(4, device="cuda", dtype=torch.float64) - 1, 0)
        losses, saved = gpu.loss(given.emissions, tags, *given[1:])
        close(losses, expected.detach(), dtype=dtype)
        parts = [part for part in wide if part.requires_grad]
        gradients = torch.autograd.grad((expected[legal] * upstream[legal]).sum(), parts)
        found = gpu.loss_backward(upstream.to(dtype), saved, given.emissions, tags, *given[1:])
        for one, other, part in zip(found, gradients, parts, strict=True):
            assert (one[part == -torch.inf] == 0).all()
            close(one, other.nan_to_num(nan=0.0), dtype=dtype)


@pytest.mark.parametrize(("mean", "factor"), [(True, 1.0), (False, 1.0), (True, -0.3)])
@pytest.mark.parametrize("size", [1, 9, 37, 159])
def test_loss_and_gradients_at_once_are_those_of_the_reference(size: int, mean: bool, factor: float) -> None:
    for length, dtype, spread in itertools.product(LENGTHS, BOTH, RANGES):
        given = case(size, length, spread, dtype)
        illegal = ExcludedSteps(*(part == -torch.inf for part in given[2:]))
        free = [part.masked_fill(out, 3.0) for part, out in zip(given[2:], illegal, strict=True)]
        wide = [part.requires_grad_(part.is_floating_point()) for part in widened(given)]
        tags = reference.viterbi(*(part.detach() for part in wide)).tags
        alive = reference.log_partition(*(part.detach() for part in wide)).isfinite()
        mask = given.mask & alive[:, None]
        losses = reference.negative_log_likelihood(wide[0], tags, mask, *wide[2:])
        expected = losses.mean() if mean else losses.sum()
        parts = [part for part in wide if part.requires_grad]
        upstream = torch.tensor(factor, dtype=dtype, device="cuda")
        gradients = torch.autograd.grad(expected, parts, upstream.double())
        scores = LatticeScores(given.emissions, mask, *free, illegal)
        total, each, finish = gpu.loss_and_gradients(scores, tags, mean=mean)
        close(total, expected.detach(), dtype=dtype)
        close(each, losses.detach(), dtype=dtype)
        for one, other, part in zip(finish(upstream), gradients, parts, strict=True):
            assert (one[part == -torch.inf] == 0).all()
            close(one, other.nan_to_num(nan=0.0), dtype=dtype)


def test_tensors_that_begin_anywhere_give_the_same_answers() -> None:
    given = case(9, 7, dtype=torch.float32)
    tags = gpu.viterbi(*given).tags
    expected = gpu.loss(given.emissions, tags, *given[1:])[0]
    moved = torch.empty(given.emissions.numel() + 1, device="cuda")[1:].view_as(given.emissions).copy_(given.emissions)
    for emissions in (moved, given.emissions, moved):
        assert torch.equal(gpu.loss(emissions, tags, *given[1:])[0], expected)


@pytest.mark.parametrize("spread", RANGES)
@pytest.mark.parametrize("size", SIZES)
def test_log_partition_and_marginals_are_those_of_the_reference(size: int, spread: float) -> None:
    for length, dtype in itertools.product(LENGTHS, BOTH):
        given = case(size, length, spread, dtype)
        log_z, _ = gpu.loss(given.emissions, None, *given[1:])
        close(log_z, reference.log_partition(*widened(given)), dtype=dtype)
        alive = log_z.isfinite()
        close(gpu.marginals(*given)[alive], reference.marginals(*widened(given))[alive], dtype=dtype)


@pytest.mark.parametrize("size", [*SIZES, 300])
def test_best_paths_are_those_of_the_reference_even_among_equals(size: int) -> None:
    for length in LENGTHS:
        given = case(size, length, 3.0)
        for rounded in (given, Case(*(part.round() if part.is_floating_point() else part for part in given))):
            tags, scores = gpu.viterbi(*rounded)
            expected = reference.viterbi(*rounded)
            assert torch.equal(tags, expected.tags)
            close(scores, expected.scores, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 9, 37, 65])
def test_the_same_uniforms_draw_the_same_paths(size: int) -> None:
    for length in LENGTHS:
        given = case(size, length)
        uniforms = torch.rand(4, 5, length, dtype=torch.float64, device="cuda")
        alive = reference.log_partition(*given).isfinite()
        drawn = gpu.sample(*given, uniforms)
        assert torch.equal(drawn[alive], reference.sample(*given, uniforms)[alive])


def test_the_k_best_paths_are_those_of_the_reference() -> None:
    given = case(5, 7)
    found, expected = gpu.nbest(*given, 4), reference.nbest(*given, 4)
    assert torch.equal(found.tags, expected.tags)
    close(found.scores, expected.scores, dtype=torch.float64)


def test_a_tag_out_of_range_costs_infinitely_much() -> None:
    given = case(9, 7)
    for wrong in (-1, 9, -100):
        losses, _ = gpu.loss(given.emissions, torch.full((4, 7), wrong, device="cuda"), *given[1:])
        assert losses.tolist() == [torch.inf, 0, torch.inf, torch.inf]


def test_gradients_are_finite_where_no_path_is_legal() -> None:
    given = case(9, 7, dtype=torch.float32)
    closed = given._replace(end=torch.full_like(given.end, -torch.inf))
    log_z, saved = gpu.loss(closed.emissions, None, *closed[1:])
    assert log_z.tolist() == [-torch.inf, 0, -torch.inf, -torch.inf]
    for gradient in gpu.loss_backward(torch.ones(4, device="cuda"), saved, closed.emissions, None, *closed[1:]):
        assert (gradient == 0).all()


def test_float32_transition_gradients_do_not_drift_and_have_the_same_bits_twice() -> None:
    torch.manual_seed(0)
    mask = torch.arange(512) < torch.randint(128, 513, (32, 1))
    parts = [torch.randn(32, 512, 9), mask, torch.randn(9, 9), torch.randn(9), torch.randn(9)]
    given = Case(*(part.cuda() for part in parts))
    tags = torch.randint(9, (32, 512), device="cuda")
    wide = [part.requires_grad_(part.is_floating_point()) for part in widened(given)]
    expected = reference.negative_log_likelihood(wide[0], tags, *wide[1:]).sum()
    (gradient,) = torch.autograd.grad(expected, wide[2])
    _, saved = gpu.loss(given.emissions, tags, *given[1:])
    ones = torch.ones(32, device="cuda")
    once, again = (gpu.loss_backward(ones, saved, given.emissions, tags, *given[1:]) for _ in range(2))
    assert (once.transitions - gradient).abs().max() < 1e-4
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


def test_loss_gradients_and_decoding_run_in_a_cuda_graph() -> None:
    given = case(9, 63, dtype=torch.float32)
    tags = gpu.viterbi(*given).tags

    def everything() -> list[Tensor]:
        losses, saved = gpu.loss(given.emissions, tags, *given[1:])
        gradients = gpu.loss_backward(torch.ones_like(losses), saved, given.emissions, tags, *given[1:])
        return [losses, *gradients, *gpu.viterbi(*given)]

    everything()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = everything()
    given.emissions.mul_(2)
    graph.replay()
    for one, other in zip(captured, everything(), strict=True):
        assert torch.equal(one, other)


def test_one_long_sequence_works() -> None:
    torch.manual_seed(0)
    emissions = torch.randn(1, 100_000, 5, device="cuda") * 100
    mask = torch.ones(1, 100_000, dtype=torch.bool, device="cuda")
    apart = torch.zeros(5, 5, device="cuda").fill_diagonal_(-torch.inf)
    free = torch.zeros(5, device="cuda")
    tags, score = gpu.viterbi(emissions, mask, apart, free, free)
    assert (tags[:, 1:] != tags[:, :-1]).all()
    loss, saved = gpu.loss(emissions, tags, mask, apart, free, free)
    gradients = gpu.loss_backward(torch.ones_like(loss), saved, emissions, tags, mask, apart, free, free)
    assert loss > 0
    assert loss < 1e-3 * score
    # Marginals sum to one, less the gold tag's one; and every path has 99,999 steps.
    assert gradients.emissions.sum(2).abs().max() < 1e-5
    assert gradients.transitions.sum().abs() < 1e-2


def test_no_rows_give_no_losses_and_zero_gradients() -> None:
    empty = case(5, 7)
    empty = empty._replace(emissions=empty.emissions[:0], mask=empty.mask[:0])
    losses, saved = gpu.loss(empty.emissions, None, *empty[1:])
    assert losses.shape == (0,)
    gradients = gpu.loss_backward(losses, saved, empty.emissions, None, *empty[1:])
    assert (gradients.transitions == 0).all()
    assert gpu.viterbi(*empty).tags.shape == (0, 7)


def test_notices_of_more_losses_than_there_is_room_for_all_arrive() -> None:
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO").cuda()
    emissions = torch.zeros(2, 4, 3, device="cuda", requires_grad=True)
    legal = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 0]], device="cuda")
    illegal = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]], device="cuda")
    gold = [illegal if number == 150 else legal for number in range(200)]

    def losses() -> None:
        for tags in gold:
            crf(emissions, tags)
        torch.cuda.synchronize()
        crf(emissions, legal)

    with pytest.raises(IllegalPathError, match="row 1, position 3: gold steps from O to I-X"):
        losses()
    torch.cuda.synchronize()
    crf(emissions, legal)  # all but this one's are free again
    room = len(deferred_errors._flag_pool)
    for _ in range(100):
        crf(emissions, legal)
        torch.cuda.synchronize()
    assert len(deferred_errors._flag_pool) == room


def test_a_loss_over_no_rows_leaves_nothing_to_wait_for() -> None:
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO").cuda()
    none = torch.zeros(0, 4, 3, device="cuda", requires_grad=True)
    assert crf(none, torch.zeros(0, 4, dtype=torch.long, device="cuda"), reduction="sum").item() == 0.0
    crf.decode_tensor(none)
    torch.cuda.synchronize()
    crf.decode_tensor(none)
    assert len(crf._deferred._waiting) == 1
