"""The same numbers as pytorch-crf where it is right; ours where it refuses or errs."""

from __future__ import annotations

import warnings

import pytest
import torch
import torchcrf

from maskedcrf import Constraints, MaskedCRF
from maskedcrf.compat.torchcrf import CRF


def _pair(batch_first: bool = False) -> tuple[torchcrf.CRF, CRF]:
    torch.manual_seed(4)
    theirs, ours = torchcrf.CRF(5, batch_first=batch_first).double(), CRF(5, batch_first=batch_first).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def _batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(T, B, D) emissions, tags and a right-padded mask."""
    torch.manual_seed(5)
    lengths = torch.tensor([7, 4, 1])
    mask = torch.arange(7)[:, None] < lengths[None, :]
    return torch.randn(7, 3, 5, dtype=torch.float64), torch.randint(5, (7, 3)), mask


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "token_mean"])
def test_log_likelihood_and_gradients_are_pytorch_crfs(reduction: str) -> None:
    emissions, tags, mask = _batch()
    gradients = []
    for crf in _pair():
        given = emissions.clone().requires_grad_()
        found = crf(given, tags, mask=mask, reduction=reduction)
        (found * torch.linspace(1, 2, found.numel()).view(found.shape)).sum().backward()
        gradients.append([found.detach(), given.grad, *(parameter.grad for parameter in crf.parameters())])
    for theirs, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_decode_is_pytorch_crfs() -> None:
    emissions, _, mask = _batch()
    theirs, ours = _pair()
    assert ours.decode(emissions, mask) == theirs.decode(emissions, mask)
    assert ours.decode(emissions, mask.to(torch.uint8)) == theirs.decode(emissions, mask)
    theirs, ours = _pair(batch_first=True)
    batch = emissions.transpose(0, 1)
    assert ours.decode(batch) == theirs.decode(batch, torch.ones(3, 7, dtype=torch.bool))


def test_state_dicts_load_both_ways_into_the_layer_too() -> None:
    theirs, ours = _pair()
    torch.nn.init.normal_(ours.transitions)
    theirs.load_state_dict(ours.state_dict())
    layer = MaskedCRF(["O", "B-X", "I-X", "B-Y", "I-Y"], scheme="BIO").double()
    layer.load_state_dict(theirs.state_dict())
    for name, parameter in ours.named_parameters():
        assert torch.equal(parameter, theirs.get_parameter(name))
        assert torch.equal(parameter, layer.get_parameter(name))


def test_pytorch_crf_refuses_a_mask_that_starts_off_and_ours_does_not() -> None:
    emissions, tags, mask = _batch()
    left_padded = mask.flip(0)
    theirs, ours = _pair()
    with pytest.raises(ValueError, match="mask of the first timestep must all be on"):
        theirs(emissions, tags, mask=left_padded)
    for row, length in enumerate([7, 4, 1]):
        whole = torch.ones(length, 1, dtype=torch.bool)
        alone = theirs(emissions[7 - length :, row : row + 1], tags[7 - length :, row : row + 1], mask=whole)
        together = ours(emissions, tags, mask=left_padded, reduction="none")[row]
        torch.testing.assert_close(together, alone)


def test_pytorch_crf_is_silently_wrong_on_a_mask_with_holes_and_ours_is_not() -> None:
    """pytorch-crf takes the steps into and out of a hole's neighbours from the hole's own tags."""
    emissions, tags, _ = _batch()
    holes = torch.ones(7, 3, dtype=torch.bool)
    holes[2:4, 0] = False
    theirs, ours = _pair()
    kept = [0, 1, 4, 5, 6]
    whole = torch.ones(5, 1, dtype=torch.bool)  # its default mask is uint8, which torch warns about
    right = theirs(emissions[kept, :1], tags[kept, :1], mask=whole)
    torch.testing.assert_close(ours(emissions, tags, mask=holes, reduction="none")[0], right.squeeze())
    assert not torch.isclose(theirs(emissions, tags, mask=holes, reduction="none")[0], right)
    assert ours.decode(emissions, holes)[0] == theirs.decode(emissions[kept, :1], whole)[0]


def test_nan_in_padding_poisons_pytorch_crf_and_not_ours() -> None:
    emissions, tags, mask = _batch()
    clean = _pair()[1](emissions, tags, mask=mask)
    emissions[~mask] = torch.nan
    theirs, ours = _pair()
    assert theirs(emissions, tags, mask=mask).isnan()
    torch.testing.assert_close(ours(emissions, tags, mask=mask), clean)


def test_constraints_take_illegal_paths_out() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X"], "BIO")
    crf = CRF(3, batch_first=True, constraints=rules)
    assert crf.decode(torch.tensor([[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0]]])) == [[1, 2]]
    with pytest.raises(ValueError, match="num_tags is 4, but the constraints have 3 tags"):
        CRF(4, constraints=rules)


def test_the_same_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="invalid number of tags: 0"):
        CRF(0)
    with pytest.raises(ValueError, match="reduction must be one of"), warnings.catch_warnings():
        CRF(2)(torch.zeros(1, 1, 2), torch.zeros(1, 1, dtype=torch.long), reduction="foo")
    assert repr(CRF(2)).startswith("CRF(num_tags=2")


def test_time_first_is_the_same_in_every_method_with_batch_and_time_swapped() -> None:
    emissions, tags, mask = _batch()
    square = torch.randn(3, 3, 5, dtype=torch.float64)  # as many sequences as positions: no shape tells them apart
    layer = MaskedCRF(Constraints.free("01234")).double()
    time_first, batch_first = (CRF(5, batch_first=swapped).double() for swapped in (False, True))
    for crf in (time_first, batch_first):
        crf.load_state_dict(layer.state_dict())
    for given, on, gold in ((emissions, mask, tags), (square, torch.ones(3, 3, dtype=torch.bool), tags[:3])):
        allowed = torch.rand(given.shape) < 0.7
        allowed[..., 0] = True
        rows, row_mask, row_gold = given.transpose(0, 1), on.T, gold.T
        row_allowed = allowed.transpose(0, 1)
        for ask in (MaskedCRF.log_partition, MaskedCRF.entropy, MaskedCRF.illegal_mass, MaskedCRF.decode):
            expected = ask(layer, rows, row_mask)
            name = ask.__name__
            assert _equal(getattr(time_first, name)(given, on), expected)
            assert _equal(getattr(batch_first, name)(rows, row_mask), expected)
        assert time_first.nbest(given, on, k=2, allowed=allowed) == layer.nbest(
            rows, row_mask, k=2, allowed=row_allowed
        )
        for found, expected in (
            (time_first.log_prob(given, gold, on), layer.log_prob(rows, row_gold, row_mask)),
            (time_first.partial_loss(given, allowed, on), layer.partial_loss(rows, row_allowed, row_mask)),
            (time_first.marginals(given, on).transpose(0, 1), layer.marginals(rows, row_mask)),
            (time_first.decode_tensor(given, on, pad=-1).T, layer.decode_tensor(rows, row_mask, pad=-1)),
            (batch_first.marginals(rows, row_mask), layer.marginals(rows, row_mask)),
        ):
            assert torch.equal(found, expected)
        generators = [torch.Generator().manual_seed(1) for _ in range(2)]
        drawn = time_first.sample(given, on, n=2, generator=generators[0])
        assert torch.equal(drawn.transpose(0, 2), layer.sample(rows, row_mask, n=2, generator=generators[1]))


def _equal(found: object, expected: object) -> bool:
    return torch.equal(found, expected) if isinstance(found, torch.Tensor) else found == expected
