"""The same numbers as torch-struct's LinearChainCRF, from edge potentials [to, from]."""

from __future__ import annotations

import pytest
import torch
import torch_struct

from maskedcrf import MaskedCRF

pytestmark = pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")

LENGTHS = torch.tensor([6, 4, 2])
MASK = torch.arange(6) < LENGTHS[:, None]


@pytest.fixture
def crf() -> MaskedCRF:
    torch.manual_seed(6)
    return MaskedCRF(["0", "1", "2", "3"]).double()


@pytest.fixture
def emissions() -> torch.Tensor:
    torch.manual_seed(7)
    return torch.randn(3, 6, 4, dtype=torch.float64)


def distribution(crf: MaskedCRF, emissions: torch.Tensor) -> torch_struct.LinearChainCRF:
    """torch-struct's view of our scores: (B, T-1, D, D), [to, from]; the first edge has the first tag's too."""
    edges = crf.transitions.T + emissions[:, 1:, :, None]
    edges = torch.cat([edges[:, :1] + (crf.start_transitions + emissions[:, 0])[:, None, None, :], edges[:, 1:]], 1)
    last = torch.arange(edges.shape[1]) == (LENGTHS - 2)[:, None]
    edges = edges + last[..., None, None] * crf.end_transitions[:, None]
    return torch_struct.LinearChainCRF(edges.detach(), lengths=LENGTHS)


def test_log_partition_and_entropy_are_torch_structs(crf, emissions):
    theirs = distribution(crf, emissions)
    torch.testing.assert_close(crf.log_partition(emissions, MASK), theirs.partition, check_dtype=False)
    torch.testing.assert_close(crf.entropy(emissions, MASK), theirs.entropy, check_dtype=False)


def test_marginals_of_tags_are_sums_of_its_marginals_of_edges(crf, emissions):
    edges = distribution(crf, emissions).marginals.detach()
    ours = crf.marginals(emissions, MASK).detach()
    torch.testing.assert_close(ours[:, 0], edges[:, 0].sum(1))
    torch.testing.assert_close(ours[:, 1:], edges.sum(3))


def test_paths_and_their_probabilities_are_torch_structs(crf, emissions):
    theirs = distribution(crf, emissions)
    paths = crf.decode(emissions, MASK)
    found, _ = torch_struct.LinearChain.from_parts(theirs.argmax.detach())
    assert paths == [row[:length].tolist() for row, length in zip(found, LENGTHS, strict=True)]
    best = crf.nbest(emissions, MASK, k=3)
    scores = theirs.kmax(3) - theirs.partition
    ours = torch.tensor([[log_prob for _, log_prob in row] for row in best], dtype=torch.float64).T
    torch.testing.assert_close(ours, scores.detach())


def test_log_prob_is_torch_structs(crf, emissions):
    tags = torch.randint(4, (3, 6))
    event = torch_struct.LinearChain.to_parts(tags, 4, lengths=LENGTHS)
    theirs = distribution(crf, emissions).log_prob(event)
    torch.testing.assert_close(crf.log_prob(emissions, tags, MASK), theirs)


def test_one_token_is_a_sentence_for_us_alone(crf, emissions):
    alone = crf.log_partition(emissions[:, :1])
    by_hand = (crf.start_transitions + emissions[:, 0] + crf.end_transitions).logsumexp(1)
    torch.testing.assert_close(alone, by_hand)
    with pytest.raises(ValueError, match="math domain error"):  # the logarithm of no edges
        torch_struct.LinearChainCRF(torch.zeros(3, 0, 4, 4)).partition  # noqa: B018
