"""The loop: same bytes for the same seed, same gradients for any cut, exact resumption, early stop."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from small_corpus import SMALL, corpus
from token_lists import sentences_of

from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.tags.scheme import Scheme
from maskedcrf.training import loop
from maskedcrf.training import train as run_module
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.seeds import summarise, train_seeds
from maskedcrf.training.settings import Settings
from maskedcrf.training.train import build_model


def make_run(work=None, **more) -> loop.TrainingRun:
    settings = Settings.of({**SMALL, **more}).resolved(30)
    data = build_corpus(corpus(30), corpus(8, 1), None, settings)
    torch.manual_seed(settings.seed)
    return loop.TrainingRun(
        build_model(data, settings), data, settings, work=work, fingerprint=data.fingerprint(settings)
    )


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_training_learns_the_small_corpus():
    tagger = Tagger.train(corpus(60), corpus(20, 1), **{**SMALL, "epochs": 8})
    assert tagger.record.scores["dev"]["retain"]["f1"] > 95
    assert tagger.record.scores["dev"]["illegal"] == 0


def test_a_batch_cut_into_several_passes_has_the_same_gradient():
    gradients = []
    for tokens in (10_000, 12):
        run = make_run(forward_tokens=tokens, encoder={**SMALL["encoder"], "dropout": 0.0}, dropout=0.0)
        run.model.encoder.parts["words"].vocabulary.__dict__["rare"] = 0  # hiding rare words is drawn by the pass
        [(parts, size)] = loop.tensor_batches(run, [list(range(8))])
        assert (len(parts) > 1) == (tokens == 12)
        run.optimiser.step = lambda: None
        loop.train_step(run, parts, size)
        gradients.append([p.grad.clone() for p in run.model.parameters()])
    for whole, cut in zip(*gradients, strict=True):
        torch.testing.assert_close(cut, whole)


def test_the_share_of_words_asked_for_is_hidden_anew_each_step_and_the_tags_stay():
    run, plain = make_run(word_dropout=0.4), make_run()
    batch = list(range(30))
    [([whole], _)] = loop.tensor_batches(plain, [batch])
    unknown = run.model.encoder.prepare(sentences_of([[loop.HIDDEN_WORD]]))["words"].item()
    seen = []
    for run.state.step in (0, 1, 1):
        [([part], _)] = loop.tensor_batches(run, [batch])
        hidden = part.features["words"] != whole.features["words"]
        assert (part.features["words"][hidden] == unknown).all()
        assert hidden.sum() / whole.features["mask"].sum() == pytest.approx(0.4, abs=0.1)
        assert torch.equal(part.tags, whole.tags)
        seen.append(part.features["words"])
    assert torch.equal(seen[1], seen[2])
    assert not torch.equal(seen[0], seen[1])


def test_the_longer_of_epochs_and_steps_is_trained():
    run = make_run(epochs=2, minimum_steps=11)  # 30 sentences in eights: 4 steps an epoch
    assert run.total == 11
    epochs = [event.entry for event in loop.run_epochs(run) if isinstance(event, loop.Epoch)]
    assert [(entry["epoch"], entry["step"]) for entry in epochs] == [(1, 4), (2, 8), (3, 11)]
    assert make_run(epochs=3, minimum_steps=11).total == 12


def test_training_stops_when_dev_stops_improving_and_keeps_the_best(monkeypatch):
    scores = iter([10.0, 30.0, 20.0, 20.0, 99.0])
    seen = []

    def fake_score(model, sentences, *, gold_scheme):
        seen.append(weights(model))
        value = next(scores)
        return type("S", (), {"f1": value, "loss": 1.0, "to_dict": lambda self: {}})()

    monkeypatch.setattr(loop, "score", fake_score)
    run = make_run(epochs=9, patience=2)
    list(loop.run_epochs(run))
    assert len(seen) == 4
    assert run.state.best_epoch == 2
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, seen[1][name])


@pytest.mark.parametrize("more", [{}, {"ema_decay": 0.9}, {"word_dropout": 0.3}, {"adversarial": 0.5}])
def test_a_run_stopped_after_any_step_goes_on_to_the_same_weights(tmp_path, more):
    whole = make_run(checkpoint_steps=1, **more)
    list(loop.run_epochs(whole))
    for stop in (1, 4, 5, 11):  # inside an epoch, at its end, after it, before the last step
        work = tmp_path / str(stop)
        work.mkdir()
        first = make_run(work, checkpoint_steps=1, **more)
        for event in loop.run_epochs(first):
            # The generator stands before the checkpoint of the step it tells of.
            if isinstance(event, loop.Step) and event.step == stop + 1:
                break
        second = make_run(work, checkpoint_steps=1, **more)
        loop.resume(second)
        assert second.state.step == stop
        list(loop.run_epochs(second))
        for name, value in second.model.state_dict().items():
            assert torch.equal(value, whole.model.state_dict()[name]), (stop, name)
        timeless = [[{**entry, "seconds": 0} for entry in run.state.history] for run in (whole, second)]
        assert timeless[0] == timeless[1]


def test_the_average_is_scored_and_kept_and_leaves_the_training_alone():
    plain, averaged = make_run(epochs=1), make_run(epochs=1, ema_decay=0.5)
    expected = {name: value.double() for name, value in weights(averaged.model).items()}
    for step, (one, other) in enumerate(zip(loop.run_epochs(plain), loop.run_epochs(averaged), strict=True), start=1):
        if isinstance(one, loop.Step):
            assert torch.equal(one.loss, other.loss)
            decay = min(0.5, step / (step + 9))
            for name, value in plain.model.state_dict().items():
                expected[name] = decay * expected[name] + (1 - decay) * value.double()
        else:
            for name, value in plain.model.state_dict().items():
                assert torch.equal(value, averaged.model.state_dict()[name]), "its own again after the scores"
    for name, value in averaged.model.state_dict().items():
        torch.testing.assert_close(value.double(), expected[name], atol=1e-6, rtol=1e-5)
    assert any(
        not torch.equal(value, plain.model.state_dict()[name]) for name, value in weights(averaged.model).items()
    )


def test_without_dev_the_model_ends_with_the_average():
    tagger, plain = (
        Tagger.train(corpus(20), **{**SMALL, "epochs": 1, "dev_fraction": 0, "ema_decay": average})
        for average in (0.99, None)
    )
    assert not torch.equal(tagger.model.linear.weight, plain.model.linear.weight)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    run = make_run(tmp_path)
    list(loop.run_epochs(run))
    with pytest.raises(MaskedCRFError, match="other settings"):
        loop.resume(make_run(tmp_path, seed=2))


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    expected = torch.rand(1).item(), random.random(), np.random.rand()
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    Tagger.train(corpus(8), corpus(2, 1), **{**SMALL, "epochs": 1})
    assert (torch.rand(1).item(), random.random(), np.random.rand()) == expected


@pytest.mark.parametrize("name", ["nonsense", "aim"])
def test_a_tracker_that_is_not_there_is_said_before_training(name, tmp_path, monkeypatch):
    tracking = pytest.importorskip("accelerate.tracking")
    monkeypatch.setattr(tracking, "_available_trackers", [])
    with pytest.raises(MaskedCRFError, match=name):
        Tagger.train(corpus(8), **{**SMALL, "tracker": name, "output": tmp_path / "model"})
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("device", ["gpu", "cuda:77"])
def test_a_device_that_is_not_there_is_refused_in_one_line(device):
    with pytest.raises(MaskedCRFError, match=device) as error:
        Tagger.train(corpus(8), **{**SMALL, "device": device})
    assert "\n" not in str(error.value)


def test_a_finished_run_is_loaded_and_anything_else_is_left_alone(tmp_path):
    options = {**SMALL, "epochs": 1, "output": tmp_path / "model"}
    first = Tagger.train(corpus(8), corpus(2, 1), **options)
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    again = Tagger.train(corpus(8), corpus(2, 1), **options)
    assert again.history == first.history
    assert [entry["epoch"] for entry in again.history] == [1]
    with pytest.raises(MaskedCRFError, match="something already"):
        Tagger.train(corpus(9), corpus(2, 1), **options)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    Tagger.train(corpus(9), corpus(2, 1), **options, overwrite=True)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() != before


@pytest.mark.parametrize("config", ["[]", '{"record": null}', '{"model_type": "bert"}', "half of it"])
def test_a_folder_whose_config_is_not_ours_is_left_alone(tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(MaskedCRFError, match="something already; give another output folder"):
        Tagger.train(corpus(4), **{**SMALL, "epochs": 1}, output=tmp_path)
    assert (tmp_path / "config.json").read_text() == config


def test_a_finished_run_is_scored_on_the_test_data_given_now(tmp_path):
    options = {**SMALL, "epochs": 3, "output": tmp_path / "model"}
    Tagger.train(corpus(30), corpus(4, 1), **options)
    saved = {path: path.read_bytes() for path in (tmp_path / "model").rglob("*.*")}
    for test in (corpus(12, 2), corpus(5, 3)):
        fresh = Tagger.train(corpus(30), corpus(4, 1), test=test, **{**options, "output": None}).record
        again = Tagger.train(corpus(30), corpus(4, 1), test=test, **options).record
        assert again == Tagger.load(tmp_path / "model").record
        assert again.scores == fresh.scores
        assert again.data == fresh.data
        assert "| test | in memory |" in (tmp_path / "model" / "README.md").read_text()
    changed = {path.name for path, content in saved.items() if path.read_bytes() != content}
    assert changed == {"config.json", "README.md"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert Tagger.train(corpus(30), corpus(4, 1), **options).record == again


def test_a_card_that_somebody_has_written_in_is_kept(tmp_path):
    options = {**SMALL, "epochs": 1, "output": tmp_path / "model"}
    Tagger.train(corpus(8), corpus(2, 1), **options)
    (tmp_path / "model" / "README.md").write_text("mine")
    assert "test" in Tagger.train(corpus(8), corpus(2, 1), test=corpus(2, 2), **options).record.scores
    assert (tmp_path / "model" / "README.md").read_text() == "mine"


def test_the_history_is_saved_with_the_model(tmp_path):
    tagger = Tagger.train(corpus(8), corpus(2, 1), **{**SMALL, "epochs": 2}, output=tmp_path / "model")
    lines = (tmp_path / "model" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == tagger.history
    assert [entry["epoch"] for entry in tagger.history] == [1, 2]
    assert Tagger.load(tmp_path / "model").predict("bob flew to oslo .").tokens


def test_a_run_killed_just_before_its_work_folder_went_leaves_nothing_behind(tmp_path, monkeypatch):
    options = {**SMALL, "epochs": 1, "output": tmp_path / "model"}
    with monkeypatch.context() as patched:
        patched.setattr(run_module.shutil, "rmtree", lambda *_, **__: None)
        Tagger.train(corpus(8), corpus(2, 1), **options)
        assert len(list(tmp_path.iterdir())) == 2
    Tagger.train(corpus(8), corpus(2, 1), **options)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_several_seeds_give_best_mean_and_spread(tmp_path):
    taggers, summary = train_seeds(
        corpus(20), corpus(6, 1), seeds=2, output=tmp_path, test=corpus(6, 2), **{**SMALL, "epochs": 2}
    )
    runs = summary["test"]["retain"]["runs"]
    assert runs == [tagger.record.scores["test"]["retain"]["f1"] for tagger in taggers]
    assert summary["seeds"] == [1, 2]
    assert json.loads((tmp_path / "seeds.json").read_text()) == summary
    assert (tmp_path / "seed-2" / "model.safetensors").exists()


def test_seeds_that_are_done_are_scored_on_the_test_data_given_now(tmp_path):
    options = {**SMALL, "epochs": 1, "output": tmp_path}
    train_seeds(corpus(8), corpus(2, 1), seeds=1, **options)
    _, summary = train_seeds(corpus(8), corpus(2, 1), seeds=2, test=corpus(4, 2), **options)
    assert len(summary["test"]["retain"]["runs"]) == 2
    _, summary = train_seeds(corpus(8), corpus(2, 1), seeds=3, **options)
    assert "test" not in summary  # the third was never scored on it
    assert len(summary["dev"]["retain"]["runs"]) == 3


def test_the_spread_is_that_of_a_sample():
    runs = [{"dev": {"retain": {"f1": v}, "discard": {"f1": v}, "illegal": 0.0}} for v in (1.0, 2.0, 6.0)]
    found = summarise(runs, range(3))["dev"]["retain"]
    assert (found["best"], found["mean"]) == (6.0, 3.0)
    assert found["std"] == pytest.approx(7**0.5)


def test_while_the_loss_falls_training_goes_on_whatever_an_early_epoch_had_by_chance(monkeypatch):
    losses, f1s = iter([5.0, 4.0, 3.0, 2.0, 2.5, 2.5, 2.5]), iter([9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])

    def fake_score(model, sentences, *, gold_scheme):
        return type("S", (), {"f1": next(f1s), "loss": next(losses), "to_dict": lambda self: {}})()

    monkeypatch.setattr(loop, "score", fake_score)
    run = make_run(epochs=9, patience=2)
    list(loop.run_epochs(run))
    assert len(run.state.history) == 6, "two epochs after the last in which the loss fell"
    assert run.state.best_epoch == 1


def test_only_the_first_process_writes_the_summary_of_seeds(monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    train_seeds(corpus(12), corpus(4, 1), seeds=1, output=tmp_path / "runs", **{**SMALL, "epochs": 1})
    assert not (tmp_path / "runs" / "seeds.json").exists()


def test_the_gradient_of_a_step_is_no_longer_than_the_clip():
    norms = []
    for clip in (float("inf"), 0.01):
        run = make_run(optim={**SMALL["optim"], "clip": clip})
        [(parts, size)] = loop.tensor_batches(run, [list(range(8))])
        run.optimiser.step = lambda: None
        loop.train_step(run, parts, size)
        norms.append(torch.nn.utils.get_total_norm([p.grad for p in run.model.parameters()]).item())
    assert norms[0] > 0.1
    assert norms[1] == pytest.approx(0.01, rel=1e-3)


def test_an_epoch_that_ends_early_has_the_mean_loss_of_its_own_steps():
    run = make_run(epochs=1, minimum_steps=6)  # 4 steps an epoch: the second has 2
    losses, means = [], []
    for event in loop.run_epochs(run):
        if isinstance(event, loop.Step):
            losses.append(event.loss.item())
        else:
            means.append(event.entry["loss"])
    assert means == pytest.approx([np.mean(losses[:4]), np.mean(losses[4:])])


def test_of_epochs_that_are_equally_good_the_first_is_kept(monkeypatch):
    same = type("S", (), {"f1": 50.0, "loss": 1.0, "to_dict": lambda self: {}})
    monkeypatch.setattr(loop, "score", lambda *_, **__: same())
    run = make_run(epochs=3)
    list(loop.run_epochs(run))
    assert run.state.best_epoch == 1


def test_one_checkpoint_is_kept_the_newest(tmp_path):
    run = make_run(tmp_path, checkpoint_steps=1, epochs=1)
    for event in loop.run_epochs(run):
        if isinstance(event, loop.Step) and event.step > 1:
            assert [path.name for path in tmp_path.iterdir()] == [f"step-{event.step - 1:09d}"]
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000004"]


def test_overwriting_a_run_that_was_stopped_begins_it_anew(tmp_path):
    options = {**SMALL, "epochs": 1, "output": tmp_path / "model"}
    work = tmp_path / "model.training"
    work.mkdir()
    list(loop.run_epochs(make_run(work)))
    with pytest.raises(MaskedCRFError, match="other settings"):
        Tagger.train(corpus(8), corpus(2, 1), **options)
    assert Tagger.train(corpus(8), corpus(2, 1), **options, overwrite=True).tags
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_dev_loss_is_the_mean_over_the_sentences_of_all_batches(monkeypatch):
    run = make_run()
    sentences = run.corpus.dev
    monkeypatch.setattr("maskedcrf.tagger.scores.MAX_BATCH_SENTENCES", 3)  # eight sentences: the last batch is smaller
    alone = [loop.score(run.model, [each], gold_scheme=Scheme.get("BIO")).loss for each in sentences]
    assert loop.score(run.model, sentences, gold_scheme=Scheme.get("BIO")).loss == pytest.approx(np.mean(alone))


def test_what_changes_no_weight_changes_no_fingerprint():
    run = make_run()
    prints = [
        run.corpus.fingerprint(run.settings.model_copy(update=update))
        for update in ({}, {"tracker": "tensorboard"}, {"checkpoint_steps": 5}, {"seed": 9})
    ]
    assert prints[0] == prints[1] == prints[2] != prints[3]


def test_without_dev_segments_are_the_likelier_ones_and_with_it_dev_decides():
    options = {**SMALL, "epochs": 2}
    alone = Tagger.train(corpus(20), **{**options, "dev_fraction": 0.0})
    assert (alone.decoding, alone.segment_threshold) == ("segments", 0.5)
    assert "decoding_choice" not in alone.record.settings
    dev = corpus(12, 1)
    chosen = Tagger.train(corpus(20), dev, test=corpus(8, 2), **options)
    again = Tagger(chosen.model, output_scheme=chosen.output_scheme)
    choice = again.choose_decoding(dev)
    assert chosen.record.settings["decoding_choice"] == choice.to_json()
    assert (chosen.decoding, chosen.segment_threshold) == (choice.decoding, choice.threshold)
    # Scores on record are those of the decoding that was kept.
    assert chosen.record.scores["test"] == chosen.evaluate(corpus(8, 2)).to_dict()


def test_the_settings_ask_for_a_decoding_and_for_recall():
    dev = corpus(12, 1)
    options = {**SMALL, "epochs": 1}
    by_path = Tagger.train(corpus(20), dev, **options, decoding="path")
    assert by_path.decoding == "path"
    assert "decoding_choice" not in by_path.record.settings
    by_segments = Tagger.train(corpus(20), dev, **options, decoding="segments", beta=3.0)
    assert by_segments.decoding == "segments"
    assert by_segments.segment_threshold == by_segments.choose_decoding(dev, beta=3.0).threshold


def test_a_tagger_without_a_mask_shows_its_best_path():
    unmasked = Tagger.train(corpus(20), corpus(12, 1), **{**SMALL, "epochs": 1, "mask": "off"})
    assert unmasked.decoding == "path"
    unmasked.decoding = "segments"
    texts = [sentence.tokens for sentence in corpus(8, 2)]
    assert unmasked.predict(texts) == unmasked.predict(texts, decoding="path")
    unmasked.mask = "decode"
    assert unmasked.predict(texts) == unmasked.predict(texts, decoding="segments")
