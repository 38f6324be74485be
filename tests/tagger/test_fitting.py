"""Fitting on a frozen encoder: optima by their own equations, temperature by hand, and a choice that holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from maskedcrf import Constraints, MaskedCRF
from maskedcrf.errors import DataError
from maskedcrf.tagger.fitting import f1_gain, f1_of, fit_lattice
from maskedcrf.tagger.lattice import Example, LatticeScorer, Recipe, golden_section, make_batches
from maskedcrf.tags.segments import read_paths

TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def zero_crf(tags: list[str] = TAGS) -> MaskedCRF:
    crf = MaskedCRF(Constraints.from_scheme(tags, "BIO"))
    for scores in crf.parameters():
        torch.nn.init.zeros_(scores)
    return crf


def example(crf: MaskedCRF, emissions: torch.Tensor, path: list[int]) -> Example:
    (gold,) = read_paths([path], crf.tags, crf.constraints.scheme)
    return Example(emissions, torch.tensor(path), frozenset(gold))


def sampled(
    crf: MaskedCRF, sentences: int, *, strength: float, noise: float, seed: int = 0, outside: float = 1.0
) -> list[Example]:
    """Paths drawn from a chain that prefers to continue, and scores that show them through noise."""
    generator = torch.Generator().manual_seed(seed)
    chain = zero_crf()
    with torch.no_grad():
        chain.transitions[1, 2] = chain.transitions[3, 4] = 3.0
        chain.start_transitions[0] = chain.transitions[0, 0] = outside
    found = []
    for length in torch.randint(3, 12, (sentences,), generator=generator).tolist():
        path = chain.sample(torch.zeros(1, length, len(TAGS)), generator=generator)[0, 0].tolist()
        strong = torch.nn.functional.one_hot(torch.tensor(path), len(TAGS)) * strength
        found.append(example(crf, strong + noise * torch.randn(length, len(TAGS), generator=generator), path))
    return found


@pytest.mark.parametrize("parts", [("bias",), ("bias", "transitions", "start", "end"), ("scale", "transitions")])
def test_at_the_optimum_expected_counts_are_those_of_the_gold_less_the_penalty(parts):
    crf = zero_crf()
    examples = sampled(crf, 60, strength=2.0, noise=1.0)
    scorer = LatticeScorer(crf)
    lattice = scorer.fit(make_batches(examples), Recipe("any", parts, 5.0), scorer.base)
    fitted = zero_crf().double()
    with torch.no_grad():
        fitted.transitions.copy_(lattice.transitions)
        fitted.start_transitions.copy_(lattice.start)
        fitted.end_transitions.copy_(lattice.end)
    surplus = {"bias": torch.zeros(len(TAGS)).double(), "scale": torch.zeros(()).double()}
    for emissions, tags, _ in examples:
        marginals = fitted.marginals((emissions.double() * lattice.scale + lattice.bias)[None])[0]
        gold = torch.nn.functional.one_hot(tags, len(TAGS))
        surplus["bias"] += (gold - marginals).sum(0)
        surplus["scale"] += ((gold - marginals) * emissions).sum()
    base = {"bias": torch.zeros(len(TAGS)), "scale": torch.ones(())}
    for name in set(parts) & set(surplus):
        penalty = 5.0 * (torch.as_tensor(getattr(lattice, name)).double() - base[name])
        torch.testing.assert_close(surplus[name], penalty, atol=0.6, rtol=0)


def test_what_a_recipe_does_not_name_stays_as_it_was():
    crf = zero_crf()
    scorer = LatticeScorer(crf)
    lattice = scorer.fit(
        make_batches(sampled(crf, 40, strength=1.0, noise=1.0)), Recipe("b", ("bias",), 1.0), scorer.base
    )
    assert lattice.scale == 1.0
    assert not lattice.transitions.any()
    assert lattice.bias.any()


def test_temperature_is_the_one_found_by_hand():
    """Scores 3 apart, right 8 times of 10: sigmoid(3 / T) must be 0.8."""
    crf = zero_crf(["O", "B-X"])
    scores = torch.tensor([[3.0, 0.0]])
    examples = [example(crf, scores, [0]) for _ in range(8)] + [example(crf, scores, [1]) for _ in range(2)]
    scorer = LatticeScorer(crf)
    found = scorer.temperature([(scorer.base, make_batches(examples))])
    assert found == pytest.approx(3 / math.log(0.8 / 0.2), rel=5e-3)


def test_a_temperature_changes_no_best_path():
    crf = zero_crf()
    batches = make_batches(sampled(crf, 50, strength=1.0, noise=2.0))
    scorer = LatticeScorer(crf)
    lattice = scorer.fit(batches, Recipe("t", ("bias", "transitions", "start", "end"), 1.0), scorer.base)
    for batch in batches:
        assert scorer.segments(lattice, batch) == scorer.segments(lattice.divided_by(3.7), batch)


def test_golden_section_finds_the_bottom_of_a_valley():
    assert golden_section(lambda x: (x - 0.3) ** 2, -2, 5, width=1e-6) == pytest.approx(0.3, abs=1e-5)


def test_f1_and_its_gain_by_hand_and_by_jackknife():
    counts = np.array([[1, 2, 1], [0, 1, 1], [2, 2, 3]])
    assert f1_of(counts) == pytest.approx(100 * 2 * 3 / (5 + 5))
    generator = np.random.default_rng(0)
    gold = generator.integers(1, 4, 200)
    sides = [np.column_stack((generator.binomial(gold, share), gold, gold)) for share in (0.7, 0.6)]
    gain, error = f1_gain(*sides)
    left_out = [f1_of(np.delete(sides[0], n, 0)) - f1_of(np.delete(sides[1], n, 0)) for n in range(200)]
    assert gain == pytest.approx(f1_of(sides[0]) - f1_of(sides[1]))
    assert error == pytest.approx(np.sqrt(199 / 200 * ((left_out - np.mean(left_out)) ** 2).sum()), rel=0.02)


def test_transitions_are_fitted_where_they_help():
    crf = zero_crf()
    examples = sampled(crf, 300, strength=1.0, noise=1.5)
    lattice, fit = fit_lattice(crf, examples)
    assert fit.chosen != "mask only"
    assert fit.candidates[0].recipe == "mask only"
    chosen = next(each for each in fit.candidates if each.recipe == fit.chosen)
    assert chosen.gain > chosen.gain_error
    fresh = sampled(crf, 300, strength=1.0, noise=1.5, seed=1)
    scorer = LatticeScorer(crf)
    gold = [each.gold for each in fresh]
    batches = make_batches(fresh)
    before, after = (f1_of(scorer.count(each, batches, gold)[0]) for each in (scorer.base, lattice))
    assert after > before
    assert fit.fitted.error < fit.mask_only.error


def test_the_mask_alone_stays_where_nothing_can_be_gained():
    crf = zero_crf()
    examples = sampled(crf, 100, strength=50.0, noise=1.0)
    lattice, fit = fit_lattice(crf, examples)
    assert fit.chosen == "mask only"
    assert not lattice.transitions.any()
    assert [each.f1 for each in fit.candidates[:1]] == [100.0]


def test_sentences_whose_gold_the_model_cannot_express_are_scored_but_not_fitted():
    crf = zero_crf()
    examples = sampled(crf, 60, strength=1.0, noise=1.0)
    odd = [each._replace(tags=None) for each in examples[:5]]
    _, fit = fit_lattice(crf, odd + examples[5:])
    assert (fit.sentences, fit.inexpressible) == (60, 5)


def test_the_same_seed_gives_the_same_choice_and_the_callers_random_numbers_are_left_alone():
    crf = zero_crf()
    examples = sampled(crf, 60, strength=1.0, noise=1.0)
    before = torch.random.get_rng_state()
    first, second = (fit_lattice(crf, examples)[1] for _ in range(2))
    assert first == second
    assert torch.equal(before, torch.random.get_rng_state())


def test_too_little_gold_is_refused():
    crf = zero_crf()
    with pytest.raises(DataError, match="20 labelled sentences or more, got 3"):
        fit_lattice(crf, sampled(crf, 3, strength=1.0, noise=1.0))
    outside = [example(crf, torch.zeros(3, len(TAGS)), [0, 0, 0]) for _ in range(30)]
    with pytest.raises(DataError, match="no sentence has an entity"):
        fit_lattice(crf, outside)
