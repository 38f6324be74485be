"""No illegal path, ever: every scheme and dtype, emissions up to +-1e4, start and end included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lattice_strategies import device

from maskedcrf import Constraints, MaskedCRF, Scheme
from maskedcrf.tags.scheme import SCHEMES

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def _illegal_paths(backend: str, decodes: int, seed: int) -> int:
    """Decode about this many random rows, over all schemes and dtypes, and count the illegal ones."""
    illegal, combinations = 0, [(name, dtype) for name in sorted(SCHEMES) for dtype in DTYPES]
    rows = -(-decodes // (2 * len(combinations)))
    generator = torch.Generator().manual_seed(seed)
    for name, dtype in combinations:
        rules = Constraints.from_scheme(Scheme.get(name).tags(["PER", "LOC"]), name)
        for scale in (5.0, 1e4):
            crf = MaskedCRF(rules, backend=backend).to(device(backend))
            torch.nn.init.uniform_(crf.transitions, -scale, scale)
            emissions = (torch.rand(rows, 7, len(rules), generator=generator) * 2 - 1) * scale
            mask = torch.rand(rows, 7, generator=generator) < 0.8
            paths = crf.decode_tensor(emissions.to(device(backend), dtype), mask.to(device(backend)), pad=-1)
            illegal += _count_illegal(paths.cpu().numpy(), rules)
    return illegal


def _count_illegal(paths: np.ndarray, rules: Constraints) -> int:
    """Walk each row over its labelled positions; -1 is not labelled."""
    bad = np.zeros(len(paths), bool)
    previous = np.full(len(paths), -1)
    for column in paths.T:
        on = column >= 0
        first, later = on & (previous < 0), on & (previous >= 0)
        bad[first] |= ~rules.start[column[first]]
        bad[later] |= ~rules.legal[previous[later], column[later]]
        previous = np.where(on, column, previous)
    ended = previous >= 0
    bad[ended] |= ~rules.end[previous[ended]]
    return int(bad.sum())


def test_the_counter_sees_illegal_paths() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")
    paths = np.array([[2, 3, -1], [0, -1, 2], [1, -1, -1], [1, -1, 3], [-1, -1, -1]])
    assert _count_illegal(paths, rules) == 3


def test_20_000_random_decodes_are_legal(backend: str) -> None:
    assert _illegal_paths(backend, 20_000, seed=1) == 0


@pytest.mark.slow
def test_1_000_000_random_decodes_are_legal() -> None:
    assert _illegal_paths("auto", 1_000_000, seed=2) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_that_beat_any_finite_constant_still_decode_legally(backend: str, dtype: torch.dtype) -> None:
    highest = torch.finfo(dtype).max / 8
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO", backend=backend).to(device(backend))
    emissions = torch.zeros(1, 3, 3, dtype=dtype)
    emissions[..., 2] = highest
    assert crf.decode(emissions.to(device(backend))) == [[1, 2, 2]]


def test_unmasked_layers_do_go_illegal_on_the_same_input() -> None:
    crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO", mask="off")
    emissions = torch.tensor([[[0.0, 0.0, 9.0]]])
    assert crf.decode(emissions) == [[2]]
    assert MaskedCRF(crf.constraints).decode(emissions) != [[2]]
