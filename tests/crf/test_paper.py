"""The paper's own statements: Proposition 1, Figure 1, Figure 2, the three variants."""

from __future__ import annotations

import pytest
import torch
from lattice_strategies import case

from maskedcrf import Constraints, MaskedCRF

FIGURE_1 = ["O", "B-ORG", "I-ORG", "B-MISC", "I-MISC"]
WORDS = "The Briton who lost his World Boxing Council title".split()
CRF_PATH = "O B-MISC O O O B-MISC I-ORG I-ORG O".split()
MCRF_PATH = "O B-MISC O O O B-MISC I-MISC I-MISC O".split()


def _figure_1(mask: str) -> tuple[MaskedCRF, torch.Tensor]:
    """Emissions that like the CRF's path best, and the legal one next."""
    crf = MaskedCRF(FIGURE_1, scheme="BIO", mask=mask)
    torch.nn.init.zeros_(crf.transitions)
    torch.nn.init.zeros_(crf.start_transitions)
    torch.nn.init.zeros_(crf.end_transitions)
    emissions = torch.zeros(1, len(WORDS), len(FIGURE_1))
    for position, (first, second) in enumerate(zip(CRF_PATH, MCRF_PATH, strict=True)):
        emissions[0, position, FIGURE_1.index(second)] = 3.0
        emissions[0, position, FIGURE_1.index(first)] = 4.0
    return crf, emissions


def test_figure_1_the_crf_goes_illegal_and_the_masked_crf_does_not() -> None:
    decoded = {}
    for mask in ("off", "decode", "train"):
        crf, emissions = _figure_1(mask)
        decoded[mask] = [FIGURE_1[tag] for tag in crf.decode(emissions)[0]]
    assert decoded == {"off": CRF_PATH, "decode": MCRF_PATH, "train": MCRF_PATH}


def test_figure_2_prints_as_in_the_paper() -> None:
    tags = ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER"]
    masked = [(1, 3), (1, 5), (1, 7), (2, 5), (2, 7), (3, 5), (3, 7), (4, 3), (4, 7), (5, 3), (5, 7)]
    masked += [(6, 3), (6, 5), (7, 3), (7, 5)]  # the red cells a_ij of the figure
    rows = str(Constraints.from_scheme(tags, "BIO")).splitlines()[2:]
    printed = [(i, j) for i, row in enumerate(rows, 1) for j, cell in enumerate(row.split()[1:8], 1) if cell == "x"]
    assert printed == masked


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IOB1"])
def test_proposition_1_a_constant_mask_tends_to_exclusion(scheme: str) -> None:
    """Algorithm 1's constant c, in loss and in every gradient, on steps, starts and ends alike."""
    drawn = case(13, scheme, types=2)
    drawn.mask[:, :4] = True
    drawn.emissions = drawn.emissions.nan_to_num(0.5)
    gold = drawn.gold()

    def loss_and_gradients(mode: str, constant: float | None) -> list[torch.Tensor]:
        crf = drawn.layer("reference", mode)
        emissions = drawn.emissions.clone().requires_grad_()
        if constant is not None:
            with torch.no_grad():
                crf.transitions[crf.illegal] = constant
                crf.start_transitions[crf.illegal_start] = constant
                crf.end_transitions[crf.illegal_end] = constant
        loss = crf(emissions, gold, drawn.mask)
        loss.backward()
        return [loss.detach(), emissions.grad, *(parameter.grad for parameter in crf.parameters())]

    exact = loss_and_gradients("train", None)
    gaps = []
    for constant in (-5.0, -20.0, -80.0):
        found = loss_and_gradients("off", constant)
        gaps.append(max((a - b).abs().max().item() for a, b in zip(found, exact, strict=True)))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[0] > 1e-6  # the constant is visible at first,
    assert gaps[2] < 1e-12  # and gone in the limit


def test_a_finite_constant_breaks_where_exclusion_holds() -> None:
    """Why -10000 is not a mask: emissions of 30000 walk over it."""
    tags = ["O", "B-X", "I-X"]
    emissions = torch.tensor([[[0.0, 0.0, 3e4], [0.0, 0.0, 3e4]]])
    broken = MaskedCRF(tags, scheme="BIO", mask="off")
    with torch.no_grad():
        broken.start_transitions[2] = broken.transitions[0, 2] = -1e4
    assert broken.decode(emissions) == [[2, 2]]
    assert MaskedCRF(tags, scheme="BIO").decode(emissions) == [[1, 2]]


def test_masking_in_training_lowers_the_loss_of_legal_gold() -> None:
    """L' <= L for equal weights: the normaliser sums fewer paths."""
    drawn = case(3, "BIOES", types=2)
    gold = drawn.gold()
    masked, decode, off = (
        drawn.layer("reference", mode)(drawn.emissions, gold, drawn.mask) for mode in ("train", "decode", "off")
    )
    assert masked < decode
    assert decode == off
