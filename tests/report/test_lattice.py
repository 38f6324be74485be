"""The lattice as data and as a picture, against paths listed one by one."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskedcrf import MaskedCRF
from maskedcrf.report.lattice import draw, lattice

TAGS = ["O", "B-PER", "I-PER"]
LEGAL = np.array([[True, True, False], [True, True, True], [True, True, True]])
START = np.array([True, True, False])
ANY = np.ones(3, dtype=bool)


def crf_with(seed: int, mask: str = "train") -> MaskedCRF:
    torch.manual_seed(seed)
    crf = MaskedCRF(TAGS, scheme="BIO", mask=mask)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def listed(crf: MaskedCRF, emissions: torch.Tensor, *, masked: bool) -> oracle.Lattice:
    scores = [part.detach().double().numpy() for part in (crf.transitions, crf.start_transitions, crf.end_transitions)]
    rules = (LEGAL, START, ANY) if masked else (np.ones((3, 3), dtype=bool), ANY, ANY)
    return oracle.Lattice(emissions.double().numpy(), *scores, *rules, np.ones(emissions.shape, dtype=bool))


@given(seed=st.integers(0, 10_000), length=st.integers(1, 5), mask=st.sampled_from(["train", "decode", "off"]))
def test_a_lattice_holds_what_listing_the_paths_gives(seed: int, length: int, mask: str) -> None:
    crf = crf_with(seed, mask)
    emissions = 3 * torch.randn(length, 3)
    found = lattice(crf, emissions, ["w"] * length, nbest=4)
    legal, every = (listed(crf, emissions, masked=masked) for masked in (True, False))
    order = np.argsort(-legal.scores)[:4]
    assert found.path == tuple(legal.paths[order[0]])
    best = every.paths[np.argmax(every.scores)] if mask != "train" else emissions.argmax(1).tolist()
    assert found.comparison_path == tuple(best)
    assert found.comparison == ("per_token" if mask == "train" else "unmasked")
    np.testing.assert_allclose([one.probability for one in found.nbest], legal.probabilities[order], rtol=1e-4)
    share = np.exp(legal.log_partition - every.log_partition)
    assert found.illegal_mass == (None if mask == "train" else pytest.approx(1 - share, abs=1e-5))
    sums = np.stack([legal.probabilities @ (legal.paths == tag) for tag in range(3)], axis=-1)
    np.testing.assert_allclose(found.marginals, sums, atol=1e-5)
    for one in found.entities:
        inside = [1] + [2] * (one.end - one.start - 1)
        same = (legal.paths[:, one.start : one.end] == inside).all(axis=1)
        if one.end < length:
            same &= legal.paths[:, one.end] != 2
        assert one.probability == pytest.approx(legal.probabilities[same].sum(), abs=1e-5)


def test_the_segments_are_those_of_the_path() -> None:
    emissions = torch.tensor([[0.0, 9, 0], [0, 0, 9], [9, 0, 0], [0, 9, 0]])
    found = lattice(crf_with(0), emissions, list("abcd"))
    assert [(one.start, one.end, one.type) for one in found.entities] == [(0, 2, "PER"), (3, 4, "PER")]


@pytest.mark.parametrize("mask", ["train", "off"])
def test_illegal_steps_are_named_with_the_sentence_s_edges(mask: str) -> None:
    crf = MaskedCRF(["O", "B-X", "E-X"], scheme="BIOES", mask=mask)
    torch.nn.init.zeros_(crf.transitions)
    found = lattice(crf, torch.tensor([[0.0, 0, 9], [9, 0, 0], [0, 9, 0]]), ["a", "b", "c"])
    assert [(step.position, step.previous, step.tag) for step in found.broken] == [
        (0, "start", "E-X"),
        (3, "B-X", "end"),
    ]
    assert found.path == (0, 0, 0)


@pytest.mark.parametrize("mask", ["train", "off"])
def test_fixed_tags_narrow_both_paths(mask: str) -> None:
    allowed = torch.ones(2, 3, dtype=torch.bool)
    allowed[1, :2] = False
    found = lattice(crf_with(1, mask), torch.zeros(2, 3), ["a", "b"], allowed=allowed)
    assert found.path == (1, 2)
    assert found.comparison_path[1] == 2


def test_a_sentence_without_tokens_has_an_empty_lattice() -> None:
    found = lattice(crf_with(0), torch.zeros(0, 3), [])
    assert (found.path, found.nbest, found.entities, found.comparison_path) == ((), (), (), ())
    ElementTree.fromstring(draw(found))


def test_the_layer_itself_and_the_random_numbers_are_left_alone() -> None:
    crf = crf_with(0, "off")
    state = torch.get_rng_state()
    lattice(crf, torch.zeros(2, 3), ["a", "b"])
    assert crf.mask_mode == "off"
    assert torch.equal(torch.get_rng_state(), state)


def test_the_picture_crosses_out_illegal_steps_and_escapes_what_it_shows() -> None:
    emissions = torch.tensor([[9.0, 0, 0], [0, 0, 9]])
    found = lattice(crf_with(0), emissions, ["<b>&", "x" * 40])
    assert "best tag per token" in draw(found)
    assert "the encoder alone" in draw(found, comparison="the encoder alone")
    picture = ElementTree.fromstring(draw(found))
    crosses = [part for part in picture.findall(".//{*}path") if part.get("class") == "cross"]
    assert len(crosses) == 2  # one in the lattice, one in its key
    assert "<b>&" in {part.text for part in picture.findall(".//{*}text")}
    assert not re.search("x{40}</text>", draw(found))


def test_of_many_tags_the_picture_shows_the_likeliest() -> None:
    tags = ["O", *(f"{prefix}-{kind}" for kind in "ABCDEFGHIJ" for prefix in "BI")]
    crf = MaskedCRF(tags, scheme="BIO")
    emissions = torch.zeros(2, len(tags))
    emissions[:, 19] = 9.0
    picture = draw(lattice(crf, emissions, ["a", "b"]), most_rows=5)
    assert picture.count('class="tag"') == 5
    assert ">B-J<" in picture
