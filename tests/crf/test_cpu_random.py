"""The CPU engine on random small lattices of every awkward kind, against all their paths and the reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from oracle import Lattice

from maskedcrf.crf import cpu, reference
from maskedcrf.crf.scores import LatticeScores

ACCURACY = {torch.float64: 1e-9, torch.float32: 1e-5}


def draw(seed: int, dtype: torch.dtype) -> tuple:
    """Emissions, mask with holes and empty rows, parameters; some rows far out of range, some tags dead."""
    generator = np.random.default_rng(seed)
    rows, length, size = (int(generator.integers(low, high)) for low, high in ((1, 7), (0, 6), (1, 5)))
    scales = generator.choice([1.0, 30.0, 300.0, 1e4], size=(rows, 1, 1))
    emissions = torch.from_numpy(generator.uniform(-1, 1, (rows, length, size)) * scales).to(dtype)
    mask = torch.from_numpy(generator.random((rows, length)) < 0.8) & torch.from_numpy(
        generator.random((rows, 1)) < 0.9
    )
    scale = generator.choice([1.0, 150.0])
    parameters = [
        torch.from_numpy(generator.uniform(-scale, scale, shape)).to(dtype)
        for shape in ((size, size), (size,), (size,))
    ]
    for scores, share in zip(parameters, (0.4, 0.2, 0.2), strict=True):
        scores[torch.from_numpy(generator.random(tuple(scores.shape)) < share)] = -torch.inf
    if seed % 5 == 0:  # a tag that no path can use
        parameters[0][:, 0] = parameters[1][0] = -torch.inf
    if seed % 7 == 0:  # no tag may begin: no path at all
        parameters[1][:] = -torch.inf
    emissions[torch.from_numpy(generator.random(emissions.shape) < 0.05)] = -torch.inf
    return emissions.masked_fill(~mask[..., None], torch.nan), mask, *parameters


def list_paths(emissions: torch.Tensor, on: torch.Tensor, parameters: list[torch.Tensor]) -> Lattice:
    """All paths of one row, by the oracle."""
    scores = [one.double().numpy() for one in parameters]
    legal = [one > -np.inf for one in scores]
    given = emissions[on].double().numpy()
    finite = [np.where(ok, one, 0.0) for one, ok in zip(scores, legal, strict=True)]
    return Lattice(np.where(given > -np.inf, given, 0.0), *finite, *legal, given > -np.inf)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_sum_and_best_path_is_that_of_all_paths(dtype: torch.dtype) -> None:
    accuracy = ACCURACY[dtype]
    for seed in range(150):
        emissions, mask, *parameters = draw(seed, dtype)
        log_z = cpu.loss(emissions, None, mask, *parameters)[0]
        shares, entropies = (ask(emissions, mask, *parameters) for ask in (cpu.marginals, cpu.entropy))
        best = cpu.viterbi(emissions, mask, *parameters)
        for row, on in enumerate(mask):
            lattice = list_paths(emissions[row], on, parameters)
            if not len(lattice.paths):
                assert log_z[row] == best.scores[row] == -torch.inf, seed
                assert (shares[row] == 0).all(), seed
                continue
            np.testing.assert_allclose(
                log_z[row], lattice.log_partition, rtol=accuracy, atol=accuracy, err_msg=str(seed)
            )
            np.testing.assert_allclose(shares[row][on], lattice.marginals(), atol=10 * accuracy, err_msg=str(seed))
            np.testing.assert_allclose(entropies[row], lattice.entropy(), atol=10 * accuracy, err_msg=str(seed))
            np.testing.assert_allclose(best.scores[row], lattice.scores.max(), rtol=1e-12, err_msg=str(seed))
            assert (shares[row][~on] == 0).all()
            assert (best.tags[row][~on] == reference.PAD).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_losses_and_all_gradients_are_those_of_the_reference(dtype: torch.dtype) -> None:
    accuracy = 100 * ACCURACY[dtype]
    for seed in range(150):
        emissions, mask, *parameters = draw(seed, dtype)
        tags = reference.viterbi(
            emissions.double().nan_to_num(neginf=-torch.inf), mask, *(p.double() for p in parameters)
        )
        paths = cpu.loss(emissions, None, mask, *parameters)[0] > -torch.inf
        _, losses, finish = cpu.loss_and_gradients(LatticeScores(emissions, mask, *parameters), tags.tags, mean=False)
        inputs = [one.double().requires_grad_() for one in (emissions.masked_fill(~mask[..., None], 0), *parameters)]
        expected = reference.negative_log_likelihood(inputs[0], tags.tags, mask, *inputs[1:])
        torch.testing.assert_close(losses[paths].double(), expected[paths], rtol=accuracy, atol=accuracy * 10)
        if not paths.all():
            continue
        true = torch.autograd.grad(expected.sum(), inputs, materialize_grads=True)
        for found, other, scores in zip(finish(torch.ones(())), true, inputs, strict=True):
            clean = other.masked_fill(scores.detach() == -torch.inf, 0)
            torch.testing.assert_close(found.double(), clean, rtol=accuracy, atol=accuracy, msg=f"seed {seed}")


def test_a_row_has_the_same_answers_to_the_bit_alone_and_in_any_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    emissions = (
        torch.randn(40, 30, 9, generator=generator) * torch.tensor([1.0, 5.0, 400.0, 1.0]).repeat(10)[:, None, None]
    )
    mask = torch.rand(40, 30, generator=generator) < torch.rand(40, 1, generator=generator)
    parameters = [torch.randn(*shape, generator=generator) for shape in ((9, 9), (9,), (9,))]
    weights = torch.rand(40, generator=generator)
    order = torch.randperm(40, generator=generator)

    def answers(rows: torch.Tensor) -> list[torch.Tensor]:
        lattice = emissions[rows], mask[rows], *parameters
        losses, saved = cpu.loss(lattice[0], None, *lattice[1:])
        d_emissions = cpu.loss_backward(weights[rows], saved, lattice[0], None, *lattice[1:])[0]
        return [losses, d_emissions, cpu.marginals(*lattice), cpu.entropy(*lattice), *cpu.viterbi(*lattice)]

    together = answers(torch.arange(40))
    shuffled = answers(order)
    for one, other in zip(together, shuffled, strict=True):
        assert torch.equal(one[order], other)
    for row in range(40):
        for one, other in zip(together, answers(torch.tensor([row])), strict=True):
            assert torch.equal(one[row], other[0])


@pytest.mark.parametrize("scale", [3.0, 1e4])
def test_all_likely_segments_of_a_batch_are_those_of_the_reference(scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    rows, length, size = 9, 12, 5
    emissions = torch.empty(rows, length, size, dtype=torch.float64).uniform_(-scale, scale, generator=generator)
    mask = torch.rand(rows, length, generator=generator) < 0.8
    mask[2] = False
    parameters = [torch.randn(*shape, generator=generator).double() for shape in ((size, size), (size,), (size,))]
    parameters[0][0, 2] = parameters[0][3, 2] = -torch.inf
    members = torch.tensor([[0, 1, 1, 0, 0], [0, 0, 0, 1, 1]]).bool()  # O, B-X, I-X, B-Y, I-Y
    continues = torch.zeros(size, size).bool()
    continues[[1, 2, 3, 4], [2, 2, 4, 4]] = True
    every = [
        (row, first, beyond, kind)
        for row, count in enumerate(mask.sum(1).tolist())
        for first, beyond in itertools.combinations(range(count + 1), 2)
        for kind in range(2)
    ]
    candidates = torch.tensor(every)
    chances = reference.span_probability(
        emissions, mask, *parameters, candidates[:, :3], members[candidates[:, 3]], continues
    )
    for threshold in (0.0, 0.05, 0.3):
        wanted = (chances >= threshold) & (chances > 0)
        where, found = cpu.likely_spans(emissions, mask, *parameters, members, continues, threshold=threshold)
        sure = (chances > 1e-200) & wanted  # what is less likely may be 0 here
        kept = found > 1e-200
        order = torch.tensor(
            sorted(range(len(every)), key=lambda n: (every[n][0], every[n][2], every[n][3], every[n][1]))
        )
        np.testing.assert_array_equal(where[kept], candidates[order][sure[order]])
        np.testing.assert_allclose(found[kept], chances[order][sure[order]], rtol=1e-9)


def test_no_rows_and_no_positions_have_answers() -> None:
    parameters = [torch.zeros(3, 3), torch.zeros(3), torch.zeros(3)]
    for rows, length in ((0, 4), (2, 0), (0, 0)):
        emissions, mask = torch.zeros(rows, length, 3), torch.ones(rows, length, dtype=torch.bool)
        assert cpu.loss(emissions, None, mask, *parameters)[0].tolist() == [0.0] * rows
        assert cpu.marginals(emissions, mask, *parameters).shape == emissions.shape
        assert cpu.entropy(emissions, mask, *parameters).tolist() == [0.0] * rows
        assert cpu.viterbi(emissions, mask, *parameters).scores.tolist() == [0.0] * rows
        assert cpu.nbest(emissions, mask, *parameters, 2).scores.tolist() == [[0.0, -torch.inf]] * rows
        assert cpu.sample(emissions, mask, *parameters, torch.rand(rows, 1, length)).shape == (rows, 1, length)
        types = torch.ones(1, 3).bool(), torch.zeros(3, 3).bool()
        assert len(cpu.likely_spans(emissions, mask, *parameters, *types)[1]) == 0
