"""BERT without padding: what transformers computes with it."""

from __future__ import annotations

import pytest
import torch
import transformers
from encoders.tiny import SIZES
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedcrf.encoders.packed import KINDS, packed, packs

FAMILIES = {"bert": "Bert", "camembert": "Camembert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta"}


def model(kind: str, **settings: object) -> torch.nn.Module:
    """A tiny model of this type with random weights."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{FAMILIES[kind]}Config")(vocab_size=30, pad_token_id=1, **SIZES, **settings)
    return getattr(transformers, f"{FAMILIES[kind]}Model")(config).eval()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6), data=st.data())
def test_pieces_read_anywhere_in_rows_of_any_lengths_are_what_transformers_computes(
    kind: str, lengths: list[int], data: st.DataObject
) -> None:
    whole = model(kind)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    pieces = torch.randint(2, 30, mask.shape).where(mask, 1)
    rows = [row for row, length in enumerate(lengths) for _ in range(length)]
    columns = [column for length in lengths for column in range(length)]
    order = data.draw(st.permutations(range(len(rows))))[: data.draw(st.integers(1, len(rows)))]
    places = torch.tensor([rows[n] * max(lengths) + columns[n] for n in order])[:, None]
    with torch.inference_mode():
        found = packed(whole, pieces, mask, places)
        alone = [whole(input_ids=pieces[row : row + 1, :n]).last_hidden_state[0] for row, n in enumerate(lengths)]
    expected = torch.stack([alone[rows[n]][columns[n]] for n in order])[:, None]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_model_that_reads_only_to_the_left_is_left_to_transformers() -> None:
    assert packs(model("bert"))
    assert not packs(model("bert", is_decoder=True))
    config = transformers.DistilBertConfig(vocab_size=30, dim=16, n_layers=1, n_heads=2, hidden_dim=24)
    assert not packs(transformers.DistilBertModel(config))
