"""The CPU backends on large shapes: exact at any range, whatever thread calls."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from maskedcrf.crf import cpu, matmul, reference, row_threads
from maskedcrf.crf.scores import ExcludedSteps, LatticeScores

BACKENDS = [pytest.param(cpu, id="cpu"), pytest.param(matmul, id="matmul")]


def _lattice(rows: int, length: int, size: int, *, masked: bool, scale: float = 1.0, dtype=torch.float64) -> tuple:
    """Emissions, legal gold tags, ragged mask, transitions, start, end; about half of all steps excluded if masked."""
    generator = torch.Generator().manual_seed(rows * length + size)
    emissions = torch.empty(rows, length, size).uniform_(-scale, scale, generator=generator).to(dtype)
    transitions, start, end = (torch.randn(*n, generator=generator).to(dtype) for n in ((size, size), (size,), (size,)))
    if masked:
        excluded = torch.rand(size, size, generator=generator) < 0.5
        transitions = transitions.masked_fill(excluded & ~torch.eye(size, dtype=torch.bool), -torch.inf)
        start = start.masked_fill((torch.rand(size, generator=generator) < 0.5) & (torch.arange(size) > 0), -torch.inf)
    lengths = torch.randint(length // 4, length + 1, (rows, 1), generator=generator)
    mask = torch.arange(length) < lengths
    uniforms = torch.rand(rows, 1, length, dtype=torch.float64, generator=generator)
    wide = (transitions.double(), start.double(), end.double())
    tags = reference.sample(torch.zeros(rows, length, size).double(), mask, *wide, uniforms)[:, 0]
    return emissions, tags, mask, transitions, start, end


def _true_gradients(
    upstream: torch.Tensor, emissions: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor, *parameters
):
    """Losses and gradients in float64 by differentiating the reference, zero on what is excluded."""
    inputs = [one.detach().double().clone().requires_grad_() for one in (emissions, *parameters)]
    losses = reference.negative_log_likelihood(inputs[0], tags, mask, *inputs[1:])
    found = torch.autograd.grad(losses, inputs, upstream.double())
    return losses.detach(), [
        one.masked_fill(part.detach() == -torch.inf, 0) for one, part in zip(found, inputs, strict=True)
    ]


def _gradients(backend, upstream: torch.Tensor, *lattice):
    losses, saved = backend.loss(*lattice)
    return losses, backend.loss_backward(upstream, saved, *lattice)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("scale", [1.0, 58.0, 250.0, 1e4])
@pytest.mark.parametrize("shape", [(1, 40, 33), (7, 30, 9), (9, 24, 37)])
def test_loss_and_gradients_are_exact_at_any_range(backend, masked: bool, scale: float, shape: tuple) -> None:
    lattice = _lattice(*shape, masked=masked, scale=scale)
    upstream = torch.linspace(-1, 2, shape[0], dtype=torch.float64)
    losses, found = _gradients(backend, upstream, *lattice)
    true_losses, true = _true_gradients(upstream, *lattice)
    torch.testing.assert_close(losses, true_losses, rtol=1e-6, atol=1e-9 * scale)
    for one, other in zip(found, true, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def _chunks(types: int) -> torch.Tensor:
    """Which steps BIO forbids, for O and B- and I- of each type: a block of steps and short lists."""
    inside = torch.arange(1 + 2 * types) % 2 == 0
    inside[0] = False
    before = torch.arange(1 + 2 * types)[:, None] - torch.arange(1 + 2 * types)
    return inside & ~((before == 0) | (before == -1))


@pytest.fixture(params=[False, True], ids=["one thread", "two threads"])
def two_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """However little the work is."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(row_threads, "_WORTH_A_THREAD", 1 if request.param else 2**62)
    yield request.param
    torch.set_num_threads(threads)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("shape", [(2, 12, 5), (3, 9, 9), (4, 1, 5), (8, 70, 21), (19, 40, 9), (9, 20, 45)])
@pytest.mark.parametrize(("mean", "factor"), [(True, 1.0), (False, 1.0), (True, 0.5)])
def test_loss_and_gradients_at_once_are_those_of_the_reference(
    shape: tuple, scale: float, mean: bool, factor: float, two_threads: bool
) -> None:
    emissions, _, mask, *parameters = _lattice(*shape, masked=False, scale=scale)
    mask[-1] = False
    emissions = emissions.masked_fill(~mask[..., None], torch.nan)
    edge = torch.zeros(shape[2], dtype=torch.bool)
    illegal = ExcludedSteps(_chunks(shape[2] // 2), edge.clone().index_fill(0, torch.tensor([2]), True), edge)
    legal = [part.masked_fill(out, -torch.inf) for part, out in zip(parameters, illegal, strict=True)]
    tags = reference.viterbi(emissions.nan_to_num(), mask, *legal).tags
    weight = torch.full((shape[0],), 1 / shape[0] if mean else 1.0, dtype=torch.float64)
    losses, true = _true_gradients(weight, emissions.nan_to_num(), tags, mask, *legal)
    total, each, finish = cpu.loss_and_gradients(LatticeScores(emissions, mask, *parameters, illegal), tags, mean=mean)
    torch.testing.assert_close(each, losses, rtol=1e-9, atol=1e-9 * scale)
    torch.testing.assert_close(total, (weight * losses).sum(), rtol=1e-9, atol=1e-9 * scale)
    found = finish(torch.tensor(factor))
    for one, other in zip(found, true, strict=True):
        torch.testing.assert_close(one, factor * other, rtol=1e-9, atol=1e-9)
    assert (found[1][illegal[0]] == 0).all()


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 12, 15, 16, 17, 24, 25, 31, 41])
def test_any_number_of_tags_in_either_precision(size: int, masked: bool, two_threads: bool) -> None:
    emissions, tags, mask, *parameters = _lattice(7, 18, size, masked=masked)
    emissions = emissions.float().double()  # so that both precisions are given the same
    weight = torch.ones(7, dtype=torch.float64)
    losses, true = _true_gradients(weight, emissions, tags, mask, *parameters)
    for dtype, accuracy in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        _, each, finish = cpu.loss_and_gradients(
            LatticeScores(emissions.to(dtype), mask, *parameters), tags, mean=False
        )
        torch.testing.assert_close(each.double(), losses, rtol=accuracy, atol=accuracy)
        for one, other in zip(finish(torch.ones(())), true, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=accuracy, atol=accuracy)


def test_rows_that_leave_the_range_do_not_touch_the_others(two_threads: bool) -> None:
    emissions, _, mask, *parameters = _lattice(6, 60, 9, masked=True, scale=2.0)
    emissions[1] *= 1e4
    emissions[4, :, 3:] = -torch.inf
    mask[2, 10:30] = False  # a gap is no end
    tags = reference.viterbi(emissions, mask, *parameters).tags
    true_losses, true = _true_gradients(torch.ones(6), emissions, tags, mask, *parameters)
    _, losses, finish = cpu.loss_and_gradients(LatticeScores(emissions, mask, *parameters), tags, mean=False)
    torch.testing.assert_close(losses, true_losses, rtol=1e-9, atol=1e-6)
    for one, other in zip(finish(torch.ones(())), true, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("turned", [False, True])
def test_paths_that_lead_nowhere_do_not_crowd_out_the_others(turned: bool, two_threads: bool) -> None:
    """Tag 2 is far ahead, but no start leads to it (turned: no end can be reached from it): the others are all."""
    length = 120
    emissions, _, mask, transitions, start, end = _lattice(4, length, 3, masked=False)
    emissions[..., 2] += 10.0
    start[2], transitions[:2, 2] = -torch.inf, -torch.inf
    if turned:
        transitions, start, end = transitions.T.contiguous(), end, start
    lattice = emissions, torch.zeros(4, length, dtype=torch.int64), mask, transitions, start, end
    true_losses, true = _true_gradients(torch.ones(4), *lattice)
    _, losses, finish = cpu.loss_and_gradients(LatticeScores(emissions, *lattice[2:]), lattice[1], mean=False)
    torch.testing.assert_close(losses, true_losses, rtol=1e-9, atol=1e-9)
    for one, other in zip(finish(torch.ones(())), true, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_float32_transition_gradient_of_long_rows_is_within_a_ten_thousandth(backend) -> None:
    lattice = _lattice(32, 512, 9, masked=False, scale=3.0, dtype=torch.float32)
    upstream = torch.ones(32)
    losses, found = _gradients(backend, upstream, *lattice)
    true_losses, true = _true_gradients(upstream, *lattice)
    torch.testing.assert_close(losses.double(), true_losses, rtol=1e-6, atol=0)
    assert (found[1].double() - true[1]).abs().max() < 1e-4
    assert (found[0].double() - true[0]).abs().max() < 1e-6


def _lost_on_both_ways() -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Emissions, mask and parameters of a row, its log Z, and the shares of its tags, from all the paths there are.

    The best path, all O, falls 800 nats behind from either end, 10 at a time: both ways lose it, and agree.
    """
    length, ends = 180, 80
    emissions = torch.zeros(1, length, 3, dtype=torch.float64)
    emissions[0, :ends, 1:] = torch.tensor([10.0, -20.0])
    emissions[0, ends:-ends, 1:] = -100.0
    emissions[0, -ends:, 1:] = torch.tensor([-20.0, 10.0])
    transitions = torch.full((3, 3), -torch.inf, dtype=torch.float64).fill_diagonal_(0)
    transitions[1, 2] = 0
    paths = torch.tensor([[0] * length] + [[1] * n + [2] * (length - n) for n in range(length + 1)])  # all there are
    scores = emissions[0].gather(1, paths.T).sum(0)
    shares = torch.einsum("p,ptd->td", scores.softmax(0), torch.nn.functional.one_hot(paths).double())
    mask, edges = torch.ones(1, length, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.float64)
    return [emissions, mask, transitions, *edges], scores.logsumexp(0), shares


@pytest.mark.parametrize("backend", BACKENDS)
def test_mass_lost_on_both_ways_is_noticed(backend) -> None:
    (emissions, *rest), log_z, shares = _lost_on_both_ways()
    assert backend.loss(emissions, None, *rest)[0].item() == pytest.approx(log_z)
    torch.testing.assert_close(backend.marginals(emissions, *rest)[0], shares)


def test_mass_lost_on_both_ways_is_noticed_where_loss_and_gradients_are_found_at_once(two_threads: bool) -> None:
    (emissions, mask, *parameters), log_z, shares = _lost_on_both_ways()
    rows = emissions.expand(4, -1, -1).contiguous(), mask.expand(4, -1)
    total, _, finish = cpu.loss_and_gradients(LatticeScores(*rows, *parameters), None, mean=True)
    torch.testing.assert_close(total, log_z)
    torch.testing.assert_close(finish(torch.ones(()))[0], shares.expand(4, -1, -1) / 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_positions_that_are_off_are_never_read(backend) -> None:
    emissions, tags, mask, *parameters = _lattice(6, 20, 9, masked=True)
    poisoned = emissions.masked_fill(~mask[..., None], torch.nan)
    wrong_tags = tags.masked_fill(~mask, 10**6)
    upstream = torch.ones(6, dtype=torch.float64)
    expected = _gradients(backend, upstream, emissions, tags, mask, *parameters)
    found = _gradients(backend, upstream, poisoned, wrong_tags, mask, *parameters)
    assert torch.equal(found[0], expected[0])
    assert all(torch.equal(one, other) for one, other in zip(found[1], expected[1], strict=True))
    assert torch.equal(
        backend.viterbi(poisoned, mask, *parameters).tags, backend.viterbi(emissions, mask, *parameters).tags
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(1, 7, 5), (6, 30, 9), (5, 12, 37), (4, 3, 170)])
def test_paths_are_those_of_the_reference(backend, shape: tuple) -> None:
    emissions, _, mask, *parameters = _lattice(*shape, masked=True, scale=3.0)
    mask = mask & (torch.rand(mask.shape, generator=torch.Generator().manual_seed(1)) < 0.8)
    uniforms = torch.rand(shape[0], 5, shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for rounded in (emissions, emissions.round()):  # rounded scores have ties
        found, true = (module.viterbi(rounded, mask, *parameters) for module in (backend, reference))
        assert torch.equal(found.tags, true.tags)
        assert torch.equal(found.scores, true.scores)
        found, true = (module.nbest(rounded, mask, *parameters, 3) for module in (backend, reference))
        exists = true.scores > -torch.inf
        assert torch.equal(found.scores, true.scores)
        assert torch.equal(found.tags[exists], true.tags[exists])
    drawn, true_draws = (module.sample(emissions, mask, *parameters, uniforms) for module in (backend, reference))
    assert torch.equal(drawn, true_draws)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scale", [3.0, 58.0, 250.0, 1e4])
@pytest.mark.parametrize("size", [5, 37])
def test_span_probabilities_are_those_of_the_reference_at_any_range(size: int, scale: float, threads: int) -> None:
    rows = 40
    emissions, _, mask, *parameters = _lattice(rows, 30, size, masked=True, scale=scale)
    generator = torch.Generator().manual_seed(1)
    mask[3] = False
    mask &= torch.rand(mask.shape, generator=generator) < 0.8
    lengths = mask.sum(1).tolist()
    spans = [(row, a, b) for row in range(rows) for a in range(lengths[row]) for b in range(a + 1, lengths[row] + 1)]
    index = torch.tensor(spans)[torch.rand(len(spans), generator=generator) < 0.3]
    kinds = torch.randint(3, (size,), generator=generator)
    member = torch.randint(3, (len(index), 1), generator=generator) == kinds
    continues = (kinds[:, None] == kinds) & (torch.rand(size, size, generator=generator) < 0.7)
    given = (emissions, mask, *parameters, index, member, continues)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = cpu.span_probability(*given)
    finally:
        torch.set_num_threads(before)
    expected = reference.span_probability(*given)
    assert (expected > 0).sum() > 20
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-200)


def test_a_certain_segment_has_a_probability_of_at_most_one() -> None:
    rows, size = 500, 41
    emissions = torch.randn(rows, 3, size, generator=torch.Generator().manual_seed(0))
    emissions[:, 1, 1] += 60
    member = torch.arange(size) == 1
    spans = torch.tensor([[row, 1, 2] for row in range(rows)])
    free = (torch.zeros(size, size), torch.zeros(size), torch.zeros(size))
    continues = torch.zeros(size, size, dtype=torch.bool)
    mask = torch.ones(rows, 3, dtype=torch.bool)
    found = cpu.span_probability(emissions, mask, *free, spans, member.expand(rows, -1), continues)
    assert found.max() == 1
    assert found.min() > 1 - 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gold_path_out_of_range_or_excluded_costs_infinitely_and_leaves_other_rows_alone(backend) -> None:
    emissions, tags, mask, *parameters = _lattice(5, 12, 9, masked=True)
    upstream = torch.ones(5, dtype=torch.float64)
    _, good = _gradients(backend, upstream, emissions, tags, mask, *parameters)
    spoilt = tags.clone()
    spoilt[2, 0] = 9
    losses, found = _gradients(backend, upstream, emissions, spoilt, mask, *parameters)
    assert losses[2] == torch.inf
    assert losses.isfinite().sum() == 4
    assert all(one.isfinite().all() for one in found)
    others = torch.tensor([0, 1, 3, 4])
    assert torch.equal(found[0][others], good[0][others])


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_without_positions_or_without_a_path(backend) -> None:
    emissions, _, mask, transitions, start, end = _lattice(5, 8, 9, masked=True)
    mask = mask.clone()
    mask[1] = False
    emissions[3, mask[3].nonzero()[0, 0]] = -torch.inf
    log_z, saved = backend.loss(emissions, None, mask, transitions, start, end)
    assert log_z[1] == 0
    assert log_z[3] == -torch.inf
    upstream = torch.ones(5, dtype=torch.float64)
    found = backend.loss_backward(upstream, saved, emissions, None, mask, transitions, start, end)
    assert all(one.isfinite().all() for one in found)
    assert (found[0][[1, 3]] == 0).all()
    assert backend.viterbi(emissions, mask, transitions, start, end).scores.tolist()[3] == -torch.inf


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_nan_at_a_labelled_position_is_seen_in_every_answer(backend) -> None:
    emissions, tags, mask, *parameters = _lattice(5, 8, 9, masked=False)
    emissions[2, 0, 4] = torch.nan
    losses, _ = backend.loss(emissions, tags, mask, *parameters)
    scores = backend.viterbi(emissions, mask, *parameters).scores
    assert losses.isnan().nonzero().tolist() == [[2]]
    assert scores.isnan().nonzero().tolist() == [[2]]


def test_one_sequence_of_a_hundred_thousand_tokens() -> None:
    emissions = torch.zeros(1, 100_000, 9)
    mask = torch.ones(1, 100_000, dtype=torch.bool)
    zeros = (torch.zeros(9, 9), torch.zeros(9), torch.zeros(9))
    losses, found = _gradients(cpu, torch.ones(1), emissions, torch.zeros(1, 100_000, dtype=torch.long), mask, *zeros)
    assert losses.item() == pytest.approx(100_000 * np.log(9), rel=1e-6)
    assert found[0][0, :, 1:].numpy() == pytest.approx(1 / 9, rel=1e-6)


def test_two_threads_at_once_get_the_same_answers_as_one() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        lattice = _lattice(64, 256, 9, masked=True)
        upstream = torch.ones(64, dtype=torch.float64)
        expected = _gradients(cpu, upstream, *lattice)
        found: list = [None] * 4

        def work(n: int) -> None:
            for _ in range(5):
                found[n] = _gradients(cpu, upstream, *lattice)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        torch.set_num_threads(before)
    for losses, gradients in found:
        assert torch.equal(losses, expected[0])
        assert all(torch.equal(one, other) for one, other in zip(gradients, expected[1], strict=True))


def test_the_number_of_threads_changes_no_loss() -> None:
    before = torch.get_num_threads()
    lattice = _lattice(64, 256, 9, masked=True)
    answers = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            answers.append(cpu.loss(*lattice)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*answers)


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_runs_where_processes_cannot_fork() -> None:
    assert _run("import os, numba, torch; del os.register_at_fork; import maskedcrf.crf.cpu; print('fine')") == "fine"


def test_a_forked_child_has_threads_of_its_own() -> None:
    """The parent forks while one of its threads hands out work, and so holds the lock of its pool."""
    code = """
import os, signal, torch
from maskedcrf.crf import cpu, row_threads
torch.set_num_threads(2)
given = (torch.zeros(64, 256, 9), torch.ones(64, 256, dtype=torch.bool), torch.zeros(9, 9), *torch.zeros(2, 9))
cpu.viterbi(*given)
lock = row_threads._pool()._shutdown_lock
lock.acquire()
child = os.fork()
if child == 0:
    signal.alarm(120)
    cpu.viterbi(*given)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    assert _run(code) == "0"


@pytest.mark.parametrize("threads", [1, 3])
def test_few_rows_of_many_tags_are_shared_out_and_decoded_as_the_reference_does(threads: int) -> None:
    emissions, _, mask, *parameters = _lattice(5, 90, 70, masked=True, scale=2.0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found, ranked = cpu.viterbi(emissions, mask, *parameters), cpu.nbest(emissions, mask, *parameters, 2)
    finally:
        torch.set_num_threads(before)
    expected = reference.viterbi(emissions, mask, *parameters)
    assert torch.equal(found.tags, expected.tags)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-12, atol=0)
    assert torch.equal(ranked.tags[:, 0], expected.tags)
