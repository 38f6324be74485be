"""BERT without padding: what transformers computes with it."""

from __future__ import annotations

import pytest
import torch
import transformers
from encoders.tiny import SIZES
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedcrf.encoders.transformer import packed_bert
from maskedcrf.encoders.transformer.packed_bert import KINDS, can_pack, forward_unpadded

FAMILIES = {"bert": "Bert", "camembert": "Camembert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta"}


def model(kind: str, **settings: int | str | bool) -> torch.nn.Module:
    """A tiny model of this type with random weights and, unlike a new one of transformers, random biases."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{FAMILIES[kind]}Config")(vocab_size=30, pad_token_id=1, **SIZES | settings)
    made = getattr(transformers, f"{FAMILIES[kind]}Model")(config).eval()
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return made  # type: ignore[no-any-return]


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
        found = forward_unpadded(whole, pieces, mask, places)
        alone = [whole(input_ids=pieces[row : row + 1, :n]).last_hidden_state[0] for row, n in enumerate(lengths)]
    expected = torch.stack([alone[rows[n]][columns[n]] for n in order])[:, None]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-3, 30.0, 300.0, 3e4])
@pytest.mark.parametrize("shape", [(3, 7), (1, 1)])
def test_scores_of_any_size_weigh_pieces_as_transformers_does(factor: float, shape: tuple[int, int]) -> None:
    whole = model("bert", num_hidden_layers=1)
    own = whole.encoder.layer[0].attention.self  # type: ignore[union-attr, index]
    with torch.inference_mode():
        for part in (own.query, own.key):  # type: ignore[union-attr]
            part.weight *= factor  # type: ignore[operator]
        for first in range(2, 30 - shape[1]):  # alone, some pieces have all scores far above 0, some far below
            pieces = torch.arange(first, first + shape[1]).expand(shape)
            found = forward_unpadded(whole, pieces, pieces > 0, torch.arange(pieces.numel()))
            expected = whole(input_ids=pieces).last_hidden_state.flatten(0, 1)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "value"), [("MAX_SCORES_PER_BLOCK", 1), ("MAX_SCORES_PER_BLOCK", 200), ("SHORT", 4)])
def test_rows_are_the_same_few_at_a_time(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"maskedcrf.encoders.transformer.packed_bert.{name}", value)
    whole = model("bert")
    mask = torch.arange(6) < torch.tensor([6, 5, 5, 5, 5, 5, 3])[:, None]
    pieces = torch.randint(2, 30, mask.shape)
    with torch.inference_mode():
        found = forward_unpadded(whole, pieces, mask, mask.flatten().nonzero().squeeze(1))
        expected = whole(input_ids=pieces, attention_mask=mask.long()).last_hidden_state[mask]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("one_dnn", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new", "silu"])
def test_any_activation_is_the_models_own(activation: str, one_dnn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not one_dnn:
        monkeypatch.setattr(packed_bert, "ONEDNN", False)
    whole = model("bert", hidden_act=activation)
    pieces = torch.randint(2, 30, (2, 5))
    with torch.inference_mode():
        found = forward_unpadded(whole, pieces, pieces > 0, torch.arange(10))
        expected = whole(input_ids=pieces).last_hidden_state.flatten(0, 1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_model_in_16_bits_or_with_exchanged_parts_is_left_to_transformers() -> None:
    class Other(torch.nn.Linear):
        pass

    whole = model("roberta")
    assert can_pack(whole)
    whole.encoder.layer[1].output.dense = Other(2, 2)  # type: ignore[union-attr, index]
    assert not can_pack(whole)
    assert not can_pack(model("roberta").bfloat16())


def test_a_model_that_reads_only_to_the_left_is_left_to_transformers() -> None:
    assert can_pack(model("bert"))
    assert not can_pack(model("bert", is_decoder=True))
    config = transformers.DistilBertConfig(vocab_size=30, dim=16, n_layers=1, n_heads=2, hidden_dim=24)
    assert not can_pack(transformers.DistilBertModel(config))
