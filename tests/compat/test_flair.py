"""The same numbers as flair's own CRF, loss and Viterbi decoder, from its transition matrix."""

from __future__ import annotations

from itertools import pairwise, product
from types import SimpleNamespace

import pytest
import torch
from peers_of_compat import load

from maskedcrf.compat.flair import from_flair
from maskedcrf.errors import ConstraintError

NAMES = ["O", "B-PER", "<START>", "I-PER", "<STOP>"]
TAGS = ["O", "B-PER", "I-PER"]
KEPT = [NAMES.index(tag) for tag in TAGS]
LENGTHS = [5, 3, 1]  # flair wants the longest first


class Dictionary:
    """What flair's CRF asks of a tag dictionary."""

    def __len__(self) -> int:
        return len(NAMES)

    def get_idx_for_item(self, name: str) -> int:
        return NAMES.index(name)

    def get_item_for_index(self, number: int) -> str:
        return NAMES[number]


@pytest.fixture(scope="module")
def flair() -> SimpleNamespace:
    stubs = {
        "flair": {"device": torch.device("cpu")},
        "flair.data": dict.fromkeys(["Dictionary", "Label", "Sentence"], object),
    }
    crf = load("flair.models.sequence_tagger_utils.crf", stubs=stubs)
    viterbi = load("flair.models.sequence_tagger_utils.viterbi", stubs=stubs)
    torch.manual_seed(3)
    names = Dictionary()
    return SimpleNamespace(
        crf=crf.CRF(names, len(NAMES), init_from_state_dict=False).double(),
        loss=viterbi.ViterbiLoss(names),
        decoder=viterbi.ViterbiDecoder(names),
    )


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Emissions over flair's five tags (B, T, 5), gold ids of our three (B, T), and the mask."""
    torch.manual_seed(4)
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    gold = torch.tensor([[1, 2, 0, 1, 1], [0, 1, 2, 0, 0], [1, 0, 0, 0, 0]])
    return torch.randn(3, 5, 5, dtype=torch.float64), gold, mask


def test_the_loss_is_flairs(flair, batch):
    emissions, gold, mask = batch
    lengths = torch.tensor(LENGTHS)
    targets = torch.tensor([KEPT[tag] for row, length in zip(gold, LENGTHS, strict=True) for tag in row[:length]])
    theirs = flair.loss((flair.crf(emissions), lengths, flair.crf.transitions), targets)
    ours = from_flair(flair.crf.transitions.detach(), NAMES)
    torch.testing.assert_close(ours(emissions[..., KEPT], gold, mask, reduction="sum"), theirs)


@pytest.fixture
def decoded(flair, batch) -> list[list[tuple[str, float]]]:
    """flair's tags and confidences."""
    with torch.no_grad():
        features = flair.crf(batch[0]), torch.tensor(LENGTHS), flair.crf.transitions
        return flair.decoder.decode(features, False, [])[0]


def test_the_best_path_is_flairs(flair, batch, decoded):
    emissions, _, mask = batch
    paths = from_flair(flair.crf.transitions.detach(), NAMES).decode(emissions[..., KEPT], mask)
    assert [[TAGS[tag] for tag in path] for path in paths] == [[name for name, _ in row] for row in decoded]


def test_flairs_confidence_is_no_marginal_and_ours_is(flair, batch, decoded):
    """flair takes the softmax of scores that have seen the words before, and none of those after."""
    emissions, _, mask = batch
    ours = from_flair(flair.crf.transitions.detach(), NAMES)
    path, marginals = ours.decode(emissions[..., KEPT], mask)[0], ours.marginals(emissions[..., KEPT], mask)[0]
    given = torch.tensor([confidence for _, confidence in decoded[0]], dtype=torch.float64)
    exact = marginals[torch.arange(5), torch.tensor(path)]
    assert not torch.allclose(given, exact, atol=0.01)


def test_the_scores_of_every_path_are_those_of_flairs_matrix():
    """Without flair: its score of a path, listed from the matrix as [to, from]."""
    torch.manual_seed(5)
    matrix, emissions = torch.randn(5, 5, dtype=torch.float64), torch.randn(1, 3, 3, dtype=torch.float64)
    scores = {}
    for path in product(range(3), repeat=3):
        steps = [NAMES.index("<START>"), *(KEPT[tag] for tag in path), NAMES.index("<STOP>")]
        moves = sum(matrix[after, before] for before, after in pairwise(steps))
        scores[path] = moves + sum(emissions[0, at, tag] for at, tag in enumerate(path))
    total = torch.stack(list(scores.values())).logsumexp(0)
    crf = from_flair(matrix, NAMES)
    for path, score in scores.items():
        torch.testing.assert_close(crf.log_prob(emissions, torch.tensor([path])), (score - total)[None])


def test_a_scheme_takes_illegal_paths_out():
    matrix = torch.zeros(5, 5)
    emissions = torch.tensor([[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0]]])
    assert from_flair(matrix, NAMES).decode(emissions) == [[2, 2]]
    assert from_flair(matrix, NAMES, "BIO").decode(emissions) == [[1, 2]]


@pytest.mark.parametrize(("size", "names"), [(5, [*NAMES[:4], "I-LOC"]), (4, NAMES)])
def test_a_matrix_that_does_not_fit_its_names_is_refused(size, names):
    with pytest.raises(ConstraintError, match="a row and a column for each name, <START> and <STOP> among them: got"):
        from_flair(torch.zeros(size, size), names)


def test_the_layer_has_the_precision_of_the_matrix():
    for dtype in (torch.float32, torch.float64):
        crf = from_flair(torch.zeros(5, 5, dtype=dtype), NAMES)
        assert {parameter.dtype for parameter in crf.parameters()} == {dtype}
