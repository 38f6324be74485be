"""Adversarial training: tables moved by the right vector and put back to the bit, two gradients added up."""

from __future__ import annotations

import pytest
import torch
from encoders.tiny import write_model
from small_corpus import SMALL, corpus
from torch import nn

from maskedcrf.tagger import Tagger
from maskedcrf.training import adversarial, loop
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.distributed import ProcessGroup
from maskedcrf.training.settings import Settings, SettingsError
from maskedcrf.training.train import build_model

CALM = {"encoder": {"words": 16, "characters": 6, "lstm_hidden": 16, "dropout": 0.0}, "dropout": 0.0}


def make_run(**more) -> loop.TrainingRun:
    settings = Settings.of({**SMALL, **CALM, **more}).resolved(30)
    data = build_corpus(corpus(30), corpus(8, 1), None, settings)
    torch.manual_seed(settings.seed)
    run = loop.TrainingRun(build_model(data, settings), data, settings)
    run.model.encoder.parts["words"].vocabulary.__dict__["rare"] = 0  # hiding rare words is drawn by the pass
    return run


def gradients(run: loop.TrainingRun) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Of one step on eight sentences, before any clipping, and its loss; the weights are left alone."""
    [(parts, size)] = loop.tensor_batches(run, [list(range(8))])
    run.optimiser.step = lambda: None
    loss = loop.train_step(run, parts, size)
    return [parameter.grad.clone() for parameter in run.model.parameters()], loss


@pytest.mark.parametrize("tokens", [10_000, 12])
def test_the_gradient_is_that_of_the_batch_plus_that_of_the_moved_batch(tokens):
    free = {"optim": {"clip": float("inf")}, "forward_tokens": tokens}
    plain, loss = gradients(make_run(**free))
    by_hand = make_run(**free)
    gradients(by_hand)
    names = ("parts.words.trained.weight", "parts.characters.embedding.weight")
    with torch.no_grad():
        for name in names:
            table = by_hand.model.encoder.get_parameter(name)
            table += 0.7 * table.grad / table.grad.square().sum().sqrt()
    there, _ = gradients(by_hand)
    both, reported = gradients(make_run(**free, adversarial=0.7))
    for one, two, added in zip(plain, there, both, strict=True):
        torch.testing.assert_close(added, one + two)
    assert torch.equal(reported, loss), "the loss said is that of the text as it is"
    assert not torch.allclose(plain[0], there[0])


def test_tables_are_back_to_the_bit_before_the_optimiser_steps():
    run = make_run(adversarial=3.0)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    gradients(run)
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_tables_are_back_when_the_moved_batch_fails():
    run = make_run()
    gradients(run)
    table = run.model.encoder.get_parameter("parts.words.trained.weight")
    before = table.detach().clone()
    with pytest.raises(KeyboardInterrupt), adversarial.perturbed(run.model.encoder, 3.0, ProcessGroup()):
        raise KeyboardInterrupt
    assert torch.equal(table, before)


@pytest.mark.parametrize("gradient", [[0.0, 0.0], [float("inf"), 1.0], [float("nan"), 1.0], None])
def test_without_a_direction_nothing_is_moved(gradient):
    table = nn.Embedding(1, 2)
    table.weight.grad = None if gradient is None else torch.tensor([gradient])
    before = table.weight.detach().clone()
    with adversarial.perturbed(table, 1.0, ProcessGroup()):
        assert torch.equal(table.weight, before)


@pytest.mark.parametrize("scale", [1.0, 65536.0, 1e-15])
def test_the_step_has_the_size_asked_for_however_the_gradient_is_scaled(scale):
    torch.testing.assert_close(adversarial.ascent_step(scale * torch.tensor([3.0, 4.0]), 0.5), torch.tensor([0.3, 0.4]))


def test_of_a_transformer_the_pieces_are_moved_and_what_all_texts_share_is_not(tmp_path):
    settings = Settings.of({"encoder": {"transformer": str(write_model(tmp_path / "bert"))}}).resolved(30)
    model = build_model(build_corpus(corpus(30), None, None, settings), settings)
    assert [table.shape for table in adversarial.embedding_tables(model.encoder)] == [(21, 16)]
    model.encoder.requires_grad_(False)
    assert adversarial.embedding_tables(model.encoder) == []


def test_training_against_the_gradient_learns_and_goes_another_way():
    options = {**SMALL, "epochs": 8}
    plain, hardened = (
        Tagger.train(corpus(60), corpus(20, 1), **options, **more) for more in ({}, {"adversarial": 0.5})
    )
    assert hardened.record.scores["dev"]["retain"]["f1"] > 95
    assert hardened.record.settings["adversarial"] == 0.5
    assert not torch.equal(plain.model.linear.weight, hardened.model.linear.weight)


@pytest.mark.parametrize("value", [-0.1, float("inf"), float("nan")])
def test_a_size_that_is_none_is_refused(value):
    with pytest.raises(SettingsError, match="adversarial"):
        Settings.of({"adversarial": value})
